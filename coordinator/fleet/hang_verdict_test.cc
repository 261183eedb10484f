#include "coordinator/fleet/hang_verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakeSmallPipeline;
using testing::SmallPipeline;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSilentAfter = 1;
constexpr double kInterval = 0.25;  // of heartbeats

std::vector<uint32_t> Ranks(const std::vector<HangBlame>& blames) {
  std::vector<uint32_t> ranks;
  for (const HangBlame& blame : blames) ranks.push_back(blame.rank.value());
  return ranks;
}

// What goes wrong in a run.
struct Trouble {
  std::optional<uint32_t> hangs;      // computes for ever at `at`
  std::optional<uint32_t> freezes;    // as if it were not there from `at` on: it says nothing either
  std::optional<uint32_t> pauses;     // computes at `at` for longer than usual
  double pause = 0;                   // so many seconds
  std::optional<uint32_t> lost_edge;  // `at`-th transfer on this channel of `of_worker` never ends
  uint32_t of_worker = 0;
  int at = 0;
};

// One run of programs under rendezvous, in simulated time: who is where from when on.
class SimulatedRun {
 public:
  struct Moment {
    double time;
    uint64_t instruction;
    std::optional<uint32_t> waits_on;
  };

  SimulatedRun(const SmallPipeline& pipeline, Trouble trouble, std::mt19937_64& random)
      : programs_(pipeline.programs), trouble_(trouble), moments_(programs_.size()), clocks_(programs_.size(), 0) {
    std::uniform_real_distribution<double> seconds(0.01, 0.3);
    for (const v1::StageProgram& program : programs_) {
      phases_.push_back(std::uniform_real_distribution<double>(0, kInterval)(random));
      for (int i = 0; i < program.instructions_size(); ++i) seconds_[{program.worker_rank(), i}] = seconds(random);
    }
    next_.assign(programs_.size(), 0);
    while (StepAny()) {
    }
  }

  double end() const { return *std::max_element(clocks_.begin(), clocks_.end()); }

  // What the coordinator knows at `now`, by heartbeats and votes.
  HangInput At(double now) const {
    HangInput input;
    input.now = absl::Seconds(now);
    input.silent_after = absl::Seconds(kSilentAfter);
    input.step_seconds = 0.1;
    for (uint32_t rank = 0; rank < programs_.size(); ++rank) input.members.push_back(ActivityAt(now, rank));
    return input;
  }

 private:
  using Edge = std::tuple<uint32_t, uint32_t, int, uint64_t>;  // from, to, kind, sequence

  // The last of the rank's heartbeats before `time`, and the first after it.
  double BeatBefore(uint32_t rank, double time) const {
    return std::max(0.0, std::floor((time - phases_[rank]) / kInterval) * kInterval + phases_[rank]);
  }
  double BeatAfter(uint32_t rank, double time) const {
    return std::ceil((time - phases_[rank]) / kInterval) * kInterval + phases_[rank];
  }

  MemberActivity ActivityAt(double now, uint32_t rank) const {
    MemberActivity member;
    const double heard = BeatBefore(rank, trouble_.freezes == rank ? std::min(now, frozen_at_) : now);
    member.program = &programs_[rank];
    member.heard_at = absl::Seconds(heard);
    const auto done = done_.find(rank);
    if (done != done_.end() && done->second <= now) member.answered_at = absl::Seconds(done->second);
    const auto moment = std::find_if(moments_[rank].rbegin(), moments_[rank].rend(),
                                     [&](const Moment& one) { return one.time <= heard; });
    if (moment == moments_[rank].rend()) return member;
    member.unmoved_since = absl::Seconds(BeatAfter(rank, moment->time));
    if (done != done_.end() && done->second <= heard) {
      member.unmoved_since = absl::Seconds(BeatAfter(rank, done->second));
      return member;
    }
    v1::RunState& run = member.run.emplace();
    run.set_run(1);
    run.set_step(7);
    run.set_instruction(moment->instruction);
    run.set_action(ActionText(programs_[rank].instructions(static_cast<int>(moment->instruction)).action()));
    run.set_waiting(moment->waits_on.has_value());
    run.set_channel(moment->waits_on.value_or(0));
    return member;
  }

