#include "worker/executor/program_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/named_thread.h"
#include "tests/testing/worker/executor_harness.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Texts(const FakeStage& stage) {
  std::vector<std::string> texts;
  for (const FakeStage::Call& call : stage.calls) texts.push_back(call.text);
  return texts;
}

TEST(ProgramExecutorTest, RunsAPipelineAndReportsLossAndNorms) {
  PipelineShape shape{.num_stages = 3, .num_micro_batches = 3};
  ExecutorHarness harness(shape);
  const std::vector<absl::StatusOr<const RunReport*>> reports = harness.RunAll(harness.Order(1, 10, {2, 2, 2}));
  for (const auto& report : reports) ASSERT_TRUE(report.ok()) << report.status();
  for (uint32_t s = 0; s < 3; ++s) {
    EXPECT_THAT(Texts(*harness.worker(s).stage), ElementsAre("F0", "F1", "F2", "I0", "W0", "I1", "W1", "I2", "W2"));
  }
  // Micro-batch m holds samples 10 + 2m and 11 + 2m; two stages add 1 to each of 4 x 2 elements, the labels are 1000 +
  // s.
  const std::vector<RunReport::LossPart>& loss = (*reports[2])->loss_parts;
  ASSERT_EQ(loss.size(), 3u);
  for (uint32_t m = 0; m < 3; ++m) {
    const double first = 10 + 2 * m, second = first + 1;
    EXPECT_EQ(loss[m].micro_batch.value(), m);
    EXPECT_DOUBLE_EQ(loss[m].value, (8 * (first + second + 4) + 4 * (2000 + first + second)) / 3);
  }
  EXPECT_TRUE((*reports[0])->loss_parts.empty());
  ASSERT_EQ((*reports[1])->squared_norms.size(), 1u);
  EXPECT_EQ((*reports[1])->squared_norms[0].name, "w1");
  EXPECT_NEAR((*reports[1])->squared_norms[0].squared_norm, 4.0, 1e-6);  // 3 x loss weight 1/3 in 4 elements
  EXPECT_EQ((*reports[1])->num_non_finite, 0u);
}

TEST(ProgramExecutorTest, TellsWhatWentOverEachEndOfAChannel) {
  PipelineShape shape{.num_stages = 2, .num_micro_batches = 3};
  ExecutorHarness harness(shape);
  for (uint64_t step = 1; step <= 2; ++step) {  // each report is of its run alone
    const auto reports = harness.RunAll(harness.Order(step, 0, {2, 2, 1}));
    for (const auto& report : reports) ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ((*reports[0])->traffic.size(), 2u);
    ASSERT_EQ((*reports[1])->traffic.size(), 2u);
    for (const Traffic& here : (*reports[0])->traffic) {
      const v1::ChannelSpec& channel = harness.worker(0).program.channels(static_cast<int>(here.channel));
      EXPECT_EQ(here.bytes, 5 * channel.bytes_per_sample());
      EXPECT_EQ(here.sent, channel.from_stage() == 0);
      const auto there = std::find_if((*reports[1])->traffic.begin(), (*reports[1])->traffic.end(),
                                      [&](const Traffic& other) { return other.sent != here.sent; });
      ASSERT_NE(there, (*reports[1])->traffic.end());
      EXPECT_EQ(there->bytes, here.bytes);
    }
  }
}

TEST(ProgramExecutorTest, GradientsTravelBack) {
  PipelineShape shape{.num_stages = 3, .num_micro_batches = 1};
  ExecutorHarness harness(shape);
  for (const auto& report : harness.RunAll(harness.Order(1, 0, {2}))) ASSERT_TRUE(report.ok()) << report.status();
  const std::vector<FakeStage::Call>& calls = harness.worker(1).stage->calls;
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_FLOAT_EQ(calls[1].input.as<float>()[0], 2);  // of the last stage: twice the loss weight
  EXPECT_FLOAT_EQ(calls[1].output.as<float>()[0], 4);
}

