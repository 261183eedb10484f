#include "client/cluster/local_cluster.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cluster/log_file.h"
#include "client/contexts/private_file.h"
#include "client/contexts/settings.h"
#include "common/file_system.h"
#include "common/host_memory_size.h"
#include "common/listen_address.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(20);
constexpr absl::Duration kLogInterval = absl::Seconds(1);
constexpr uint64_t kMaxLogBytes = 8 << 20;
constexpr int kTailLines = 20;
constexpr char kLeaveTimeout[] = "10s";
// Of the memory that is free now: the rest is for whatever else runs here, also when a worker is started again later.
constexpr double kMemoryShare = 0.8;

}  // namespace

absl::StatusOr<std::string> ProgramFolder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::NotFoundError(absl::StrCat("cannot find this program's folder: ", error.message()));
  return self.parent_path().string();
}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(const Options& options, absl::Duration timeout,
                                                                  const KeepOn& keep_on) {
  for (const char* program : {"/stagecoach-coordinator", "/stagecoach-worker"}) {
    const std::string path = options.programs + program;
    if (access(path.c_str(), X_OK) != 0) {
      return absl::NotFoundError(absl::StrCat("there is no program ", path, "; it belongs beside stagecoach"));
    }
  }
  STAGECOACH_RETURN_IF_ERROR(MakePrivateDirectory(options.state_dir + "/logs"));
  auto cluster = absl::WrapUnique(new LocalCluster(options));
  const absl::Duration deadline = cluster->clock_.Now() + timeout;
  STAGECOACH_RETURN_IF_ERROR(cluster->StartCoordinator(deadline, keep_on));
  STAGECOACH_RETURN_IF_ERROR(cluster->StartWorkers(deadline, keep_on));
  return cluster;
}

// A port is chosen once, by the system: a coordinator that is started again listens where its workers dial.
absl::Status LocalCluster::StartCoordinator(absl::Duration deadline, const KeepOn& keep_on) {
  const std::string address_file = options_.state_dir + "/address";
  const std::string socket = LocalAddress(options_.state_dir);
  const std::string listen = ParseListenAddress(socket).ok() ? socket : "127.0.0.1:0";
  unlink(address_file.c_str());
  Member& member = members_.emplace_back(
      Member{.name = "coordinator",
             .program = options_.programs + "/stagecoach-coordinator",
             .arguments = {"--state-dir", options_.state_dir, "--address-file", address_file, "--listen", listen},
             .restart = options_.restart_coordinator});
  STAGECOACH_RETURN_IF_ERROR(StartMember(member));
  while (address_.empty()) {
    STAGECOACH_RETURN_IF_ERROR(CheckAllLive(keep_on));
    const absl::StatusOr<std::string> line = ReadFile(FileSystem::Posix(), address_file, 4096);
    if (line.ok()) address_ = std::string(absl::StripAsciiWhitespace(*line));
    if (clock_.Now() >= deadline) return absl::DeadlineExceededError("the coordinator does not come up");
    if (address_.empty()) absl::SleepFor(kPoll);
  }
  member.arguments.back() = address_;
  return absl::OkStatus();
}

absl::Status LocalCluster::StartWorkers(absl::Duration deadline, const KeepOn& keep_on) {
  const uint64_t memory = static_cast<uint64_t>(kMemoryShare * static_cast<double>(HostMemoryBytes()));
  for (uint32_t i = 0; i < options_.num_workers; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    Member& member = members_.emplace_back(
        Member{.name = name,
               .program = options_.programs + "/stagecoach-worker",
               .arguments = {"--coordinator", address_, "--name", name, "--device", options_.device, "--threads",
                             absl::StrCat(options_.threads), "--memory", absl::StrCat(memory / options_.num_workers),
                             "--leave-timeout", kLeaveTimeout},
               .restart = options_.restart_workers});
    if (!options_.simulated_block_seconds.empty()) {
      member.arguments.insert(member.arguments.end(), {"--simulated-block-seconds", options_.simulated_block_seconds});
    }
    STAGECOACH_RETURN_IF_ERROR(StartMember(member));
  }
  CoordinatorClient client(
      {.address = address_, .retry_for = absl::ZeroDuration(), .attempt_timeout = absl::Seconds(1)});
  while (!AllRegistered(client)) {
    STAGECOACH_RETURN_IF_ERROR(CheckAllLive(keep_on));
    if (clock_.Now() >= deadline) return absl::DeadlineExceededError("the workers do not come up");
    absl::SleepFor(kPoll);
  }
  return absl::OkStatus();
}