  static Edge EdgeOf(const v1::StageProgram& program, uint32_t channel, uint64_t sequence) {
    const v1::ChannelSpec& spec = program.channels(static_cast<int>(channel));
    return {spec.from_stage(), spec.to_stage(), static_cast<int>(spec.kind()), sequence};
  }
  // When a transfer is complete; infinity: it is not, as things stand.
  double CompleteAt(const Edge& edge) const {
    const auto ends = posts_.find(edge);
    if (ends == posts_.end() || ends->second.size() < 2 || lost_ == edge) return kNever;
    return std::max(ends->second[0], ends->second[1]) + 0.01;
  }
  // Posted last into a slot of a channel.
  std::optional<Edge> InSlot(uint32_t rank, uint32_t channel, int32_t slot) const {
    const auto found = slots_.find({rank, channel, slot});
    return found == slots_.end() ? std::nullopt : std::optional(found->second);
  }

  // The next wait of an instruction: the channel and when it ends.
  std::optional<std::pair<uint32_t, double>> WaitOf(uint32_t rank, const v1::Instruction& instruction) const {
    const v1::ActionKind kind = instruction.action().kind();
    const bool computes =
        kind == v1::ACTION_KIND_FORWARD || kind == v1::ACTION_KIND_BACKWARD_INPUT || kind == v1::ACTION_KIND_TIE_REDUCE;
    if (!computes) return std::nullopt;
    for (const auto& [channel, slot] : {std::pair(instruction.recv_channel(), instruction.recv_slot()),
                                        std::pair(instruction.send_channel(), instruction.send_slot())}) {
      if (slot < 0) continue;
      const auto edge = InSlot(rank, channel, slot);
      if (!edge.has_value()) continue;
      if (const double end = CompleteAt(*edge); end > clocks_[rank]) return std::pair(channel, end);
    }
    return std::nullopt;
  }

  bool IsTroubled(const std::optional<uint32_t>& who, uint32_t rank) const {
    return who == rank && next_[rank] == std::min(trouble_.at, programs_[rank].instructions_size() - 1);
  }

  void Note(uint32_t rank, std::optional<uint32_t> waits_on) {
    const auto last = static_cast<uint64_t>(programs_[rank].instructions_size() - 1);
    const Moment moment{clocks_[rank], std::min(static_cast<uint64_t>(next_[rank]), last), waits_on};
    auto& moments = moments_[rank];
    if (!moments.empty() && moments.back().instruction == moment.instruction && moments.back().waits_on == waits_on) {
      return;
    }
    moments.push_back(moment);
  }

