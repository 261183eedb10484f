#include "client/coordinator_client/testing/fake_coordinator_service.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/coordinator_client/enum_text.h"
#include "client/coordinator_client/job_states.h"
#include "common/check.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace stagecoach {
namespace {

grpc::Status ToGrpc(absl::StatusCode code, const std::string& message) {
  return grpc::Status(static_cast<grpc::StatusCode>(code), message);
}

// Handlers wait in short turns, so that they notice a client that has gone.
std::chrono::steady_clock::time_point NextTurn() { return DeadlineIn(absl::Milliseconds(20)); }

}  // namespace

FakeCoordinatorService::FakeCoordinatorService() { Start(); }
FakeCoordinatorService::~FakeCoordinatorService() { Stop(); }

void FakeCoordinatorService::Start() {
  {
    MutexLock lock(mutex_);
    stopping_ = false;
    ++term_;
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  STAGECOACH_CHECK(server_ != nullptr);
}

void FakeCoordinatorService::Stop() {
  if (server_ == nullptr) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

void FakeCoordinatorService::Fail(const std::string& rpc, absl::StatusCode code, When when) {
  MutexLock lock(mutex_);
  failures_[rpc].push_back({code, when});
}

v1::Job* FakeCoordinatorService::Find(const std::string& job) {
  const auto found =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const v1::Job& j) { return j.status().job() == job; });
  return found == jobs_.end() ? nullptr : &*found;
}

void FakeCoordinatorService::PutJob(const v1::Job& job) {
  MutexLock lock(mutex_);
  if (v1::Job* old = Find(job.status().job())) {
    *old = job;
  } else {
    jobs_.push_back(job);
  }
}

void FakeCoordinatorService::PutWorker(const v1::WorkerDescription& worker) {
  MutexLock lock(mutex_);
  workers_.push_back(worker);
}

void FakeCoordinatorService::AddEvent(const std::string& job, v1::JobEvent event) {
  MutexLock lock(mutex_);
  std::vector<v1::JobEvent>& events = events_[job];
  event.set_sequence(events.size() + 1);
  if (v1::Job* known = Find(job); known != nullptr && event.has_status()) *known->mutable_status() = event.status();
  events.push_back(std::move(event));
  changed_.NotifyAll();
}

void FakeCoordinatorService::AddLine(const std::string& job, const std::string& worker, const std::string& text) {
  MutexLock lock(mutex_);
  v1::LogRecord& record = lines_[job].emplace_back();
  record.mutable_token()->set_sequence(lines_[job].size());
  record.mutable_token()->set_coordinator_term(term_);
  record.set_worker(worker);
  record.mutable_line()->set_severity(v1::LOG_SEVERITY_WARNING);
  record.mutable_line()->mutable_time()->set_seconds(1'700'000'000 + static_cast<int64_t>(lines_[job].size()));
  record.mutable_line()->set_text(text);
  changed_.NotifyAll();
}

void FakeCoordinatorService::BreakAfter(int num_events, absl::StatusCode code) {
  MutexLock lock(mutex_);
  events_before_break_ = num_events;
  break_code_ = code;
}

void FakeCoordinatorService::EndLogs() {
  MutexLock lock(mutex_);
  logs_ended_ = true;
  changed_.NotifyAll();
}

FakeCoordinatorService::Calls FakeCoordinatorService::calls() const {
  MutexLock lock(mutex_);
  return calls_;
}

template <typename Effect>
grpc::Status FakeCoordinatorService::Answer(const std::string& rpc, Effect effect) {
  MutexLock lock(mutex_);
  ++calls_.count[rpc];
  std::optional<Failure> failure;
  if (std::deque<Failure>& ordered = failures_[rpc]; !ordered.empty()) {
    failure = ordered.front();
    ordered.pop_front();
  }
  if (failure && failure->when == When::kBefore) return ToGrpc(failure->code, "as the test has it");
  const grpc::Status status = effect();
  return failure ? ToGrpc(failure->code, "as the test has it") : status;
}

grpc::Status FakeCoordinatorService::SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                                               v1::SubmitJobResponse* response) {
  return Answer("SubmitJob", [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    calls_.submissions.push_back(*request);
    const std::string& name = request->spec().name();
    if (v1::Job* known = Find(name); known != nullptr && known->submission_id() != request->submission_id()) {
      return ToGrpc(absl::StatusCode::kAlreadyExists, absl::StrCat("a job named ", name, " has not ended"));
    }
    if (Find(name) == nullptr) {
      v1::Job& job = jobs_.emplace_back();
      job.mutable_status()->set_job(name);
      job.mutable_status()->set_state(v1::JOB_STATE_QUEUED);
      job.set_submission_id(request->submission_id());
      *job.mutable_spec() = request->spec();
      for (const v1::JobEvent& event : events_[name]) {
        if (event.has_status()) *job.mutable_status() = event.status();
      }
    }
    response->set_job(name);
    return grpc::Status::OK;
  });
}

