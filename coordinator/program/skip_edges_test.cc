// Skip edges from the table to the proof: which there are, in whatever schedule, that their programs end and compute
// one thing, and what is refused.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/program/testing/symbolic_run.h"
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
using testing::RunInManyOrders;
using testing::SmallPipeline;
using testing::SmallPipelineOptions;
using testing::SymbolicOutcome;

using Connections = std::vector<std::pair<uint32_t, uint32_t>>;

// Of a pipeline with a block on each of `num_stages`: the layers are embedding, blocks, norm, head.
std::vector<Connections> ConnectionSets(uint32_t num_stages) {
  const uint32_t head = num_stages + 2;
  Connections nested, near, overlapping;
  for (uint32_t from = 0; from + 2 <= head - from; ++from) nested.emplace_back(from, head - from);
  for (uint32_t from = 0; from + 2 <= head; ++from) near.emplace_back(from, from + 2);
  for (uint32_t from = 0; from + 3 <= head; ++from) overlapping.emplace_back(from, from + 3);
  // The two of the next one share an edge, and the last of the one after stays in a stage.
  return {nested, near, overlapping, {{0, head - 1}, {1, head}}, {{0, head - 1}, {head - 2, head}}};
}

uint32_t StageOf(uint32_t layer, uint32_t num_stages) { return layer == 0 ? 0 : std::min(layer - 1, num_stages - 1); }

// (sender, receiver) of all skip edges in one direction.
std::set<std::pair<uint32_t, uint32_t>> EdgesOf(const SmallPipelineOptions& options, uint32_t num_stages,
                                                bool is_gradient) {
  std::set<std::pair<uint32_t, uint32_t>> edges;
  uint32_t lowest_trained = 0;
  while (lowest_trained < options.frozen_layers.size() && options.frozen_layers[lowest_trained] == lowest_trained) {
    ++lowest_trained;
  }
  for (const auto& [from, to] : options.skip_connections) {
    const uint32_t lower = StageOf(from, num_stages);
    const uint32_t upper = StageOf(to, num_stages);
    if (lower == upper || (is_gradient && from < lowest_trained)) continue;
    edges.emplace(is_gradient ? upper : lower, is_gradient ? lower : upper);
  }
  return edges;
}

// Each edge has one channel, and a send and a receive of every micro-batch unless both ends are on one worker.
void ExpectExactEdges(const SmallPipeline& pipeline, const SmallPipelineOptions& options, uint32_t num_micro_batches,
                      bool forward_only) {
  const auto num_stages = static_cast<uint32_t>(pipeline.plan.stages_size());
  using Key = std::pair<v1::ChannelKind, std::pair<uint32_t, uint32_t>>;
  std::map<Key, uint32_t> needed, ends, posts;
  for (const bool is_gradient : {false, true}) {
    if (forward_only && is_gradient) continue;
    const v1::ChannelKind kind = is_gradient ? v1::CHANNEL_KIND_SKIP_GRADIENT : v1::CHANNEL_KIND_SKIP;
    for (const auto& edge : EdgesOf(options, num_stages, is_gradient)) {
      const bool is_local = pipeline.plan.stages(static_cast<int>(edge.first)).worker_rank() ==
                            pipeline.plan.stages(static_cast<int>(edge.second)).worker_rank();
      needed[{kind, edge}] = is_local ? 0 : 2 * num_micro_batches;
    }
  }
  for (const v1::StageProgram& program : pipeline.programs) {
    for (const v1::ChannelSpec& channel : program.channels()) {
      if (channel.kind() != v1::CHANNEL_KIND_SKIP && channel.kind() != v1::CHANNEL_KIND_SKIP_GRADIENT) continue;
      posts[{channel.kind(), {channel.from_stage(), channel.to_stage()}}];
      EXPECT_EQ(channel.bytes(), 640u * static_cast<uint64_t>(channel.skip_connections_size()));
      EXPECT_EQ(channel.bytes_per_sample(), channel.bytes() / 2);
    }
    for (const v1::Instruction& instruction : program.instructions()) {
      const v1::ActionKind kind = instruction.action().kind();
      if (kind < v1::ACTION_KIND_SEND_FORWARD || kind > v1::ACTION_KIND_RECV_BACKWARD) continue;
      const v1::ChannelSpec& channel = program.channels(static_cast<int>(instruction.channel()));
      const Key key = {channel.kind(), {channel.from_stage(), channel.to_stage()}};
      if (posts.contains(key)) ++posts[key];
    }
  }
  EXPECT_EQ(posts, needed);
}

