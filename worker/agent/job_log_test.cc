#include "worker/agent/job_log.h"

#include <gtest/gtest.h>

#include <string>

#include "spdlog/logger.h"

namespace stagecoach {
namespace {

class JobLogTest : public testing::Test {
 protected:
  JobLogTest() { logger_.set_level(spdlog::level::trace); }

  std::shared_ptr<JobLog> log_ = std::make_shared<JobLog>();
  spdlog::logger logger_{"worker", log_};
};

TEST_F(JobLogTest, KeepsLinesWhileThereIsAJob) {
  logger_.info("before");
  log_->SetJob(true);
  logger_.info("first {}", 1);
  logger_.error("second");
  const v1::LogLines lines = log_->Take(10);
  ASSERT_EQ(lines.lines_size(), 2);
  EXPECT_EQ(lines.lines(0).text(), "first 1");
  EXPECT_EQ(lines.lines(0).severity(), v1::LOG_SEVERITY_INFO);
  EXPECT_GT(lines.lines(0).time().seconds(), 0);
  EXPECT_EQ(lines.lines(1).text(), "second");
  EXPECT_EQ(lines.lines(1).severity(), v1::LOG_SEVERITY_ERROR);
  EXPECT_EQ(log_->Take(10).lines_size(), 0);
}

TEST_F(JobLogTest, ForgetsThoseOfAJobThatHasEnded) {
  log_->SetJob(true);
  logger_.info("of the first job");
  log_->SetJob(false);
  logger_.info("of none");
  log_->SetJob(true);
  EXPECT_EQ(log_->Take(10).lines_size(), 0);
}

TEST_F(JobLogTest, TakesNoMoreThanAsked) {
  log_->SetJob(true);
  for (int i = 0; i < 5; ++i) logger_.info("{}", i);
  EXPECT_EQ(log_->Take(3).lines_size(), 3);
  const v1::LogLines rest = log_->Take(3);
  ASSERT_EQ(rest.lines_size(), 2);
  EXPECT_EQ(rest.lines(0).text(), "3");
}

TEST_F(JobLogTest, CountsWhatDoesNotFit) {
  log_->SetJob(true);
  for (size_t i = 0; i < JobLog::kMaxLines + 7; ++i) logger_.info("line");
  EXPECT_EQ(log_->Take(JobLog::kMaxLines - 1).lines_size(), static_cast<int>(JobLog::kMaxLines) - 1);
  const v1::LogLines last = log_->Take(10);
  ASSERT_EQ(last.lines_size(), 2);
  EXPECT_EQ(last.lines(1).text(), "7 lines were dropped here");
  EXPECT_EQ(last.lines(1).severity(), v1::LOG_SEVERITY_WARNING);
  EXPECT_EQ(log_->Take(10).lines_size(), 0);
}

TEST_F(JobLogTest, CutsLongLinesAndReplacesWhatIsNoText) {
  log_->SetJob(true);
  logger_.info(std::string(2 * JobLog::kMaxTextBytes, 'x'));
  logger_.info("\xff");
  const v1::LogLines lines = log_->Take(10);
  EXPECT_EQ(lines.lines(0).text().size(), JobLog::kMaxTextBytes);
  EXPECT_EQ(lines.lines(1).text(), "?");
}

}  // namespace
}  // namespace stagecoach
