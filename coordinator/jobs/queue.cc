#include "coordinator/jobs/queue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/simulated_device.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/profiling.h"
#include "formats/file_digest.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace stagecoach {
namespace {

// Of a job of this name: 1 without a number.
uint64_t NumberBehind(const JobId& id, const std::string& name) {
  uint64_t number = 0;
  const bool has_number =
      id.value().size() > name.size() + 1 && absl::SimpleAtoi(id.value().substr(name.size() + 1), &number);
  return has_number ? number : 1;
}

// INVALID_ARGUMENT, ALREADY_EXISTS.
absl::StatusOr<JobId> NewJobId(const Jobs& jobs, const std::string& name) {
  if (name.empty()) return absl::InvalidArgumentError("the job has no name");
  uint64_t number = 0;  // the highest of this name
  for (const auto& [id, job] : jobs) {
    if (job.history.spec->name() == name) number = std::max(number, NumberBehind(id, name));
    if (job.history.spec->name() == name && !HasEnded(job.history.state)) {
      return absl::AlreadyExistsError(absl::StrCat("job ", id.value(), " has the name ", name, " and is ",
                                                   JobStateName(job.history.state),
                                                   "; wait for its end, cancel it, or choose another name"));
    }
  }
  const auto numbered = [&name](uint64_t n) { return JobId(n == 1 ? name : absl::StrCat(name, "-", n)); };
  ++number;
  while (jobs.contains(numbered(number))) ++number;  // which another job has for its name
  return numbered(number);
}

// Null: there is none, or `submission_id` is empty.
const JobRecord* FindSubmission(const Jobs& jobs, const std::string& submission_id) {
  if (submission_id.empty()) return nullptr;
  for (const auto& [id, job] : jobs) {
    if (job.history.submission_id == submission_id) return &job;
  }
  return nullptr;
}

absl::StatusOr<JobId> SameSubmission(const JobRecord& known, const std::string& spec_digest) {
  if (known.history.spec_digest == spec_digest) return known.id;
  return absl::AlreadyExistsError(absl::StrCat("submission id ", known.history.submission_id, " is that of job ",
                                               known.id.value(),
                                               ", whose specification is another; submit with a new id"));
}

// Of its fields, whatever the order of maps.
std::string DigestOf(const v1::JobSpec& spec) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    spec.SerializeToCodedStream(&coded);
  }
  FileDigest digest;
  digest.Add(bytes.data(), bytes.size());
  return digest.Hex();
}

uint32_t CommonThreads(const std::vector<const WorkerRecord*>& gang) {
  uint32_t threads = gang.front()->hello.max_threads();
  for (const WorkerRecord* worker : gang) threads = std::min(threads, worker->hello.max_threads());
  return std::max(threads, uint32_t{1});
}

// The degree is auto.
bool TakesAll(const v1::JobSpec& spec) { return spec.parallelism().pipeline_parallel_degree() == 0; }

size_t WorkersNeeded(const v1::JobSpec& spec) {
  const uint32_t degree = spec.parallelism().pipeline_parallel_degree();
  return degree != 0 ? degree : std::max(spec.resources().workers(), uint32_t{1});
}

// What simulated workers make is no trained model: only a job that asks for them gets them.
bool HasDeviceFor(const v1::JobSpec& spec, const WorkerRecord& worker) {
  return (worker.hello.device() == kSimulatedDevice) == (spec.resources().device() == kSimulatedDevice);
}

std::map<std::string, std::vector<const WorkerRecord*>> IdleByClass(const v1::JobSpec& spec, const Workers& workers) {
  std::map<std::string, std::vector<const WorkerRecord*>> by_class;
  for (const auto& [id, worker] : workers) {
    if (!IsAvailable(worker) || worker.hello.max_threads() < spec.resources().threads_per_worker()) continue;
    if (!HasDeviceFor(spec, worker)) continue;
    by_class[worker.hello.numerics_class()].push_back(&worker);
  }
  return by_class;
}

