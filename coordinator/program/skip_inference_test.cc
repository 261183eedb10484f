// Programs with skip edges as text, and the model that they are proven for without their graph.

#include "coordinator/program/skip_inference.h"

#include <google/protobuf/util/message_differencer.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/program_parser.h"
#include "coordinator/program/schedule_proof.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;
using testing::MakeSmallPipeline;
using testing::SmallPipeline;

std::string TextOf(const std::vector<v1::StageProgram>& programs) {
  std::string text;
  for (const v1::StageProgram& program : programs) absl::StrAppend(&text, ProgramText(program), "\n");
  return text;
}

// Reads the programs back and proves them, for a model that is made up.
absl::Status ReadBack(const std::vector<v1::StageProgram>& programs) {
  const auto read = ParseProgramText(TextOf(programs));
  if (!read.ok()) return read.status();
  EXPECT_EQ(read->size(), programs.size());
  for (size_t i = 0; i < read->size(); ++i) EXPECT_TRUE(MessageDifferencer::Equals((*read)[i], programs[i]));
  return ProvePrograms(*read, SendSemantics::kRendezvous).status();
}

TEST(SkipInferenceTest, ProgramsAreReadBackAndProvenWithoutTheirGraph) {
  const std::vector<std::vector<std::pair<uint32_t, uint32_t>>> sets = {
      {{0, 6}, {1, 5}, {2, 4}}, {{0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 6}}, {{1, 4}}, {{0, 5}, {1, 6}}, {{0, 3}, {4, 6}}};
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "forward_only", "zb_v", "interleaved"}) {
    const uint32_t num_chunks = (*FindSchedule(schedule))->default_chunks();
    for (const auto& connections : sets) {
      for (const bool tied : {false, true}) {
        const SmallPipeline pipeline = MakeSmallPipeline(schedule, {.num_stages = 4,
                                                                    .num_chunks = num_chunks,
                                                                    .num_micro_batches = 5,
                                                                    .tied = tied,
                                                                    .skip_connections = connections});
        const absl::Status status = ReadBack(pipeline.programs);
        EXPECT_TRUE(status.ok()) << schedule << " " << ::testing::PrintToString(connections) << ": " << status;
      }
    }
  }
}

TEST(SkipInferenceTest, ALineSaysWhichConnectionsAndWhichSlots) {
  const SmallPipeline pipeline = MakeSmallPipeline(
      "forward_only", {.num_stages = 3, .num_micro_batches = 1, .skip_connections = {{0, 4}, {1, 5}}});
  const std::string text = TextOf(pipeline.programs);
  EXPECT_THAT(text, HasSubstr("channel 1 skip stage 0->2 worker 0->2 slots 1 bytes 1280 per_sample 640 connections 0 1 "
                              "at "));
  EXPECT_THAT(text, HasSubstr("\n0F0 load 0 send 0.0 skip_send 1.0 saved 0 shared 0\n0SEND_F0 #0 send 0.0\n"
                              "0SEND_F0 #0 send 1.0\n"));
  EXPECT_THAT(text, HasSubstr("\n2F0 load 0 recv 0.0 skip_recv 1.0 saved 0"));
  EXPECT_THAT(
      std::string(ParseProgramText(absl::StrReplaceAll(text, {{"skip_send 1.0", "skip_send 1"}})).status().message()),
      HasSubstr("expected channel and slot"));
  EXPECT_THAT(std::string(ParseProgramText(absl::StrReplaceAll(text, {{"connections 0 1", "connections 0 4294967296"}}))
                              .status()
                              .message()),
              HasSubstr("is no skip connection"));
}

