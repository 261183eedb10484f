#ifndef STAGECOACH_CLIENT_CLUSTER_DETACHED_PROCESS_H_
#define STAGECOACH_CLIENT_CLUSTER_DETACHED_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stagecoach {

// This program once more, in a session of its own, which goes on when this process ends, and can say one thing back:
// what it writes to descriptor 3 until it closes it.
class DetachedProcess {
 public:
  static constexpr int kReportDescriptor = 3;

  // Its standard output and error are appended to `log_path`.
  static absl::StatusOr<DetachedProcess> Start(const std::vector<std::string>& arguments, const std::string& log_path);
  ~DetachedProcess();
  DetachedProcess(DetachedProcess&& other) noexcept : pid_(other.pid_), report_(other.report_) { other.report_ = -1; }
  DetachedProcess& operator=(DetachedProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // All that it has said, once it has closed the descriptor, or ended. Nothing within `timeout`: call again.
  std::optional<std::string> ReadReport(absl::Duration timeout);

 private:
  DetachedProcess(pid_t pid, int report) : pid_(pid), report_(report) {}

  pid_t pid_;
  int report_;
  std::string text_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CLUSTER_DETACHED_PROCESS_H_
