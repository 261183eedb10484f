// How many receive buffers a lowered pipeline needs: published for p = 4, m = 16 and stages alike, 1F1B 6, interleaved
// 13, ZB-V 10, DualPipeV 10 over all workers, with a buffer free as soon as its consumer starts. Here it is free when
// the consumer has read it.

#include <set>
#include <string>

#include "coordinator/program/lowering.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::MakeSmallPipeline;
using testing::SmallPipeline;

uint32_t NumReceiveSlotsOfAll(const SmallPipeline& pipeline) {
  uint32_t sum = 0;
  for (const v1::StageProgram& program : pipeline.programs) sum += NumReceiveSlots(program);
  return sum;
}

uint32_t NumReceiveSlotsOf(const std::string& schedule, uint32_t p, uint32_t v, uint32_t m) {
  return NumReceiveSlotsOfAll(
      MakeSmallPipeline(schedule, {.num_stages = p * v, .num_chunks = v, .num_micro_batches = m}));
}

TEST(ReceiveSlotsTest, FewBuffersServeAllChannelsOfAWorker) {
  EXPECT_EQ(NumReceiveSlotsOf("1f1b", 4, 1, 16), 6u);
  EXPECT_EQ(NumReceiveSlotsOf("interleaved", 4, 2, 16), 11u);
  EXPECT_EQ(NumReceiveSlotsOf("interleaved", 4, 4, 16), 11u);
  EXPECT_EQ(NumReceiveSlotsOf("zb_v", 4, 2, 16), 9u);
  EXPECT_EQ(NumReceiveSlotsOf("dualpipe_v", 4, 2, 16), 10u);
}

TEST(ReceiveSlotsTest, ReceivesTakeTurnsInThatManyBuffers) {
  const SmallPipeline pipeline =
      MakeSmallPipeline("interleaved", {.num_stages = 16, .num_chunks = 4, .num_micro_batches = 16});
  for (const v1::StageProgram& program : pipeline.programs) {
    std::set<uint64_t> offsets;
    for (int i = 0; i < program.channels_size(); ++i) {
      const v1::ChannelSpec& channel = program.channels(i);
      if (channel.to_worker_rank() != program.worker_rank() || channel.kind() == v1::CHANNEL_KIND_TIE) continue;
      for (const v1::Slot& slot : program.channel_slots(i).slots()) offsets.insert(slot.offset());
    }
    EXPECT_EQ(offsets.size(), NumReceiveSlots(program));
  }
}

TEST(ReceiveSlotsTest, StagesOfOneWorkerReceiveNothing) {
  EXPECT_EQ(NumReceiveSlotsOfAll(MakeSmallPipeline(testing::BreadthFirstTable({0, 0, 0}, 4), {})), 0u);
}

}  // namespace
}  // namespace stagecoach
