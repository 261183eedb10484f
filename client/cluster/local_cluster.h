#ifndef STAGECOACH_CLIENT_CLUSTER_LOCAL_CLUSTER_H_
#define STAGECOACH_CLIENT_CLUSTER_LOCAL_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cluster/child_process.h"
#include "client/cluster/restart_delay.h"
#include "client/coordinator_client/coordinator_client.h"
#include "common/clock.h"

namespace stagecoach {

// A coordinator and N workers, worker-0 and so on, as children of this process, with what they leave in a directory:
//
//   DIR/journal.sqlite        the coordinator's
//   DIR/coordinator.sock      its address; where that path is too long for a socket, a loopback port instead
//   DIR/address               the address, one line, while it serves
//   DIR/logs/NAME.log         of coordinator and workers; NAME.log.1 is what came before, when it had grown too long
//
// Used by one thread, which must be one that ends last: see ChildProcess.
class LocalCluster {
 public:
  struct Options {
    std::string state_dir;  // absolute, and there
    std::string programs;   // the folder with stagecoach-coordinator and stagecoach-worker
    uint32_t num_workers = 1;
    uint32_t threads = 1;  // of each worker
    std::string device = "cpu";
    std::string simulated_block_seconds = {};  // of device simulated: the worker's option
    bool restart_coordinator = true;
    bool restart_workers = true;
  };
  // Asked while this waits, ten times a second at least; false: give up.
  using KeepOn = std::function<bool()>;

  // Returns when all workers are registered. NOT_FOUND: no such program. FAILED_PRECONDITION: one has ended, with the
  // end of its log. DEADLINE_EXCEEDED. CANCELLED: `keep_on` said no. Whatever was started has then been ended.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(const Options& options, absl::Duration timeout,
                                                             const KeepOn& keep_on);
  ~LocalCluster();  // kills what still runs

  const std::string& address() const { return address_; }

  struct Death {
    std::string name;
    pid_t pid = 0;
    std::string end;  // "was killed by signal 9 (Killed)"
  };
  // Who has died since the last call. Starts again what is due, and keeps logs short: call it again and again.
  std::vector<Death> Poll();

  // Ends workers, then the coordinator, each in order while `grace` lasts or `keep_on` says so, then by force.
  void Stop(absl::Duration grace, const KeepOn& keep_on);

  // The end of a process' log, for people.
  std::string LogTailOf(const std::string& name) const;

 private:
  struct Member {
    std::string name;
    std::string program;
    std::vector<std::string> arguments;
    bool restart = false;
    std::unique_ptr<ChildProcess> process = nullptr;  // null: it is dead
    absl::Duration started = absl::ZeroDuration();
    std::optional<absl::Duration> start_at = std::nullopt;
    RestartDelay delay = {};
  };

  explicit LocalCluster(const Options& options) : options_(options) {}
  absl::Status StartCoordinator(absl::Duration deadline, const KeepOn& keep_on);
  absl::Status StartWorkers(absl::Duration deadline, const KeepOn& keep_on);
  absl::Status CheckAllLive(const KeepOn& keep_on);
  bool AllRegistered(CoordinatorClient& client) const;
  absl::Status StartMember(Member& member);
  std::optional<Death> PollMember(Member& member);
  void StopMembers(std::vector<Member*> members, absl::Duration deadline, const KeepOn& keep_on);
  std::string LogPath(const std::string& name) const;

  const Options options_;
  const Clock& clock_ = Clock::Real();
  std::string address_;
  std::vector<Member> members_;  // the coordinator first
  absl::Duration logs_checked_ = absl::ZeroDuration();
};

// Where this program is: the others are beside it.
absl::StatusOr<std::string> ProgramFolder();

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CLUSTER_LOCAL_CLUSTER_H_
