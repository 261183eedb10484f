#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/trace/collected_trace.h"

namespace stagecoach {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kPrecision = 1e-12;

v1::InstructionTrace Instruction(v1::ActionKind kind, uint32_t stage, uint64_t begin, uint64_t wait, uint64_t work) {
  v1::InstructionTrace instruction;
  instruction.mutable_action()->set_kind(kind);
  instruction.mutable_action()->set_stage(stage);
  instruction.mutable_action()->set_micro_batch(3);
  instruction.set_begin(begin);
  instruction.set_wait(wait);
  instruction.set_work(work);
  return instruction;
}

// 10 to 20 waits, 20 to 50 is F3, then waits for transfers until 60, and ends at 70.
v1::StepTrace RunOf(uint64_t step, uint32_t stage, int64_t begin) {
  v1::StepTrace run;
  run.set_step(step);
  run.set_epoch(1);
  run.set_begin(begin);
  *run.add_instructions() = Instruction(v1::ACTION_KIND_FORWARD, stage, 10, 10, 30);
  run.set_last_wait_end(60);
  run.set_end(70);
  return run;
}

class BuildTraceTest : public testing::Test {
 protected:
  BuildTraceTest() {
    collected_.header.set_job("tiny");
    collected_.header.set_first_step(4);
    collected_.header.set_last_step(5);
    AddWorker("a", {0});
    AddWorker("b", {1});
  }
  void AddWorker(const std::string& name, const std::vector<uint32_t>& stages) {
    v1::TraceMember& member = *collected_.header.add_members();
    member.set_worker(name);
    for (const uint32_t stage : stages) member.add_stages(stage);
    CollectedTrace::Worker& worker = collected_.workers.emplace_back();
    worker.kept_job = "tiny";
    worker.most_steps = 32;
    SetClock(collected_.workers.size() - 1, 0);
  }
  void SetClock(size_t rank, int64_t offset) {
    v1::ClockOffset& clock = collected_.workers[rank].clock.emplace();
    clock.set_offset_nanoseconds(offset);
    clock.set_error_nanoseconds(2000);
  }
  void AddWindow(uint64_t step, int64_t begin, int64_t end) {
    v1::StepWindow& window = *collected_.header.add_steps();
    window.set_step(step);
    window.set_begin(begin);
    window.set_end(end);
  }
  void AddRun(size_t rank, v1::StepTrace run) { collected_.workers[rank].runs.push_back(std::move(run)); }
  PipelineTrace Build(uint64_t asked = 2) const { return BuildTrace(collected_, asked); }

  static std::vector<std::string> Names(const PipelineTrace& trace, uint32_t stage) {
    std::vector<std::string> names;
    for (const TraceSpan& span : trace.spans) {
      if (span.stage == stage) names.push_back(span.name);
    }
    return names;
  }
  static const TraceSpan& Find(const PipelineTrace& trace, const std::string& name) {
    for (const TraceSpan& span : trace.spans) {
      if (span.name == name) return span;
    }
    ADD_FAILURE() << "no span " << name;
    return trace.spans.front();
  }

