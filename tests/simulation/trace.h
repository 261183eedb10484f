#ifndef STAGECOACH_TESTS_SIMULATION_TRACE_H_
#define STAGECOACH_TESTS_SIMULATION_TRACE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace stagecoach::simulation {

// What has happened in a run, a line each: hashed, and the last lines kept for a report.
class Trace {
 public:
  // `print`: every line goes to standard output.
  explicit Trace(bool print) : print_(print) {}

  void Add(absl::Duration now, absl::string_view line);

  uint64_t hash() const { return hash_; }
  uint64_t num_lines() const { return num_lines_; }
  const std::deque<std::string>& last() const { return last_; }

 private:
  const bool print_;
  uint64_t hash_ = 0;
  uint64_t num_lines_ = 0;
  std::deque<std::string> last_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_TRACE_H_