void ExpectRuns(const SmallPipeline& pipeline) {
  for (const SendSemantics sends : {SendSemantics::kRendezvous, SendSemantics::kBuffered}) {
    ASSERT_TRUE(pipeline.Verified(sends).ok()) << pipeline.Verified(sends);
  }
  const std::vector<SymbolicOutcome> outcomes = RunInManyOrders(pipeline.programs);
  for (const SymbolicOutcome& outcome : outcomes) {
    ASSERT_EQ(outcome.problem, "");
    EXPECT_EQ(outcome, outcomes[0]);
  }
}

class SkipPipelineTest : public ::testing::TestWithParam<const Schedule*> {
 protected:
  void Check(const v1::ComputeTable& table, const SmallPipelineOptions& options) {
    SCOPED_TRACE(absl::StrCat(table.schedule(), " stages=", table.num_stages(), " m=", table.num_micro_batches(),
                              " skips ", ::testing::PrintToString(options.skip_connections), " frozen ",
                              options.frozen_layers.size(), options.recomputes.empty() ? "" : " recomputing"));
    const SmallPipeline pipeline = MakeSmallPipeline(table, options);
    ExpectRuns(pipeline);
    ExpectExactEdges(pipeline, options, table.num_micro_batches(), GetParam()->forward_only());
    // With several stages on a worker two sends at one time may wait for each other, with or without skip edges.
    SmallPipelineOptions plain = options;
    plain.skip_connections.clear();
    const bool has_chunks = GetParam()->default_chunks() > 1;
    if (has_chunks || !MakeSmallPipeline(table, plain).Verified(SendSemantics::kBlocking).ok()) return;
    EXPECT_TRUE(pipeline.Verified(SendSemantics::kBlocking).ok()) << pipeline.Verified(SendSemantics::kBlocking);
  }
};

TEST_P(SkipPipelineTest, EverySetIsProvenAndRuns) {
  const uint32_t v = GetParam()->default_chunks();
  for (const uint32_t p : {1u, 2u, 3u, 4u, 8u}) {
    if (p * v > 8) continue;
    for (const uint32_t m : {1u, 3u, 9u}) {
      const auto table = GetParam()->Build({.num_workers = p, .num_chunks = v, .num_micro_batches = m});
      ASSERT_TRUE(table.ok()) << table.status();
      for (const Connections& connections : ConnectionSets(p * v)) {
        Check(*table, {.tied = m == 3, .skip_connections = connections});
        Check(*table, {.recomputes = std::vector<bool>(p * v, true), .skip_connections = connections});
      }
    }
  }
}