std::string WhatIsMissing(const v1::JobSpec& spec, const Workers& workers) {
  size_t most = 0;
  for (const auto& [name, idle] : IdleByClass(spec, workers)) most = std::max(most, idle.size());
  const auto connected = std::count_if(workers.begin(), workers.end(), [](const auto& entry) {
    return entry.second.presence == WorkerPresence::kConnected;
  });
  const uint32_t threads = std::max(spec.resources().threads_per_worker(), uint32_t{1});
  const bool simulated = spec.resources().device() == kSimulatedDevice;
  return absl::StrCat("needs ", WorkersNeeded(spec), simulated ? " simulated" : "",
                      " idle worker(s) of one numerics class with at least ", threads, " thread(s); ", most, " of ",
                      connected, " connected one(s) would do");
}

// False: it has said so before.
bool Wait(JobDecision& decision, const std::string& for_what) {
  if (decision.history().message == for_what) return false;
  decision.ChangeState(v1::JOB_STATE_QUEUED, kReasonWaitingForWorkers, for_what);
  return true;
}

}  // namespace

Decision SubmitJob(const Jobs& jobs, Epoch epoch_floor, const JobRequested& input) {
  const std::string digest = DigestOf(input.spec);
  if (const JobRecord* known = FindSubmission(jobs, input.submission_id); known != nullptr) {
    return {{AnswerRequest{input.request, SameSubmission(*known, digest)}}, "submitted before"};
  }
  absl::StatusOr<JobId> id = NewJobId(jobs, input.spec.name());
  if (!id.ok()) return {{AnswerRequest{input.request, id.status()}}, "submission refused"};
  v1::JournalEntry entry;
  v1::JobSubmitted& submitted = *entry.mutable_job_submitted();
  submitted.set_job(id->value());
  submitted.set_submission_id(input.submission_id);
  submitted.set_spec_digest(digest);
  submitted.set_epoch_floor(epoch_floor.value());
  *submitted.mutable_spec() = input.spec;
  Decision decision;
  decision.reason = absl::StrCat("job ", id->value(), ": submitted");
  decision.effects.push_back(AppendEntry{std::move(entry)});
  decision.effects.push_back(AnswerRequest{input.request, *std::move(id)});
  decision.effects.push_back(RequestTick{});
  return decision;
}

const JobRecord* NextInQueue(const Jobs& jobs, const std::set<JobId>& active_jobs) {
  // Smaller ones are first.
  const auto place = [](const JobRecord& job) {
    return std::pair(-int64_t{job.history.spec->limits().priority()}, job.history.submitted_at);
  };
  const JobRecord* next = nullptr;
  for (const JobId& id : active_jobs) {
    const JobRecord& job = jobs.at(id);
    if (job.history.state != v1::JOB_STATE_QUEUED) continue;
    if (next == nullptr || place(job) < place(*next)) next = &job;
  }
  return next;
}

std::vector<const WorkerRecord*> ChooseGang(const v1::JobSpec& spec, const Workers& workers) {
  std::vector<const WorkerRecord*> gang;
  for (auto& [name, idle] : IdleByClass(spec, workers)) {
    if (idle.size() > gang.size()) gang = idle;
  }
  if (gang.size() < WorkersNeeded(spec)) return {};
  if (!TakesAll(spec)) gang.resize(WorkersNeeded(spec));
  return gang;
}

bool TryToStart(JobDecision& decision, const Workers& workers, bool fleet_is_complete) {
  if (!fleet_is_complete && TakesAll(decision.spec())) {
    return Wait(decision, "takes all workers, and waits for those of before the coordinator's restart to dial again");
  }
  const std::vector<const WorkerRecord*> gang = ChooseGang(decision.spec(), workers);
  if (gang.empty()) return Wait(decision, WhatIsMissing(decision.spec(), workers));
  JobProgress& progress = decision.progress();
  std::vector<MemberId> members;
  for (const WorkerRecord* worker : gang) {
    members.push_back({worker->id, worker->incarnation, worker->hello.memory_bytes()});
  }
  progress.threads_per_worker = CommonThreads(gang);
  progress.said.assign(members.size(), MemberProgress{});
  progress.members = std::make_shared<const std::vector<MemberId>>(std::move(members));
  NoteMember(decision, WorkerRank(0), gang.front()->hello);
  BeginPreparation(decision);
  decision.Add(RequestTick{});
  return true;
}

}  // namespace stagecoach
