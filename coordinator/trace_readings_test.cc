#include "coordinator/trace_readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "common/trace/trace_limits.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kReading = 5;

class TraceReadingsTest : public testing::Test {
 protected:
  TraceReader Reader() {
    return {.on_chunk =
                [this](v1::TraceChunk chunk) {
                  chunks_.push_back(std::move(chunk));
                  return chunk_status_;
                },
            .on_end = [this](const absl::Status& status) { end_ = status; }};
  }
  static BeginTraceReading Order(std::map<WorkerId, uint32_t> awaited, std::map<uint32_t, std::string> missing = {}) {
    BeginTraceReading order{.reading = kReading,
                            .header = {},
                            .awaited = std::move(awaited),
                            .missing = std::move(missing),
                            .deadline = absl::Seconds(5)};
    order.header.set_job("job");
    order.header.set_first_step(2);
    return order;
  }
  void Begin(const BeginTraceReading& order) {
    ASSERT_TRUE(readings_.Add(kReading, Reader()).ok());
    readings_.Begin(order);
  }
  void Say(const std::string& worker, bool last, uint64_t request = kReading) {
    TakeTracePart taken{WorkerId(worker), {}};
    taken.part.set_request(request);
    taken.part.set_last(last);
    readings_.Take(std::move(taken));
  }
  // The ranks that chunks after the header are of; those missing count from 100.
  std::vector<uint32_t> Ranks() const {
    std::vector<uint32_t> ranks;
    for (size_t i = 1; i < chunks_.size(); ++i) {
      ranks.push_back(chunks_[i].has_missing() ? 100 + chunks_[i].missing().worker_rank()
                                               : chunks_[i].worker().worker_rank());
    }
    return ranks;
  }

  TraceReadings readings_;
  std::vector<v1::TraceChunk> chunks_;
  absl::Status chunk_status_;
  std::optional<absl::Status> end_;
};

TEST_F(TraceReadingsTest, GivesTheHeaderThenPartsAndEndsAfterTheLast) {
  Begin(Order({{WorkerId("a"), 0}, {WorkerId("b"), 1}}));
  ASSERT_THAT(chunks_, SizeIs(1));
  EXPECT_EQ(chunks_[0].header().job(), "job");
  Say("b", false);
  Say("a", true);
  EXPECT_EQ(end_, std::nullopt);
  Say("b", true);
  EXPECT_THAT(Ranks(), ElementsAre(1, 0, 1));
  EXPECT_EQ(end_, absl::OkStatus());
}

TEST_F(TraceReadingsTest, WhoIsNotAskedIsMissingAtOnce) {
  Begin(Order({{WorkerId("a"), 1}}, {{0, "gone"}}));
  EXPECT_THAT(Ranks(), ElementsAre(100));
  EXPECT_EQ(chunks_[1].missing().message(), "gone");
  EXPECT_EQ(end_, std::nullopt);
}

TEST_F(TraceReadingsTest, WithoutAnybodyToAskItEndsAtOnce) {
  Begin(Order({}, {{0, "gone"}, {1, "gone"}}));
  EXPECT_THAT(Ranks(), ElementsAre(100, 101));
  EXPECT_EQ(end_, absl::OkStatus());
}

TEST_F(TraceReadingsTest, WhoDoesNotAnswerInTimeIsMissing) {
  Begin(Order({{WorkerId("a"), 0}, {WorkerId("b"), 1}}));
  Say("a", true);
  readings_.Expire(absl::Seconds(5) - absl::Nanoseconds(1));
  EXPECT_EQ(end_, std::nullopt);
  readings_.Expire(absl::Seconds(5));
  EXPECT_THAT(Ranks(), ElementsAre(0, 101));
  EXPECT_EQ(end_, absl::OkStatus());
  Say("b", true);  // too late
  EXPECT_THAT(chunks_, SizeIs(3));
}

TEST_F(TraceReadingsTest, TakesNothingThatNobodyAskedFor) {
  Begin(Order({{WorkerId("a"), 0}}));
  Say("stranger", true);
  Say("a", true, kReading + 1);
  EXPECT_THAT(chunks_, SizeIs(1));
  Say("a", true);
  Say("a", true);
  EXPECT_THAT(chunks_, SizeIs(2));
}

TEST_F(TraceReadingsTest, AReaderThatIsTooSlowEndsItsReading) {
  Begin(Order({{WorkerId("a"), 0}}));
  chunk_status_ = absl::ResourceExhaustedError("slow");
  Say("a", false);
  EXPECT_TRUE(absl::IsResourceExhausted(*end_));
  Say("a", true);
  EXPECT_THAT(chunks_, SizeIs(2));
}

TEST_F(TraceReadingsTest, AReaderThatHasGoneIsCalledNoMore) {
  Begin(Order({{WorkerId("a"), 0}}));
  readings_.Remove(kReading);
  Say("a", true);
  readings_.Expire(absl::Seconds(9));
  EXPECT_THAT(chunks_, SizeIs(1));
  EXPECT_EQ(end_, std::nullopt);
}

TEST_F(TraceReadingsTest, ThereIsALimitToReadings) {
  for (uint64_t reading = 1; reading <= TraceReadings::kMostReadings; ++reading) {
    ASSERT_TRUE(readings_.Add(reading, Reader()).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(readings_.Add(100, Reader())));
  readings_.Remove(1);
  EXPECT_TRUE(readings_.Add(100, Reader()).ok());
}

TEST_F(TraceReadingsTest, TheHeaderHasTheTimesOfStepsThatWereSeen) {
  for (uint64_t step = 1; step <= kMostTracedSteps + 3; ++step) {
    readings_.NoteStep({.job = JobId("job"),
                        .step = Step(step),
                        .begin = absl::Nanoseconds(10 * step),
                        .end = absl::Nanoseconds(10 * step + 9),
                        .votes = {}});
  }
  BeginTraceReading order = Order({{WorkerId("a"), 0}});
  order.header.set_first_step(kMostTracedSteps + 2);
  Begin(order);
  const auto& steps = chunks_[0].header().steps();
  ASSERT_EQ(steps.size(), 2);
  EXPECT_EQ(steps[0].step(), kMostTracedSteps + 2);
  EXPECT_EQ(steps[0].begin(), static_cast<int64_t>(10 * (kMostTracedSteps + 2)));
  EXPECT_EQ(steps[0].end(), steps[0].begin() + 9);
}

TEST_F(TraceReadingsTest, AJobThatIsForgottenHasNoTimes) {
  readings_.NoteStep({.job = JobId("job"), .step = Step(2), .begin = {}, .end = {}, .votes = {}});
  readings_.Forget(JobId("job"));
  Begin(Order({{WorkerId("a"), 0}}));
  EXPECT_THAT(chunks_[0].header().steps(), IsEmpty());
}

TEST_F(TraceReadingsTest, AllEndWithTheCoordinator) {
  Begin(Order({{WorkerId("a"), 0}}));
  readings_.EndAll(absl::UnavailableError("it stops"));
  EXPECT_TRUE(absl::IsUnavailable(*end_));
}

}  // namespace
}  // namespace stagecoach
