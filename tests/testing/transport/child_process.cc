#include "tests/testing/transport/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/clock.h"

namespace stagecoach {

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int to_child[2], from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  if (pipe2(from_child, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  std::unique_ptr<ChildProcess> child(new ChildProcess());
  child->input_ = to_child[1];
  child->output_ = from_child[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  const int error = posix_spawnp(&child->pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to_child[0]);
  close(from_child[1]);
  if (error != 0) {
    child->pid_ = -1;
    return absl::ErrnoToStatus(error, arguments[0]);
  }
  signal(SIGPIPE, SIG_IGN);  // writing to a child that is gone is an error like others
  return child;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    WaitForEnd();
  }
  close(input_);
  close(output_);
}

absl::Status ChildProcess::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t written = 0; written < text.size();) {
    const ssize_t more = write(input_, text.data() + written, text.size() - written);
    if (more < 0) return absl::ErrnoToStatus(errno, "write to a child");
    written += static_cast<size_t>(more);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ChildProcess::ReadLine(absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Now() + timeout;
  while (true) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd polled = {output_, POLLIN, 0};
    const absl::Duration left = deadline - Clock::Real().Now();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("a child says nothing");
    if (poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) <= 0) continue;
    char buffer[4096];
    const ssize_t more = read(output_, buffer, sizeof(buffer));
    if (more <= 0) return absl::UnavailableError("a child has closed its output");
    unread_.append(buffer, static_cast<size_t>(more));
  }
}

void ChildProcess::Signal(int signal) {
  if (pid_ > 0) kill(pid_, signal);
}

int ChildProcess::WaitForEnd() {
  int status = 0;
  if (pid_ > 0) waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

void ChildProcess::EndWithParent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

std::string ToHex(const std::string& bytes) { return absl::BytesToHexString(bytes); }

std::string FromHex(const std::string& hex) { return absl::HexStringToBytes(hex); }

}  // namespace stagecoach
