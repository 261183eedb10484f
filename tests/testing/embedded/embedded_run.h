#ifndef STAGECOACH_TESTS_TESTING_EMBEDDED_EMBEDDED_RUN_H_
#define STAGECOACH_TESTS_TESTING_EMBEDDED_EMBEDDED_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/message_queue.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "tests/testing/embedded/embedded_cluster.h"

namespace stagecoach {

// A Status: nothing more comes.
using FollowEvent = std::variant<v1::JobStatus, v1::StepEvent, absl::Status>;

// One job from submission to its end on an embedded cluster. Used by one thread, but for what its methods say.
class EmbeddedRun {
 public:
  using Options = EmbeddedCluster::Options;

  // Submits `spec`, with resources.threads_per_worker resolved, then starts the workers. Nothing of the job's end is an
  // error here.
  static absl::StatusOr<std::unique_ptr<EmbeddedRun>> Start(const v1::JobSpec& spec, Options options);

  // A JobStatus for every change of state, a StepEvent per step, with its validation loss, in order; the last one is
  // the JobStatus of the job's end. DEADLINE_EXCEEDED. UNAVAILABLE: nothing more comes.
  absl::StatusOr<FollowEvent> NextEvent(absl::Duration timeout);
  // Finishes the step under way and writes a checkpoint. Any thread, any number of times.
  absl::Status Cancel();
  absl::StatusOr<v1::Job> Describe();

 private:
  // Steps that may be waiting to be shown.
  static constexpr size_t kEventCapacity = 1 << 20;

  EmbeddedRun() = default;
  absl::Status Submit(const v1::JobSpec& spec);

  const std::shared_ptr<MessageQueue<absl::StatusOr<v1::JobEvent>>> events_ =
      std::make_shared<MessageQueue<absl::StatusOr<v1::JobEvent>>>(kEventCapacity);
  std::optional<v1::StepEvent> held_step_;  // waits for its validation loss
  std::optional<FollowEvent> next_;         // found out behind it
  std::unique_ptr<EmbeddedCluster> cluster_;
  JobId job_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_EMBEDDED_EMBEDDED_RUN_H_
