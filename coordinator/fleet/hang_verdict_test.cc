#include "coordinator/fleet/hang_verdict.h"

#include <optional>
#include <string>
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

constexpr double kSilentAfter = 1;

std::vector<uint32_t> Ranks(const std::vector<HangBlame>& blames) {
  std::vector<uint32_t> ranks;
  for (const HangBlame& blame : blames) ranks.push_back(blame.rank.value());
  return ranks;
}

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

// With an edge from stage 0 to stage 2, and one back.
class SkipEdgeTest : public MembersTest {
 protected:
  SkipEdgeTest() : MembersTest({.num_stages = 3, .num_micro_batches = 3, .skip_connections = {{1, 4}}}) {}
};

// Stage 2 has posted receives of micro-batches 0 and 1; stage 0 has sent the first, and stage 2 waits for it.
TEST_F(SkipEdgeTest, TheReceiverOfALostTransferIsBlamed) {
  SetWaiting(0, "0F1", 5, v1::CHANNEL_KIND_GRADIENT, 1);
  Set(1, "1F1", 0.5);
  SetWaiting(2, "2F0", 6, v1::CHANNEL_KIND_SKIP, 0);
  const std::vector<HangBlame> blames = FindHang(input_);
  ASSERT_THAT(Ranks(blames), ElementsAre(2));
  EXPECT_THAT(blames[0].message, HasSubstr("from rank 0 to rank 2"));
  SetWaiting(0, "0F0", 5, v1::CHANNEL_KIND_GRADIENT, 1);  // not sent
  EXPECT_THAT(FindHang(input_), IsEmpty());
}

TEST_F(SkipEdgeTest, WhoHasNotSentYetHoldsUpWhoWaitsForIt) {
  Set(0, "0F1", 5);
  SetWaiting(2, "2F1", 6, v1::CHANNEL_KIND_SKIP, 0);
  SetWaiting(1, "1F1", 6, v1::CHANNEL_KIND_ACTIVATION, 0);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(0));
  // Its slot, which stage 2 has not emptied.
  SetWaiting(0, "0F2", 5, v1::CHANNEL_KIND_SKIP, 0);
  SetWaiting(1, "1F2", 6, v1::CHANNEL_KIND_ACTIVATION, 0);
  Set(2, "2F0", 5);
  input_.members[2].run->set_waiting(false);
  EXPECT_THAT(Ranks(FindHang(input_)), ElementsAre(2));
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

}  // namespace
}  // namespace stagecoach
