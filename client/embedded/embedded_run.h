#ifndef STAGECOACH_CLIENT_EMBEDDED_EMBEDDED_RUN_H_
#define STAGECOACH_CLIENT_EMBEDDED_EMBEDDED_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "common/message_queue.h"
#include "coordinator/coordinator.h"
#include "coordinator/journal/store.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "worker/agent/agent.h"
#include "worker/device/device_factory.h"
#include "worker/session.h"
#include "worker/transport/in_process/in_process_fabric.h"

namespace stagecoach {

// A Status: nothing more comes.
using FollowEvent = std::variant<v1::JobStatus, v1::StepEvent, absl::Status>;

// One job from submission to its end inside this process: a coordinator and N workers, each with threads of its own,
// talking through in-process sessions and the in-process transport. The same code path as a cluster but for those two.
// Used by one thread, but for what its methods say.
class EmbeddedRun {
 public:
  struct Options {
    uint32_t num_workers = 1;
    DeviceFactory device;  // of every worker
    FileSystem& files = FileSystem::Posix();
  };

  // Submits `spec`, with resources.threads_per_worker resolved, then starts the workers. Nothing of the job's end is an
  // error here.
  static absl::StatusOr<std::unique_ptr<EmbeddedRun>> Start(const v1::JobSpec& spec, Options options);
  ~EmbeddedRun();

  // A JobStatus for every change of state, a StepEvent per step, with its validation loss, in order; the last one is
  // the JobStatus of the job's end. DEADLINE_EXCEEDED. UNAVAILABLE: nothing more comes.
  absl::StatusOr<FollowEvent> NextEvent(absl::Duration timeout);
  // Finishes the step under way and writes a checkpoint. Any thread, any number of times.
  absl::Status Cancel();
  absl::StatusOr<v1::Job> Describe();

 private:
  explicit EmbeddedRun(Options options);
  absl::Status Submit(const v1::JobSpec& spec);
  absl::Status StartWorkers(uint32_t threads);
  std::unique_ptr<Session> OpenSession(Incarnation incarnation);

  const Options options_;
  const std::shared_ptr<MessageQueue<absl::StatusOr<v1::JobEvent>>> events_;
  std::optional<v1::StepEvent> held_step_;  // waits for its validation loss
  std::optional<FollowEvent> next_;         // found out behind it
  std::unique_ptr<Store> store_;
  std::shared_ptr<InProcessFabric> fabric_;
  std::unique_ptr<Coordinator> coordinator_;
  JobId job_;
  std::vector<std::unique_ptr<Agent>> workers_;  // last: they use all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_EMBEDDED_EMBEDDED_RUN_H_
