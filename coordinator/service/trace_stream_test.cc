#include "coordinator/service/trace_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/service/testing/service_harness.h"

namespace stagecoach {
namespace {

using testing::UnorderedElementsAre;

grpc::Status Read(ServiceHarness& service, const std::string& job, uint32_t steps,
                  std::vector<v1::TraceChunk>* chunks) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ReadTraceRequest request;
  request.set_job(job);
  request.set_steps(steps);
  const auto stream = service.client().ReadTrace(&context, request);
  for (v1::TraceChunk chunk; stream->Read(&chunk);) chunks->push_back(chunk);
  return stream->Finish();
}

grpc::StatusCode CodeOf(ServiceHarness& service, const std::string& job, uint32_t steps) {
  std::vector<v1::TraceChunk> chunks;
  const grpc::Status status = Read(service, job, steps, &chunks);
  EXPECT_TRUE(chunks.empty());
  return status.error_code();
}

// A job of four steps that has run to its end.
std::string RunJob(ServiceHarness& service) {
  const std::string job = service.Submit(service.Spec("job", 2));
  service.AddWorker("a");
  service.AddWorker("b");
  v1::FollowJobRequest request;
  request.set_job(job);
  grpc::Status end;
  service.FollowToEnd(request, end);
  EXPECT_TRUE(end.ok()) << end.error_message();
  return job;
}

TEST(TraceStreamTest, GivesTheHeaderThenWhatEveryWorkerTells) {
  ServiceHarness service;
  const std::string job = RunJob(service);
  std::vector<v1::TraceChunk> chunks;
  const grpc::Status status = Read(service, job, 3, &chunks);
  EXPECT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(chunks.size(), 3u);
  const v1::TraceHeader& header = chunks[0].header();
  EXPECT_EQ(header.job(), job);
  EXPECT_EQ(header.first_step(), 2u);
  EXPECT_EQ(header.last_step(), 4u);
  EXPECT_EQ(header.steps_size(), 3);
  EXPECT_EQ(header.members_size(), 2);
  EXPECT_THAT((std::vector<uint32_t>{chunks[1].worker().worker_rank(), chunks[2].worker().worker_rank()}),
              UnorderedElementsAre(0, 1));
  EXPECT_TRUE(chunks[1].worker().part().last());
}

TEST(TraceStreamTest, AWorkerThatHasGoneIsMissing) {
  ServiceHarness service;
  const std::string job = RunJob(service);
  service.DropWorker("a");
  ASSERT_TRUE(service.WaitForWorker("a", v1::WORKER_STATE_LOST));
  std::vector<v1::TraceChunk> chunks;
  EXPECT_TRUE(Read(service, job, 1, &chunks).ok());
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[1].missing().message(), "it is not connected");
  EXPECT_TRUE(chunks[2].has_worker());
}

TEST(TraceStreamTest, ErrorsEndItBeforeItBegins) {
  ServiceHarness service;
  EXPECT_EQ(CodeOf(service, "none", 1), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(CodeOf(service, "", 1), grpc::StatusCode::INVALID_ARGUMENT);
  const std::string job = service.Submit(service.Spec("job", 2));
  EXPECT_EQ(CodeOf(service, job, 1), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(CodeOf(service, job, 0), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(TraceStreamTest, MoreThanMayWaitForTheReaderEndsIt) {
  ServiceOptions options = ServiceHarness::DefaultOptions();
  options.trace.bytes = 4;
  ServiceHarness service(options, {.host = "127.0.0.1", .port = 0, .path = ""});
  EXPECT_EQ(CodeOf(service, RunJob(service), 1), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(TraceStreamTest, AReaderThatGoesAwayIsForgotten) {
  ServiceHarness service;
  const std::string job = RunJob(service);
  for (size_t i = 0; i < 2 * TraceReadings::kMostReadings; ++i) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ReadTraceRequest request;
    request.set_job(job);
    request.set_steps(1);
    const auto stream = service.client().ReadTrace(&context, request);
    v1::TraceChunk chunk;
    ASSERT_TRUE(stream->Read(&chunk));
    context.TryCancel();
    stream->Finish().IgnoreError();
    ASSERT_TRUE(service.WaitForStreams(2));  // the workers' sessions
  }
}

}  // namespace
}  // namespace stagecoach