TEST(ProgramExecutorTest, PassesTheSlotsAndMicroBatchesThatThePlanNames) {
  PipelineShape shape{.num_stages = 2, .num_micro_batches = 3};
  ExecutorHarness harness(shape);
  for (const auto& report : harness.RunAll(harness.Order(7, 40, {2, 1, 0}))) ASSERT_TRUE(report.ok());
  ExecutorHarness::Worker& worker = harness.worker(1);
  const v1::StageSlots& slots = worker.program.stages(0);
  const auto offset = [&](std::span<std::byte> region) {
    return static_cast<uint64_t>(region.data() - worker.arena->data());
  };
  for (const FakeStage::Call& call : worker.stage->calls) {
    const int m = static_cast<int>(call.micro_batch.index.value());
    EXPECT_EQ(call.micro_batch.step.value(), 7u);
    EXPECT_EQ(call.micro_batch.first_sample, (std::vector<uint64_t>{40, 42, 43})[static_cast<size_t>(m)]);
    EXPECT_EQ(call.micro_batch.samples, (std::vector<int64_t>{2, 1, 0})[static_cast<size_t>(m)]);
    EXPECT_EQ(call.micro_batch.loss_weight, 1.0 / 3);
    EXPECT_EQ(call.micro_batch.loss_scale, 8);
    EXPECT_TRUE(call.micro_batch.training);
    EXPECT_EQ(offset(call.memory.scratch), worker.program.scratch().offset());
    EXPECT_EQ(call.memory.scratch.size(), 64u);
    if (call.text[0] != 'W') {
      EXPECT_EQ(offset(call.memory.saved), slots.saved(m).offset());
    } else {
      EXPECT_TRUE(call.memory.saved.empty());
    }
    EXPECT_EQ(offset(call.memory.shared), slots.shared(m).offset());
    EXPECT_EQ(call.memory.pending.empty(), call.text[0] == 'F');
    if (call.text[0] != 'I') {
      EXPECT_EQ(call.labels.data, worker.arena->data() + slots.load(m).offset());
      EXPECT_EQ(call.labels.dims[0], call.micro_batch.samples);
    } else {
      EXPECT_TRUE(call.input.empty());
    }
    if (call.text[0] == 'F') {
      EXPECT_EQ(call.input.ShapeString(), absl::StrCat("f32[", call.micro_batch.samples, ", 4, 2]"));
    }
  }
  // Only the part that each stage needs, and nothing for the empty micro-batch.
  ASSERT_EQ(harness.worker(0).data.calls.size(), 2u);
  EXPECT_TRUE(harness.worker(0).data.calls[1].tokens);
  EXPECT_FALSE(harness.worker(0).data.calls[1].labels);
  EXPECT_FALSE(worker.data.calls[1].tokens);
  EXPECT_TRUE(worker.data.calls[1].labels);
  EXPECT_EQ(worker.data.calls[1].first_sample, 42u);
  EXPECT_EQ(worker.data.calls[1].samples, 1);
}

TEST(ProgramExecutorTest, EmptyMicroBatchAddsNoLoss) {
  PipelineShape shape{.num_stages = 2, .num_micro_batches = 2};
  ExecutorHarness harness(shape);
  ASSERT_TRUE(harness.RunAll(harness.Order(1, 0, {2, 2}))[1].ok());
  const auto reports = harness.RunAll(harness.Order(2, 4, {1, 0}));
  ASSERT_TRUE(reports[1].ok()) << reports[1].status();
  EXPECT_GT((*reports[1])->loss_parts[0].value, 0);
  EXPECT_EQ((*reports[1])->loss_parts[1].value, 0);
}

TEST(ProgramExecutorTest, SingleStageLoadsTokensAndLabels) {
  PipelineShape shape{.num_stages = 1, .num_micro_batches = 2, .tied = true};
  ExecutorHarness harness(shape);
  const auto reports = harness.RunAll(harness.Order(1, 3, {2, 2}));
  ASSERT_TRUE(reports[0].ok()) << reports[0].status();
  const FakeStage::Call& call = harness.worker(0).stage->calls[0];
  EXPECT_EQ(call.input.ShapeString(), "i32[2, 4]");
  EXPECT_EQ(call.labels.as<std::byte>(), call.input.as<std::byte>() + 64);
  EXPECT_EQ(call.input.as<int32_t>()[7], 4);
  EXPECT_EQ(call.labels.as<int32_t>()[7], 1004);
  // Two micro-batches of weight 1/2, and 100: the tie was reduced here.
  EXPECT_FLOAT_EQ(harness.worker(0).state->gradient[0], 101);
}

