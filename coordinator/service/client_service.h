#ifndef STAGECOACH_COORDINATOR_SERVICE_CLIENT_SERVICE_H_
#define STAGECOACH_COORDINATOR_SERVICE_CLIENT_SERVICE_H_

#include "common/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/service/service_options.h"
#include "coordinator/service/stream_registry.h"
#include "coordinator/task_thread.h"
#include "stagecoach/v1/coordinator.grpc.pb.h"

namespace stagecoach {

// What clients ask: each call becomes one of the coordinator's. Semantics are documented in coordinator.proto.
// Thread-safe. Calls with one answer wait in gRPC's thread for it; streams do not.
class ClientService final
    : public v1::CoordinatorService::WithCallbackMethod_FollowJob<v1::CoordinatorService::WithCallbackMethod_FollowLogs<
          v1::CoordinatorService::WithCallbackMethod_ReadTrace<v1::CoordinatorService::Service>>> {
 public:
  // All outlive the service, and it outlives the server.
  struct Collaborators {
    Coordinator& coordinator;
    StreamRegistry& streams;
    const Clock& clock;
    const ServiceOptions& options;
  };
  explicit ClientService(const Collaborators& to) : to_(to), follow_thread_("follow") {}

  grpc::Status SubmitJob(grpc::ServerContext* context, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status ListWorkers(grpc::ServerContext* context, const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* response) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override;
  grpc::Status PauseJob(grpc::ServerContext* context, const v1::PauseJobRequest* request,
                        v1::PauseJobResponse* response) override;
  grpc::Status ResumeJob(grpc::ServerContext* context, const v1::ResumeJobRequest* request,
                         v1::ResumeJobResponse* response) override;
  grpc::Status CreateCheckpoint(grpc::ServerContext* context, const v1::CreateCheckpointRequest* request,
                                v1::CreateCheckpointResponse* response) override;
  grpc::Status GetVersion(grpc::ServerContext* context, const v1::GetVersionRequest* request,
                          v1::GetVersionResponse* response) override;
  grpc::ServerWriteReactor<v1::JobEvent>* FollowJob(grpc::CallbackServerContext* context,
                                                    const v1::FollowJobRequest* request) override;
  grpc::ServerWriteReactor<v1::LogRecord>* FollowLogs(grpc::CallbackServerContext* context,
                                                      const v1::FollowLogsRequest* request) override;
  grpc::ServerWriteReactor<v1::TraceChunk>* ReadTrace(grpc::CallbackServerContext* context,
                                                      const v1::ReadTraceRequest* request) override;

 private:
  template <typename Stream, typename Request>
  Stream* StartStream(typename Stream::Collaborators to, grpc::CallbackServerContext& context, const Request& request);

  const Collaborators to_;
  TaskThread follow_thread_;  // streams ask there, since the coordinator's answer takes a while
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_CLIENT_SERVICE_H_
