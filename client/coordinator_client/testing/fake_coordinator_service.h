#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_TESTING_FAKE_COORDINATOR_SERVICE_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_TESTING_FAKE_COORDINATOR_SERVICE_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "grpcpp/server.h"
#include "stagecoach/v1/coordinator.grpc.pb.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {

// A coordinator for tests of the client, on a Unix socket of its own: it answers with what the test has put there,
// records what it was asked, and stops and starts again at the same address. Thread-safe.
class FakeCoordinatorService final : public v1::CoordinatorService::Service {
 public:
  FakeCoordinatorService();
  ~FakeCoordinatorService() override;

  std::string address() const { return "unix:" + directory_.Path("socket"); }
  void Start();
  void Stop();  // calls under way end with UNAVAILABLE or CANCELLED, as the library has it

  // The next call of this name ends so, once per call of Fail; `after` it had its effect or before.
  enum class When { kBefore, kAfter };
  void Fail(const std::string& rpc, absl::StatusCode code, When when = When::kBefore);

  void PutJob(const v1::Job& job);  // by its status' name; replaces
  void PutWorker(const v1::WorkerDescription& worker);
  // What FollowJob gives: events with sequences 1, 2, ... Streams end with OK when `AddEvent` has added a status of a
  // job's end, which also becomes the status of the job.
  void AddEvent(const std::string& job, v1::JobEvent event);
  void AddLine(const std::string& job, const std::string& worker, const std::string& text);
  // FollowJob ends with `code` after so many more events.
  void BreakAfter(int num_events, absl::StatusCode code);
  void EndLogs();  // streams of lines end
  // What ReadTrace gives of any job that there is, in this order.
  void AddTraceChunk(const v1::TraceChunk& chunk);

  struct Calls {
    std::vector<v1::SubmitJobRequest> submissions;
    std::vector<v1::FollowJobRequest> follows;
    std::vector<v1::FollowLogsRequest> log_follows;
    std::vector<v1::ReadTraceRequest> trace_reads;
    std::vector<std::string> changes;  // "cancel JOB", "pause JOB", "resume JOB"
    std::map<std::string, int> count;  // by RPC
  };
  Calls calls() const;

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*, v1::SubmitJobResponse*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::GetJobResponse*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsResponse*) override;
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*, v1::ListWorkersResponse*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::CancelJobResponse*) override;
  grpc::Status PauseJob(grpc::ServerContext*, const v1::PauseJobRequest*, v1::PauseJobResponse*) override;
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest*, v1::ResumeJobResponse*) override;
  grpc::Status FollowJob(grpc::ServerContext*, const v1::FollowJobRequest*, grpc::ServerWriter<v1::JobEvent>*) override;
  grpc::Status FollowLogs(grpc::ServerContext*, const v1::FollowLogsRequest*,
                          grpc::ServerWriter<v1::LogRecord>*) override;
  grpc::Status ReadTrace(grpc::ServerContext*, const v1::ReadTraceRequest*,
                         grpc::ServerWriter<v1::TraceChunk>*) override;
  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*, v1::GetVersionResponse*) override;

 private:
  struct Failure {
    absl::StatusCode code;
    When when;
  };
  // Runs `effect` unless a failure has been ordered for before it.
  template <typename Effect>
  grpc::Status Answer(const std::string& rpc, Effect effect) ABSL_LOCKS_EXCLUDED(mutex_);
  grpc::Status Change(const std::string& rpc, const std::string& verb, const std::string& job, v1::JobState to)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<v1::JobEvent> NextEvent(const std::string& job, size_t next, const grpc::ServerContext& context,
                                        grpc::Status& end) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<v1::LogRecord> NextLine(const v1::FollowLogsRequest& request, size_t next,
                                        const grpc::ServerContext& context, grpc::Status& end)
      ABSL_LOCKS_EXCLUDED(mutex_);
  v1::Job* Find(const std::string& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TemporaryDirectory directory_;
  std::unique_ptr<grpc::Server> server_;  // of the test's thread

  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = true;
  bool logs_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::deque<Failure>> failures_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::WorkerDescription> workers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<v1::JobEvent>> events_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<v1::LogRecord>> lines_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::TraceChunk> trace_ ABSL_GUARDED_BY(mutex_);
  int events_before_break_ ABSL_GUARDED_BY(mutex_) = -1;  // -1: no break
  absl::StatusCode break_code_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kUnavailable;
  uint64_t term_ ABSL_GUARDED_BY(mutex_) = 0;
  Calls calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_TESTING_FAKE_COORDINATOR_SERVICE_H_
