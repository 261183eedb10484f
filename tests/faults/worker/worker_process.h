#ifndef STAGECOACH_TESTS_FAULTS_WORKER_WORKER_PROCESS_H_
#define STAGECOACH_TESTS_FAULTS_WORKER_WORKER_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/testing/temporary_directory.h"

namespace stagecoach {

// stagecoach-worker as a child process, killed at the end. Used by one thread.
class WorkerProcess {
 public:
  // `environment` ("NAME=value") is added to the test's own, without its variables of OpenMP and of Stagecoach.
  explicit WorkerProcess(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Its exit code; 128 + signal when it was killed; none: it is still there after 20 s.
  std::optional<int> WaitForExit();
  std::string Log() const;                              // what it has written to standard error
  std::string ReadProc(const std::string& file) const;  // of /proc/PID

 private:
  const TemporaryDirectory directory_;
  const std::string log_file_;
  pid_t pid_ = -1;
  bool has_exited_ = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_FAULTS_WORKER_WORKER_PROCESS_H_
