#ifndef STAGECOACH_CLIENT_CLUSTER_CHILD_PROCESS_H_
#define STAGECOACH_CLIENT_CLUSTER_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stagecoach {

// A program that runs while this object lives, and not longer than the thread that started it: the system kills it when
// that ends, however it ends. So start children from the main thread. It has a process group of its own, so that
// Ctrl-C at a terminal reaches this process alone; no descriptor but /dev/null for its input and a log for its output;
// no signal blocked or ignored. Used by one thread.
class ChildProcess {
 public:
  struct Options {
    std::string program;  // path
    std::vector<std::string> arguments;
    std::vector<std::string> environment = {};  // NAME=value, unless this process has NAME
    std::string log_path;                       // standard output and error are appended to it
  };
  // NOT_FOUND, PERMISSION_DENIED, ...: the program cannot be run, or its log not be written.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const Options& options);
  ~ChildProcess();  // kills it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Once it has ended: "exited with 1", "was killed by signal 9 (Killed)".
  std::optional<std::string> Poll();
  void Signal(int signal);
  // Poll, for at most so long.
  std::optional<std::string> Wait(absl::Duration timeout);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  const pid_t pid_;
  std::optional<std::string> end_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CLUSTER_CHILD_PROCESS_H_