TEST_P(SkipPipelineTest, NoGradientGoesBackIntoWhatIsFrozen) {
  const uint32_t v = GetParam()->default_chunks();
  for (const uint32_t p : {2u, 4u}) {
    const auto table = GetParam()->Build({.num_workers = p, .num_chunks = v, .num_micro_batches = 9});
    ASSERT_TRUE(table.ok()) << table.status();
    for (const uint32_t num_frozen : {1u, 2u, p * v / 2 + 1, p * v, p * v + 2}) {
      std::vector<uint32_t> frozen;
      for (uint32_t layer = 0; layer < num_frozen; ++layer) frozen.push_back(layer);
      for (const Connections& connections : ConnectionSets(p * v)) {
        Check(*table, {.tied = false, .frozen_layers = frozen, .skip_connections = connections});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, SkipPipelineTest, ::testing::ValuesIn(AllSchedules()),
                         [](const auto& schedule) { return std::string(schedule.param->name()); });

TEST(SkipEdgesTest, AnyCreditWindowIsProven) {
  for (const char* schedule : {"gpipe", "1f1b", "forward_only"}) {
    for (const uint32_t p : {2u, 3u, 5u, 8u}) {
      for (const uint32_t m : {1u, 2u, 7u, 16u}) {
        for (const uint32_t window : {1u, 2u, 3u, 6u}) {
          for (const Connections& connections : ConnectionSets(p)) {
            const SmallPipeline pipeline = MakeSmallPipeline(
                schedule,
                {.num_stages = p, .num_micro_batches = m, .credit_window = window, .skip_connections = connections});
            for (const SendSemantics sends : {SendSemantics::kRendezvous, SendSemantics::kBuffered}) {
              ASSERT_TRUE(pipeline.Verified(sends).ok())
                  << schedule << " p=" << p << " m=" << m << " window=" << window << ": " << pipeline.Verified(sends);
            }
          }
        }
      }
    }
  }
}

// Whatever ends in a window without skip edges ends with them.
TEST(SkipEdgesTest, NoScheduleEndsLessOftenInAWindow) {
  int num_ended = 0;
  for (const Schedule* schedule : HandMadeSchedules()) {
    const uint32_t v = schedule->default_chunks();
    for (const uint32_t p : {2u, 3u, 4u}) {
      for (const uint32_t window : {1u, 2u, 4u, 6u}) {
        SmallPipelineOptions options{
            .num_stages = p * v, .num_chunks = v, .num_micro_batches = 12, .credit_window = window};
        const std::string name(schedule->name());
        if (!MakeSmallPipeline(name, options).Verified().ok()) continue;
        ++num_ended;
        for (const Connections& connections : ConnectionSets(p * v)) {
          options.skip_connections = connections;
          const SmallPipeline pipeline = MakeSmallPipeline(name, options);
          EXPECT_TRUE(pipeline.Verified().ok()) << name << " p=" << p << " window=" << window << " skips "
                                                << ::testing::PrintToString(connections) << pipeline.Verified();
        }
      }
    }
  }
  EXPECT_GT(num_ended, 50);
}

TEST(SkipEdgesTest, StagesMayBePlacedAnywhere) {
  const std::vector<std::vector<uint32_t>> placements = {
      {0, 0, 0}, {0, 1, 1, 0}, {0, 1, 0, 1}, {1, 0, 0, 1}, {0, 1, 2, 2, 1, 0}, {0, 1, 2, 0, 1, 2}, {2, 0, 0, 2, 1, 0}};
  for (const std::vector<uint32_t>& placement : placements) {
    for (const bool forward_only : {false, true}) {
      const v1::ComputeTable table = forward_only ? ForwardTable(placement, 5) : BreadthFirstTable(placement, 5);
      for (const Connections& connections : ConnectionSets(table.num_stages())) {
        const SmallPipelineOptions options{.skip_connections = connections};
        const SmallPipeline pipeline = MakeSmallPipeline(table, options);
        ExpectRuns(pipeline);
        ExpectExactEdges(pipeline, options, 5, forward_only);
      }
    }
  }
}

// On however many workers, in whatever order: the same operands in the same order.
TEST(SkipEdgesTest, EveryScheduleComputesTheSame) {
  for (const Connections& connections : ConnectionSets(4)) {
    const auto outcome_of = [&](const SmallPipeline& pipeline) { return RunInManyOrders(pipeline.programs)[0]; };
    const SymbolicOutcome expected = outcome_of(
        MakeSmallPipeline("gpipe", {.num_stages = 4, .num_micro_batches = 6, .skip_connections = connections}));
    EXPECT_EQ(expected.problem, "");
    for (const char* schedule : {"1f1b", "zb_h1", "zb_h2"}) {
      EXPECT_EQ(outcome_of(MakeSmallPipeline(
                    schedule, {.num_stages = 4, .num_micro_batches = 6, .skip_connections = connections})),
                expected)
          << schedule;
    }
    for (const char* schedule : {"interleaved", "zb_v", "v_half", "dualpipe_v"}) {
      EXPECT_EQ(
          outcome_of(MakeSmallPipeline(
              schedule, {.num_stages = 4, .num_chunks = 2, .num_micro_batches = 6, .skip_connections = connections})),
          expected)
          << schedule;
    }
    for (const std::vector<uint32_t>& placement : {std::vector<uint32_t>{0, 0, 0, 0}, {0, 1, 1, 0}}) {
      EXPECT_EQ(outcome_of(MakeSmallPipeline(BreadthFirstTable(placement, 6), {.skip_connections = connections})),
                expected);
    }
    EXPECT_NE(outcome_of(MakeSmallPipeline("gpipe", {.num_stages = 4, .num_micro_batches = 6})), expected);
  }
}

// A receive comes before a send that may fill it; here stage 0 is four micro-batches ahead of the last one.
TEST(SkipEdgesTest, ReceivesAreBuffersOfTheirWorker) {
  const SmallPipeline pipeline =
      MakeSmallPipeline("1f1b", {.num_stages = 4, .num_micro_batches = 8, .tied = false, .skip_connections = {{1, 5}}});
  const SmallPipeline plain = MakeSmallPipeline("1f1b", {.num_stages = 4, .num_micro_batches = 8, .tied = false});
  EXPECT_EQ(NumReceiveSlots(pipeline.programs[1]), NumReceiveSlots(plain.programs[1]));
  EXPECT_GT(NumReceiveSlots(pipeline.programs[3]), NumReceiveSlots(plain.programs[3]));
  EXPECT_GT(pipeline.plan.stages(3).memory_bytes().receive(), plain.plan.stages(3).memory_bytes().receive());
  std::set<uint64_t> offsets;
  const v1::StageProgram& last = pipeline.programs[3];
  for (int i = 0; i < last.channels_size(); ++i) {
    if (last.channels(i).to_worker_rank() != 3) continue;
    for (const v1::Slot& slot : last.channel_slots(i).slots()) offsets.insert(slot.offset());
  }
  EXPECT_EQ(offsets.size(), NumReceiveSlots(last));
}

TEST(SkipEdgesTest, TheHashCoversThem) {
  const SmallPipeline pipeline =
      MakeSmallPipeline("1f1b", {.num_stages = 3, .num_micro_batches = 2, .skip_connections = {{0, 4}, {1, 5}}});
  const v1::StageProgram& program = pipeline.programs[0];
  v1::StageProgram changed = program;
  for (v1::ChannelSpec& channel : *changed.mutable_channels()) {
    if (channel.kind() == v1::CHANNEL_KIND_SKIP) channel.set_skip_connections(1, 2);
  }
  EXPECT_NE(ContentHash(changed), program.content_hash());
  for (const bool sends : {false, true}) {
    changed = program;
    int num_changed = 0;
    for (v1::Instruction& instruction : *changed.mutable_instructions()) {
      for (v1::SkipSlot& skip : *(sends ? instruction.mutable_skip_send() : instruction.mutable_skip_recv())) {
        skip.set_slot(skip.slot() + 1);
        ++num_changed;
      }
    }
    EXPECT_EQ(num_changed, 2);  // an F and an I of each micro-batch
    EXPECT_NE(ContentHash(changed), program.content_hash());
  }
}

std::string Refusal(const SmallPipeline& pipeline) {
  const absl::Status status = pipeline.Verified();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// Stages 0 and 2 have an edge with two connections; stages 0 and 1 one besides their cut.
class RefusedSkipTest : public ::testing::Test {
 protected:
  v1::ChannelSpec& Channel(size_t worker, v1::ChannelKind kind, uint32_t to) {
    v1::StageProgram& program = pipeline_.programs[worker];
    for (v1::ChannelSpec& channel : *program.mutable_channels()) {
      if (channel.kind() == kind && channel.to_stage() == to) return channel;
    }
    return *program.add_channels();
  }
  v1::Instruction& First(size_t worker, v1::ActionKind kind) {
    int index = 0;
    while (pipeline_.programs[worker].instructions(index).action().kind() != kind) ++index;
    return *pipeline_.programs[worker].mutable_instructions(index);
  }
  std::string LoweringRefusal() {
    const auto programs = Lower(pipeline_.table, pipeline_.graph, pipeline_.plan, {});
    EXPECT_EQ(programs.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(programs.status().message());
  }

  const SmallPipeline original_ = MakeSmallPipeline(
      "1f1b", {.num_stages = 3, .num_micro_batches = 3, .tied = false, .skip_connections = {{0, 4}, {1, 5}}});
  SmallPipeline pipeline_ = original_;
};

TEST_F(RefusedSkipTest, OtherConnectionsOrSizes) {
  for (const v1::ChannelKind kind : {v1::CHANNEL_KIND_SKIP, v1::CHANNEL_KIND_SKIP_GRADIENT}) {
    const bool down = kind == v1::CHANNEL_KIND_SKIP;
    const std::string name = down ? "the skip channel 0->2 is not" : "the skip gradient channel 2->0 is not";
    const std::vector<void (*)(v1::ChannelSpec&)> changes = {
        [](v1::ChannelSpec& channel) { channel.mutable_skip_connections()->RemoveLast(); },
        [](v1::ChannelSpec& channel) { channel.add_skip_connections(2); },
        [](v1::ChannelSpec& channel) { channel.mutable_skip_connections()->SwapElements(0, 1); },
        [](v1::ChannelSpec& channel) { channel.set_bytes(640); },
        [](v1::ChannelSpec& channel) { channel.set_bytes_per_sample(320); },
        [](v1::ChannelSpec& channel) { channel.set_num_slots(channel.num_slots() + 1); },
        [](v1::ChannelSpec& channel) { channel.set_from_worker_rank(1); }};
    for (const auto change : changes) {
      pipeline_ = original_;
      change(Channel(0, kind, down ? 2 : 0));
      EXPECT_THAT(Refusal(pipeline_), HasSubstr(name));
      if (change == changes[5]) continue;
      // At both ends alike.
      change(Channel(2, kind, down ? 2 : 0));
      EXPECT_THAT(Refusal(pipeline_), HasSubstr(name));
    }
  }
}

TEST_F(RefusedSkipTest, AChannelMoreOrLess) {
  pipeline_.graph.clear_skip_connections();
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("worker 0 has 4 channels"));
  pipeline_ = MakeSmallPipeline("1f1b", {.num_stages = 3, .num_micro_batches = 3, .tied = false});
  pipeline_.graph = original_.graph;
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("worker 0 has 2 channels"));
  pipeline_ = original_;
  Channel(0, v1::CHANNEL_KIND_SKIP, 2).set_to_stage(1);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("nothing needs the skip channel 0->1"));
}

TEST_F(RefusedSkipTest, SlotsThatAnInstructionDoesNotNameOrNamesTwice) {
  First(0, v1::ACTION_KIND_FORWARD).clear_skip_send();
  EXPECT_THAT(Refusal(pipeline_),
              AllOf(HasSubstr("(0F0)"), HasSubstr("names no slot of the skip channel 0->2, which it writes")));
  pipeline_ = original_;
  First(0, v1::ACTION_KIND_BACKWARD_INPUT).clear_skip_recv();
  EXPECT_THAT(Refusal(pipeline_),
              AllOf(HasSubstr("(0I0)"), HasSubstr("names no slot of the skip gradient channel 2->0, which it reads")));
  pipeline_ = original_;
  v1::Instruction& forward = First(2, v1::ACTION_KIND_FORWARD);
  *forward.add_skip_recv() = forward.skip_recv(0);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("names a slot of the skip channel 0->2, which it never reads"));
  forward.mutable_skip_recv()->RemoveLast();
  forward.mutable_skip_recv(0)->set_channel(forward.recv_channel());
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("of the activation channel 1->2 where it reads the skip channel 0->2"));
  forward.mutable_skip_recv(0)->set_channel(99);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("there is no channel 99"));
  pipeline_ = original_;
  First(2, v1::ACTION_KIND_FORWARD).mutable_skip_recv(0)->set_slot(77);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("there is no skip channel 0->2 slot 77"));
  pipeline_ = original_;
  *First(1, v1::ACTION_KIND_FORWARD).add_skip_recv() = First(2, v1::ACTION_KIND_FORWARD).skip_recv(0);
  EXPECT_THAT(Refusal(pipeline_), AllOf(HasSubstr("worker 1"), HasSubstr("(1F0)")));
}