grpc::Status FakeCoordinatorService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                            v1::GetJobResponse* response) {
  return Answer("GetJob", [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const v1::Job* job = Find(request->job());
    if (job == nullptr) return ToGrpc(absl::StatusCode::kNotFound, absl::StrCat("no job named ", request->job()));
    *response->mutable_job() = *job;
    return grpc::Status::OK;
  });
}

grpc::Status FakeCoordinatorService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                                              v1::ListJobsResponse* response) {
  return Answer("ListJobs", [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    *response->mutable_jobs() = {jobs_.begin(), jobs_.end()};
    return grpc::Status::OK;
  });
}

grpc::Status FakeCoordinatorService::ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                                                 v1::ListWorkersResponse* response) {
  return Answer("ListWorkers", [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    *response->mutable_workers() = {workers_.begin(), workers_.end()};
    return grpc::Status::OK;
  });
}

grpc::Status FakeCoordinatorService::Change(const std::string& rpc, const std::string& verb, const std::string& job,
                                            v1::JobState to) {
  return Answer(rpc, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    calls_.changes.push_back(absl::StrCat(verb, " ", job));
    v1::Job* known = Find(job);
    if (known == nullptr) return ToGrpc(absl::StatusCode::kNotFound, absl::StrCat("no job named ", job));
    v1::JobStatus& status = *known->mutable_status();
    const bool is_resume = to == v1::JOB_STATE_RUNNING;
    if (IsTerminal(status.state()) || (is_resume && status.state() != v1::JOB_STATE_PAUSED)) {
      return ToGrpc(absl::StatusCode::kFailedPrecondition, absl::StrCat("job ", job, " is ", EnumText(status.state())));
    }
    status.set_state(to);
    return grpc::Status::OK;
  });
}

grpc::Status FakeCoordinatorService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                               v1::CancelJobResponse*) {
  return Change("CancelJob", "cancel", request->job(), v1::JOB_STATE_CANCELLED);
}
grpc::Status FakeCoordinatorService::PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* request,
                                              v1::PauseJobResponse*) {
  return Change("PauseJob", "pause", request->job(), v1::JOB_STATE_PAUSED);
}
grpc::Status FakeCoordinatorService::ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                                               v1::ResumeJobResponse*) {
  return Change("ResumeJob", "resume", request->job(), v1::JOB_STATE_RUNNING);
}

grpc::Status FakeCoordinatorService::GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                                                v1::GetVersionResponse* response) {
  return Answer("GetVersion", [&] {
    response->set_build_version("1.2.3");
    response->set_protocol_version(2);
    return grpc::Status::OK;
  });
}

// Waits for what follows event number `next`. Nothing, and why, when the stream ends.
std::optional<v1::JobEvent> FakeCoordinatorService::NextEvent(const std::string& job, size_t next,
                                                              const grpc::ServerContext& context, grpc::Status& end) {
  MutexLock lock(mutex_);
  const std::vector<v1::JobEvent>& events = events_[job];
  while (next >= events.size()) {
    if (!events.empty() && events.back().has_status() && IsTerminal(events.back().status().state()))
      return std::nullopt;
    if (stopping_ || context.IsCancelled()) {
      end = ToGrpc(absl::StatusCode::kUnavailable, "stopping");
      return std::nullopt;
    }
    changed_.WaitUntil(mutex_, NextTurn());
  }
  if (events_before_break_ == 0) {
    events_before_break_ = -1;
    end = ToGrpc(break_code_, "as the test has it");
    return std::nullopt;
  }
  if (events_before_break_ > 0) --events_before_break_;
  return events[next];
}

