#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_COORDINATOR_CLIENT_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_COORDINATOR_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/coordinator_client/message_stream.h"
#include "grpcpp/support/async_unary_call.h"
#include "stagecoach/v1/coordinator.grpc.pb.h"

namespace stagecoach {

// What CoordinatorService answers, over one channel. Each unary call has a deadline, and is made again when the
// coordinator could not be reached or did not answer, for `retry_for` in all; then the error is UNAVAILABLE. Other
// errors are the coordinator's, as proto/stagecoach/v1/coordinator.proto has them. Thread-safe.
class CoordinatorClient {
 public:
  struct Options {
    std::string address;  // as gRPC takes it: host:port, unix:/path
    absl::Duration retry_for = absl::Seconds(10);
    absl::Duration attempt_timeout = absl::Seconds(10);
    std::string request_id = {};  // sent along, for the coordinator's log; empty: none
    // Before the first wait of a call that will be made again.
    std::function<void(const absl::Status& why)> on_outage = [](const absl::Status&) {};
    // Asked while a call waits, twenty times a second at least.
    std::function<bool()> keep_on = [] { return true; };
  };
  explicit CoordinatorClient(Options options);

  const std::string& address() const { return options_.address; }

  // The job's identity. A submission without an id gets a random one: made again, it is the same job.
  absl::StatusOr<std::string> SubmitJob(v1::SubmitJobRequest request);
  absl::StatusOr<v1::Job> GetJob(const std::string& job);
  absl::StatusOr<v1::ListJobsResponse> ListJobs();
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers();
  absl::StatusOr<v1::GetVersionResponse> GetVersion();
  // Where an attempt without an answer had its effect, the next one's FAILED_PRECONDITION is success.
  absl::Status CancelJob(const std::string& job);
  absl::Status PauseJob(const std::string& job);
  absl::Status ResumeJob(const std::string& job);
  absl::Status CreateCheckpoint(const std::string& job);

  // One call each; see ReconnectingStream.
  MessageStream<v1::JobEvent>::Prepare FollowJob(v1::FollowJobRequest request);
  MessageStream<v1::LogRecord>::Prepare FollowLogs(v1::FollowLogsRequest request);

  MessageStream<v1::TraceChunk>::Prepare ReadTrace(v1::ReadTraceRequest request);

  bool IsConnected() const;

 private:
  struct Outcome {
    absl::Status status;
    bool in_doubt = false;  // an attempt ended without the coordinator's answer
  };
  using Stub = v1::CoordinatorService::Stub;
  template <typename Request, typename Response>
  using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(grpc::ClientContext*,
                                                                                      const Request&,
                                                                                      grpc::CompletionQueue*);
  template <typename Request, typename Response>
  Outcome Call(Method<Request, Response> method, const Request& request, Response& response);
  template <typename Request, typename Response>
  absl::Status Change(Method<Request, Response> method, const std::string& job,
                      const std::function<bool(v1::JobState)>& is_done);

  using Attempt = std::function<grpc::Status(grpc::ClientContext&)>;
  Outcome Retry(const Attempt& attempt) const;
  void WaitFor(grpc::CompletionQueue& queue, grpc::ClientContext& context) const;
  void Sleep(absl::Duration duration) const;

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::CoordinatorService::Stub> stub_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_COORDINATOR_CLIENT_H_
