#include "coordinator/log_book.h"

#include <gtest/gtest.h>

#include <string>

namespace stagecoach {
namespace {

const JobId kJob("job");
const WorkerId kWorker("w");
const CoordinatorTerm kTerm(3);

v1::LogLines Lines(const std::string& text, int number = 1) {
  v1::LogLines lines;
  for (int i = 0; i < number; ++i) lines.add_lines()->set_text(text);
  return lines;
}

TEST(LogBookTest, LinesHaveTokensAndAreReadAfterOne) {
  LogBook book;
  EXPECT_EQ(book.FindAfter(kJob, 0), nullptr);
  book.Add(kJob, kTerm, kWorker, Lines("a", 2));
  book.Add(kJob, kTerm, WorkerId("v"), Lines("b"));
  EXPECT_EQ(book.FindAfter(kJob, 0)->token().sequence(), 1u);
  EXPECT_EQ(book.FindAfter(kJob, 0)->token().coordinator_term(), 3u);
  EXPECT_EQ(book.FindAfter(kJob, 2)->line().text(), "b");
  EXPECT_EQ(book.FindAfter(kJob, 2)->worker(), "v");
  EXPECT_EQ(book.FindAfter(kJob, 3), nullptr);
  EXPECT_EQ(book.LastSequence(kJob), 3u);
}

TEST(LogBookTest, AForgottenJobHasNoLinesAndTakesNoRoom) {
  LogBook book({.bytes = 2000});
  book.Add(kJob, kTerm, kWorker, Lines("x", 7));
  book.Forget(kJob);
  EXPECT_EQ(book.FindAfter(kJob, 0), nullptr);
  EXPECT_EQ(book.LastSequence(kJob), 0u);
  book.Forget(kJob);
  book.Add(JobId("other"), kTerm, kWorker, Lines("y", 7));
  EXPECT_EQ(book.FindAfter(JobId("other"), 0)->token().sequence(), 1u);
  book.Add(kJob, kTerm, kWorker, Lines("z"));
  EXPECT_EQ(book.FindAfter(kJob, 0)->token().sequence(), 1u);
}

TEST(LogBookTest, TheNewestLinesStay) {
  LogBook book({.lines_per_job = 4});
  book.Add(kJob, kTerm, kWorker, Lines("x", 10));
  EXPECT_EQ(book.FindAfter(kJob, 0)->token().sequence(), 7u);
  EXPECT_EQ(book.FindAfter(kJob, 8)->token().sequence(), 9u);
}

TEST(LogBookTest, LongLinesAreCutBetweenCharacters) {
  LogBook book;
  std::string text(LogBook::kMaxLineBytes - 1, 'x');
  book.Add(kJob, kTerm, kWorker, Lines(text + "\xc3\xa4\xc3\xa4"));
  EXPECT_EQ(book.FindAfter(kJob, 0)->line().text(), text);
}

TEST(LogBookTest, TailCountsWhatMatches) {
  LogBook book;
  for (int i = 0; i < 10; ++i) book.Add(kJob, kTerm, WorkerId(i % 2 == 0 ? "even" : "odd"), Lines("x"));
  const auto is_even = [](const v1::LogRecord& record) { return record.worker() == "even"; };
  EXPECT_EQ(book.SequenceBeforeTail(kJob, 2, is_even), 6u);  // lines 7 and 9
  EXPECT_EQ(book.SequenceBeforeTail(kJob, 100, is_even), 0u);
  EXPECT_EQ(book.SequenceBeforeTail(JobId("no"), 1, is_even), 0u);
}

TEST(LogBookTest, OfManyJobsThoseThatAreQuietGiveWay) {
  LogBook book({.lines_per_job = 1000, .bytes = 100'000});
  book.Add(JobId("quiet"), kTerm, kWorker, Lines(std::string(1000, 'x'), 50));
  book.Add(JobId("busy"), kTerm, kWorker, Lines(std::string(1000, 'x'), 60));
  EXPECT_EQ(book.FindAfter(JobId("busy"), 0)->token().sequence(), 1u);
  const v1::LogRecord* left = book.FindAfter(JobId("quiet"), 0);
  ASSERT_NE(left, nullptr);
  EXPECT_GT(left->token().sequence(), 25u);
  book.Add(JobId("busy"), kTerm, kWorker, Lines(std::string(1000, 'x'), 60));
  EXPECT_EQ(book.FindAfter(JobId("quiet"), 0), nullptr);
  EXPECT_GT(book.FindAfter(JobId("busy"), 0)->token().sequence(), 30u);
}

}  // namespace
}  // namespace stagecoach
