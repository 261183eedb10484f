#include "tests/faults/worker/worker_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kExitTimeout = absl::Seconds(20);

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments, const std::vector<std::string>& environment)
    : log_file_(absl::StrCat(directory_.path(), "/log")) {
  std::vector<std::string> command = {STAGECOACH_WORKER_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "OMP_") && !absl::StartsWith(*variable, "STAGECOACH_")) {
      variables.emplace_back(*variable);
    }
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  EXPECT_EQ(posix_spawn(&pid_, STAGECOACH_WORKER_BINARY, &files, nullptr, Pointers(command).data(),
                        Pointers(variables).data()),
            0);
  posix_spawn_file_actions_destroy(&files);
}

WorkerProcess::~WorkerProcess() {
  if (testing::Test::HasFailure()) std::cerr << "the worker's log:\n" << Log();
  if (has_exited_) return;
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void WorkerProcess::Signal(int signal) const { EXPECT_EQ(kill(pid_, signal), 0); }

std::optional<int> WorkerProcess::WaitForExit() {
  const absl::Time deadline = absl::Now() + kExitTimeout;
  while (absl::Now() < deadline) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      has_exited_ = true;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    absl::SleepFor(absl::Milliseconds(2));
  }
  return std::nullopt;
}

std::string WorkerProcess::Log() const { return ReadAll(log_file_); }

std::string WorkerProcess::ReadProc(const std::string& file) const {
  return ReadAll(absl::StrCat("/proc/", pid_, "/", file));
}

}  // namespace stagecoach
