#include "tests/simulation/job_laws.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_state.h"
#include "formats/tensor_digest.h"
#include "tests/simulation/plan_catalog.h"
#include "tests/simulation/toy_model.h"

namespace stagecoach::simulation {
namespace {

// A fault may be older than what it does.
constexpr absl::Duration kLongestEffect = absl::Seconds(15);

}  // namespace

JobLaws::Job* JobLaws::Find(const std::string& job) {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

void JobLaws::Violate(absl::string_view law, absl::string_view job, absl::string_view what) {
  world_.violations.Report(law, absl::StrCat("job ", job, ": ", what));
}

void JobLaws::OnAppended(const v1::JournalEntry& entry) {
  if (entry.sequence() <= last_sequence_) {
    Violate("journal", JobOfEntry(entry), absl::StrCat("sequence ", entry.sequence(), " after ", last_sequence_));
  }
  last_sequence_ = entry.sequence();
  if (JobOfEntry(entry).empty()) return;
  if (entry.has_job_submitted()) return OnSubmitted(entry.job_submitted());
  Job* const job = Find(JobOfEntry(entry));
  if (job == nullptr || job->ended) {
    return Violate("journal", JobOfEntry(entry), "an entry of a job that has ended or was never submitted");
  }
  if (entry.has_epoch_started()) OnEpochStarted(entry.epoch_started(), *job);
  if (entry.has_step_committed()) OnCommitted(entry.step_committed(), *job);
  if (entry.has_job_state_changed()) OnStateChanged(entry.job_state_changed(), *job);
  if (entry.has_evaluation_completed()) {
    const v1::EvaluationCompleted& done = entry.evaluation_completed();
    if (done.validation_loss() != job->reference->ValidationLossAfter(done.step())) {
      Violate("bitwise law", done.job(), absl::StrCat("validation loss after step ", done.step()));
    }
  }
}

void JobLaws::OnSubmitted(const v1::JobSubmitted& submitted) {
  if (!submissions_.insert(submitted.submission_id()).second) {
    Violate("submission", submitted.job(), "it is there twice");
  }
  Job& job = jobs_[submitted.job()];
  job = Job{};
  job.spec = submitted.spec();
}

void JobLaws::OnEpochStarted(const v1::EpochStarted& started, Job& job) {
  const uint64_t epoch = started.placement().epoch();
  if (epoch <= job.last_epoch) Violate("fencing law", started.job(), absl::StrCat("epoch ", epoch, " began again"));
  for (const v1::Member& member : started.placement().members()) {
    if (numerics_classes_[member.worker()] == numerics_classes_[started.placement().members(0).worker()]) continue;
    Violate("bitwise law", started.job(), "its members are of different numerics classes");
  }
  job.last_epoch = epoch;
  job.epoch_began = world_.now();
  // A job that went back to the queue may get other workers; its model depends on how many there are.
  if (job.ever_committed > 0) return;
  job.plan = PlanOf(job.spec, static_cast<uint32_t>(started.placement().members_size()));
  job.reference = std::make_unique<ReferenceTraining>(job.spec, job.plan);
}

void JobLaws::OnCommitted(const v1::StepCommitted& committed, Job& job) {
  const v1::CommitRecord& record = committed.record();
  // A record that was learned from a worker may come after others that a loss of power took.
  const bool may_jump = !committed.has_event() && power_was_lost_;
  if (record.step() != job.last_step + 1 && !(may_jump && record.step() > job.last_step)) {
    return Violate("commit law", committed.job(),
                   absl::StrCat("step ", record.step(), " was journalled after step ", job.last_step));
  }
  if (!committed.has_event()) world_.Cover("a commit was taken over from a worker");
  if (record.verdict() == v1::VERDICT_SKIP) world_.Cover("a step was skipped");
  job.last_step = record.step();
  job.ever_committed = std::max(job.ever_committed, record.step());
  if (record.SerializeAsString() == job.reference->After(record.step()).record.SerializeAsString()) return;
  Violate("bitwise law", committed.job(),
          absl::StrCat("step ", record.step(), " has the record {", record.ShortDebugString(), "}, not {",
                       job.reference->After(record.step()).record.ShortDebugString(), "}"));
}

void JobLaws::OnStateChanged(const v1::JobStateChanged& change, Job& job) {
  job.ended = HasEnded(change.state());
  if (job.ended) world_.Cover("a job ended: ", change.reason());
  const bool has_worker = change.reason() == kReasonWorkerFailed || change.reason() == kReasonWorkerLost ||
                          change.reason() == kReasonWorkerHung;
  if (job.ended && has_worker && change.root_cause().worker().empty()) {
    Violate("root cause", change.job(), absl::StrCat("nobody is named: ", change.message()));
  }
  if (!change.has_root_cause()) return;
  const std::string& worker = change.root_cause().worker();
  if (world_.suspects.MayBeBlamed(worker, job.epoch_began - kLongestEffect)) return;
  Violate("root cause", change.job(),
          absl::StrCat("worker ", worker, " is blamed, and no fault has touched it: ", change.message()));
}

void JobLaws::OnPowerLost(const std::vector<v1::JournalEntry>& journal) {
  power_was_lost_ = true;
  std::map<std::string, uint64_t> steps;
  for (auto& [id, job] : jobs_) steps[id] = std::exchange(job.last_step, 0);
  last_sequence_ = journal.empty() ? 0 : journal.back().sequence();
  for (const v1::JournalEntry& entry : journal) {
    if (entry.has_step_committed()) Find(JobOfEntry(entry))->last_step = entry.step_committed().record().step();
  }
  for (const auto& [id, step] : steps) {
    if (jobs_.at(id).last_step < step) world_.Cover("a loss of power took commits");
  }
}

void JobLaws::OnUpdate(const std::string& worker, const JobId& id, const SimulatedStageState& state,
                       const v1::CommitRecord& record) {
  Job* const job = Find(id.value());
  const uint64_t step = record.step();
  if (job == nullptr || job->reference == nullptr || step > job->ever_committed) {
    return Violate("commit law", id.value(),
                   absl::StrCat("worker ", worker, " has applied step ", step, ", which was never journalled"));
  }
  const ReferenceTraining::State& expected = job->reference->After(step);
  if (record.SerializeAsString() != expected.record.SerializeAsString()) {
    return Violate("commit law", id.value(),
                   absl::StrCat("worker ", worker, " has applied another record of step ", step));
  }
  for (size_t i = 0; i < state.values.size(); ++i) {
    if (state.values[i] == expected.values[state.first_layer().value() + i]) continue;
    return Violate("commit law", id.value(),
                   absl::StrCat("worker ", worker, ": layer ", state.first_layer().value() + i, " after step ", step,
                                " is not what the steps so far make of it"));
  }
}

void JobLaws::OnAborted(const std::string& worker, const JobId& id, uint64_t applied_step,
                        const v1::CommitRecord& last_commit) {
  if (applied_step == last_commit.step()) return;
  const Job* const job = Find(id.value());
  // A worker that has missed its job's end is not told how far it came.
  if (job == nullptr || (job->ended && last_commit.step() == 0)) return;
  // A loss of power forgets commits whose holders do not come in time.
  if (applied_step > last_commit.step() && power_was_lost_) return;
  Violate("commit law", id.value(),
          absl::StrCat("worker ", worker, " is at step ", applied_step, " when its epoch has ended after step ",
                       last_commit.step()));
}

void JobLaws::OnJoined(const std::string& worker, const JobId& id, uint64_t applied_step,
                       const v1::CommitRecord& last_commit) {
  if (applied_step == last_commit.step()) return;
  Violate("commit law", id.value(),
          absl::StrCat("worker ", worker, " is at step ", applied_step, ", and its job goes on after step ",
                       last_commit.step()));
}

void JobLaws::OnGradientsDropped(const std::string& worker, const JobId& id, uint64_t step) {
  Job* const job = Find(id.value());
  if (job == nullptr || step > job->last_step) return;
  Violate("commit law", id.value(),
          absl::StrCat("worker ", worker, " has dropped the gradients of step ", step, ", which is committed"));
}

uint64_t JobLaws::LastStep(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : found->second.last_step;
}

void JobLaws::OnManifest(const JobId& id, const std::string& directory, const v1::CheckpointManifest& manifest) {
  Job* const job = Find(id.value());
  if (job == nullptr || job->reference == nullptr || manifest.step() > job->last_step) {
    return Violate("commit law", id.value(), absl::StrCat("a checkpoint of step ", manifest.step(), " is written"));
  }
  for (const v1::CheckpointShard& shard : manifest.shards()) {
    if (world_.files.HasShard(directory, shard.file())) continue;
    return Violate("commit law", id.value(),
                   absl::StrCat(shard.file(), " of the checkpoint in ", directory, " is not there"));
  }
  const ReferenceTraining::State& expected = job->reference->After(manifest.step());
  std::map<std::string, std::string> digests;
  for (int layer = 0; layer < job->plan->planned.graph.layers_size(); ++layer) {
    for (const v1::TensorDigestReport& report :
         ReportsOf(job->plan->planned.graph.layers(layer), expected.values[static_cast<size_t>(layer)],
                   expected.record.num_updates())) {
      digests[report.name()] = TensorDigest{{report.low(), report.high()}}.Hex();
    }
  }
  for (const v1::CheckpointTensor& tensor : manifest.tensors()) {
    const auto found = digests.find(tensor.name());
    if (found != digests.end() && found->second == tensor.digest()) continue;
    return Violate("bitwise law", id.value(),
                   absl::StrCat(tensor.name(), " in the checkpoint of step ", manifest.step()));
  }
}

}  // namespace stagecoach::simulation