TEST_F(RefusedSkipTest, ConnectionsThatTheGraphCannotHave) {
  v1::SkipConnection& connection = *pipeline_.graph.mutable_skip_connections(1);
  connection.set_to_layer(2);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("there is no layer between them to skip"));
  EXPECT_THAT(LoweringRefusal(), HasSubstr("there is no layer between them to skip"));
  // Of another size, with a layer in front of its end to match.
  connection.set_to_layer(5);
  pipeline_.graph.mutable_layers(1)->mutable_cost()->set_output_bytes(1280);
  pipeline_.graph.mutable_layers(4)->mutable_cost()->set_output_bytes(1280);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("skip connection 1 has 1280 bytes, and another of the skip channel 0->2"));
  EXPECT_THAT(LoweringRefusal(), HasSubstr("skip connections 0 and 1 share an edge"));
  for (const int layer : {1, 4}) pipeline_.graph.mutable_layers(layer)->mutable_cost()->set_output_bytes(641);
  pipeline_.graph.mutable_skip_connections()->DeleteSubrange(0, 1);
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("the output of layer 1 is not a whole number of bytes"));
  EXPECT_THAT(LoweringRefusal(), HasSubstr("the output of layer 1 has 641 bytes, which is not a multiple of 2"));
}

// The slot of a send is as long in use as its transfer.
TEST_F(RefusedSkipTest, ASendThatIsNotMade) {
  v1::StageProgram& program = pipeline_.programs[0];
  for (int i = 0; i < program.instructions_size(); ++i) {
    const v1::Instruction& send = program.instructions(i);
    if (send.action().kind() != v1::ACTION_KIND_SEND_FORWARD || send.sequence() != 2) continue;
    if (program.channels(static_cast<int>(send.channel())).kind() != v1::CHANNEL_KIND_SKIP) continue;
    program.mutable_instructions()->DeleteSubrange(i, 1);
  }
  EXPECT_THAT(Refusal(pipeline_), HasSubstr("the skip channel 0->2 ends with a tensor that is never sent"));
}

