#include "tests/testing/coordinator/coordinator_process.h"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/check.h"

namespace stagecoach {
namespace {

constexpr std::chrono::seconds kLong{10};

std::string Contents(const std::string& path) {
  std::ostringstream contents;
  contents << std::ifstream(path).rdbuf();
  return contents.str();
}

template <typename Condition>
bool WaitUntil(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(const std::string& binary, const std::string& directory,
                                       const std::vector<std::string>& arguments)
    : address_file_(directory + "/address"), log_file_(directory + "/log") {
  std::filesystem::remove(address_file_);
  std::vector<std::string> words = {binary, "--address-file", address_file_};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log_file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int result = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  STAGECOACH_CHECK(result == 0);
}

CoordinatorProcess::~CoordinatorProcess() {
  if (has_exited_) return;
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool CoordinatorProcess::WaitUntilItServes() {
  return WaitUntil([&] {
           return std::filesystem::exists(address_file_) ||
                  waitid(P_PID, static_cast<id_t>(pid_), nullptr, WEXITED | WNOHANG | WNOWAIT) != 0;
         }) &&
         std::filesystem::exists(address_file_);
}

ListenAddress CoordinatorProcess::address() const {
  std::string text = Contents(address_file_);
  STAGECOACH_CHECK(!text.empty() && text.back() == '\n');
  text.pop_back();
  return *ParseListenAddress(text);
}

std::shared_ptr<grpc::Channel> CoordinatorProcess::Dial() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address().ToString(), grpc::InsecureChannelCredentials(), arguments);
}

void CoordinatorProcess::Signal(int signal) const { kill(pid_, signal); }

std::optional<int> CoordinatorProcess::WaitForExit() {
  int status = 0;
  if (!WaitUntil([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) return std::nullopt;
  has_exited_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string CoordinatorProcess::Log() const { return Contents(log_file_); }

size_t CoordinatorProcess::NumDescriptors() const {
  const std::filesystem::directory_iterator descriptors("/proc/" + std::to_string(pid_) + "/fd");
  return static_cast<size_t>(std::distance(begin(descriptors), end(descriptors)));
}

uint64_t CoordinatorProcess::ResidentBytes() const {
  std::ifstream statm("/proc/" + std::to_string(pid_) + "/statm");
  uint64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace stagecoach
