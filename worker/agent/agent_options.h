#ifndef STAGECOACH_WORKER_AGENT_AGENT_OPTIONS_H_
#define STAGECOACH_WORKER_AGENT_AGENT_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "common/layer_memory.h"
#include "common/loop_beat.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "worker/agent/job_log.h"
#include "worker/agent/session_rules.h"
#include "worker/agent/worker_observer.h"
#include "worker/checkpoint/state_restorer.h"
#include "worker/data/batch_source.h"
#include "worker/device/device_factory.h"
#include "worker/model/stage.h"
#include "worker/model/stage_state.h"
#include "worker/profile/layer_profiler.h"
#include "worker/transport/transport.h"

namespace stagecoach {

using BatchSourceFactory =
    std::function<absl::StatusOr<std::unique_ptr<BatchSource>>(const v1::JobSpec& spec, FileSystem& files)>;

// As StageState::Create.
using StageStateFactory = std::function<absl::StatusOr<std::unique_ptr<StageState>>(
    Device& device, Stream& stream, const v1::JobSpec& spec, const v1::ModelGraph& graph, LayerIndex first_layer,
    LayerIndex last_layer)>;

// As LayeredStage::Create: `state` has at least these layers, and outlives the stage with all the other arguments.
using StageFactory = std::function<absl::StatusOr<std::unique_ptr<Stage>>(
    Device& device, const v1::JobSpec& spec, const v1::ModelGraph& graph, const StageExtent& extent,
    const StageState& state)>;

// What a worker is given at start. The factories are called by its executor's thread.
struct AgentOptions {
  // Who it is, as Hello says it.
  WorkerId worker{};
  Incarnation incarnation{};
  std::string numerics_class{};
  uint64_t memory_bytes = 0;
  uint32_t max_threads = 1;
  std::string build_version{};
  std::string device{};
  std::string host{};
  uint64_t pid = 0;

  DeviceFactory device_factory{};
  TransportFactory transport_factory{};
  BatchSourceFactory batch_source_factory{};
  StageStateFactory stage_state_factory{};
  StageFactory stage_factory{};
  LayerProfilerFactory layer_profiler_factory{};
  StateRestorer state_restorer = RestoreStates;
  FileSystem& files = FileSystem::Posix();

  const Clock& clock = Clock::Real();
  SessionRules::Options session{};
  absl::Duration leave_timeout = absl::Seconds(30);  // from Leave to the end without a Dismiss
  absl::Duration connect_timeout = absl::Minutes(1);
  // Of one transfer. Peers that die, and workers that hang, end it long before: this is for what nobody notices.
  absl::Duration transfer_timeout = absl::Minutes(10);
  // How long the agent sleeps at most. With a clock that is not the real one: how soon it sees that time has passed.
  absl::Duration longest_sleep = absl::Minutes(1);
  std::function<void()> on_end{};      // by the agent's thread, once: Wait would return now
  JobLog* log = nullptr;               // lines for the job's log; null: none. Outlives the agent
  WorkerObserver* observer = nullptr;  // likewise
  LoopBeat* beat = nullptr;            // of the agent's thread; likewise
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_AGENT_OPTIONS_H_