// Stages 1 and 2, of one worker, take micro-batches in different orders, which a buffer between them bears.
TEST(SkipEdgesTest, AnEdgePastAnotherOrderIsRefused) {
  v1::ComputeTable table;
  table.set_num_stages(4);
  table.set_num_micro_batches(2);
  using Forward = std::pair<uint32_t, uint32_t>;
  for (const auto& row : {std::vector<Forward>{{0, 0}, {0, 1}, {3, 1}, {3, 0}}, {{1, 0}, {1, 1}, {2, 1}, {2, 0}}}) {
    v1::WorkerActions& actions = *table.add_workers();
    for (const auto& [stage, micro_batch] : row) {
      v1::Action& action = *actions.add_actions();
      action.set_kind(v1::ACTION_KIND_FORWARD);
      action.set_stage(stage);
      action.set_micro_batch(micro_batch);
    }
  }
  SmallPipeline pipeline = MakeSmallPipeline(table, {.tied = false});
  EXPECT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
  testing::Connect({{1, 3}}, pipeline.graph);
  EXPECT_THAT(Lower(pipeline.table, pipeline.graph, pipeline.plan, {}).status().message(),
              HasSubstr("2F1 takes transfer 0 of its skip channel, but stage 0 does not send that micro-batch"));
}

// Its sender has no backward, and would fill as many buffers as there are micro-batches.
TEST(SkipEdgesTest, AFrozenStageRunsAFewMicroBatchesAhead) {
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"}) {
    const SmallPipeline pipeline = MakeSmallPipeline(schedule, {.num_stages = 4,
                                                                .num_micro_batches = 32,
                                                                .tied = false,
                                                                .frozen_layers = {0, 1},
                                                                .skip_connections = {{1, 4}, {2, 5}}});
    ExpectRuns(pipeline);
    for (const v1::ChannelSpec& channel : pipeline.programs[0].channels()) {
      if (channel.kind() != v1::CHANNEL_KIND_SKIP) continue;
      EXPECT_LE(channel.num_slots(), 7u) << schedule;
    }
  }
}

