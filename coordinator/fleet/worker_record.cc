#include "coordinator/fleet/worker_record.h"

#include <tuple>
#include <utility>

namespace stagecoach {

v1::WorkerState StateOf(const WorkerRecord& worker) {
  if (worker.presence == WorkerPresence::kLost) return v1::WORKER_STATE_LOST;
  if (worker.presence == WorkerPresence::kSuspect) return v1::WORKER_STATE_SUSPECT;
  if (worker.leaving.has_value()) return v1::WORKER_STATE_LEAVING;
  return worker.job.has_value() || worker.clearing ? v1::WORKER_STATE_BUSY : v1::WORKER_STATE_IDLE;
}

bool IsAvailable(const WorkerRecord& worker) {
  return worker.presence == WorkerPresence::kConnected && !worker.leaving.has_value() && !worker.clearing &&
         !worker.job.has_value();
}

void NoteRun(absl::Duration now, const v1::WorkerMessage& heartbeat, WorkerRecord& worker) {
  const JobId job(heartbeat.fence().job());
  const Epoch epoch(heartbeat.fence().epoch());
  std::optional<v1::RunState> run;
  if (heartbeat.heartbeat().has_run()) run = heartbeat.heartbeat().run();
  const auto position = [](const std::optional<v1::RunState>& state) {
    return state.has_value() ? std::tuple(state->run(), state->instruction(), state->waiting(), state->channel())
                             : std::tuple<uint64_t, uint64_t, bool, uint32_t>();
  };
  const bool same = job == worker.run_job && epoch == worker.run_epoch && run.has_value() == worker.run.has_value() &&
                    position(run) == position(worker.run);
  if (!same) worker.unmoved_since = now;
  worker.run_job = job;
  worker.run_epoch = epoch;
  worker.run = std::move(run);
}

std::optional<v1::RunState> RunIn(const WorkerRecord& worker, const JobId& job, Epoch epoch) {
  if (worker.run_job != job || worker.run_epoch != epoch) return std::nullopt;
  return worker.run;
}

v1::WorkerDescription Describe(const WorkerRecord& worker, absl::Duration now) {
  v1::WorkerDescription description;
  description.set_name(worker.id.value());
  description.set_state(StateOf(worker));
  description.set_pid(worker.hello.pid());
  description.set_host(worker.hello.host());
  description.set_device(worker.hello.device());
  description.set_incarnation(worker.incarnation.value());
  description.set_last_seen_seconds(absl::ToDoubleSeconds(now - worker.last_seen));
  description.set_numerics_class(worker.hello.numerics_class());
  description.set_max_threads(worker.hello.max_threads());
  description.set_memory_bytes(worker.hello.memory_bytes());
  if (!worker.why.ok()) description.set_message(std::string(worker.why.message()));
  return description;
}

}  // namespace stagecoach