TEST(ProgramExecutorTest, ZeroesGradientsOncePerTrainingRun) {
  PipelineShape shape{.num_stages = 1, .num_micro_batches = 2};
  ExecutorHarness harness(shape);
  for (uint64_t step = 1; step <= 3; ++step) ASSERT_TRUE(harness.RunAll(harness.Order(step, 0, {2, 2}))[0].ok());
  EXPECT_EQ(harness.worker(0).state->num_zeroed, 3);
  EXPECT_FLOAT_EQ(harness.worker(0).state->gradient[0], 1);
}

TEST(ProgramExecutorTest, TiedGradientsAreExchanged) {
  PipelineShape shape{.num_stages = 3, .num_micro_batches = 1, .tied = true};
  ExecutorHarness harness(shape);
  harness.worker(0).options.hook = [&](const char* kind, const MicroBatch&) {
    if (kind[0] == 'W') harness.worker(0).state->AddToGradient(4);
    return absl::OkStatus();
  };
  harness.Rebuild(0);
  for (const auto& report : harness.RunAll(harness.Order(1, 0, {2}))) ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FLOAT_EQ(harness.worker(0).state->gradient[0], 6);  // 1 + 4, and 1 of the last stage
  EXPECT_FLOAT_EQ(harness.worker(2).state->gradient[0], 6);
  EXPECT_FLOAT_EQ(harness.worker(1).state->gradient[0], 1);
}

TEST(ProgramExecutorTest, EvaluationRunsOverTheSameChannels) {
  PipelineShape shape{.num_stages = 2, .num_micro_batches = 3};
  ExecutorHarness harness(shape);
  PipelineShape evaluation = shape;
  evaluation.forward_only = true;
  harness.AddEvaluation(evaluation);
  for (uint64_t step = 1; step <= 3; ++step) {
    for (const auto& report : harness.RunAll(harness.Order(step, 0, {2, 2, 2}))) ASSERT_TRUE(report.ok());
    const std::array<float, 4> gradient = harness.worker(0).state->gradient;
    v1::RunStep order = harness.Order(step, 0, {2, 2, 1});
    order.set_evaluation(true);
    const auto reports = harness.RunAll(order);
    ASSERT_TRUE(reports[1].ok()) << reports[1].status();
    EXPECT_EQ((*reports[1])->loss_parts.size(), 3u);
    EXPECT_TRUE((*reports[1])->squared_norms.empty());
    EXPECT_EQ(harness.worker(0).state->gradient, gradient);
  }
  EXPECT_EQ(harness.worker(0).state->num_zeroed, 3);
  EXPECT_FALSE(harness.worker(1).stage->calls.back().micro_batch.training);
  EXPECT_EQ(harness.worker(1).data.calls.back().split, DataSplit::kValidation);
  EXPECT_EQ(harness.worker(1).data.calls.front().split, DataSplit::kTrain);
}

TEST(ProgramExecutorTest, BusySecondsSumToTheTotal) {
  PipelineShape shape{.num_stages = 1, .num_micro_batches = 2};
  ExecutorHarness harness(shape);
  harness.worker(0).options.hook = [&](const char* kind, const MicroBatch&) {
    harness.clock.Advance(absl::Seconds(kind[0] == 'F' ? 1 : kind[0] == 'I' ? 10 : 100));
    return absl::OkStatus();
  };
  harness.Rebuild(0);
  const auto reports = harness.RunAll(harness.Order(1, 0, {2, 2}));
  ASSERT_TRUE(reports[0].ok());
  const RunReport::Seconds& seconds = (*reports[0])->seconds;
  EXPECT_DOUBLE_EQ(seconds.forward, 2);
  EXPECT_DOUBLE_EQ(seconds.backward_input, 20);
  EXPECT_DOUBLE_EQ(seconds.backward_weight, 200);
  EXPECT_DOUBLE_EQ(seconds.total, 222);
}