  // Lets the worker whose clock is behind do what it can. False: nobody can.
  bool StepAny() {
    std::vector<uint32_t> order(programs_.size());
    for (uint32_t rank = 0; rank < order.size(); ++rank) order[rank] = rank;
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return std::pair(clocks_[a], a) < std::pair(clocks_[b], b); });
    return std::any_of(order.begin(), order.end(), [&](uint32_t rank) { return Step(rank); });
  }

  bool Step(uint32_t rank) {
    if (done_.contains(rank)) return false;
    const v1::StageProgram& program = programs_[rank];
    if (next_[rank] == program.instructions_size()) return Drain(rank);
    if (IsTroubled(trouble_.freezes, rank) || IsTroubled(trouble_.hangs, rank)) {
      if (trouble_.freezes == rank) {
        frozen_at_ = clocks_[rank];
      } else {
        Note(rank, std::nullopt);
      }
      return false;
    }
    const v1::Instruction& instruction = program.instructions(next_[rank]);
    if (const auto wait = WaitOf(rank, instruction); wait.has_value()) {
      Note(rank, wait->first);
      if (wait->second == kNever) return false;
      clocks_[rank] = wait->second;
      return true;
    }
    Note(rank, std::nullopt);
    clocks_[rank] += seconds_.at({rank, next_[rank]}) + (IsTroubled(trouble_.pauses, rank) ? trouble_.pause : 0);
    Post(rank, instruction);
    ++next_[rank];
    return true;
  }

  void Post(uint32_t rank, const v1::Instruction& instruction) {
    const v1::ActionKind kind = instruction.action().kind();
    const bool sends = kind == v1::ACTION_KIND_SEND_FORWARD || kind == v1::ACTION_KIND_SEND_BACKWARD ||
                       kind == v1::ACTION_KIND_SEND_TIE;
    const bool receives = kind == v1::ACTION_KIND_RECV_FORWARD || kind == v1::ACTION_KIND_RECV_BACKWARD ||
                          kind == v1::ACTION_KIND_RECV_TIE;
    if (!sends && !receives) return;
    const Edge edge = EdgeOf(programs_[rank], instruction.channel(), instruction.sequence());
    posts_[edge].push_back(clocks_[rank]);
    slots_[{rank, instruction.channel(), sends ? instruction.send_slot() : instruction.recv_slot()}] = edge;
    if (trouble_.lost_edge.has_value() && trouble_.of_worker == rank && !lost_.has_value() &&
        instruction.channel() == *trouble_.lost_edge && instruction.sequence() >= static_cast<uint64_t>(trouble_.at)) {
      lost_ = edge;
    }
  }

  // At the end of the run all transfers are waited for.
  bool Drain(uint32_t rank) {
    for (const auto& [key, edge] : slots_) {
      if (std::get<0>(key) != rank) continue;
      const double end = CompleteAt(edge);
      if (end <= clocks_[rank]) continue;
      Note(rank, std::get<1>(key));
      if (end == kNever) return false;
      clocks_[rank] = end;
      return true;
    }
    done_[rank] = clocks_[rank];
    return true;
  }

 public:
  const std::optional<Edge>& lost() const { return lost_; }

 private:
  const std::vector<v1::StageProgram> programs_;
  const Trouble trouble_;
  std::vector<std::vector<Moment>> moments_;  // [num_workers], in time
  std::vector<double> clocks_;
  std::vector<double> phases_;  // of heartbeats
  std::vector<int> next_;
  std::map<std::pair<uint32_t, int>, double> seconds_;
  std::map<Edge, std::vector<double>> posts_;  // by both ends
  std::map<std::tuple<uint32_t, uint32_t, int32_t>, Edge> slots_;
  std::map<uint32_t, double> done_;
  std::optional<Edge> lost_;
  double frozen_at_ = kNever;
};

TEST(HangVerdictTest, DeadlineIsTwentyPlannedStepsThenFourTimesTheUsual) {
  MemberActivity member;
  EXPECT_EQ(HangDeadline(member, 1), absl::Seconds(20));
  EXPECT_EQ(HangDeadline(member, 0.01), absl::Seconds(2));
  member.run.emplace().set_usual_seconds(0.75);
  EXPECT_EQ(HangDeadline(member, 100), absl::Seconds(3));
  member.run->set_usual_seconds(0.1);
  EXPECT_EQ(HangDeadline(member, 100), absl::Seconds(2));
}

// Stages in the middle of a step, all heard of.
class MembersTest : public ::testing::Test {
 protected:
  explicit MembersTest(const testing::SmallPipelineOptions& options) : pipeline_(MakeSmallPipeline("1f1b", options)) {
    input_.now = absl::Seconds(100);
    input_.silent_after = absl::Seconds(kSilentAfter);
    input_.step_seconds = 0.1;
    for (uint32_t rank = 0; rank < options.num_stages; ++rank) {
      input_.members.push_back({.run = v1::RunState(),
                                .unmoved_since = input_.now,
                                .heard_at = input_.now,
                                .answered_at = std::nullopt,
                                .program = &pipeline_.programs[rank]});
      input_.members[rank].run->set_run(1);
    }
  }

