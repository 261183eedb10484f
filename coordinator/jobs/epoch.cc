#include "coordinator/jobs/epoch.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/checkpoint.h"
#include "coordinator/jobs/failure_cause.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/step.h"
#include "coordinator/plan/micro_batch_sizes.h"

namespace stagecoach {
namespace {

void Resume(JobDecision& decision, const v1::JobResumed& resumed) {
  v1::JournalEntry entry;
  *entry.mutable_job_resumed() = resumed;
  entry.mutable_job_resumed()->set_job(decision.job().id.value());
  decision.Append(std::move(entry));
}

// What the planner has chosen.
std::string MicroBatchNote(const JobDecision& decision) {
  if (!ChoosesMicroBatchSize(decision.spec())) return "";
  const PlannedJob& planned = decision.job().progress.plan->planned;
  return absl::StrCat(", in micro-batches of ", planned.graph.micro_batch_size(), " sample(s), chosen by ",
                      planned.plan.measured_costs() ? "measured costs" : "FLOPs");
}

void SendAssignments(JobDecision& decision) {
  const JobPlan& plan = *decision.progress().plan;
  v1::CoordinatorMessage message;
  v1::AssignStages& assignment = *message.mutable_assign_stages();
  *assignment.mutable_spec() = decision.spec();
  assignment.mutable_spec()->mutable_parallelism()->clear_order();  // a worker has its program
  *assignment.mutable_graph() = plan.planned.graph;
  assignment.set_threads(decision.spec().resources().threads_per_worker());
  *assignment.mutable_last_commit() = decision.history().last_commit;
  if (IsAtBeginning(decision.history()) && decision.history().resumed != nullptr) {
    const v1::JobResumed& resumed = *decision.history().resumed;
    assignment.mutable_restore()->set_directory(resumed.checkpoint().directory());
    assignment.mutable_restore()->set_manifest_digest(resumed.manifest_digest());
  }
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    *assignment.mutable_program() = plan.planned.programs[rank];
    if (HasValidation(plan)) *assignment.mutable_evaluation_program() = plan.planned.evaluation_programs[rank];
    decision.Send(WorkerRank(rank), message);
  }
}

}  // namespace

absl::Status CheckPlan(const JobPlan& plan, const v1::JobSpec& spec, size_t num_members) {
  const PlannedJob& planned = plan.planned;
  const size_t num_evaluation_programs = planned.evaluation_programs.size();
  if (planned.programs.size() != num_members ||
      (num_evaluation_programs != 0 && num_evaluation_programs != num_members)) {
    return absl::InternalError(absl::StrCat("the plan has ", planned.programs.size(), " programs and ",
                                            num_evaluation_programs, " evaluation programs for ", num_members,
                                            " workers"));
  }
  // The plan's, when the specification has none.
  const uint64_t size =
      ChoosesMicroBatchSize(spec) ? planned.graph.micro_batch_size() : spec.training().micro_batch_size();
  const uint64_t capacity = planned.plan.num_micro_batches() * size;
  if (capacity < spec.training().global_batch_size()) {
    return absl::InternalError(absl::StrCat("the plan's micro-batches hold ", capacity, " samples, fewer than the ",
                                            spec.training().global_batch_size(), " of a step"));
  }
  if (plan.num_train_samples == 0) return absl::InternalError("the data has no training samples");
  return absl::OkStatus();
}

