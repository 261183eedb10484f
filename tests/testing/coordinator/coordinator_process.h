#ifndef STAGECOACH_TESTS_TESTING_COORDINATOR_COORDINATOR_PROCESS_H_
#define STAGECOACH_TESTS_TESTING_COORDINATOR_COORDINATOR_PROCESS_H_

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/listen_address.h"

namespace stagecoach {

// stagecoach-coordinator as a child process, killed at the end. Used by one thread.
class CoordinatorProcess {
 public:
  // `binary`: the path of stagecoach-coordinator. Its log goes to a file in `directory`, as its address does.
  CoordinatorProcess(const std::string& binary, const std::string& directory,
                     const std::vector<std::string>& arguments);
  ~CoordinatorProcess();
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Waits until it serves. False: it has ended, or takes too long.
  bool WaitUntilItServes();
  ListenAddress address() const;
  // A connection of its own each time.
  std::shared_ptr<grpc::Channel> Dial() const;

  void Signal(int signal) const;
  // Its exit code; 128 + signal when it was killed; nothing: it is still there after 10 s.
  std::optional<int> WaitForExit();
  // What it has written to standard error.
  std::string Log() const;

  size_t NumDescriptors() const;
  uint64_t ResidentBytes() const;

 private:
  const std::string address_file_;
  const std::string log_file_;
  pid_t pid_ = -1;
  bool has_exited_ = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_COORDINATOR_COORDINATOR_PROCESS_H_