// While the cluster comes up, nobody is started again: what dies then would die again.
absl::Status LocalCluster::CheckAllLive(const KeepOn& keep_on) {
  if (!keep_on()) return absl::CancelledError("interrupted");
  for (Member& member : members_) {
    if (const std::optional<std::string> end = member.process->Poll()) {
      return absl::FailedPreconditionError(
          absl::StrCat(member.name, " ", *end, " at its start; its log says:\n", LogTailOf(member.name)));
    }
  }
  return absl::OkStatus();
}

bool LocalCluster::AllRegistered(CoordinatorClient& client) const {
  const absl::StatusOr<v1::ListWorkersResponse> workers = client.ListWorkers();
  if (!workers.ok()) return false;
  return std::all_of(members_.begin() + 1, members_.end(), [&](const Member& member) {
    return std::any_of(workers->workers().begin(), workers->workers().end(), [&](const v1::WorkerDescription& worker) {
      return worker.name() == member.name && worker.pid() == static_cast<uint64_t>(member.process->pid()) &&
             worker.state() != v1::WORKER_STATE_LOST;
    });
  });
}

absl::Status LocalCluster::StartMember(Member& member) {
  member.started = clock_.Now();
  member.start_at.reset();
  STAGECOACH_ASSIGN_OR_RETURN(
      member.process,
      ChildProcess::Start({.program = member.program,
                           .arguments = member.arguments,
                           // Several workers share this machine's cores: who waits must not spin on them.
                           .environment = {"OMP_WAIT_POLICY=passive"},
                           .log_path = LogPath(member.name)}));
  return absl::OkStatus();
}

std::vector<LocalCluster::Death> LocalCluster::Poll() {
  std::vector<Death> deaths;
  for (Member& member : members_) {
    if (std::optional<Death> death = PollMember(member)) deaths.push_back(*std::move(death));
  }
  if (clock_.Now() - logs_checked_ >= kLogInterval) {
    logs_checked_ = clock_.Now();
    for (const Member& member : members_) LimitLog(LogPath(member.name), kMaxLogBytes);
  }
  return deaths;
}

std::optional<LocalCluster::Death> LocalCluster::PollMember(Member& member) {
  std::optional<Death> death;
  const absl::Duration now = clock_.Now();
  if (member.process != nullptr) {
    const std::optional<std::string> end = member.process->Poll();
    if (!end) return death;
    death = Death{.name = member.name, .pid = member.process->pid(), .end = *end};
    member.process.reset();
    if (member.restart) member.start_at = now + member.delay.AfterDeath(now - member.started);
  } else if (member.start_at && now >= *member.start_at) {
    const absl::Status status = StartMember(member);
    if (!status.ok()) {
      spdlog::error("{} cannot be started again: {}", member.name, status.ToString());
      member.start_at = now + member.delay.AfterDeath(absl::ZeroDuration());
    }
  }
  return death;
}

void LocalCluster::Stop(absl::Duration grace, const KeepOn& keep_on) {
  const absl::Duration deadline = clock_.Now() + grace;
  std::vector<Member*> workers;
  for (size_t i = 1; i < members_.size(); ++i) workers.push_back(&members_[i]);
  StopMembers(std::move(workers), deadline, keep_on);
  if (!members_.empty()) StopMembers({&members_.front()}, deadline, keep_on);
}

void LocalCluster::StopMembers(std::vector<Member*> members, absl::Duration deadline, const KeepOn& keep_on) {
  for (Member* member : members) {
    if (member->process != nullptr) member->process->Signal(SIGTERM);
  }
  const auto is_live = [](const Member* member) { return member->process != nullptr && !member->process->Poll(); };
  while (std::any_of(members.begin(), members.end(), is_live) && clock_.Now() < deadline && keep_on()) {
    absl::SleepFor(kPoll);
  }
  for (Member* member : members) member->process.reset();  // kills what is left
}

LocalCluster::~LocalCluster() = default;

std::string LocalCluster::LogPath(const std::string& name) const {
  return absl::StrCat(options_.state_dir, "/logs/", name, ".log");
}

std::string LocalCluster::LogTailOf(const std::string& name) const { return LogTail(LogPath(name), kTailLines); }

}  // namespace stagecoach