TEST(ProgramExecutorTest, RecomputesBeforeEachBackward) {
  PipelineShape shape{.num_stages = 2, .num_micro_batches = 3, .recomputes = true};
  ExecutorHarness harness(shape);
  harness.worker(1).options.hook = [&](const char* kind, const MicroBatch&) {
    harness.clock.Advance(absl::Seconds(kind[0] == 'R' ? 5 : 0));
    return absl::OkStatus();
  };
  harness.Rebuild(1);
  shape.recomputes = false;
  ExecutorHarness without(shape);
  const auto reports = harness.RunAll(harness.Order(1, 0, {2, 0, 1}));
  const auto expected = without.RunAll(without.Order(1, 0, {2, 0, 1}));
  ASSERT_TRUE(reports[0].ok()) << reports[0].status();
  ASSERT_TRUE(reports[1].ok()) << reports[1].status();
  EXPECT_DOUBLE_EQ((*reports[1])->seconds.recompute, 15);
  EXPECT_DOUBLE_EQ((*reports[1])->seconds.total, 15);
  EXPECT_THAT(Texts(*harness.worker(1).stage),
              ElementsAre("F0", "F1", "F2", "R0", "I0", "W0", "R1", "I1", "W1", "R2", "I2", "W2"));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*reports[1])->loss_parts[i].value, (*expected[1])->loss_parts[i].value);
  }
  EXPECT_EQ(harness.worker(0).state->gradient, without.worker(0).state->gradient);
}

TEST(ProgramExecutorTest, RefusesRecomputationThatLacksASlotOrAStageForIt) {
  const PipelineShape shape{.num_stages = 1, .num_micro_batches = 1, .recomputes = true};
  ExecutorHarness harness(shape);
  const auto refusal = [&](v1::ActionKind kind, void (v1::Instruction::*set)(int32_t)) {
    v1::StageProgram program = harness.worker(0).program;
    for (v1::Instruction& instruction : *program.mutable_instructions()) {
      if (instruction.action().kind() == kind) (instruction.*set)(-1);
    }
    return std::string(harness.Create(0, program).status().message());
  };
  EXPECT_THAT(refusal(v1::ACTION_KIND_FORWARD, &v1::Instruction::set_pending_slot), HasSubstr("names no pending slot"));
  EXPECT_THAT(refusal(v1::ACTION_KIND_FORWARD, &v1::Instruction::set_recomputed_slot),
              HasSubstr("0F0: it names no recomputed slot"));
  EXPECT_THAT(refusal(v1::ACTION_KIND_RECOMPUTE, &v1::Instruction::set_shared_slot),
              HasSubstr("0R0: it names no shared"));
  EXPECT_THAT(refusal(v1::ACTION_KIND_BACKWARD_INPUT, &v1::Instruction::set_recomputed_slot),
              HasSubstr("0I0: it names no recomputed slot"));
  harness.worker(0).options.bytes.remade = harness.worker(0).options.bytes.recomputed = 0;
  harness.worker(0).stage = std::make_unique<FakeStage>(*harness.worker(0).state, harness.worker(0).options);
  EXPECT_THAT(std::string(harness.Create(0, harness.worker(0).program).status().message()),
              HasSubstr("0R0: its stage has no layers to recompute"));
}

