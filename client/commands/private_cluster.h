#ifndef STAGECOACH_CLIENT_COMMANDS_PRIVATE_CLUSTER_H_
#define STAGECOACH_CLIENT_COMMANDS_PRIVATE_CLUSTER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cluster/local_cluster.h"
#include "client/cluster/run_directory.h"
#include "client/commands/interrupts.h"
#include "client/commands/job_report.h"
#include "client/coordinator_client/coordinator_client.h"
#include "client/coordinator_client/job_feed.h"
#include "client/output/exit_codes.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// A coordinator and workers for one job, in a directory of their own that goes away with them. A coordinator that dies
// is started again, and the job goes on; a worker that dies ends the job. Used by the main thread.
class PrivateCluster {
 public:
  // As many workers, with as many threads, as `resources` has; the times are for device simulated, and empty otherwise.
  // `interrupts` outlives the cluster. CANCELLED: there was one. Other errors are LocalCluster::Start's.
  static absl::StatusOr<std::unique_ptr<PrivateCluster>> Start(const v1::ResourcesSpec& resources,
                                                               const std::string& simulated_block_seconds,
                                                               const Interrupts& interrupts);

  // Shows the job from its submission to its end. The first interrupt cancels it, the second ends everything at once.
  // Returns the exit code. When a process has died, shows the end of its log and keeps the directory.
  int Run(const v1::JobSpec& spec, JobReport& report);

 private:
  explicit PrivateCluster(const Interrupts& interrupts) : interrupts_(interrupts) {}

  int Follow(JobReport& report);
  bool KeepOn(JobReport& report);
  void CancelOnce(JobReport& report);
  int EndOf(const absl::StatusOr<bool>& ended, JobFeed& feed, JobReport& report);
  void ShowDeaths();

  const Interrupts& interrupts_;
  std::unique_ptr<RunDirectory> directory_;
  std::unique_ptr<LocalCluster> cluster_;  // after its directory
  std::unique_ptr<CoordinatorClient> client_;
  std::string job_;
  bool cancelled_ = false;
  std::vector<LocalCluster::Death> deaths_;
  std::optional<absl::Duration> worker_died_;  // when the first one did
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_PRIVATE_CLUSTER_H_