// Stage 0 makes everything before stage 1, on its worker, makes what stage 2 needs to take the first.
TEST(SkipEdgesTest, ASenderMayBeAheadByAllMicroBatches) {
  const v1::ComputeTable table = BreadthFirstTable({0, 0, 1, 1}, 12);
  SmallPipeline pipeline;
  for (const uint32_t window : {UINT32_MAX, 1u}) {
    pipeline = MakeSmallPipeline(table, {.tied = false, .credit_window = window, .skip_connections = {{1, 3}}});
    ExpectRuns(pipeline);
  }
  // As a window of one would have them: each receive after the F that reads the one before.
  v1::StageProgram& last = pipeline.programs[1];
  std::vector<v1::Instruction> receives;
  google::protobuf::RepeatedPtrField<v1::Instruction> others;
  for (const v1::Instruction& instruction : last.instructions()) {
    const bool is_receive = instruction.action().kind() == v1::ACTION_KIND_RECV_FORWARD &&
                            last.channels(static_cast<int>(instruction.channel())).kind() == v1::CHANNEL_KIND_SKIP;
    is_receive ? receives.push_back(instruction) : static_cast<void>(*others.Add() = instruction);
  }
  last.clear_instructions();
  for (const v1::Instruction& instruction : others) {
    if (instruction.action().kind() == v1::ACTION_KIND_FORWARD && instruction.action().stage() == 2) {
      *last.add_instructions() = receives[instruction.action().micro_batch()];
    }
    *last.add_instructions() = instruction;
  }
  EXPECT_THAT(
      Refusal(pipeline),
      HasSubstr(
          "deadlock under rendezvous sends: worker 0 at 0F3 waits for 2RECV_F1 on the skip channel 0->2 of worker 1"));
}

}  // namespace
}  // namespace stagecoach
