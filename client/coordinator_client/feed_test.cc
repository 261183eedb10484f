#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/coordinator_client/job_feed.h"
#include "client/coordinator_client/log_feed.h"
#include "client/coordinator_client/testing/fake_coordinator_service.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::Duration kPatience = absl::Seconds(20);

class FeedTest : public testing::Test {
 protected:
  FeedTest() {
    v1::Job job;
    job.mutable_status()->set_job("a");
    job.mutable_status()->set_state(v1::JOB_STATE_RUNNING);
    service_.PutJob(job);
  }

  JobFeed Feed(JobFeed::Options options = {}) {
    options.reconnect.on_outage = [this](const absl::Status&) { ++outages_; };
    return JobFeed(client_, "a", options);
  }
  void AddSteps(uint64_t first, uint64_t last) {
    for (uint64_t step = first; step <= last; ++step) {
      v1::JobEvent event;
      event.mutable_step()->set_step(step);
      service_.AddEvent("a", event);
    }
  }
  void AddStatus(v1::JobState state) {
    v1::JobEvent event;
    event.mutable_status()->set_job("a");
    event.mutable_status()->set_state(state);
    service_.AddEvent("a", event);
  }
  static std::string Text(const v1::JobEvent& event) {
    return event.has_step() ? absl::StrCat(event.step().step()) : v1::JobState_Name(event.status().state());
  }
  // The next `number` events.
  static std::vector<std::string> Read(JobFeed& feed, size_t number) {
    std::vector<std::string> texts;
    const absl::Time give_up = absl::Now() + kPatience;
    while (texts.size() < number && absl::Now() < give_up) {
      const absl::StatusOr<std::optional<v1::JobEvent>> event = feed.Next(absl::Milliseconds(100));
      if (!event.ok()) return texts;
      if (event->has_value()) texts.push_back(Text(**event));
    }
    return texts;
  }

  FakeCoordinatorService service_;
  CoordinatorClient client_{{.address = service_.address()}};
  int outages_ = 0;
};

