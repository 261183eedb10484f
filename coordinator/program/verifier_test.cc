#include "coordinator/program/verifier.h"

#include <string>
#include <vector>

#include "coordinator/program/lowering.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/schedule/compute_csv.h"
#include "coordinator/schedule/forward_only.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using testing::BreadthFirstTable;
using ::testing::HasSubstr;
using testing::MakeSmallPipeline;
using testing::SmallPipeline;

std::string Refusal(const SmallPipeline& pipeline, SendSemantics sends = SendSemantics::kRendezvous) {
  const absl::Status status = pipeline.Verified(sends);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

void ExpectProven(const std::string& schedule, const testing::SmallPipelineOptions& options) {
  const SmallPipeline pipeline = MakeSmallPipeline(schedule, options);
  for (const SendSemantics sends : {SendSemantics::kRendezvous, SendSemantics::kBuffered}) {
    EXPECT_TRUE(pipeline.Verified(sends).ok())
        << schedule << " stages=" << options.num_stages << " chunks=" << options.num_chunks
        << " m=" << options.num_micro_batches << " window=" << options.credit_window << ": "
        << pipeline.Verified(sends);
  }
}

TEST(VerifierTest, ProvesWhatTheLoweringMakes) {
  for (const Schedule* schedule : AllSchedules()) {
    for (uint32_t v = 1; v <= 4; ++v) {
      if (!schedule->AcceptsChunks(v)) continue;
      for (uint32_t p = 1; p <= 6; ++p) {
        for (const uint32_t m : {1u, 2u, 3u, 4u, 7u, 16u}) {
          for (const bool tied : {false, true}) {
            ExpectProven(std::string(schedule->name()),
                         {.num_stages = p * v, .num_chunks = v, .num_micro_batches = m, .tied = tied});
          }
        }
      }
    }
  }
}

TEST(VerifierTest, ProvesTheSchedulesOfOneStagePerWorkerInAnyWindow) {
  for (const char* schedule : {"gpipe", "1f1b", "forward_only"}) {
    for (uint32_t p = 1; p <= 6; ++p) {
      for (const uint32_t m : {1u, 2u, 7u, 16u}) {
        for (const uint32_t window : {1u, 2u, 3u}) {
          ExpectProven(schedule, {.num_stages = p, .num_micro_batches = m, .credit_window = window});
        }
      }
    }
  }
}

TEST(VerifierTest, ProvesStagesPlacedAnywhere) {
  const std::vector<std::vector<uint32_t>> placements = {
      {0, 0},       {0, 0, 0, 0}, {0, 1, 1, 0},       {0, 1, 0, 1},
      {1, 0, 0, 1}, {0, 0, 1, 1}, {0, 1, 2, 2, 1, 0}, {0, 1, 2, 0, 1, 2}};
  for (const std::vector<uint32_t>& placement : placements) {
    for (const uint32_t m : {1u, 2u, 3u, 8u}) {
      for (const bool tied : {false, true}) {
        for (const bool forward_only : {false, true}) {
          const v1::ComputeTable table = forward_only ? ForwardTable(placement, m) : BreadthFirstTable(placement, m);
          const SmallPipeline pipeline = MakeSmallPipeline(table, {.tied = tied});
          for (const SendSemantics sends : {SendSemantics::kRendezvous, SendSemantics::kBuffered}) {
            EXPECT_TRUE(pipeline.Verified(sends).ok())
                << ComputeCsv(table) << "m=" << m << ": " << pipeline.Verified(sends);
          }
        }
      }
    }
  }
}

TEST(VerifierTest, RefusesWeightGradientsOutOfMicroBatchOrder) {
  SmallPipeline pipeline = MakeSmallPipeline("gpipe", {.num_stages = 1, .num_micro_batches = 2});
  auto* actions = pipeline.table.mutable_workers(0)->mutable_actions();
  actions->SwapElements(2, 3);  // 0F0 0F1 0B1 0B0
  pipeline.programs = *Lower(pipeline.table, pipeline.graph, pipeline.plan, {});
  EXPECT_THAT(Refusal(pipeline), AllOf(HasSubstr("0W1"), HasSubstr("micro-batch order")));
}

TEST(VerifierTest, RefusesMissingAndDoubleActions) {
  SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = 1, .num_micro_batches = 2});
  pipeline.table.mutable_workers(0)->mutable_actions()->DeleteSubrange(2, 2);
  pipeline.programs = *Lower(pipeline.table, pipeline.graph, pipeline.plan, {});
  EXPECT_THAT(Refusal(pipeline), HasSubstr("before the last W"));
  pipeline.table.mutable_workers(0)->mutable_actions(1)->set_kind(v1::ACTION_KIND_FORWARD);
  pipeline.table.mutable_workers(0)->mutable_actions(1)->set_micro_batch(0);
  pipeline.programs = *Lower(pipeline.table, pipeline.graph, pipeline.plan, {});
  EXPECT_THAT(Refusal(pipeline), HasSubstr("0F0"));
}