  // `action` is a text such as "1F0", which the member is at for `seconds`.
  void Set(uint32_t rank, const std::string& action, double seconds) {
    const v1::StageProgram& program = pipeline_.programs[rank];
    MemberActivity& member = input_.members[rank];
    for (int i = 0; i < program.instructions_size(); ++i) {
      if (ActionText(program.instructions(i).action()) != action) continue;
      member.run->set_instruction(static_cast<uint64_t>(i));
      member.run->set_action(action);
    }
    member.unmoved_since = input_.now - absl::Seconds(seconds);
  }
  void WaitOn(uint32_t rank, v1::ChannelKind kind, uint32_t from) {
    const v1::StageProgram& program = pipeline_.programs[rank];
    for (int i = 0; i < program.channels_size(); ++i) {
      if (program.channels(i).kind() != kind || program.channels(i).from_stage() != from) continue;
      input_.members[rank].run->set_waiting(true);
      input_.members[rank].run->set_channel(static_cast<uint32_t>(i));
    }
  }

  // The member is at `action`, for `seconds`, and waits for that of its channels.
  void SetWaiting(uint32_t rank, const std::string& action, double seconds, v1::ChannelKind kind, uint32_t from) {
    Set(rank, action, seconds);
    WaitOn(rank, kind, from);
  }
  void FallSilent(uint32_t rank, double seconds) {
    input_.members[rank].heard_at = input_.now - absl::Seconds(seconds);
  }

  const SmallPipeline pipeline_;
  HangInput input_;
};

class TwoMembersTest : public MembersTest {
 protected:
  TwoMembersTest() : MembersTest({.num_stages = 2, .num_micro_batches = 3}) {}
};

// Whose channels have one slot each.
class TwoMembersWithOneSlotTest : public MembersTest {
 protected:
  TwoMembersWithOneSlotTest() : MembersTest({.num_stages = 2, .num_micro_batches = 3, .credit_window = 1}) {}
};

TEST_F(TwoMembersTest, WhoComputesTooLongIsBlamedAndWhoWaitsForItIsNot) {
  Set(0, "0F1", 3);
  Set(1, "1F1", 5);
  WaitOn(1, v1::CHANNEL_KIND_ACTIVATION, 0);
  const std::vector<HangBlame> blames = FindHang(input_);
  ASSERT_THAT(Ranks(blames), ElementsAre(0));
  EXPECT_EQ(blames[0].action, "0F1");
  EXPECT_EQ(blames[0].message, "computes in 0F1 of step 0 for 3s; the deadline is 2s");
}

TEST_F(TwoMembersTest, NobodyIsBlamedBeforeTheDeadline) {
  Set(0, "0F1", 1.9);
  Set(1, "1F1", 5);
  WaitOn(1, v1::CHANNEL_KIND_ACTIVATION, 0);
  EXPECT_THAT(FindHang(input_), IsEmpty());
}

TEST_F(TwoMembersTest, NobodyIsStuckForLongerThanTheRun) {
  Set(0, "0F1", 50);
  input_.ordered_at = input_.now - absl::Seconds(1);
  EXPECT_THAT(FindHang(input_), IsEmpty());
}

TEST_F(TwoMembersTest, WhoHasAnsweredIsNotBlamed) {
  Set(0, "0F1", 50);
  input_.members[0].run.reset();
  input_.members[0].answered_at = input_.now - absl::Seconds(49);
  EXPECT_THAT(FindHang(input_), IsEmpty());
}

TEST_F(TwoMembersTest, WhoHasNotBegunIsBlamed) {
  Set(0, "0F1", 50);
  input_.members[0].run.reset();
  Set(1, "1F0", 50);
  WaitOn(1, v1::CHANNEL_KIND_ACTIVATION, 0);
  const std::vector<HangBlame> blames = FindHang(input_);
  ASSERT_THAT(Ranks(blames), ElementsAre(0));
  EXPECT_THAT(blames[0].message, HasSubstr("has not begun the program for 50s"));
}

