// Whatever comes over the wire, in whatever order, no invariant of a coordinator breaks: requests of clients through
// the adapter that checks them, sessions of workers with any Hello and any message, followers that leave at any time.
// With the coordinator's own threads, so that an input does not always take the same way.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/clock.h"
#include "coordinator/journal/memory_store.h"
#include "coordinator/plan/planner.h"
#include "coordinator/service/client_service.h"
#include "coordinator/spec/job_spec_parser.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/input_reader.h"
#include "tests/testing/fault_file_system.h"

namespace stagecoach {
namespace {

constexpr int kMaxMoves = 50;

v1::JobSpec GoodSpec() {
  std::vector<SpecError> errors;
  const auto spec = ParseJobSpec(
      "{version: 1, name: job, model: {architecture: gpt2, config: {num_hidden_layers: 2, hidden_size: 8, "
      "num_attention_heads: 1, vocab_size: 256, max_position_embeddings: 8}}, data: {train: [{path: /text}]}, "
      "training: {seq_len: 8, global_batch_size: 4, micro_batch_size: 1, steps: 4}, optimizer: {name: adamw, lr: 0.1}, "
      "checkpoint: {dir: /checkpoints}}",
      {}, errors);
  STAGECOACH_CHECK(spec.ok());
  return *spec;
}

class Game {
 public:
  Game(const uint8_t* data, size_t size) : input_(data, size) {
    // There are no files: an input must not read or write those of this machine.
    for (const FileOperation operation :
         {FileOperation::kOpen, FileOperation::kCreate, FileOperation::kCreateDirectories, FileOperation::kList,
          FileOperation::kGlob, FileOperation::kResolve, FileOperation::kRemove, FileOperation::kRename}) {
      files_.Add({.operation = operation, .path_part = "", .after = 0, .status = absl::NotFoundError("no files")});
    }
    auto coordinator = Coordinator::Create(
        {.store = store_, .clock = Clock::Real(), .files = files_, .planner = PlanJob, .fleet = {}, .on_halt = {}});
    STAGECOACH_CHECK(coordinator.ok());
    coordinator_ = *std::move(coordinator);
    clients_ =
        std::make_unique<ClientService>(ClientService::Collaborators{*coordinator_, streams_, Clock::Real(), options_});
  }

  void Play() {
    for (int move = 0; move < kMaxMoves && !input_.empty(); ++move) Move();
    STAGECOACH_CHECK(coordinator_->ListJobs().ok());  // it has heard everything
    coordinator_->Stop();
  }

 private:
  void Move() {
    switch (input_.Byte() % 12) {
      case 0:
        return Submit();
      case 1:
        return Call<v1::GetJobRequest, v1::GetJobResponse>(&ClientService::GetJob);
      case 2:
        return Call<v1::ListJobsRequest, v1::ListJobsResponse>(&ClientService::ListJobs);
      case 3:
        return Call<v1::ListWorkersRequest, v1::ListWorkersResponse>(&ClientService::ListWorkers);
      case 4:
        return Call<v1::CancelJobRequest, v1::CancelJobResponse>(&ClientService::CancelJob);
      case 5:
        return Call<v1::PauseJobRequest, v1::PauseJobResponse>(&ClientService::PauseJob);
      case 6:
        return Call<v1::ResumeJobRequest, v1::ResumeJobResponse>(&ClientService::ResumeJob);
      case 7:
        return FollowJob();
      case 8:
        return FollowLogs();
      case 9:
        return Connect();
      case 10:
        coordinator_->Deliver(AnySession(), input_.Proto<v1::WorkerMessage>()).IgnoreError();
        return;
      default:
        coordinator_->EndSession(AnySession(), absl::UnavailableError("ended")).IgnoreError();
    }
  }

  // The adapters look at nothing of a call but its request.
  template <typename Request, typename Response>
  void Call(grpc::Status (ClientService::*method)(grpc::ServerContext*, const Request*, Response*)) {
    const Request request = input_.Proto<Request>();
    Response response;
    (clients_.get()->*method)(nullptr, &request, &response);
  }

  // A good specification, with something merged into it.
  void Submit() {
    static const v1::JobSpec good = GoodSpec();
    v1::SubmitJobRequest request;
    *request.mutable_spec() = good;
    request.MergeFrom(input_.Proto<v1::SubmitJobRequest>());
    v1::SubmitJobResponse response;
    clients_->SubmitJob(nullptr, &request, &response);
  }

  // Leaves after so many events.
  void FollowJob() {
    const auto request = input_.Proto<v1::FollowJobRequest>();
    const auto follower =
        coordinator_->FollowJob(request, {.on_event =
                                              [left = int{input_.Byte()}](const v1::JobEvent&) mutable {
                                                return left-- > 0 ? absl::OkStatus() : absl::UnavailableError("left");
                                              },
                                          .on_end = [](const absl::Status&) {}});
    if (follower.ok() && input_.Byte() % 2 == 0) coordinator_->Unfollow(*follower);
  }
  void FollowLogs() {
    const auto request = input_.Proto<v1::FollowLogsRequest>();
    const auto follower =
        coordinator_->FollowLogs(request, {.on_line =
                                               [left = int{input_.Byte()}](const v1::LogRecord&) mutable {
                                                 return left-- > 0 ? absl::OkStatus() : absl::UnavailableError("left");
                                               },
                                           .on_end = [](const absl::Status&) {}});
    if (follower.ok() && input_.Byte() % 2 == 0) coordinator_->Unfollow(*follower);
  }

  void Connect() {
    const auto hello = input_.Proto<v1::Hello>();
    const bool takes_messages = input_.Byte() % 4 != 0;
    const auto session =
        coordinator_->ConnectWorker(hello, Incarnation(input_.Byte()),
                                    {.send =
                                         [takes_messages](const v1::CoordinatorMessage&) {
                                           return takes_messages ? absl::OkStatus() : absl::UnavailableError("gone");
                                         },
                                     .end = [](const absl::Status&) {}});
    if (session.ok()) sessions_.push_back(*session);
  }
  SessionId AnySession() {
    const size_t index = input_.Byte();
    return sessions_.empty() ? SessionId(index) : sessions_[index % sessions_.size()];
  }

  InputReader input_;
  MemoryStore store_;
  FaultFileSystem files_;
  const ServiceOptions options_;
  StreamRegistry streams_{16, absl::Seconds(60)};
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ClientService> clients_;
  std::vector<SessionId> sessions_;
};

}  // namespace
}  // namespace stagecoach

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // most inputs are not UTF-8
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stagecoach::Game(data, size).Play();
  return 0;
}