// Connections 0 and 3 stay in a stage, and no channel tells of them.
TEST(SkipInferenceTest, ConnectionsWithinAStageAreGivenAPlace) {
  const v1::ComputeTable table = testing::BreadthFirstTable({0, 1}, 2);
  v1::ModelGraph graph = testing::SmallGraph(6, false);
  testing::Connect({{0, 2}, {1, 5}, {3, 7}, {4, 6}}, graph);
  v1::Plan plan;
  plan.set_num_micro_batches(2);
  for (const auto& [first, last] : {std::pair(0u, 3u), std::pair(4u, 8u)}) {
    v1::StagePlan& stage = *plan.add_stages();
    stage.set_worker_rank(first == 0 ? 0 : 1);
    stage.set_first_layer(first);
    stage.set_last_layer(last);
  }
  const auto programs = Lower(table, graph, plan, {});
  ASSERT_TRUE(programs.ok()) << programs.status();
  ASSERT_TRUE(ReadBack(*programs).ok()) << ReadBack(*programs);

  PlannedModel model = *ModelOfPrograms(*programs);
  ASSERT_EQ(model.graph.skip_connections_size(), 3);
  EXPECT_EQ(model.graph.skip_connections(0).to_layer(), 2u);
  EXPECT_EQ(model.graph.skip_connections(1).from_layer(), 1u);
  EXPECT_EQ(model.graph.skip_connections(2).to_layer(), 5u);
}

// Whatever the cut, and whichever connections stay in a stage.
TEST(SkipInferenceTest, ProgramsOfAnyModelAreProvenWithoutIt) {
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    constexpr uint32_t kNumLayers = 16;
    const auto num_stages = static_cast<uint32_t>(2 + random() % 3);
    v1::Plan plan;
    plan.set_num_micro_batches(2);
    std::vector<uint32_t> workers;
    uint32_t next = 0;
    for (uint32_t stage = 0; stage < num_stages; ++stage) {
      const uint32_t most = kNumLayers - next - (num_stages - 1 - stage);
      const uint32_t count = stage + 1 == num_stages ? most : 1 + static_cast<uint32_t>(random() % most);
      v1::StagePlan& added = *plan.add_stages();
      added.set_worker_rank(stage);
      added.set_first_layer(next);
      added.set_last_layer(next + count - 1);
      next += count;
      workers.push_back(stage);
    }
    v1::ModelGraph graph = testing::SmallGraph(kNumLayers - 3, false);
    std::vector<std::pair<uint32_t, uint32_t>> connections;
    std::set<uint32_t> ends;
    for (uint32_t from = 0; from + 2 < kNumLayers; ++from) {
      const uint32_t to = from + 2 + static_cast<uint32_t>(random() % (kNumLayers - from - 2));
      if (random() % 2 == 0 && ends.insert(to).second) connections.emplace_back(from, to);
    }
    testing::Connect(connections, graph);
    const auto programs = Lower(testing::BreadthFirstTable(workers, 2), graph, plan, {});
    ASSERT_TRUE(programs.ok()) << programs.status();
    const absl::Status status = ReadBack(*programs);
    EXPECT_TRUE(status.ok()) << ::testing::PrintToString(connections) << " " << plan.ShortDebugString() << ": "
                             << status;
  }
}

std::string Refusal(const std::string& text) {
  const auto programs = ParseProgramText(text);
  EXPECT_TRUE(programs.ok()) << programs.status();
  const absl::Status status = ProvePrograms(*programs, SendSemantics::kRendezvous).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(SkipInferenceTest, ConnectionsForWhichThereAreNoLayersAreRefused) {
  const SmallPipeline pipeline = MakeSmallPipeline(
      "forward_only", {.num_stages = 3, .num_micro_batches = 1, .skip_connections = {{0, 4}, {1, 5}}});
  const std::string text = TextOf(pipeline.programs);
  const auto with = [&](const std::string& before, const std::string& after) {
    return Refusal(absl::StrReplaceAll(text, {{before, after}}));
  };
  EXPECT_THAT(with("connections 0 1", "connections 0 70"), HasSubstr("skip connection 70: the stages have 6 layers"));
  EXPECT_THAT(with("connections 0 1", "connections 0 1 2"), HasSubstr("skip connection 2: no layers are left"));
  EXPECT_THAT(with("connections 0 1", "connections 2 3"), HasSubstr("skip connection 0: no layers are left"));
  EXPECT_THAT(with("connections 0 1", "connections 1 0"), HasSubstr("not what its connections need"));
  EXPECT_THAT(with("skip stage 0->2", "skip stage 2->0"), HasSubstr("skip connection 0: no layers are left"));
  EXPECT_THAT(with("skip stage 0->2", "skip stage 0->3"), HasSubstr("there are 3 stages"));
  EXPECT_THAT(with("skip stage 0->2", "skip stage 0->1"), HasSubstr("skip connection 1: no layers are left"));
}

}  // namespace
}  // namespace stagecoach