grpc::Status FakeCoordinatorService::FollowJob(grpc::ServerContext* context, const v1::FollowJobRequest* request,
                                               grpc::ServerWriter<v1::JobEvent>* writer) {
  v1::JobEvent current;
  const grpc::Status begun = Answer("FollowJob", [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    calls_.follows.push_back(*request);
    const v1::Job* job = Find(request->job());
    if (job == nullptr) return ToGrpc(absl::StatusCode::kNotFound, absl::StrCat("no job named ", request->job()));
    *current.mutable_status() = job->status();
    current.set_sequence(events_[request->job()].size());
    return grpc::Status::OK;
  });
  if (!begun.ok()) return begun;
  if (request->only_new()) writer->Write(current);
  size_t next = request->only_new() ? current.sequence() : request->after_sequence();
  grpc::Status end = grpc::Status::OK;
  while (const std::optional<v1::JobEvent> event = NextEvent(request->job(), next, *context, end)) {
    writer->Write(*event);
    ++next;
  }
  return end;
}

std::optional<v1::LogRecord> FakeCoordinatorService::NextLine(const v1::FollowLogsRequest& request, size_t next,
                                                              const grpc::ServerContext& context, grpc::Status& end) {
  MutexLock lock(mutex_);
  const std::vector<v1::LogRecord>& lines = lines_[request.job()];
  while (next >= lines.size()) {
    if (!request.follow() || logs_ended_) return std::nullopt;
    if (stopping_ || context.IsCancelled()) {
      end = ToGrpc(absl::StatusCode::kUnavailable, "stopping");
      return std::nullopt;
    }
    changed_.WaitUntil(mutex_, NextTurn());
  }
  return lines[next];
}

grpc::Status FakeCoordinatorService::FollowLogs(grpc::ServerContext* context, const v1::FollowLogsRequest* request,
                                                grpc::ServerWriter<v1::LogRecord>* writer) {
  size_t next = request->after().sequence();
  const grpc::Status begun = Answer("FollowLogs", [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    calls_.log_follows.push_back(*request);
    const size_t kept = lines_[request->job()].size();
    if (request->tail() > 0) next = std::max(next, kept - std::min<size_t>(kept, request->tail()));
    const bool known = Find(request->job()) != nullptr;
    return known ? grpc::Status::OK
                 : ToGrpc(absl::StatusCode::kNotFound, absl::StrCat("no job named ", request->job()));
  });
  if (!begun.ok()) return begun;
  grpc::Status end = grpc::Status::OK;
  while (const std::optional<v1::LogRecord> line = NextLine(*request, next, *context, end)) {
    if (request->worker().empty() || request->worker() == line->worker()) writer->Write(*line);
    ++next;
  }
  return end;
}

void FakeCoordinatorService::AddTraceChunk(const v1::TraceChunk& chunk) {
  MutexLock lock(mutex_);
  trace_.push_back(chunk);
}

grpc::Status FakeCoordinatorService::ReadTrace(grpc::ServerContext*, const v1::ReadTraceRequest* request,
                                               grpc::ServerWriter<v1::TraceChunk>* writer) {
  std::vector<v1::TraceChunk> chunks;
  const grpc::Status begun = Answer("ReadTrace", [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    calls_.trace_reads.push_back(*request);
    chunks = trace_;
    const bool known = Find(request->job()) != nullptr;
    return known ? grpc::Status::OK
                 : ToGrpc(absl::StatusCode::kNotFound, absl::StrCat("no job named ", request->job()));
  });
  if (!begun.ok()) return begun;
  for (const v1::TraceChunk& chunk : chunks) writer->Write(chunk);
  return begun;
}

}  // namespace stagecoach
