// Whatever workers say, and whenever, no invariant of the coordinator breaks, its journal can be replayed, and
// replaying gives the state that it had. Two workers that train, and an input that decides what happens next: the right
// answer, an answer with something merged into it, any message at all; sessions and coordinators that end; requests;
// time.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/input_reader.h"

namespace stagecoach {
namespace {

constexpr int kMaxMoves = 200;
constexpr size_t kMaxJobs = 4;
constexpr uint32_t kNumWorkers = 2;

class Game {
 public:
  Game(const uint8_t* data, size_t size) : input_(data, size) {}

  void Play() {
    for (uint32_t i = 0; i < kNumWorkers; ++i) harness_.Connect(Name(i));
    Submit();
    for (int move = 0; move < kMaxMoves && !input_.empty(); ++move) Move();
    STAGECOACH_CHECK(DurableText(Replay(harness_.journal)) == DurableText(harness_.state));
  }

 private:
  static std::string Name(uint32_t index) { return absl::StrCat("w", index); }
  std::string AnyWorker() { return Name(input_.Byte() % kNumWorkers); }

  void Move() {
    switch (input_.Byte() % 16) {
      case 0:
        return FinishTasks();
      case 1:
        return RunFor(input_.Byte());
      case 2:
      case 3:
      case 4:
        return AnswerWith(input_.Proto<v1::WorkerMessage>());
      case 5:
      case 6:
        return SayToJob(input_.Proto<v1::WorkerMessage>());
      case 7:
        return SayAsIs(input_.Proto<v1::WorkerMessage>());
      case 8:
        return Break();
      case 9:
        return Dial(input_.Proto<v1::Hello>());
      case 10:
        harness_.Connect(AnyWorker(), 1 + input_.Byte() % 4);
        return;
      case 11:
        return harness_.Pass(absl::Milliseconds(50) * input_.Byte());
      case 12:
        harness_.Restart();
        return;
      case 13:
        return Submit();
      case 14:
        return Request();
      case 15:
        return FailTask();
      default:
        return;
    }
  }

  void Submit() {
    if (harness_.state.jobs().size() >= kMaxJobs) return;
    v1::JobSpec spec = SmallSpec(absl::StrCat("job", harness_.state.jobs().size()));
    spec.mutable_resources()->set_workers(kNumWorkers);
    harness_.Submit(spec, "");
  }

  void Request() {
    const JobId job(input_.Byte() % 2 == 0 ? "job0" : input_.Bytes());
    switch (input_.Byte() % 3) {
      case 0:
        harness_.Feed(CancelRequested{2, job});
        return;
      case 1:
        harness_.Feed(PauseRequested{2, job});
        return;
      default:
        harness_.Feed(ResumeRequested{2, job});
    }
  }

  void FinishTasks() {
    if (harness_.planning.has_value()) harness_.FinishPlanning(SmallPlan(kNumWorkers, /*num_validation_samples=*/4));
    if (harness_.directory.has_value()) harness_.FinishDirectory("/checkpoints/step");
    if (harness_.manifest.has_value()) harness_.FinishManifest(absl::OkStatus());
  }

  void FailTask() {
    const absl::Status failed = absl::UnknownError("failed");
    if (harness_.planning.has_value()) harness_.FinishPlanning(failed, kReasonPlanningFailed);
    if (harness_.directory.has_value()) harness_.FinishDirectory(failed);
    if (harness_.manifest.has_value()) harness_.FinishManifest(failed);
  }

  void RunFor(int messages) {
    harness_.RunUntil([&] { return messages-- <= 0; });
  }

  // The oldest message is answered rightly but for what is merged into the answer, whose fence stays.
  void AnswerWith(const v1::WorkerMessage& change) {
    const std::string name = AnyWorker();
    if (!harness_.IsConnected(name) || harness_.inbox[name].empty()) return;
    const v1::CoordinatorMessage message = harness_.inbox[name].front();
    harness_.inbox[name].pop_front();
    std::optional<v1::WorkerMessage> answer = harness_.workers.at(name)->Answer(message);
    if (!answer.has_value()) return;
    const v1::Fence fence = answer->fence();
    answer->MergeFrom(change);
    *answer->mutable_fence() = fence;
    harness_.Say(name, *answer);
  }

  // A message that no fence keeps out.
  void SayToJob(v1::WorkerMessage message) {
    const std::string name = AnyWorker();
    if (!harness_.IsConnected(name)) return;
    const WorkerRecord& worker = harness_.worker(name);
    const JobId job = worker.job.value_or(JobId("job0"));
    *message.mutable_fence() = harness_.Fenced(name, job).fence();
    harness_.Say(name, message);
  }

  void SayAsIs(const v1::WorkerMessage& message) {
    const std::string name = AnyWorker();
    if (harness_.IsConnected(name)) harness_.Say(name, message);
  }

  void Break() {
    const std::string name = AnyWorker();
    if (harness_.IsConnected(name)) harness_.Break(name);
  }

  // A process that is there says something else about itself than it should.
  void Dial(const v1::Hello& change) {
    const std::string name = AnyWorker();
    v1::Hello hello = harness_.workers.at(name)->hello();
    hello.MergeFrom(change);
    hello.set_worker(name);
    const SessionId session(last_session_++);
    harness_.sessions[name] = session;
    harness_.inbox[name].clear();
    harness_.Feed(WorkerConnected{WorkerId(name), harness_.workers.at(name)->incarnation(), session, hello});
  }

  InputReader input_;
  DecideHarness harness_;
  uint64_t last_session_ = 1'000'000;
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
