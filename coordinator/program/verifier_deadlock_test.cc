// Programs that wait for ever, and what the verifier says about them.

#include <string>
#include <vector>

#include "common/action_text.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/program/testing/symbolic_run.h"
#include "coordinator/program/verifier.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MakeSmallPipeline;
using testing::SmallPipeline;

std::string Refusal(const SmallPipeline& pipeline) {
  const absl::Status status = pipeline.Verified(SendSemantics::kRendezvous);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// Worker 0 runs all forwards first, worker 1 one forward and one backward in turn. With one slot a channel the gradient
// of micro-batch 1 has nowhere to go before worker 0 is through with its forwards, and those wait for worker 1.
SmallPipeline MixedPipeline() {
  SmallPipeline pipeline = MakeSmallPipeline("gpipe", {.num_stages = 2, .num_micro_batches = 8});
  ScheduleProblem problem;
  problem.num_workers = 2;
  problem.num_micro_batches = 8;
  *pipeline.table.mutable_workers(1) = (*FindSchedule("1f1b"))->Build(problem)->workers(1);
  pipeline.programs = *Lower(pipeline.table, pipeline.graph, pipeline.plan, {.credit_window = 1});
  return pipeline;
}

TEST(VerifierDeadlockTest, ShowsTheCycleOfWaitsOfADeadlock) {
  EXPECT_EQ(Refusal(MixedPipeline()),
            "deadlock under rendezvous sends: worker 0 at 0F5 waits for 1RECV_F4 of worker 1, "
            "worker 1 at 1I2 waits for 0RECV_B1 of worker 0");
}

TEST(VerifierDeadlockTest, BufferedSendsHideADeadlockOfRendezvous) {
  EXPECT_TRUE(MixedPipeline().Verified(SendSemantics::kBuffered).ok());
}

// Puts the instruction that reads "1RECV_F2" behind the one that reads "1I1".
void PostAfter(const std::string& post, const std::string& other, v1::StageProgram& program) {
  const auto index_of = [&program](const std::string& text) {
    int index = 0;
    while (ActionText(program.instructions(index).action()) != text) ++index;
    return index;
  };
  for (int i = index_of(post); i < index_of(other); ++i) program.mutable_instructions()->SwapElements(i, i + 1);
}

v1::ComputeTable TableOfRows(uint32_t num_stages, uint32_t num_micro_batches,
                             const std::vector<std::vector<v1::Action>>& rows) {
  v1::ComputeTable table;
  table.set_schedule("hand_made");
  table.set_num_stages(num_stages);
  table.set_num_micro_batches(num_micro_batches);
  for (const std::vector<v1::Action>& row : rows) {
    v1::WorkerActions& added = *table.add_workers();
    for (const v1::Action& action : row) *added.add_actions() = action;
  }
  return table;
}
v1::Action F(uint32_t stage, uint32_t micro_batch) {
  v1::Action action;
  action.set_kind(v1::ACTION_KIND_FORWARD);
  action.set_stage(stage);
  action.set_micro_batch(micro_batch);
  return action;
}
v1::Action B(uint32_t stage, uint32_t micro_batch) {
  v1::Action action = F(stage, micro_batch);
  action.set_kind(v1::ACTION_KIND_BACKWARD);
  return action;
}

// The shape of PiPPy#969: between neighbours both send before they receive, the one an activation, the other a
// gradient. Sends that wait for their receives then wait for each other.
SmallPipeline BothSendFirst(uint32_t window) {
  return MakeSmallPipeline(TableOfRows(2, 4,
                                       {{F(0, 0), F(0, 1), F(0, 2), F(0, 3), B(0, 0), B(0, 1), B(0, 2), B(0, 3)},
                                        {F(1, 0), F(1, 1), B(1, 0), B(1, 1), F(1, 2), B(1, 2), F(1, 3), B(1, 3)}}),
                           {.credit_window = window});
}

TEST(VerifierDeadlockTest, BothDirectionsSendingBeforeTheyReceiveIsRefused) {
  SmallPipeline pipeline = BothSendFirst(/*window=*/1);
  PostAfter("0RECV_B0", "0F3", pipeline.programs[0]);
  PostAfter("1RECV_F2", "1I1", pipeline.programs[1]);
  EXPECT_EQ(Refusal(pipeline),
            "deadlock under rendezvous sends: worker 0 at 0F3 waits for 1RECV_F2 of worker 1, "
            "worker 1 at 1I1 waits for 0RECV_B0 of worker 0");
  EXPECT_THAT(testing::RunSymbolically(pipeline.programs, {}).problem, HasSubstr("waits for ever"));
}

TEST(VerifierDeadlockTest, TheSameTableOfBothDirectionsRunsAsLowered) {
  EXPECT_TRUE(BothSendFirst(UINT32_MAX).Verified().ok()) << BothSendFirst(UINT32_MAX).Verified();
}

// The shape of pytorch#172668: stages 0 and 2 are on worker 0, 1 and 3 on worker 1, so that activations go both ways
// between the two, and each worker has sends in front of the receive that the other one's send waits for.
SmallPipeline Ring(uint32_t window) {
  return MakeSmallPipeline(testing::BreadthFirstTable({0, 1, 0, 1}, 8), {.credit_window = window});
}

TEST(VerifierDeadlockTest, ACycleOfSendsAndReceivesBetweenNeighboursIsRefused) {
  EXPECT_THAT(Refusal(Ring(/*window=*/1)), AllOf(HasSubstr("deadlock under rendezvous sends: worker 0 at 0F"),
                                                 HasSubstr("of worker 1, worker 1 at 1F"), HasSubstr("of worker 0")));
}

TEST(VerifierDeadlockTest, TheSameTableOfTheRingRunsAsLowered) {
  EXPECT_TRUE(Ring(UINT32_MAX).Verified().ok()) << Ring(UINT32_MAX).Verified();
}

}  // namespace
}  // namespace stagecoach
