#ifndef STAGECOACH_TESTS_TESTING_TRANSPORT_CHILD_PROCESS_H_
#define STAGECOACH_TESTS_TESTING_TRANSPORT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stagecoach {

// A program that runs beside this one and talks to it in lines: its standard input and output are pipes to here. It
// calls EndWithParent first, and is killed on destruction. UCX does not survive a fork, so there is always an exec.
class ChildProcess {
 public:
  // `arguments[0]` is the program's path.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& arguments);
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  absl::Status WriteLine(const std::string& line);
  // DEADLINE_EXCEEDED, or UNAVAILABLE: it closed its output.
  absl::StatusOr<std::string> ReadLine(absl::Duration timeout);
  void Signal(int signal);
  // Of a process that ends or was killed: as from waitpid.
  int WaitForEnd();

  // In the child: makes the kernel kill it when its parent ends.
  static void EndWithParent();

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;
  std::string unread_;
};

// Any bytes as a word, and back.
std::string ToHex(const std::string& bytes);
std::string FromHex(const std::string& hex);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_TRANSPORT_CHILD_PROCESS_H_