  CollectedTrace collected_;
};

TEST_F(BuildTraceTest, ARunIsSpansFromItsBeginToItsEnd) {
  AddRun(0, RunOf(4, 0, 1000));
  const PipelineTrace trace = Build();
  EXPECT_EQ(trace.name, "tiny");
  EXPECT_THAT(Names(trace, 0), ElementsAre("begin", "wait 0F3", "0F3", "wait end", "end"));
  double last = 0;
  for (const TraceSpan& span : trace.spans) {
    EXPECT_NEAR(span.begin, last, kPrecision);
    EXPECT_EQ(span.step, 4u);
    last = span.end;
  }
  EXPECT_NEAR(last, 70e-9, kPrecision);
  EXPECT_EQ(Find(trace, "0F3").kind, SpanKind::kForward);
  EXPECT_EQ(Find(trace, "0F3").micro_batch, 3u);
  EXPECT_EQ(Find(trace, "wait 0F3").kind, SpanKind::kWait);
  EXPECT_EQ(Find(trace, "wait end").kind, SpanKind::kWait);
  EXPECT_EQ(Find(trace, "begin").kind, SpanKind::kOther);
}

TEST_F(BuildTraceTest, EachKindOfActionHasItsOwn) {
  v1::StepTrace run = RunOf(4, 0, 0);
  uint64_t begin = 50;
  for (const v1::ActionKind kind :
       {v1::ACTION_KIND_BACKWARD_INPUT, v1::ACTION_KIND_BACKWARD_WEIGHT, v1::ACTION_KIND_LOAD,
        v1::ACTION_KIND_SEND_FORWARD, v1::ACTION_KIND_GRADIENT_NORM}) {
    *run.add_instructions() = Instruction(kind, 0, begin++, 0, 1);
  }
  AddRun(0, run);
  const PipelineTrace trace = Build();
  EXPECT_EQ(Find(trace, "0I3").kind, SpanKind::kBackwardInput);
  EXPECT_EQ(Find(trace, "0W3").kind, SpanKind::kBackwardWeight);
  EXPECT_EQ(Find(trace, "0LOAD3").kind, SpanKind::kLoad);
  EXPECT_EQ(Find(trace, "0SEND_F3").kind, SpanKind::kOther);
  EXPECT_EQ(Find(trace, "0NORM").micro_batch, std::nullopt);
}

TEST_F(BuildTraceTest, WorkersClocksAreAligned) {
  AddRun(0, RunOf(4, 0, 1'000'000));
  AddRun(1, RunOf(4, 1, 5));
  SetClock(1, 1'000'035);  // it began 40 ns later
  const PipelineTrace trace = Build();
  EXPECT_NEAR(Find(trace, "1F3").begin - Find(trace, "0F3").begin, 40e-9, kPrecision);
  EXPECT_THAT(trace.stages[1].clock_error, testing::Optional(DoubleNear(2e-6, kPrecision)));
}

TEST_F(BuildTraceTest, StepsAreAsTheCoordinatorMeasuredThem) {
  AddRun(0, RunOf(4, 0, 1000));
  AddRun(0, RunOf(5, 0, 2000));
  AddWindow(4, 900, 1100);
  AddWindow(7, 1, 2);  // of which nothing is known
  const PipelineTrace trace = Build();
  ASSERT_EQ(trace.steps.size(), 2u);
  EXPECT_EQ(trace.steps[0].step, 4u);
  EXPECT_NEAR(trace.steps[0].begin, 0, kPrecision);  // the first thing that happened
  EXPECT_NEAR(trace.steps[0].end, 200e-9, kPrecision);
  // A coordinator that has started again since has not measured it.
  EXPECT_NEAR(trace.steps[1].begin, 1100e-9, kPrecision);
  EXPECT_NEAR(trace.steps[1].end, 1170e-9, kPrecision);
}

TEST_F(BuildTraceTest, AStepBeginsWithTheUpdateOfTheOneBefore) {
  v1::StepTrace run = RunOf(4, 0, 1000);
  run.set_update_begin(900);
  run.set_update_end(950);
  AddRun(0, run);
  const PipelineTrace trace = Build();
  EXPECT_EQ(Find(trace, "update").kind, SpanKind::kUpdate);
  EXPECT_NEAR(Find(trace, "update").end, 50e-9, kPrecision);
  EXPECT_NEAR(Find(trace, "0F3").begin, 120e-9, kPrecision);
}

TEST_F(BuildTraceTest, TransfersHaveBothEnds) {
  v1::StepTrace sender = RunOf(4, 0, 1000), receiver = RunOf(4, 1, 1000);
  v1::TransferTrace transfer;
  transfer.set_kind(v1::CHANNEL_KIND_ACTIVATION);
  transfer.set_to_stage(1);
  transfer.set_micro_batch(3);
  transfer.set_bytes(64);
  transfer.set_sent(true);
  transfer.set_post(50);
  transfer.set_duration(5);
  transfer.set_complete(true);
  *sender.add_transfers() = transfer;
  transfer.set_sent(false);
  transfer.set_post(1);
  transfer.set_complete(false);
  *receiver.add_transfers() = transfer;
  AddRun(0, sender);
  AddRun(1, receiver);
  const PipelineTrace trace = Build();
  ASSERT_EQ(trace.transfers.size(), 2u);
  EXPECT_EQ(trace.transfers[0].name, "0SEND_F3");
  EXPECT_EQ(trace.transfers[0].peer_stage, 1u);
  EXPECT_EQ(trace.transfers[0].bytes, 64u);
  EXPECT_NEAR(trace.transfers[0].end - trace.transfers[0].begin, 5e-9, kPrecision);
  EXPECT_EQ(trace.transfers[1].name, "1RECV_F3");
  EXPECT_EQ(trace.transfers[1].stage, 1u);
  EXPECT_FALSE(trace.transfers[1].complete);
  EXPECT_NEAR(trace.transfers[1].end, 70e-9, kPrecision);  // where the run ended
}

TEST_F(BuildTraceTest, TransfersOfSkipEdgesAreOfAKindOfTheirOwn) {
  v1::StepTrace sender = RunOf(4, 0, 1000);
  for (const bool is_gradient : {false, true}) {
    v1::TransferTrace& transfer = *sender.add_transfers();
    transfer.set_kind(is_gradient ? v1::CHANNEL_KIND_SKIP_GRADIENT : v1::CHANNEL_KIND_SKIP);
    (is_gradient ? transfer.set_from_stage(1) : transfer.set_to_stage(1));
    transfer.set_micro_batch(3);
    transfer.set_sent(!is_gradient);
  }
  AddRun(0, sender);
  const PipelineTrace trace = Build();
  ASSERT_EQ(trace.transfers.size(), 2u);
  EXPECT_EQ(trace.transfers[0].kind, TraceTransfer::Kind::kSkip);
  EXPECT_EQ(trace.transfers[0].name, "0SEND_F3");
  EXPECT_EQ(trace.transfers[1].kind, TraceTransfer::Kind::kSkipGradient);
  EXPECT_EQ(trace.transfers[1].name, "0RECV_B3");
  EXPECT_EQ(trace.transfers[1].peer_stage, 1u);
}

TEST_F(BuildTraceTest, AStepThatWasRunAgainIsShownAsItWentTheLastTime) {
  v1::StepTrace failed = RunOf(5, 0, 1000), whole = RunOf(5, 0, 2000), later = RunOf(6, 0, 3000);
  failed.set_failed(true);
  later.set_failed(true);
  AddRun(0, failed);
  AddRun(0, whole);
  AddRun(0, later);
  const PipelineTrace trace = Build();
  ASSERT_EQ(trace.steps.size(), 2u);
  EXPECT_NEAR(Find(trace, "0F3").begin, 20e-9, kPrecision);
  EXPECT_THAT(Names(trace, 0), testing::Contains("cut off").Times(1));  // of step 6, which was not committed
}

TEST_F(BuildTraceTest, StagesOfOneWorkerShareIt) {
  AddWorker("c", {2, 4});
  AddWorker("d", {3});
  v1::StepTrace run = RunOf(4, 4, 1000);
  AddRun(2, run);
  const PipelineTrace trace = Build();
  ASSERT_EQ(trace.stages.size(), 5u);
  EXPECT_EQ(trace.stages[4].worker, 2u);
  EXPECT_EQ(trace.stages[2].worker, 2u);
  EXPECT_THAT(Names(trace, 4), ElementsAre("wait 4F3", "4F3"));
  EXPECT_THAT(Names(trace, 2), ElementsAre("begin", "wait end", "end"));
}

TEST_F(BuildTraceTest, NotesSayWhatIsMissing) {
  AddRun(0, RunOf(4, 0, 1000));
  AddRun(0, RunOf(5, 0, 2000));
  collected_.workers[1].missing = "it has not answered in time";
  const PipelineTrace trace = Build();
  EXPECT_EQ(trace.stages[1].missing, "it has not answered in time");
  EXPECT_THAT(trace.notes, ElementsAre("no trace of worker b (stage 1): it has not answered in time"));
}

TEST_F(BuildTraceTest, AWorkerThatHasAnotherJobSaysSo) {
  AddRun(0, RunOf(4, 0, 1000));
  collected_.workers[1].kept_job = "other";
  EXPECT_EQ(Build().stages[1].missing, "it has taken job other since");
  collected_.workers[1].kept_job = "tiny";
  EXPECT_EQ(Build().stages[1].missing, "it does not keep these steps any more");
}

TEST_F(BuildTraceTest, NotesSayThatThereAreFewerSteps) {
  for (const size_t rank : {0U, 1U}) AddRun(rank, RunOf(5, static_cast<uint32_t>(rank), 1000));
  const std::string fewer = "of 2 steps there are 1: a worker keeps the last 32 at most";
  EXPECT_THAT(Build(2).notes, ElementsAre(fewer));
  EXPECT_THAT(Build(9).notes, ElementsAre("asked for 9 steps; the job has completed 2", fewer));
  for (const size_t rank : {0U, 1U}) AddRun(rank, RunOf(4, static_cast<uint32_t>(rank), 500));
  EXPECT_THAT(Build(2).notes, IsEmpty());
}

TEST_F(BuildTraceTest, NotesSayThatInstructionsWereLost) {
  v1::StepTrace run = RunOf(4, 0, 1000);
  run.set_num_lost(12);
  AddRun(0, run);
  AddRun(0, RunOf(5, 0, 2000));
  AddRun(1, RunOf(4, 1, 1000));
  const PipelineTrace trace = Build();
  EXPECT_THAT(trace.notes, ElementsAre(HasSubstr("12 instructions are not there")));
  EXPECT_EQ(Names(trace, 0).front(), "wait 0F3");
}

TEST_F(BuildTraceTest, NamesCannotSteerATerminal) {
  collected_.header.mutable_members(0)->set_worker("a\x1b[2J");
  EXPECT_EQ(Build().stages[0].worker_name, "a?[2J");
}

TEST_F(BuildTraceTest, WithoutRunsThereAreNoSpans) {
  EXPECT_THAT(Build().spans, IsEmpty());
  EXPECT_THAT(Build().steps, IsEmpty());
}

}  // namespace
}  // namespace stagecoach
