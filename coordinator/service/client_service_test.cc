#include "coordinator/service/client_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/build_version.h"
#include "common/protocol_version.h"
#include "coordinator/service/testing/service_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

constexpr uint64_t kForever = 1'000'000'000;

v1::FollowJobRequest Follow(const std::string& job, uint64_t after = 0) {
  v1::FollowJobRequest request;
  request.set_job(job);
  request.set_after_sequence(after);
  return request;
}

// Calls a method whose request names a job.
template <typename Request, typename Response, typename Method>
grpc::Status Call(ServiceHarness& service, Method method, const std::string& job, Response* response) {
  grpc::ClientContext context;
  SetDeadline(context);
  Request request;
  request.set_job(job);
  return (service.client().*method)(&context, request, response);
}

grpc::Status Cancel(ServiceHarness& service, const std::string& job) {
  v1::CancelJobResponse response;
  return Call<v1::CancelJobRequest>(service, &v1::CoordinatorService::Stub::CancelJob, job, &response);
}
grpc::Status Pause(ServiceHarness& service, const std::string& job) {
  v1::PauseJobResponse response;
  return Call<v1::PauseJobRequest>(service, &v1::CoordinatorService::Stub::PauseJob, job, &response);
}
grpc::Status Resume(ServiceHarness& service, const std::string& job) {
  v1::ResumeJobResponse response;
  return Call<v1::ResumeJobRequest>(service, &v1::CoordinatorService::Stub::ResumeJob, job, &response);
}
grpc::Status Get(ServiceHarness& service, const std::string& job, v1::Job* found) {
  v1::GetJobResponse response;
  const grpc::Status status = Call<v1::GetJobRequest>(service, &v1::CoordinatorService::Stub::GetJob, job, &response);
  *found = response.job();
  return status;
}
grpc::Status Submit(ServiceHarness& service, const v1::SubmitJobRequest& request) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::SubmitJobResponse response;
  return service.client().SubmitJob(&context, request, &response);
}

std::vector<uint64_t> Sequences(const std::vector<v1::JobEvent>& events) {
  std::vector<uint64_t> sequences;
  for (const v1::JobEvent& event : events) sequences.push_back(event.sequence());
  return sequences;
}

std::vector<uint64_t> Steps(const std::vector<v1::JobEvent>& events) {
  std::vector<uint64_t> steps;
  for (const v1::JobEvent& event : events) {
    if (event.has_step()) steps.push_back(event.step().step());
  }
  return steps;
}

std::vector<uint64_t> UpTo(uint64_t last) {
  std::vector<uint64_t> steps;
  for (uint64_t step = 1; step <= last; ++step) steps.push_back(step);
  return steps;
}