TEST(VerifierTest, RefusesLayersThatAreNotCoveredOnceInOrder) {
  SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = 2, .num_micro_batches = 2});
  pipeline.plan.mutable_stages(1)->set_first_layer(1);
  EXPECT_THAT(Refusal(pipeline), HasSubstr("it must start with layer 2"));
  pipeline.plan.mutable_stages(1)->set_first_layer(2);
  pipeline.plan.mutable_stages(1)->set_last_layer(3);
  EXPECT_THAT(Refusal(pipeline), HasSubstr("the stages hold 4 layers of 5"));
}

TEST(VerifierTest, RefusesProgramsOnTheWrongWorker) {
  SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = 2, .num_micro_batches = 2});
  std::swap(pipeline.programs[0], pipeline.programs[1]);
  EXPECT_THAT(Refusal(pipeline), HasSubstr("is of worker 1"));
}

TEST(VerifierTest, RefusesChannelsThatDifferAtTheirEnds) {
  SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = 2, .num_micro_batches = 2});
  pipeline.programs[1].mutable_channels(0)->set_num_slots(1);
  EXPECT_THAT(Refusal(pipeline), HasSubstr("activation channel 0->1"));
}

TEST(VerifierTest, RefusesEndsThatPostInDifferentOrder) {
  SmallPipeline pipeline = MakeSmallPipeline("forward_only", {.num_stages = 2, .num_micro_batches = 2});
  v1::ComputeTable swapped = pipeline.table;
  for (v1::WorkerActions& row : *swapped.mutable_workers()) row.mutable_actions()->SwapElements(0, 1);
  const std::vector<v1::StageProgram> programs = *Lower(swapped, pipeline.graph, pipeline.plan, {});
  pipeline.programs[0] = programs[0];
  EXPECT_THAT(Refusal(pipeline), AllOf(HasSubstr("activation channel 0->1"), HasSubstr("number 0 is the first")));
  pipeline.programs[1] = programs[1];
  EXPECT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
}

TEST(VerifierTest, RefusesMoreMemoryThanPlannedOrAvailable) {
  SmallPipeline pipeline = MakeSmallPipeline("1f1b", {.num_stages = 2, .num_micro_batches = 2});
  const uint64_t total = pipeline.plan.stages(1).memory_bytes().total();
  const auto verify = [&pipeline](const std::vector<uint64_t>& limits) {
    return Verify(
        {.programs = pipeline.programs, .graph = pipeline.graph, .plan = pipeline.plan, .memory_limit_bytes = limits});
  };
  EXPECT_TRUE(verify({UINT64_MAX, total}).ok());
  EXPECT_THAT(std::string(verify({UINT64_MAX, total - 1}).message()), HasSubstr("worker 1 needs"));
  v1::StageMemory& memory = *pipeline.plan.mutable_stages(0)->mutable_memory_bytes();
  const std::vector<std::pair<std::string, void (*)(v1::StageMemory&)>> cases = {
      {"stage 0 needs", [](v1::StageMemory& m) { m.set_parameters(m.parameters() - 1); }},
      {"stage 0 needs", [](v1::StageMemory& m) { m.set_gradients(m.gradients() - 1); }},
      {"worker 0: the arena", [](v1::StageMemory& m) { m.set_activations(m.activations() - 1); }},
      {"worker 0: the arena", [](v1::StageMemory& m) { m.set_pending_weight(m.pending_weight() - 1); }},
      {"worker 0: the arena", [](v1::StageMemory& m) { m.set_receive(m.receive() - 1); }},
      {"worker 0: the arena", [](v1::StageMemory& m) { m.set_scratch(m.scratch() - 1); }},
      {"stage 0 needs", [](v1::StageMemory& m) { m.set_total(m.total() - 1); }}};
  for (const auto& [refusal, shrink] : cases) {
    const v1::StageMemory before = memory;
    shrink(memory);
    EXPECT_THAT(Refusal(pipeline), HasSubstr(refusal));
    memory = before;
  }
}

TEST(VerifierTest, RefusesSlotsThatShareBytesWhileInUse) {
  SmallPipeline pipeline = MakeSmallPipeline("gpipe", {.num_stages = 1, .num_micro_batches = 2});
  *pipeline.programs[0].mutable_stages(0)->mutable_saved(1) = pipeline.programs[0].stages(0).saved(0);
  EXPECT_THAT(Refusal(pipeline), AllOf(HasSubstr("(0F1)"), HasSubstr("shares")));
}

TEST(VerifierTest, RefusesNothingAtAll) {
  const v1::ModelGraph graph;
  const v1::Plan plan;
  EXPECT_FALSE(Verify({.programs = {}, .graph = graph, .plan = plan, .memory_limit_bytes = {}}).ok());
}

}  // namespace
}  // namespace stagecoach
