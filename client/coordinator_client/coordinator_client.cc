#include "client/coordinator_client/coordinator_client.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/backoff.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(50);
constexpr int kMaxReceivedBytes = 64 << 20;  // all jobs that a coordinator knows

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  // A coordinator that restarts is back within a second: do not make it wait for gRPC's own, longer patience.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);  // also the deadline of one attempt to connect
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // So that a follower of a quiet job notices a host that is gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // http_proxy is for the web; a coordinator is dialled directly, on loopback above all.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::string RandomId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

// This client cancels no call: a server that stops does, by way of the library, which also has UNKNOWN for a connection
// that breaks in the middle of an answer.
bool HasNoAnswer(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status) ||
         absl::IsUnknown(status);
}

}  // namespace

CoordinatorClient::CoordinatorClient(Options options)
    : options_(std::move(options)),
      channel_(OpenChannel(options_.address)),
      stub_(v1::CoordinatorService::NewStub(channel_)) {}

bool CoordinatorClient::IsConnected() const { return channel_->GetState(false) == GRPC_CHANNEL_READY; }

CoordinatorClient::Outcome CoordinatorClient::Retry(const Attempt& attempt) const {
  const Clock& clock = Clock::Real();
  const absl::Duration give_up = clock.Now() + options_.retry_for;
  Backoff backoff({}, std::random_device()());
  Outcome outcome;
  for (;;) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + options_.attempt_timeout));
    if (!options_.request_id.empty()) context.AddMetadata("stagecoach-request-id", options_.request_id);
    outcome.status = FromGrpc(attempt(context));
    if (!HasNoAnswer(outcome.status)) return outcome;
    const absl::Duration left = give_up - clock.Now();
    if (left <= absl::ZeroDuration()) break;
    if (!outcome.in_doubt) options_.on_outage(outcome.status);
    outcome.in_doubt = true;
    Sleep(std::min(left, backoff.Next()));
    if (!options_.keep_on()) break;
  }
  outcome.status = options_.keep_on()
                       ? absl::UnavailableError(absl::StrCat("the coordinator at ", options_.address,
                                                             " cannot be reached: ", outcome.status.message()))
                       : absl::CancelledError("interrupted");
  return outcome;
}

void CoordinatorClient::Sleep(absl::Duration duration) const {
  const Clock& clock = Clock::Real();
  for (const absl::Duration end = clock.Now() + duration; clock.Now() < end && options_.keep_on();) {
    absl::SleepFor(std::min(kPoll, end - clock.Now()));
  }
}

// Until the call's one event; it comes after its deadline at the latest, and soon after it is cancelled.
void CoordinatorClient::WaitFor(grpc::CompletionQueue& queue, grpc::ClientContext& context) const {
  void* tag = nullptr;
  bool ok = false;
  const auto next = [&] {
    return queue.AsyncNext(&tag, &ok,
                           gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                        gpr_time_from_micros(absl::ToInt64Microseconds(kPoll), GPR_TIMESPAN)));
  };
  while (next() == grpc::CompletionQueue::TIMEOUT) {
    if (!options_.keep_on()) context.TryCancel();
  }
}

template <typename Request, typename Response>
CoordinatorClient::Outcome CoordinatorClient::Call(Method<Request, Response> method, const Request& request,
                                                   Response& response) {
  return Retry([&](grpc::ClientContext& context) {
    grpc::CompletionQueue queue;
    grpc::Status status;
    const auto reader = ((*stub_).*method)(&context, request, &queue);
    reader->Finish(&response, &status, &queue);
    WaitFor(queue, context);
    return status;
  });
}

absl::StatusOr<std::string> CoordinatorClient::SubmitJob(v1::SubmitJobRequest request) {
  if (request.submission_id().empty()) request.set_submission_id(RandomId());
  v1::SubmitJobResponse response;
  STAGECOACH_RETURN_IF_ERROR(Call(&Stub::AsyncSubmitJob, request, response).status);
  return response.job();
}

absl::StatusOr<v1::Job> CoordinatorClient::GetJob(const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  v1::GetJobResponse response;
  STAGECOACH_RETURN_IF_ERROR(Call(&Stub::AsyncGetJob, request, response).status);
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::ListJobsResponse> CoordinatorClient::ListJobs() {
  v1::ListJobsResponse response;
  STAGECOACH_RETURN_IF_ERROR(Call(&Stub::AsyncListJobs, v1::ListJobsRequest(), response).status);
  return response;
}

absl::StatusOr<v1::ListWorkersResponse> CoordinatorClient::ListWorkers() {
  v1::ListWorkersResponse response;
  STAGECOACH_RETURN_IF_ERROR(Call(&Stub::AsyncListWorkers, v1::ListWorkersRequest(), response).status);
  return response;
}

absl::StatusOr<v1::GetVersionResponse> CoordinatorClient::GetVersion() {
  v1::GetVersionResponse response;
  STAGECOACH_RETURN_IF_ERROR(Call(&Stub::AsyncGetVersion, v1::GetVersionRequest(), response).status);
  return response;
}

template <typename Request, typename Response>
absl::Status CoordinatorClient::Change(Method<Request, Response> method, const std::string& job,
                                       const std::function<bool(v1::JobState)>& is_done) {
  Request request;
  request.set_job(job);
  Response response;
  const Outcome outcome = Call(method, request, response);
  if (!outcome.in_doubt || !absl::IsFailedPrecondition(outcome.status)) return outcome.status;
  const absl::StatusOr<v1::Job> now = GetJob(job);
  return now.ok() && is_done(now->status().state()) ? absl::OkStatus() : outcome.status;
}

absl::Status CoordinatorClient::CancelJob(const std::string& job) {
  return Change(&Stub::AsyncCancelJob, job, [](v1::JobState state) {
    return state == v1::JOB_STATE_CANCELLED || state == v1::JOB_STATE_CANCELLING;
  });
}

absl::Status CoordinatorClient::PauseJob(const std::string& job) {
  return Change(&Stub::AsyncPauseJob, job, [](v1::JobState state) { return state == v1::JOB_STATE_PAUSED; });
}

absl::Status CoordinatorClient::ResumeJob(const std::string& job) {
  return Change(&Stub::AsyncResumeJob, job, [](v1::JobState state) { return state == v1::JOB_STATE_RUNNING; });
}

absl::Status CoordinatorClient::CreateCheckpoint(const std::string& job) {
  v1::CreateCheckpointRequest request;
  request.set_job(job);
  v1::CreateCheckpointResponse response;
  return Call(&Stub::AsyncCreateCheckpoint, request, response).status;
}

MessageStream<v1::JobEvent>::Prepare CoordinatorClient::FollowJob(v1::FollowJobRequest request) {
  return
      [stub = stub_.get(), request = std::move(request)](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
        return stub->PrepareAsyncFollowJob(context, request, queue);
      };
}

MessageStream<v1::LogRecord>::Prepare CoordinatorClient::FollowLogs(v1::FollowLogsRequest request) {
  return
      [stub = stub_.get(), request = std::move(request)](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
        return stub->PrepareAsyncFollowLogs(context, request, queue);
      };
}

MessageStream<v1::TraceChunk>::Prepare CoordinatorClient::ReadTrace(v1::ReadTraceRequest request) {
  return
      [stub = stub_.get(), request = std::move(request)](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
        return stub->PrepareAsyncReadTrace(context, request, queue);
      };
}

}  // namespace stagecoach
