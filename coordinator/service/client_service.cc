#include "coordinator/service/client_service.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/build_version.h"
#include "common/protocol_version.h"
#include "coordinator/service/follow_stream.h"
#include "coordinator/service/grpc_status.h"
#include "coordinator/service/trace_stream.h"
#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {
namespace {

using JobStream = FollowStream<v1::FollowJobRequest, v1::JobEvent>;
using LogStream = FollowStream<v1::FollowLogsRequest, v1::LogRecord>;

absl::Status CheckSize(const google::protobuf::Message& request, size_t max_bytes) {
  const size_t bytes = request.ByteSizeLong();
  if (bytes <= max_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the request has ", bytes, " bytes; at most ", max_bytes));
}

// Of a request that is about one job.
template <typename Request>
absl::StatusOr<JobId> JobOf(const Request& request, const ServiceOptions& options) {
  if (absl::Status status = CheckSize(request, options.max_client_message_bytes); !status.ok()) return status;
  if (request.job().empty()) return absl::InvalidArgumentError("the request names no job");
  return JobId(request.job());
}

// Puts a value into the answer's field, or says why there is none.
template <typename T>
grpc::Status Answer(absl::StatusOr<T> value, T* field) {
  if (!value.ok()) return ToGrpc(value.status());
  *field = *std::move(value);
  return grpc::Status::OK;
}

}  // namespace

grpc::Status ClientService::SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) {
  if (absl::Status status = CheckSize(*request, to_.options.max_client_message_bytes); !status.ok()) {
    return ToGrpc(status);
  }
  if (absl::Status status = CheckJobSpec(request->spec()); !status.ok()) return ToGrpc(status);
  const absl::StatusOr<JobId> job = to_.coordinator.SubmitJob(*request);
  if (job.ok()) response->set_job(job->value());
  return ToGrpc(job.status());
}

grpc::Status ClientService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                   v1::GetJobResponse* response) {
  const absl::StatusOr<JobId> job = JobOf(*request, to_.options);
  return job.ok() ? Answer(to_.coordinator.DescribeJob(*job), response->mutable_job()) : ToGrpc(job.status());
}

grpc::Status ClientService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsResponse* response) {
  return Answer(to_.coordinator.ListJobs(), response);
}

grpc::Status ClientService::ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                                        v1::ListWorkersResponse* response) {
  return Answer(to_.coordinator.ListWorkers(), response);
}

grpc::Status ClientService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse*) {
  const absl::StatusOr<JobId> job = JobOf(*request, to_.options);
  return ToGrpc(job.ok() ? to_.coordinator.CancelJob(*job) : job.status());
}

grpc::Status ClientService::PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* request, v1::PauseJobResponse*) {
  const absl::StatusOr<JobId> job = JobOf(*request, to_.options);
  return ToGrpc(job.ok() ? to_.coordinator.PauseJob(*job) : job.status());
}

grpc::Status ClientService::ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                                      v1::ResumeJobResponse*) {
  const absl::StatusOr<JobId> job = JobOf(*request, to_.options);
  return ToGrpc(job.ok() ? to_.coordinator.ResumeJob(*job) : job.status());
}

grpc::Status ClientService::CreateCheckpoint(grpc::ServerContext*, const v1::CreateCheckpointRequest* request,
                                             v1::CreateCheckpointResponse*) {
  const absl::StatusOr<JobId> job = JobOf(*request, to_.options);
  return ToGrpc(job.ok() ? to_.coordinator.CreateCheckpoint(*job) : job.status());
}

grpc::Status ClientService::GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                                       v1::GetVersionResponse* response) {
  response->set_build_version(BuildVersion());
  response->set_protocol_version(kProtocolVersion);
  response->set_coordinator_term(to_.coordinator.term().value());
  return grpc::Status::OK;
}

template <typename Stream, typename Request>
Stream* ClientService::StartStream(typename Stream::Collaborators to, grpc::CallbackServerContext& context,
                                   const Request& request) {
  const auto stream = std::make_shared<Stream>(std::move(to), context, request);
  absl::Status status = to_.streams.Add(stream);
  if (status.ok()) status = JobOf(request, to_.options).status();
  if (status.ok()) {
    stream->Begin();
  } else {
    stream->End(status);
  }
  return stream.get();
}

grpc::ServerWriteReactor<v1::JobEvent>* ClientService::FollowJob(grpc::CallbackServerContext* context,
                                                                 const v1::FollowJobRequest* request) {
  const auto follow = [&coordinator = to_.coordinator](const v1::FollowJobRequest& from, JobStream::OnMessage on_event,
                                                       JobStream::OnEnd on_end) {
    return coordinator.FollowJob(from, {.on_event = std::move(on_event), .on_end = std::move(on_end)});
  };
  const auto advance = [](const v1::JobEvent& event, v1::FollowJobRequest& rest) {
    rest.set_after_sequence(event.sequence());
    rest.set_only_new(false);
  };
  return StartStream<JobStream>({follow, advance, to_.coordinator, to_.streams, follow_thread_, to_.clock, to_.options},
                                *context, *request);
}

grpc::ServerWriteReactor<v1::LogRecord>* ClientService::FollowLogs(grpc::CallbackServerContext* context,
                                                                   const v1::FollowLogsRequest* request) {
  const auto follow = [&coordinator = to_.coordinator](const v1::FollowLogsRequest& from, LogStream::OnMessage on_line,
                                                       LogStream::OnEnd on_end) {
    return coordinator.FollowLogs(from, {.on_line = std::move(on_line), .on_end = std::move(on_end)});
  };
  const auto advance = [](const v1::LogRecord& line, v1::FollowLogsRequest& rest) {
    *rest.mutable_after() = line.token();
    rest.clear_tail();
  };
  return StartStream<LogStream>({follow, advance, to_.coordinator, to_.streams, follow_thread_, to_.clock, to_.options},
                                *context, *request);
}

grpc::ServerWriteReactor<v1::TraceChunk>* ClientService::ReadTrace(grpc::CallbackServerContext* context,
                                                                   const v1::ReadTraceRequest* request) {
  return StartStream<TraceStream>({to_.coordinator, to_.streams, follow_thread_, to_.clock, to_.options}, *context,
                                  *request);
}

}  // namespace stagecoach