TEST_F(FeedTest, GivesAllEventsAndThenTheEnd) {
  AddSteps(1, 2);
  AddStatus(v1::JOB_STATE_SUCCEEDED);
  JobFeed feed = Feed();
  EXPECT_THAT(Read(feed, 9), ElementsAre("1", "2", "JOB_STATE_SUCCEEDED"));
  EXPECT_EQ(feed.status().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(absl::IsOutOfRange(feed.Next(absl::ZeroDuration()).status()));
}

TEST_F(FeedTest, ReturnsWhenNothingHappens) {
  JobFeed feed = Feed();
  const auto event = feed.Next(absl::Milliseconds(1));
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(event->has_value());
}

TEST_F(FeedTest, GoesOnAfterABreakWithoutGapOrRepetition) {
  AddSteps(1, 5);
  service_.BreakAfter(3, absl::StatusCode::kUnavailable);
  JobFeed feed = Feed();
  EXPECT_THAT(Read(feed, 5), ElementsAre("1", "2", "3", "4", "5"));
  EXPECT_EQ(service_.calls().follows.back().after_sequence(), 3u);
  EXPECT_EQ(outages_, 1);
}

TEST_F(FeedTest, OutlivesARestart) {
  AddSteps(1, 2);
  JobFeed feed = Feed();
  EXPECT_THAT(Read(feed, 2), ElementsAre("1", "2"));
  service_.Stop();
  EXPECT_THAT(Read(feed, 0), IsEmpty());
  AddSteps(3, 4);
  AddStatus(v1::JOB_STATE_FAILED);
  service_.Start();
  EXPECT_THAT(Read(feed, 9), ElementsAre("3", "4", "JOB_STATE_FAILED"));
}

TEST_F(FeedTest, AReaderTooSlowResumes) {
  AddSteps(1, 3);
  service_.BreakAfter(1, absl::StatusCode::kResourceExhausted);
  JobFeed feed = Feed();
  EXPECT_THAT(Read(feed, 3), ElementsAre("1", "2", "3"));
}

TEST_F(FeedTest, OnlyNewBeginsWithTheStatusAndResumesFromIt) {
  AddSteps(1, 7);
  JobFeed feed = Feed({.only_new = true});
  EXPECT_THAT(Read(feed, 1), ElementsAre("JOB_STATE_RUNNING"));
  service_.Stop();
  AddSteps(8, 8);
  service_.Start();
  EXPECT_THAT(Read(feed, 1), ElementsAre("8"));
  EXPECT_FALSE(service_.calls().follows.back().only_new());
  EXPECT_EQ(service_.calls().follows.back().after_sequence(), 7u);
}

TEST_F(FeedTest, IsLostWhenTheCoordinatorStaysAway) {
  AddSteps(1, 1);
  JobFeed feed = Feed({.reconnect = {.timeout = absl::Milliseconds(150)}});
  EXPECT_THAT(Read(feed, 1), ElementsAre("1"));
  service_.Stop();
  absl::StatusOr<std::optional<v1::JobEvent>> event = feed.Next(kPatience);
  EXPECT_TRUE(absl::IsUnavailable(event.status())) << event.status();
  EXPECT_EQ(outages_, 1);
}

TEST_F(FeedTest, KnowsTheStepWhenTheCoordinatorIsLost) {
  AddStatus(v1::JOB_STATE_RUNNING);
  AddSteps(1, 4);
  JobFeed feed = Feed();
  EXPECT_THAT(Read(feed, 5), ElementsAre("JOB_STATE_RUNNING", "1", "2", "3", "4"));
  EXPECT_EQ(feed.status().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(feed.status().step(), 4u);
}

TEST_F(FeedTest, AnErrorThatWillNotPassEndsIt) {
  JobFeed feed(client_, "none", {});
  EXPECT_TRUE(absl::IsNotFound(feed.Next(kPatience).status()));
}

// skypilot#4599, ray#57002: a stream that ends is no job that succeeds.
TEST_F(FeedTest, AStreamThatEndsBeforeTheJobIsFollowedByAnother) {
  AddSteps(1, 1);
  service_.BreakAfter(1, absl::StatusCode::kOk);
  AddSteps(2, 2);
  JobFeed feed = Feed();
  EXPECT_THAT(Read(feed, 2), ElementsAre("1", "2"));
}

TEST_F(FeedTest, AStreamThatEndsWithoutStatusIsCompletedFromTheJob) {
  AddStatus(v1::JOB_STATE_CANCELLED);
  JobFeed feed = Feed({.only_new = true});
  EXPECT_THAT(Read(feed, 1), ElementsAre("JOB_STATE_CANCELLED"));
  AddSteps(1, 1);
  service_.BreakAfter(0, absl::StatusCode::kOk);
  JobFeed other = Feed();
  EXPECT_THAT(Read(other, 9), ElementsAre("JOB_STATE_CANCELLED"));
}

class LogFeedTest : public FeedTest {
 protected:
  LogFeed Lines(v1::FollowLogsRequest request) {
    request.set_job("a");
    return LogFeed(client_, request, {});
  }
  static std::vector<std::string> ReadLines(LogFeed& feed, size_t number) {
    std::vector<std::string> lines;
    const absl::Time give_up = absl::Now() + kPatience;
    while (lines.size() < number && absl::Now() < give_up) {
      const absl::StatusOr<std::optional<v1::LogRecord>> record = feed.Next(absl::Milliseconds(100));
      if (!record.ok()) return lines;
      if (record->has_value()) lines.push_back((*record)->line().text());
    }
    return lines;
  }
};

TEST_F(LogFeedTest, EndsAfterWhatIsKept) {
  service_.AddLine("a", "worker-0", "one");
  service_.AddLine("a", "worker-1", "two");
  LogFeed feed = Lines({});
  EXPECT_THAT(ReadLines(feed, 9), ElementsAre("one", "two"));
  EXPECT_TRUE(absl::IsOutOfRange(feed.Next(kPatience).status()));
}

TEST_F(LogFeedTest, ResumesAfterTheLastLineWithoutItsTail) {
  for (const char* line : {"one", "two", "three"}) service_.AddLine("a", "worker-0", line);
  v1::FollowLogsRequest request;
  request.set_follow(true);
  request.set_tail(1);
  LogFeed feed = Lines(request);
  EXPECT_THAT(ReadLines(feed, 1), ElementsAre("three"));
  service_.Stop();
  service_.AddLine("a", "worker-0", "four");
  service_.AddLine("a", "worker-0", "five");
  service_.Start();
  EXPECT_THAT(ReadLines(feed, 2), ElementsAre("four", "five"));
  service_.EndLogs();
  EXPECT_TRUE(absl::IsOutOfRange(feed.Next(kPatience).status()));
}

}  // namespace
}  // namespace stagecoach
