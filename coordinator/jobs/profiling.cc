#include "coordinator/jobs/profiling.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/simulated_device.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/plan/cost_table.h"
#include "coordinator/plan/layer_calls.h"

namespace stagecoach {
namespace {

// What simulated workers take is on their command line, and may be something else the next time; to ask them costs
// nothing.
bool AreRemembered(const WorkerKind& kind) { return kind.device != kSimulatedDevice; }

// What a plan can be reckoned with. A worker says what it likes.
bool IsTime(double seconds) { return std::isfinite(seconds) && seconds >= 0 && seconds <= 86'400; }

bool WasMeasured(const v1::LayerSeconds& seconds) {
  return IsTime(seconds.forward()) && IsTime(seconds.backward_input()) && IsTime(seconds.backward_weight()) &&
         seconds.forward() + seconds.backward_input() + seconds.backward_weight() > 0;
}

// With the threads that it will have.
v1::JobSpec SpecToPlan(const JobDecision& decision) {
  v1::JobSpec spec = decision.spec();
  if (spec.resources().threads_per_worker() == 0) {
    spec.mutable_resources()->set_threads_per_worker(decision.job().progress.threads_per_worker);
  }
  return spec;
}

WorkerKind KindOfMembers(const JobDecision& decision) {
  WorkerKind kind = *decision.job().progress.kind;
  kind.threads = SpecToPlan(decision).resources().threads_per_worker();
  return kind;
}

const std::string& MeasuringWorker(const JobDecision& decision) {
  return decision.job().progress.members->front().worker.value();
}

void Plan(JobDecision& decision, std::shared_ptr<const LayerCosts> costs, const std::string& note) {
  JobProgress& progress = decision.progress();
  StartPlanning planning{decision.job().id, progress.planning_attempt, SpecToPlan(decision), {}, nullptr};
  for (const MemberId& member : *progress.members) {
    planning.workers.push_back({.memory_bytes = member.memory_bytes, .measured = costs});
  }
  progress.profiling = nullptr;
  decision.EnterPhase(Phase::kPlanning);
  decision.ChangeState(v1::JOB_STATE_PREPARING, kReasonPlanning,
                       absl::StrCat("planning for ", decision.num_members(), " worker(s)", note));
  decision.Add(std::move(planning));
}

// Of the epoch that may follow, since what is older is dropped; the epoch does not begin by it.
void SendOrder(JobDecision& decision) {
  const JobProgress& progress = decision.progress();
  v1::CoordinatorMessage message;
  *message.mutable_measure_layers() = progress.profiling->order;
  const MemberId& member = progress.members->front();
  v1::Fence& fence = *message.mutable_fence();
  fence.set_job(decision.job().id.value());
  fence.set_epoch(NextEpoch(decision.history()).value());
  fence.set_incarnation(member.incarnation.value());
  fence.set_coordinator_term(decision.term().value());
  decision.Add(SendToWorker{member.worker, std::move(message)});
}

std::shared_ptr<const Profiling> ProfilingOf(const JobDecision& decision, const std::vector<ShapedCall>& calls) {
  auto profiling = std::make_shared<Profiling>();
  profiling->kind = KindOfMembers(decision);
  profiling->order.set_attempt(decision.job().progress.planning_attempt);
  profiling->order.set_threads(profiling->kind.threads);
  for (const ShapedCall& call : calls) {
    profiling->shapes.push_back(call.shape);
    *profiling->order.add_layers() = call.call;
  }
  return profiling;
}

// Empty: nothing could be measured.
v1::CostsMeasured CostsIn(const v1::LayersMeasured& message, const Profiling& profiling) {
  v1::CostsMeasured costs;
  costs.set_numerics_class(profiling.kind.numerics_class);
  costs.set_device(profiling.kind.device);
  costs.set_threads(profiling.kind.threads);
  const int num_layers = std::min(message.layers_size(), profiling.order.layers_size());
  for (int i = 0; i < num_layers; ++i) {
    if (!WasMeasured(message.layers(i))) continue;
    v1::MeasuredLayer& layer = *costs.add_layers();
    layer.set_shape(profiling.shapes[static_cast<size_t>(i)]);
    layer.set_micro_batch_size(profiling.order.layers(i).micro_batch_size());
    *layer.mutable_seconds() = message.layers(i);
  }
  return costs;
}

std::string NoteOf(const JobDecision& decision, int num_measured, int num_asked, const std::string& message) {
  const std::string& worker = MeasuringWorker(decision);
  if (num_measured == num_asked) return absl::StrCat(", with the costs that worker ", worker, " has measured");
  std::string note = num_measured == 0 ? absl::StrCat(", with costs by FLOPs: worker ", worker, " could measure none")
                                       : absl::StrCat(", with ", num_measured, " of ", num_asked, " costs that worker ",
                                                      worker, " has measured, and the others by FLOPs");
  if (!message.empty()) absl::StrAppend(&note, ": ", message);
  return note;
}

}  // namespace

void BeginPreparation(JobDecision& decision) {
  JobProgress& progress = decision.progress();
  ++progress.planning_attempt;
  const std::shared_ptr<const LayerCosts> known = CostsOfMembers(decision);
  const std::vector<ShapedCall> calls = UnknownCalls(decision.spec(), decision.num_members(), known.get());
  if (calls.empty()) return Plan(decision, known, "");
  progress.profiling = ProfilingOf(decision, calls);
  decision.EnterPhase(Phase::kProfiling);
  decision.ChangeState(v1::JOB_STATE_PREPARING, kReasonProfiling,
                       absl::StrCat("worker ", MeasuringWorker(decision), " measures ", calls.size(), " layer(s)"));
  SendOrder(decision);
}

bool OnLayersMeasured(JobDecision& decision, WorkerRank rank, const v1::LayersMeasured& message) {
  const JobProgress& progress = decision.progress();
  if (progress.phase != Phase::kProfiling || rank.value() != 0 || message.attempt() != progress.planning_attempt) {
    return false;
  }
  v1::CostsMeasured measured = CostsIn(message, *progress.profiling);
  const std::string note =
      NoteOf(decision, measured.layers_size(), progress.profiling->order.layers_size(), message.message());
  if (measured.layers().empty()) {
    Plan(decision, CostsOfMembers(decision), note);
    return true;
  }
  // As it will be once the entry is applied.
  CostTable table = decision.costs();
  table.Apply(measured);
  std::shared_ptr<const LayerCosts> costs = table.Of(progress.profiling->kind);
  if (AreRemembered(progress.profiling->kind)) {
    v1::JournalEntry entry;
    *entry.mutable_costs_measured() = std::move(measured);
    decision.Add(AppendEntry{std::move(entry)});
  }
  Plan(decision, std::move(costs), note);
  return true;
}

bool AskToMeasureAgain(JobDecision& decision, WorkerRank rank) {
  if (decision.progress().phase != Phase::kProfiling || rank.value() != 0) return false;
  SendOrder(decision);
  return true;
}

void OnProfilingLate(JobDecision& decision) {
  const std::string time = absl::FormatDuration(decision.now() - decision.progress().phase_began);
  EndProfiling(decision);
  Plan(decision, CostsOfMembers(decision),
       absl::StrCat(", with costs by FLOPs: worker ", MeasuringWorker(decision), " has measured none in ", time));
}

void NoteMember(JobDecision& decision, WorkerRank rank, const v1::Hello& hello) {
  if (rank.value() != 0) return;
  decision.progress().kind = std::make_shared<const WorkerKind>(
      WorkerKind{.numerics_class = hello.numerics_class(), .device = hello.device(), .threads = 0});
}

void EndProfiling(JobDecision& decision) {
  if (decision.progress().phase != Phase::kProfiling || decision.said(WorkerRank(0)).lost) return;
  const MemberId& member = decision.progress().members->front();
  v1::CoordinatorMessage message;
  message.mutable_release();
  message.mutable_fence()->set_incarnation(member.incarnation.value());
  message.mutable_fence()->set_coordinator_term(decision.term().value());
  decision.Add(SendToWorker{member.worker, std::move(message)});
}

std::shared_ptr<const LayerCosts> CostsOfMembers(const JobDecision& decision) {
  if (!WantsMeasuredCosts(decision.spec()) || decision.job().progress.kind == nullptr) return nullptr;
  return decision.costs().Of(KindOfMembers(decision));
}

}  // namespace stagecoach
