#include "client/cluster/detached_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace stagecoach {

absl::StatusOr<DetachedProcess> DetachedProcess::Start(const std::vector<std::string>& arguments,
                                                       const std::string& log_path) {
  const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", log_path));
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::array<int, 2> ends{-1, -1};
  std::vector<char*> pointers = {const_cast<char*>("stagecoach")};
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  const bool ready = null >= 0 && pipe2(ends.data(), O_CLOEXEC) == 0;
  const pid_t pid = ready ? fork() : -1;
  if (pid == 0) {
    setsid();
    // Above the descriptors that dup2 fills, so that none is overwritten before it is used.
    const int report = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    const bool wired = dup2(null, STDIN_FILENO) >= 0 && dup2(log, STDOUT_FILENO) >= 0 &&
                       dup2(log, STDERR_FILENO) >= 0 && dup2(report, kReportDescriptor) >= 0;
    close_range(kReportDescriptor + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    if (wired) execv("/proc/self/exe", pointers.data());
    _exit(127);
  }
  const absl::Status status = pid < 0 ? absl::ErrnoToStatus(errno, "cannot start a process") : absl::OkStatus();
  for (const int descriptor : {log, null, ends[1]}) {
    if (descriptor >= 0) close(descriptor);
  }
  if (!status.ok()) {
    if (ends[0] >= 0) close(ends[0]);
    return status;
  }
  return DetachedProcess(pid, ends[0]);
}

DetachedProcess::~DetachedProcess() {
  if (report_ >= 0) close(report_);
}

std::optional<std::string> DetachedProcess::ReadReport(absl::Duration timeout) {
  pollfd readable = {.fd = report_, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) return std::nullopt;
  std::array<char, 4096> buffer{};
  const ssize_t bytes = read(report_, buffer.data(), buffer.size());
  if (bytes <= 0) return text_;
  text_.append(buffer.data(), static_cast<size_t>(bytes));
  return std::nullopt;
}

}  // namespace stagecoach