TEST_F(TwoMembersTest, AnEarlierRunOfASilentMemberCountsForNothing) {
  Set(0, "0NORM", 50);
  input_.members[0].heard_at = input_.now - absl::Seconds(50);
  Set(1, "1F0", 50);
  input_.members[1].run->set_run(2);
  WaitOn(1, v1::CHANNEL_KIND_ACTIVATION, 0);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
}

// Stage 0 has sent micro-batch 0 and waits for its gradient; stage 1 waits for that micro-batch: it is the transfer
// that is lost, not the gradient, which nobody has sent.
TEST_F(TwoMembersTest, TheReceiverOfALostTransferIsBlamed) {
  Set(0, "0I0", 5);
  WaitOn(0, v1::CHANNEL_KIND_GRADIENT, 1);
  Set(1, "1F0", 6);
  WaitOn(1, v1::CHANNEL_KIND_ACTIVATION, 0);
  const std::vector<HangBlame> blames = FindHang(input_);
  ASSERT_THAT(Ranks(blames), ElementsAre(1));
  EXPECT_THAT(blames[0].message, HasSubstr("from rank 0 to rank 1"));

  // The other way round: the gradient was sent and is lost.
  Set(1, "1F2", 5);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
}

// Of a channel's two receives that are posted the first has ended: the second decides, not the third, which is newer.
TEST_F(TwoMembersTest, WhoWaitsForTheSecondTransferIsJudgedByThatOne) {
  SetWaiting(1, "1F1", 6, v1::CHANNEL_KIND_ACTIVATION, 0);
  Set(0, "0SEND_F0", 5);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
  Set(0, "0SEND_F1", 5);  // not posted yet
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
  SetWaiting(0, "0I1", 5, v1::CHANNEL_KIND_GRADIENT, 1);  // posted
  const std::vector<HangBlame> blames = FindHang(input_);
  ASSERT_THAT(Ranks(blames), ElementsAre(1));
  EXPECT_THAT(blames[0].message, HasSubstr("from rank 0 to rank 1"));
}

// At the end of its run a worker waits for whatever is still under way.
TEST_F(TwoMembersTest, WhoWaitsAtItsEndIsNotBlamedForWhoComputes) {
  SetWaiting(1, "1NORM", 6, v1::CHANNEL_KIND_GRADIENT, 1);
  Set(0, "0I1", 5);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
}

// The gradient of micro-batch 0 is lost: its sender waits for the slot, and its receiver for the gradient.
TEST_F(TwoMembersWithOneSlotTest, OfBothEndsOfALostTransferTheReceiverIsBlamed) {
  SetWaiting(0, "0I0", 5, v1::CHANNEL_KIND_GRADIENT, 1);
  SetWaiting(1, "1I1", 6, v1::CHANNEL_KIND_GRADIENT, 1);
  const std::vector<HangBlame> blames = FindHang(input_);
  ASSERT_THAT(Ranks(blames), ElementsAre(0));
  EXPECT_THAT(blames[0].message, HasSubstr("from rank 1 to rank 0"));
}

// The activation of micro-batch 1 is lost too.
TEST_F(TwoMembersWithOneSlotTest, OfALostTransferInEachDirectionBothReceiversAreBlamed) {
  SetWaiting(0, "0I0", 5, v1::CHANNEL_KIND_GRADIENT, 1);
  SetWaiting(1, "1F1", 6, v1::CHANNEL_KIND_ACTIVATION, 0);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(1, 0));
}