void StartEpoch(JobDecision& decision) {
  JobProgress& progress = decision.progress();
  v1::JournalEntry entry;
  v1::EpochStarted& started = *entry.mutable_epoch_started();
  started.set_job(decision.job().id.value());
  *started.mutable_plan() = progress.plan->planned.plan;
  if (progress.plan->planned.order.has_value()) *started.mutable_order() = *progress.plan->planned.order;
  if (!progress.plan->data.digest.empty()) {
    started.mutable_data()->set_bytes(progress.plan->data.bytes);
    started.mutable_data()->set_digest(progress.plan->data.digest);
  }
  if (decision.spec().resources().threads_per_worker() == 0) {
    started.set_threads_per_worker(progress.threads_per_worker);
  }
  if (ChoosesMicroBatchSize(decision.spec())) {
    started.set_micro_batch_size(progress.plan->planned.graph.micro_batch_size());
  }
  started.mutable_placement()->set_epoch(NextEpoch(decision.history()).value());
  for (const MemberId& id : *progress.members) {
    v1::Member& member = *started.mutable_placement()->add_members();
    member.set_worker(id.worker.value());
    member.set_incarnation(id.incarnation.value());
    member.set_memory_bytes(id.memory_bytes);
  }
  decision.Append(std::move(entry));
  for (MemberProgress& member : progress.said) {
    MemberProgress fresh;
    fresh.leaving = member.leaving;
    member = std::move(fresh);
  }
  progress.commit_sent = Step();
  ForgetCheckpoint(decision);
  progress.checkpoint_begun = decision.now();
  decision.EnterPhase(Phase::kPreparingStages);
  SendAssignments(decision);
}

bool OnPlanReady(JobDecision& decision, const PlanReady& input) {
  JobProgress& progress = decision.progress();
  if (progress.phase != Phase::kPlanning || input.attempt != progress.planning_attempt) return false;
  if (!input.plan.ok()) {
    FailJob(decision, input.failure_reason, input.plan.status());
    return true;
  }
  if (absl::Status status = CheckPlan(**input.plan, decision.spec(), decision.num_members()); !status.ok()) {
    FailJob(decision, kReasonPlanningFailed, status);
    return true;
  }
  progress.plan = *input.plan;
  if (input.resumed != nullptr) Resume(decision, *input.resumed);
  decision.ChangeState(v1::JOB_STATE_PREPARING, kReasonPreparingStages,
                       absl::StrCat(progress.plan->planned.plan.stages_size(), " stage(s) on ", decision.num_members(),
                                    " worker(s)", MicroBatchNote(decision)));
  StartEpoch(decision);
  return true;
}

bool OnStagesPrepared(JobDecision& decision, WorkerRank rank, const v1::StagesPrepared& message) {
  JobProgress& progress = decision.progress();
  if (progress.phase != Phase::kPreparingStages || decision.said(rank).prepared) return false;
  if (message.applied_step() != decision.history().last_commit.step()) {
    FailJob(decision, CauseOfLoss(decision.job(), rank,
                                  absl::InternalError(absl::StrCat("its state is that of step ", message.applied_step(),
                                                                   ", not of the last one, ",
                                                                   decision.history().last_commit.step())),
                                  std::nullopt));
    return true;
  }
  decision.said(rank).prepared = true;
  decision.said(rank).endpoint = message.endpoint();
  if (!decision.AllMembers([](const MemberProgress& member) { return member.prepared; })) return true;

  v1::CoordinatorMessage connect;
  connect.mutable_connect_peers();
  for (uint32_t peer = 0; peer < decision.num_members(); ++peer) {
    v1::Peer& entry = *connect.mutable_connect_peers()->add_peers();
    entry.set_incarnation(progress.members->at(peer).incarnation.value());
    entry.set_endpoint(std::move(progress.said[peer].endpoint));
    progress.said[peer].endpoint.clear();
  }
  decision.EnterPhase(Phase::kConnectingPeers);
  decision.SendToAll(connect);
  return true;
}

bool OnPeersConnected(JobDecision& decision, WorkerRank rank) {
  JobProgress& progress = decision.progress();
  if (progress.phase != Phase::kConnectingPeers || decision.said(rank).connected) return false;
  decision.said(rank).connected = true;
  if (!decision.AllMembers([](const MemberProgress& member) { return member.connected; })) return true;
  const v1::JobState state = decision.history().state;
  if (state == v1::JOB_STATE_PREPARING || state == v1::JOB_STATE_RECOVERING) {
    decision.ChangeState(v1::JOB_STATE_RUNNING, kReasonTraining,
                         absl::StrCat("from step ", decision.history().last_commit.step() + 1, " on"));
  }
  GoOnAfterLastStep(decision);
  return true;
}

}  // namespace stagecoach
