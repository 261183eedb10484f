#include "client/cluster/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clock.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(5);

// Everything that the child needs, prepared before the fork: after it, a child of a process with threads may only call
// what is safe in a signal handler.
struct Prepared {
  std::vector<char*> arguments = {};  // null-terminated
  std::vector<char*> environment;     // null-terminated
  const char* program = nullptr;
  int log = -1;
  int null = -1;
  int error_pipe = -1;  // closed by exec; until then takes errno
  pid_t parent = 0;
};

[[noreturn]] void FailInChild(const Prepared& prepared) {
  const int error = errno;
  (void)!write(prepared.error_pipe, &error, sizeof error);
  _exit(127);
}

// Signals that this process ignores, or blocks, would stay so over exec.
void ResetSignals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void RunInChild(const Prepared& prepared) {
  // The parent may have died before this took effect.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != prepared.parent) FailInChild(prepared);
  setpgid(0, 0);
  ResetSignals();
  if (dup2(prepared.null, STDIN_FILENO) < 0 || dup2(prepared.log, STDOUT_FILENO) < 0 ||
      dup2(prepared.log, STDERR_FILENO) < 0) {
    FailInChild(prepared);
  }
  if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {  // an older kernel
    for (int descriptor = 3; descriptor < 4096; ++descriptor) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
  execve(prepared.program, prepared.arguments.data(), prepared.environment.data());
  FailInChild(prepared);
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }
  void Close() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

// environ and what it lacks of `defaults`. The pointers are to both.
std::vector<char*> EnvironmentWith(const std::vector<std::string>& defaults) {
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  for (const std::string& variable : defaults) {
    const std::string name = variable.substr(0, variable.find('='));
    if (getenv(name.c_str()) == nullptr) environment.push_back(const_cast<char*>(variable.c_str()));
  }
  environment.push_back(nullptr);
  return environment;
}

std::string DescribeEnd(int status) {
  if (WIFEXITED(status)) return absl::StrCat("exited with ", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const Options& options) {
  const Descriptor log(open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (log.get() < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", options.log_path));
  const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::array<int, 2> ends{};
  if (null.get() < 0 || pipe2(ends.data(), O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot start a process");
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);

  Prepared prepared{.environment = EnvironmentWith(options.environment),
                    .program = options.program.c_str(),
                    .log = log.get(),
                    .null = null.get(),
                    .error_pipe = write_end.get(),
                    .parent = getpid()};
  prepared.arguments.push_back(const_cast<char*>(options.program.c_str()));
  for (const std::string& argument : options.arguments) {
    prepared.arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  prepared.arguments.push_back(nullptr);

  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot start a process");
  if (pid == 0) RunInChild(prepared);
  auto child = absl::WrapUnique(new ChildProcess(pid));
  write_end.Close();
  int error = 0;
  if (read(read_end.get(), &error, sizeof error) != sizeof error) return child;  // exec has closed the pipe
  return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", options.program));
}

ChildProcess::~ChildProcess() {
  Signal(SIGKILL);
  Wait(absl::InfiniteDuration());
}

std::optional<std::string> ChildProcess::Poll() {
  int status = 0;
  if (!end_ && waitpid(pid_, &status, WNOHANG) == pid_) end_ = DescribeEnd(status);
  return end_;
}

void ChildProcess::Signal(int signal) {
  if (!Poll()) kill(pid_, signal);
}

std::optional<std::string> ChildProcess::Wait(absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Now() + timeout;
  while (!Poll() && Clock::Real().Now() < deadline) absl::SleepFor(kPoll);
  return end_;
}

}  // namespace stagecoach