TEST_F(TwoMembersTest, OfACircleTheReceiverThatWaitedLongestIsBlamed) {
  Set(0, "0I1", 5);  // has not posted 0SEND_F2
  WaitOn(0, v1::CHANNEL_KIND_GRADIENT, 1);
  input_.members[0].run->set_instruction(8);
  Set(1, "1I0", 6);
  WaitOn(1, v1::CHANNEL_KIND_GRADIENT, 1);
  input_.members[1].run->set_instruction(2);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
}

TEST_F(TwoMembersTest, ASilentMemberIsBlamedUnlessItWaitsForAnother) {
  Set(0, "0F1", 3);
  Set(1, "1F1", 5);
  WaitOn(1, v1::CHANNEL_KIND_ACTIVATION, 0);
  input_.members[1].heard_at = input_.now - absl::Seconds(5);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));

  Set(0, "0I0", 3);
  WaitOn(0, v1::CHANNEL_KIND_GRADIENT, 1);
  const std::vector<HangBlame> blames = FindHang(input_);
  ASSERT_THAT(Ranks(blames), ElementsAre(1));
  EXPECT_THAT(blames[0].message, HasSubstr("has said nothing in 1F1"));
}

TEST_F(TwoMembersTest, WhenNobodyIsHeardLeasesDecide) {
  Set(0, "0F1", 50);
  Set(1, "1F1", 50);
  for (MemberActivity& member : input_.members) member.heard_at = absl::ZeroDuration();
  EXPECT_THAT(FindHang(input_), IsEmpty());
}

TEST_F(TwoMembersTest, NonsenseFromAWorkerIsComputing) {
  Set(0, "0F1", 50);
  input_.members[0].run->set_waiting(true);
  input_.members[0].run->set_channel(1000);
  input_.members[0].run->set_instruction(uint64_t{1} << 40);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
  input_.members[0].run->set_channel(0);
  Set(1, "1F0", 0);
  EXPECT_THAT(FindHang(input_), IsEmpty());
}

// Who waits for a transfer whose other end has just been posted may have it by now.
TEST_F(TwoMembersTest, ATransferIsNotStuckSinceBeforeItsOtherEndAnswered) {
  Set(0, "0I0", 5);
  WaitOn(0, v1::CHANNEL_KIND_GRADIENT, 1);
  input_.members[1].run.reset();
  input_.members[1].answered_at = input_.now - absl::Seconds(1);
  EXPECT_THAT(FindHang(input_), IsEmpty());
  input_.members[1].answered_at = input_.now - absl::Seconds(3);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
}

TEST_F(TwoMembersTest, WhatAMemberDidAfterItsLastHeartbeatIsNotHeldAgainstIt) {
  Set(0, "0F1", 2.1);
  input_.members[0].heard_at = input_.now - absl::Seconds(0.2);
  EXPECT_THAT(FindHang(input_), IsEmpty());
  input_.members[0].heard_at = input_.now - absl::Seconds(0.1);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
}

// Each stage waits for the one before it.
class ChainTest : public MembersTest {
 protected:
  ChainTest() : MembersTest({.num_stages = 4, .num_micro_batches = 4}) {
    for (const uint32_t rank : {1u, 2u, 3u}) {
      SetWaiting(rank, absl::StrCat(rank, "F1"), 10 + rank, v1::CHANNEL_KIND_ACTIVATION, rank - 1);
    }
  }
};

TEST_F(ChainTest, OnlyTheRootThatComputesIsBlamed) {
  Set(0, "0F1", 5);
  const std::vector<HangBlame> blames = FindHang(input_);
  ASSERT_THAT(Ranks(blames), ElementsAre(0));
  EXPECT_THAT(blames[0].message, HasSubstr("computes in 0F1"));
}

TEST_F(ChainTest, NobodyIsBlamedWhileTheRootMayCompute) {
  Set(0, "0F1", 1.5);
  EXPECT_THAT(FindHang(input_), IsEmpty());
}