TEST(ProgramExecutorTest, ErrorsNameTheActionAndAreFinal) {
  PipelineShape shape{.num_stages = 1, .num_micro_batches = 2};
  ExecutorHarness harness(shape);
  harness.worker(0).options.hook = [](const char* kind, const MicroBatch& micro_batch) {
    return kind[0] == 'I' && micro_batch.index.value() == 1 ? absl::InternalError("sick") : absl::OkStatus();
  };
  harness.Rebuild(0);
  const auto reports = harness.RunAll(harness.Order(1, 0, {2, 2}));
  EXPECT_EQ(reports[0].status(), absl::InternalError("0I1: sick"));
  EXPECT_EQ(harness.worker(0)
                .program.instructions(static_cast<int>(harness.worker(0).executor->progress().instruction))
                .action()
                .kind(),
            v1::ACTION_KIND_BACKWARD_INPUT);
  EXPECT_EQ(harness.RunAll(harness.Order(1, 0, {2, 2}))[0].status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ProgramExecutorTest, RefusesOrdersOfAnotherProgram) {
  PipelineShape shape{.num_stages = 1, .num_micro_batches = 2};
  ExecutorHarness harness(shape);
  v1::RunStep evaluation = harness.Order(1, 0, {2, 2});
  evaluation.set_evaluation(true);
  for (const v1::RunStep& order : {harness.Order(1, 0, {2}), harness.Order(1, 0, {2, 3}), evaluation}) {
    const auto report = harness.worker(0).executor->Run(order);
    EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(harness.RunAll(harness.Order(1, 0, {2, 2}))[0].ok());
}

TEST(ProgramExecutorTest, RefusesProgramsThatDoNotFit) {
  const PipelineShape shape{.num_stages = 1, .num_micro_batches = 1};
  ExecutorHarness harness(shape);
  const auto create = [&](const std::function<void(v1::StageProgram&)>& change) {
    v1::StageProgram program = harness.worker(0).program;
    change(program);
    return harness.Create(0, program).status();
  };
  EXPECT_TRUE(create([](v1::StageProgram&) {}).ok());
  EXPECT_THAT(std::string(create([](auto& p) { p.set_arena_bytes(p.arena_bytes() + 1); }).message()),
              HasSubstr("needs an arena of"));
  EXPECT_THAT(std::string(create([](auto& p) { p.mutable_stages(0)->mutable_saved(0)->set_bytes(63); }).message()),
              HasSubstr("0F0: saved slot 0 has 63 bytes, the stage needs 64"));
  EXPECT_THAT(
      std::string(create([](auto& p) { p.mutable_stages(0)->mutable_saved(0)->set_offset(1 << 20); }).message()),
      HasSubstr("is not an aligned part of the arena"));
  EXPECT_THAT(std::string(create([](auto& p) { p.mutable_instructions(1)->set_shared_slot(5); }).message()),
              HasSubstr("0F0: there is no shared slot 5"));
  EXPECT_THAT(std::string(create([](auto& p) { p.mutable_instructions(0)->set_load_slot(5); }).message()),
              HasSubstr("0LOAD0: there is no load slot 5"));
  EXPECT_THAT(std::string(create([](auto& p) { p.mutable_instructions(1)->mutable_action()->set_stage(5); }).message()),
              HasSubstr("5F0: the stage is not on this worker"));
  EXPECT_THAT(std::string(create([](auto& p) {
                            p.mutable_instructions(1)->set_recv_slot(0);
                            p.mutable_instructions(1)->set_recv_channel(3);
                          }).message()),
              HasSubstr("0F0: channel 3 has no receiver here"));
  EXPECT_THAT(std::string(create([](auto& p) { p.mutable_stages(0)->mutable_load(0)->set_bytes(64); }).message()),
              HasSubstr("a load slot of stage 0 has 64 bytes"));
}

TEST(ProgramExecutorTest, RefusesInstructionsThatNameNoSlotThoughTheyNeedOne) {
  const PipelineShape shape{.num_stages = 1, .num_micro_batches = 1};
  ExecutorHarness harness(shape);
  const auto expect_refused = [&](v1::ActionKind kind, void (v1::Instruction::*set)(int32_t), const char* text) {
    v1::StageProgram program = harness.worker(0).program;
    for (v1::Instruction& instruction : *program.mutable_instructions()) {
      if (instruction.action().kind() == kind) (instruction.*set)(-1);
    }
    const absl::Status status = harness.Create(0, program).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  expect_refused(v1::ACTION_KIND_LOAD, &v1::Instruction::set_load_slot, "0LOAD0: it names no load slot");
  expect_refused(v1::ACTION_KIND_FORWARD, &v1::Instruction::set_load_slot, "0F0: it names no load slot");
  expect_refused(v1::ACTION_KIND_BACKWARD_WEIGHT, &v1::Instruction::set_load_slot, "0W0: it names no load slot");
  expect_refused(v1::ACTION_KIND_FORWARD, &v1::Instruction::set_saved_slot, "0F0: it names no saved slot");
  expect_refused(v1::ACTION_KIND_FORWARD, &v1::Instruction::set_shared_slot, "0F0: it names no shared slot");
  expect_refused(v1::ACTION_KIND_BACKWARD_INPUT, &v1::Instruction::set_saved_slot, "0I0: it names no saved slot");
  expect_refused(v1::ACTION_KIND_BACKWARD_INPUT, &v1::Instruction::set_shared_slot, "0I0: it names no shared slot");
  expect_refused(v1::ACTION_KIND_BACKWARD_INPUT, &v1::Instruction::set_pending_slot, "0I0: it names no pending slot");
  expect_refused(v1::ACTION_KIND_BACKWARD_WEIGHT, &v1::Instruction::set_shared_slot, "0W0: it names no shared slot");
  expect_refused(v1::ACTION_KIND_BACKWARD_WEIGHT, &v1::Instruction::set_pending_slot, "0W0: it names no pending slot");
}

TEST(ProgramExecutorTest, ProgressSaysWhereItIsAndHowLongThatUsuallyTakes) {
  ExecutorHarness harness({.num_stages = 1, .num_micro_batches = 2});
  ExecutorHarness::Worker& worker = harness.worker(0);
  ExecutorProgress seen;
  worker.options.hook = [&](const char* kind, const MicroBatch& micro_batch) {
    if (kind[0] != 'W' || micro_batch.index.value() != 1) return absl::OkStatus();
    seen = worker.executor->progress();
    harness.clock.Advance(absl::Milliseconds(30));
    return absl::OkStatus();
  };
  harness.Rebuild(0);
  for (uint64_t step = 1; step <= 12; ++step) {
    ASSERT_TRUE(worker.executor->Run(harness.Order(step, 0, {2, 2})).ok());
    EXPECT_EQ(seen.step, step);
    EXPECT_EQ(ActionText(worker.program.instructions(static_cast<int>(seen.instruction)).action()), "0W1");
    EXPECT_FALSE(seen.waiting);
    EXPECT_EQ(seen.usual_seconds > 0, step > 10);  // before that too few runs
  }
  EXPECT_GE(seen.usual_seconds, 0.03);
  EXPECT_LT(seen.usual_seconds, 0.03 * 1.5);
  const auto last = static_cast<uint64_t>(worker.program.instructions_size() - 1);
  EXPECT_EQ(worker.executor->progress().instruction, last);
  EXPECT_LT(worker.executor->progress().usual_seconds, 1e-3);
}

TEST(ProgramExecutorTest, ProgressNamesTheChannelThatIsWaitedFor) {
  ExecutorHarness harness({.num_stages = 2, .num_micro_batches = 1});
  ExecutorHarness::Worker& last = harness.worker(1);
  NamedThread alone("executor", [&] { EXPECT_FALSE(last.executor->Run(harness.Order(1, 0, {2})).ok()); });
  while (!last.executor->progress().waiting) std::this_thread::yield();
  const ExecutorProgress progress = last.executor->progress();
  EXPECT_EQ(ActionText(last.program.instructions(static_cast<int>(progress.instruction)).action()), "1F0");
  const v1::ChannelSpec& channel = last.program.channels(static_cast<int>(progress.channel));
  EXPECT_EQ(channel.from_stage(), 0u);
  EXPECT_EQ(channel.kind(), v1::CHANNEL_KIND_ACTIVATION);
  last.executor->Abort();
  last.transport->Abort(absl::AbortedError("enough"));
}

TEST(ProgramExecutorTest, AsynchronousDeviceGetsEventsWithEveryPost) {
  PipelineShape shape{.num_stages = 2, .num_micro_batches = 3};
  ExecutorHarness harness(shape, {.asynchronous = true});
  const auto reports = harness.RunAll(harness.Order(1, 0, {2, 2, 2}));
  for (const auto& report : reports) ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ((*reports[1])->loss_parts.size(), 3u);
  EXPECT_GT((*reports[1])->loss_parts[0].value, 0);
  for (uint32_t w = 0; w < 2; ++w) {
    const FakeDevice& device = harness.worker(w).device;
    EXPECT_EQ(device.num_pinned_allocations, 4);  // three load slots and the losses
    // Three sends, and the receive that uses a slot again.
    EXPECT_EQ(std::count_if(device.events.begin(), device.events.end(), [](const auto& e) { return e->asked(); }), 4);
  }
}

}  // namespace
}  // namespace stagecoach