TEST(ClientServiceTest, ShowsAJobFromItsSubmissionToItsEnd) {
  ServiceHarness service;
  const std::string job = service.Submit(service.Spec("job", 2));
  EXPECT_EQ(job, "job");
  v1::Job found;
  ASSERT_TRUE(Get(service, job, &found).ok());
  EXPECT_EQ(found.status().state(), v1::JOB_STATE_QUEUED);
  service.AddWorker("a");
  service.AddWorker("b");
  grpc::Status end;
  const std::vector<v1::JobEvent> events = service.FollowToEnd(Follow(job), end);
  EXPECT_TRUE(end.ok()) << end.error_message();
  EXPECT_EQ(Steps(events), UpTo(4));
  EXPECT_EQ(events.back().status().state(), v1::JOB_STATE_SUCCEEDED);

  ASSERT_TRUE(Get(service, job, &found).ok());
  EXPECT_EQ(found.status().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(found.spec().name(), "job");
  EXPECT_FALSE(found.digest().empty());
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListJobsResponse list;
  ASSERT_TRUE(service.client().ListJobs(&context, {}, &list).ok());
  ASSERT_EQ(list.jobs_size(), 1);
  EXPECT_EQ(list.jobs(0).status().job(), "job");
}

TEST(ClientServiceTest, CallsAreCounted) {
  const auto metrics = *MetricRegistry::Create(MetricSource::kCoordinator);
  ServiceOptions options = ServiceHarness::DefaultOptions();
  options.metrics = metrics.get();
  ServiceHarness service(options, {.host = "127.0.0.1", .port = 0, .path = ""});
  EXPECT_EQ(Submit(service, {}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  service.AddWorker("a");
  const std::string job = service.Submit(service.Spec("job", 1));
  grpc::Status end;
  service.FollowToEnd(Follow(job), end);
  v1::Job found;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Get(service, job, &found).ok());
  EXPECT_EQ(Get(service, "nobody", &found).error_code(), grpc::StatusCode::NOT_FOUND);
  const auto handled = [&](const char* method, const char* code) {
    return metrics->Counter("stagecoach_rpc_handled_total", {method, code}).Value();
  };
  EXPECT_EQ(handled("GetJob", "ok"), 2);
  EXPECT_EQ(handled("GetJob", "not_found"), 1);
  EXPECT_EQ(handled("SubmitJob", "ok"), 1);
  EXPECT_EQ(handled("SubmitJob", "invalid_argument"), 1);
  EXPECT_EQ(handled("FollowJob", "ok"), 1);
  EXPECT_EQ(metrics->Counter("stagecoach_jobs_submitted_total", {"rejected"}).Value(), 1);
  EXPECT_THAT(metrics->Text(), HasSubstr("stagecoach_rpc_duration_seconds_count{method=\"GetJob\"} 3\n"));
  EXPECT_THAT(metrics->Text(), testing::Not(HasSubstr("Session")));
  EXPECT_THAT(metrics->Text(), testing::Not(HasSubstr("duration_seconds_count{method=\"FollowJob\"}")));
}

TEST(ClientServiceTest, NamesVersionAndTerm) {
  ServiceHarness service;
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetVersionResponse version;
  ASSERT_TRUE(service.client().GetVersion(&context, {}, &version).ok());
  EXPECT_EQ(version.build_version(), BuildVersion());
  EXPECT_EQ(version.protocol_version(), kProtocolVersion);
  EXPECT_EQ(version.coordinator_term(), 1u);
}

TEST(ClientServiceTest, CodesOfARequestAboutNoJob) {
  ServiceHarness service;
  v1::Job job;
  for (const std::string name : {"", "nobody"}) {
    const auto code = name.empty() ? grpc::StatusCode::INVALID_ARGUMENT : grpc::StatusCode::NOT_FOUND;
    EXPECT_EQ(Get(service, name, &job).error_code(), code);
    EXPECT_EQ(Cancel(service, name).error_code(), code);
    EXPECT_EQ(Pause(service, name).error_code(), code);
    EXPECT_EQ(Resume(service, name).error_code(), code);
    grpc::Status end;
    EXPECT_TRUE(service.FollowToEnd(Follow(name), end).empty());
    EXPECT_EQ(end.error_code(), code);
    v1::FollowLogsRequest request;
    request.set_job(name);
    grpc::ClientContext context;
    SetDeadline(context);
    v1::LogRecord record;
    const auto logs = service.client().FollowLogs(&context, request);
    EXPECT_FALSE(logs->Read(&record));
    EXPECT_EQ(logs->Finish().error_code(), code);
  }
}

TEST(ClientServiceTest, CodesOfASubmission) {
  ServiceHarness service;
  EXPECT_EQ(Submit(service, {}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::SubmitJobRequest request;
  *request.mutable_spec() = service.Spec("job", 1);
  request.mutable_spec()->mutable_training()->set_global_batch_size(7);  // of micro-batches of two
  const grpc::Status bad_spec = Submit(service, request);
  EXPECT_EQ(bad_spec.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(bad_spec.error_message(), HasSubstr("training.global_batch_size"));
  request.mutable_spec()->mutable_training()->set_global_batch_size(8);
  request.set_submission_id("one");
  EXPECT_TRUE(Submit(service, request).ok());
  EXPECT_TRUE(Submit(service, request).ok());  // the same job
  request.mutable_spec()->mutable_training()->set_steps(5);
  EXPECT_EQ(Submit(service, request).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  request.set_submission_id("two");
  EXPECT_EQ(Submit(service, request).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  request.mutable_spec()->set_name(std::string(5 << 20, 'x'));
  const grpc::Status too_large = Submit(service, request);
  EXPECT_EQ(too_large.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(too_large.error_message(), HasSubstr("at most 4194304"));
}

TEST(ClientServiceTest, CodesOfChangesThatCannotBeMade) {
  ServiceHarness service;
  const std::string job = service.Submit(service.Spec("job", 1));
  EXPECT_EQ(Resume(service, job).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Cancel(service, job).ok());
  EXPECT_EQ(Cancel(service, job).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Pause(service, job).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(ClientServiceTest, ALongMessageOfAnErrorStillArrives) {
  ServiceHarness service;
  v1::Job job;
  const grpc::Status status = Get(service, std::string(100'000, '\n'), &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_LT(status.error_message().size(), 3000u);
}

TEST(ClientServiceTest, PausesAndResumesAJob) {
  ServiceHarness service;
  const std::string job = service.Submit(service.Spec("job", 1, kForever));
  service.AddWorker("w");
  grpc::ClientContext context;
  SetDeadline(context);
  const auto stream = service.client().FollowJob(&context, Follow(job));
  v1::JobEvent event;
  while (!event.has_step()) ASSERT_TRUE(stream->Read(&event));
  EXPECT_TRUE(Pause(service, job).ok());
  while (event.status().state() != v1::JOB_STATE_PAUSED) ASSERT_TRUE(stream->Read(&event));
  EXPECT_TRUE(Resume(service, job).ok());
  while (!event.has_step()) ASSERT_TRUE(stream->Read(&event));
  EXPECT_TRUE(Cancel(service, job).ok());
  while (stream->Read(&event)) {
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(event.status().state(), v1::JOB_STATE_CANCELLED);
}

TEST(ClientServiceTest, ATokenResumesBehindItsEvent) {
  ServiceHarness service;
  const std::string job = service.Submit(service.Spec("job", 1));
  service.AddWorker("w");
  grpc::Status end;
  const std::vector<v1::JobEvent> all = service.FollowToEnd(Follow(job), end);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<v1::JobEvent> rest = service.FollowToEnd(Follow(job, all[i].sequence()), end);
    EXPECT_TRUE(end.ok());
    ASSERT_EQ(rest.size(), all.size() - i - 1);
    if (rest.empty()) continue;
    EXPECT_EQ(rest.front().SerializeAsString(), all[i + 1].SerializeAsString());
  }
}

TEST(ClientServiceTest, ASlowReaderSeesEveryEventOnce) {
  ServiceOptions options = ServiceHarness::DefaultOptions();
  options.follower.messages = 2;
  ServiceHarness service(options, {.host = "127.0.0.1", .port = 0, .path = ""});
  const std::string job = service.Submit(service.Spec("job", 1, 2000));
  service.AddWorker("w");
  grpc::Status end;
  const std::vector<v1::JobEvent> live = service.FollowToEnd(Follow(job), end);
  EXPECT_TRUE(end.ok()) << end.error_message();
  EXPECT_EQ(Steps(live), UpTo(2000));
  const std::vector<v1::JobEvent> later = service.FollowToEnd(Follow(job), end);
  EXPECT_TRUE(end.ok()) << end.error_message();
  EXPECT_EQ(Sequences(later), Sequences(live));
}

TEST(ClientServiceTest, AReaderThatNeverReadsIsEndedAndDelaysNobody) {
  ServiceOptions options = ServiceHarness::DefaultOptions();
  options.follower.messages = 16;
  ServiceHarness service(options, {.host = "127.0.0.1", .port = 0, .path = ""});
  const std::string job = service.Submit(service.Spec("job", 1, 3000));
  const auto deaf = v1::CoordinatorService::NewStub(service.Dial());
  grpc::ClientContext context;
  SetDeadline(context);
  const auto stream = deaf->FollowJob(&context, Follow(job));
  service.AddWorker("w");
  grpc::Status end;
  EXPECT_EQ(Steps(service.FollowToEnd(Follow(job), end)), UpTo(3000));
  EXPECT_TRUE(end.ok()) << end.error_message();

  service.DropWorker("w");
  service.clock.Advance(absl::Seconds(11));
  EXPECT_TRUE(service.WaitForStreams(0));
  std::vector<v1::JobEvent> events;
  for (v1::JobEvent event; stream->Read(&event);) events.push_back(event);
  EXPECT_LT(Steps(events).size(), 3000u);
  EXPECT_FALSE(stream->Finish().ok());
}

TEST(ClientServiceTest, AReaderMayLeave) {
  ServiceHarness service;
  const std::string job = service.Submit(service.Spec("job", 1));
  {
    grpc::ClientContext context;
    const auto stream = service.client().FollowJob(&context, Follow(job));
    v1::JobEvent event;
    ASSERT_TRUE(stream->Read(&event));
    context.TryCancel();
    while (stream->Read(&event)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  service.AddWorker("w");
  grpc::Status end;
  EXPECT_EQ(Steps(service.FollowToEnd(Follow(job), end)), UpTo(4));
}

TEST(ClientServiceTest, OnlyNewStartsWithTheCurrentStatus) {
  ServiceHarness service;
  const std::string job = service.Submit(service.Spec("job", 1));
  service.AddWorker("w");
  grpc::Status end;
  service.FollowToEnd(Follow(job), end);
  v1::FollowJobRequest request = Follow(job);
  request.set_only_new(true);
  const std::vector<v1::JobEvent> events = service.FollowToEnd(request, end);
  EXPECT_TRUE(end.ok());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].status().state(), v1::JOB_STATE_SUCCEEDED);
}

TEST(ClientServiceTest, ShowsTheLogLinesOfAJob) {
  ServiceOptions options = ServiceHarness::DefaultOptions();
  options.follower.messages = 2;  // all is read in portions
  ServiceHarness service(options, {.host = "127.0.0.1", .port = 0, .path = ""});
  const std::string job = service.Submit(service.Spec("job", 1, kForever));
  GrpcWorker& worker = service.AddWorker("w");
  grpc::ClientContext context;
  SetDeadline(context);
  const auto events = service.client().FollowJob(&context, Follow(job));
  v1::JobEvent event;
  while (!event.has_step()) ASSERT_TRUE(events->Read(&event));
  v1::WorkerMessage message;
  message.mutable_fence()->set_job(job);
  message.mutable_fence()->set_epoch(1);
  message.mutable_fence()->set_incarnation(1);
  message.mutable_fence()->set_coordinator_term(1);
  for (int i = 0; i < 20; ++i) message.mutable_log_lines()->add_lines()->set_text(std::to_string(i));
  ASSERT_TRUE(worker.Say(message));
  ASSERT_TRUE(Cancel(service, job).ok());
  while (events->Read(&event)) {
  }

  v1::FollowLogsRequest request;
  request.set_job(job);
  request.set_follow(true);
  grpc::ClientContext log_context;
  SetDeadline(log_context);
  const auto logs = service.client().FollowLogs(&log_context, request);
  std::vector<std::string> texts;
  for (v1::LogRecord record; logs->Read(&record);) texts.push_back(record.worker() + record.line().text());
  EXPECT_TRUE(logs->Finish().ok());
  ASSERT_EQ(texts.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(texts[static_cast<size_t>(i)], "w" + std::to_string(i));
}

}  // namespace
}  // namespace stagecoach