TEST_F(ChainTest, OnlyTheRootThatIsStoppedIsBlamed) {
  Set(0, "0F1", 5);
  FallSilent(0, 4.9);
  const std::vector<HangBlame> blames = FindHang(input_);
  ASSERT_THAT(Ranks(blames), ElementsAre(0));
  EXPECT_THAT(blames[0].message, HasSubstr("has said nothing"));
}

// It may be stopped too, but nobody could tell: it waits all the same.
TEST_F(ChainTest, WhoIsSilentInTheMiddleIsNotBlamedForTheRoot) {
  Set(0, "0F1", 5);
  FallSilent(2, 8);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
}

// It was stopped in front of what it waits for, which has come.
TEST_F(ChainTest, WhoWasStoppedWhileItWaitedIsBlamedOnceItsTransferIsPosted) {
  SetWaiting(0, "0F3", 5, v1::CHANNEL_KIND_ACTIVATION, 0);  // for a slot that stage 1 empties
  FallSilent(1, 8);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(1));
}

TEST_F(ChainTest, OfTwoRootsTheOneThatIsStuckForLongestComesFirst) {
  Set(0, "0F1", 5);
  Set(2, "2F1", 9);
  input_.members[2].run->set_waiting(false);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(2, 0));
}

Trouble DrawTrouble(const SmallPipeline& pipeline, std::mt19937_64& random) {
  const auto below = [&](uint64_t bound) { return static_cast<uint32_t>(random() % bound); };
  const uint32_t culprit = below(pipeline.programs.size());
  const v1::StageProgram& program = pipeline.programs[culprit];
  Trouble trouble;
  trouble.of_worker = culprit;
  trouble.at = static_cast<int>(below(static_cast<uint64_t>(program.instructions_size())));
  switch (below(5)) {
    case 0:
      trouble.hangs = culprit;
      break;
    case 1:
      trouble.freezes = culprit;
      break;
    case 2:
      trouble.pauses = culprit;
      trouble.pause = std::uniform_real_distribution<double>(0.5, 4)(random);
      break;
    case 3:
      trouble.lost_edge = below(static_cast<uint64_t>(program.channels_size()));
      trouble.at = static_cast<int>(below(6));
      break;
    default:
      break;  // nothing goes wrong
  }
  return trouble;
}

// Whatever happens in whatever pipeline: at no time is anybody blamed but the culprit, and it is in the end.
TEST(HangVerdictPropertyTest, OnlyThePlantedCulpritIsBlamed) {
  int found = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const SmallPipeline pipeline = MakeSmallPipeline(random() % 2 == 0 ? "1f1b" : "gpipe",
                                                     {.num_stages = 2 + static_cast<uint32_t>(random() % 5),
                                                      .num_micro_batches = 1 + static_cast<uint32_t>(random() % 6),
                                                      .credit_window = 1 + static_cast<uint32_t>(random() % 4)});
    const Trouble trouble = DrawTrouble(pipeline, random);
    const SimulatedRun run(pipeline, trouble, random);
    std::set<uint32_t> guilty;
    if (trouble.hangs || trouble.freezes) guilty.insert(trouble.of_worker);
    if (run.lost().has_value()) guilty.insert(std::get<1>(*run.lost()));  // one stage a worker
    std::set<uint32_t> suspects = guilty;
    if (trouble.pauses && trouble.pause > 1.5) suspects.insert(trouble.of_worker);
    for (double now = 0; now < run.end() + 6; now += 0.07) {
      for (const HangBlame& blame : FindHang(run.At(now))) {
        ASSERT_TRUE(suspects.contains(blame.rank.value()))
            << "seed " << seed << " at " << now << ": rank " << blame.rank << " " << blame.message;
      }
    }
    const std::vector<uint32_t> blamed = Ranks(FindHang(run.At(run.end() + 6)));
    ASSERT_EQ(std::set<uint32_t>(blamed.begin(), blamed.end()), guilty) << "seed " << seed;
    found += static_cast<int>(guilty.size());
  }
  EXPECT_GT(found, 400);
}

}  // namespace
}  // namespace stagecoach
