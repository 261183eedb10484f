#include "coordinator/followers.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace stagecoach {
namespace {

const JobId kJob("job");
const CoordinatorTerm kTerm(3);

class FollowersTest : public testing::Test {
 protected:
  void AddEvents(uint64_t from, uint64_t to) {
    for (uint64_t sequence = from; sequence <= to; ++sequence) {
      v1::JobEvent event;
      event.set_sequence(sequence);
      event.mutable_note();
      events_.Add(kJob, event);
      followers_.Wake(kJob);
    }
  }
  void AddLines(const std::string& worker, int number, uint32_t stage = 0) {
    v1::LogLines lines;
    for (int i = 0; i < number; ++i) lines.add_lines()->add_stages(stage);
    log_.Add(kJob, kTerm, WorkerId(worker), lines);
    followers_.Wake(kJob);
  }
  void PumpAll() {
    for (int i = 0; i < 10'000 && followers_.AnyoneIsBehind(); ++i) followers_.Pump();
    EXPECT_FALSE(followers_.AnyoneIsBehind());
  }
  struct Reader {
    std::vector<v1::JobEvent> events;
    std::vector<v1::LogRecord> lines;
    std::optional<absl::Status> end;
    size_t takes = SIZE_MAX;  // then it is full
    std::vector<uint64_t> sequences() const {
      std::vector<uint64_t> sequences;
      for (const v1::JobEvent& event : events) sequences.push_back(event.sequence());
      for (const v1::LogRecord& line : lines) sequences.push_back(line.token().sequence());
      return sequences;
    }
  };
  v1::FollowJobRequest After(uint64_t sequence) {
    v1::FollowJobRequest request;
    request.set_job(kJob.value());
    request.set_after_sequence(sequence);
    return request;
  }
  v1::FollowLogsRequest Logs(bool follow) {
    v1::FollowLogsRequest request;
    request.set_job(kJob.value());
    request.set_follow(follow);
    return request;
  }
  void Follow(uint64_t id, const v1::FollowJobRequest& request, Reader& reader, bool has_ended = false) {
    v1::JobStatus status;
    status.set_message("now");
    followers_.Add(FollowerId(id), request, status, has_ended,
                   {.on_event =
                        [&reader](const v1::JobEvent& event) {
                          if (reader.events.size() >= reader.takes) return absl::ResourceExhaustedError("full");
                          reader.events.push_back(event);
                          return absl::OkStatus();
                        },
                    .on_end = [&reader](const absl::Status& why) { reader.end = why; }});
  }
  void Follow(uint64_t id, const v1::FollowLogsRequest& request, Reader& reader, bool has_ended = false) {
    followers_.Add(FollowerId(id), request, kTerm, has_ended,
                   {.on_line =
                        [&reader](const v1::LogRecord& line) {
                          reader.lines.push_back(line);
                          return absl::OkStatus();
                        },
                    .on_end = [&reader](const absl::Status& why) { reader.end = why; }});
  }

  EventLog events_{EventLog::Limits{.events_per_job = 2000}};
  LogBook log_;
  Followers followers_{events_, log_};
  Reader reader_, other_;
};

using Sequences = std::vector<uint64_t>;

TEST_F(FollowersTest, HearsEachEventOnceFromItsTokenOn) {
  AddEvents(1, 5);
  Follow(1, After(2), reader_);
  Follow(2, After(0), other_);
  PumpAll();
  EXPECT_EQ(reader_.sequences(), (Sequences{3, 4, 5}));
  AddEvents(6, 7);
  PumpAll();
  EXPECT_EQ(reader_.sequences(), (Sequences{3, 4, 5, 6, 7}));
  EXPECT_EQ(other_.sequences(), (Sequences{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_FALSE(reader_.end.has_value());
  AddEvents(8, 8);
  followers_.JobHasEnded(kJob);
  PumpAll();
  EXPECT_EQ(reader_.sequences().back(), 8u);
  EXPECT_EQ(reader_.end, absl::OkStatus());
}

TEST_F(FollowersTest, WhoIsBehindWhenTheJobIsForgottenIsTold) {
  AddEvents(1, 1000);
  Follow(1, After(0), reader_, /*has_ended=*/true);
  Follow(2, Logs(/*follow=*/true), other_);
  followers_.Pump();
  followers_.JobIsForgotten(kJob, absl::NotFoundError("forgotten"));
  events_.Forget(kJob);
  EXPECT_EQ(reader_.end, absl::NotFoundError("forgotten"));
  EXPECT_EQ(other_.end, absl::NotFoundError("forgotten"));
  const size_t heard = reader_.events.size();
  EXPECT_LT(heard, 1000u);
  PumpAll();
  EXPECT_EQ(reader_.events.size(), heard);
  followers_.JobIsForgotten(kJob, absl::NotFoundError("forgotten"));
}

TEST_F(FollowersTest, AfterTheEndThereIsWhatWasAndTheEnd) {
  AddEvents(1, 3);
  Follow(1, After(1), reader_, /*has_ended=*/true);
  Follow(2, After(3), other_, /*has_ended=*/true);
  PumpAll();
  EXPECT_EQ(reader_.sequences(), (Sequences{2, 3}));
  EXPECT_EQ(reader_.end, absl::OkStatus());
  EXPECT_TRUE(other_.events.empty());
  EXPECT_EQ(other_.end, absl::OkStatus());
}

TEST_F(FollowersTest, OnlyNewBeginsWithTheStatus) {
  AddEvents(1, 5);
  v1::FollowJobRequest request = After(0);
  request.set_only_new(true);
  Follow(1, request, reader_);
  AddEvents(6, 6);
  PumpAll();
  ASSERT_EQ(reader_.sequences(), (Sequences{5, 6}));
  EXPECT_EQ(reader_.events[0].status().message(), "now");
}

TEST_F(FollowersTest, ALongHistoryComesInPortionsAndOthersAreNotHeldUp) {
  AddEvents(1, 1900);
  Follow(1, After(0), reader_);
  Follow(2, After(1899), other_);
  followers_.Pump();
  EXPECT_LT(reader_.events.size(), 1000u);
  EXPECT_EQ(other_.sequences(), (Sequences{1900}));
  PumpAll();
  EXPECT_EQ(reader_.events.size(), 1900u);
}

TEST_F(FollowersTest, WhatIsNoLongerKeptIsCounted) {
  AddEvents(1, 2500);
  Follow(1, After(0), reader_);
  Follow(2, After(400), other_);
  PumpAll();
  EXPECT_EQ(reader_.events[0].sequence(), 501u);
  EXPECT_EQ(reader_.events[0].num_missing(), 500u);
  EXPECT_EQ(reader_.events[1].num_missing(), 0u);
  EXPECT_EQ(other_.events[0].num_missing(), 100u);
}

TEST_F(FollowersTest, WhoFallsBehindTheLogIsToldHowMuchItMissed) {
  AddEvents(1, 2000);
  Follow(1, After(0), reader_);
  followers_.Pump();
  const uint64_t heard = reader_.events.size();
  AddEvents(2001, 3500);
  PumpAll();
  EXPECT_EQ(reader_.events[heard].sequence(), 1501u);
  EXPECT_EQ(reader_.events[heard].num_missing(), 1500 - heard);
}

TEST_F(FollowersTest, ASlowFollowerIsDroppedWithoutAWord) {
  AddEvents(1, 5);
  reader_.takes = 3;
  Follow(1, After(0), reader_);
  PumpAll();
  EXPECT_EQ(reader_.events.size(), 3u);
  reader_.takes = 100;
  AddEvents(6, 6);
  PumpAll();
  followers_.EndAll(absl::UnavailableError("stop"));
  EXPECT_EQ(reader_.events.size(), 3u);
  EXPECT_FALSE(reader_.end.has_value());
}

TEST_F(FollowersTest, WhoUnfollowsHearsNothingMore) {
  AddEvents(1, 1);
  Follow(1, After(0), reader_);
  Follow(2, After(0), other_);
  PumpAll();
  followers_.Remove(FollowerId(1));
  AddEvents(2, 2);
  PumpAll();
  followers_.EndAll(absl::UnavailableError("stop"));
  EXPECT_EQ(reader_.sequences(), (Sequences{1}));
  EXPECT_FALSE(reader_.end.has_value());
  EXPECT_EQ(other_.end, absl::UnavailableError("stop"));
}

TEST_F(FollowersTest, LinesComeByWorkerAndStage) {
  AddLines("a", 2, 0);
  AddLines("b", 2, 1);
  v1::FollowLogsRequest request = Logs(/*follow=*/true);
  request.set_worker("b");
  Follow(1, request, reader_);
  request.set_worker("");
  request.set_stage(0);
  Follow(2, request, other_);
  AddLines("b", 1, 0);
  PumpAll();
  EXPECT_EQ(reader_.sequences(), (Sequences{3, 4, 5}));
  EXPECT_EQ(other_.sequences(), (Sequences{1, 2, 5}));
  followers_.JobHasEnded(kJob);
  PumpAll();
  EXPECT_EQ(reader_.end, absl::OkStatus());
}

TEST_F(FollowersTest, WithoutFollowTheLogEndsWhereItIs) {
  AddLines("a", 3);
  Follow(1, Logs(/*follow=*/false), reader_);
  AddLines("a", 3);
  PumpAll();
  EXPECT_EQ(reader_.sequences(), (Sequences{1, 2, 3}));
  EXPECT_EQ(reader_.end, absl::OkStatus());
}

TEST_F(FollowersTest, ATokenOfThisTermIsResumedFromAndAnotherIsNot) {
  AddLines("a", 5);
  v1::FollowLogsRequest request = Logs(/*follow=*/true);
  request.mutable_after()->set_coordinator_term(kTerm.value());
  request.mutable_after()->set_sequence(3);
  Follow(1, request, reader_);
  request.mutable_after()->set_coordinator_term(2);
  Follow(2, request, other_);
  PumpAll();
  EXPECT_EQ(reader_.sequences(), (Sequences{4, 5}));
  EXPECT_EQ(other_.sequences(), (Sequences{1, 2, 3, 4, 5}));
}

TEST_F(FollowersTest, TailIsTheLastLines) {
  AddLines("a", 5);
  v1::FollowLogsRequest request = Logs(/*follow=*/true);
  request.set_tail(2);
  Follow(1, request, reader_);
  AddLines("a", 1);
  PumpAll();
  EXPECT_EQ(reader_.sequences(), (Sequences{4, 5, 6}));
}

}  // namespace
}  // namespace stagecoach
