#include "coordinator/journal_compaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/event_log.h"
#include "coordinator/jobs/job_events.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using Journal = std::vector<v1::JournalEntry>;

Journal Compact(const Journal& journal, JournalCompaction::Limits limits) {
  JournalCompaction compaction(limits);
  for (const v1::JournalEntry& entry : journal) compaction.Count(entry);
  Journal kept;
  for (const v1::JournalEntry& entry : journal) {
    if (const auto left = compaction.Keep(entry); left.has_value()) kept.push_back(*left);
  }
  return kept;
}

// What clients can know of all jobs.
std::string Description(const Journal& journal) {
  std::string text;
  const State state = Replay(journal);
  for (const auto& [id, job] : state.jobs()) absl::StrAppend(&text, DescribeJob(job).DebugString());
  return text;
}

// A job that has ended, with validation after each second step, one that was cancelled in the queue after many
// messages, and one that runs and has trained `steps` steps.
Journal LongJournal(uint64_t steps) {
  DecideHarness harness;
  harness.Connect("a");
  v1::JobSpec spec = SmallSpec("ended");
  spec.mutable_training()->set_steps(steps);
  harness.Submit(spec);
  harness.FinishPlanning(SmallPlan(1, 3));
  harness.RunUntilQuiet();
  v1::JobSpec big = SmallSpec("waiting");
  big.mutable_resources()->set_workers(9);
  const JobId waiting = harness.Submit(big);
  for (const char* name : {"b", "c", "d"}) harness.Connect(name);
  harness.Feed(CancelRequested{1, waiting});
  for (const char* name : {"b", "c", "d"}) harness.Lose(name);
  spec.set_name("runs");
  spec.mutable_training()->set_steps(2 * steps);
  const JobId runs = harness.Submit(spec);
  harness.FinishPlanning(SmallPlan(1, 3));
  harness.RunUntil([&] { return harness.job(runs).history.last_commit.step() == steps; });
  return harness.journal;
}

TEST(JournalCompactionTest, TheJobsAreTheSame) {
  const Journal journal = LongJournal(40);
  for (const uint64_t active : {1u, 2u, 7u, 39u, 40u, 100u}) {
    for (const uint64_t ended : {1u, 2u, 5u, 40u, 41u}) {
      SCOPED_TRACE(absl::StrCat(active, " of the active, ", ended, " of the ended job"));
      const Journal kept = Compact(journal, {.steps_of_active_job = active, .steps_of_ended_job = ended});
      EXPECT_EQ(Description(kept), Description(journal));
      EXPECT_EQ(Replay(kept).last_sequence(), Replay(journal).last_sequence());
      // Again is the same.
      EXPECT_EQ(Description(Compact(kept, {.steps_of_active_job = 1, .steps_of_ended_job = 1})), Description(journal));
    }
  }
}

// Two epochs of a job, each with the order that was searched for it.
Journal JournalWithOrders(bool has_ended) {
  DecideHarness harness;
  harness.Connect("a");
  const JobId job = harness.Submit(SmallSpec());
  const auto with_order = [] {
    std::shared_ptr<JobPlan> plan = SmallPlan(1);
    plan->planned.order.emplace().set_schedule("auto");
    return plan;
  };
  harness.FinishPlanning(with_order());
  harness.RunUntil([&] { return harness.job(job).history.last_commit.step() == 1; });
  harness.Restart();
  harness.Dial("a");
  harness.FinishPlanning(with_order());
  if (has_ended) {
    harness.RunUntilQuiet();
  } else {
    harness.RunUntil([&] { return harness.job(job).history.last_commit.step() == 2; });
  }
  return harness.journal;
}

std::vector<bool> HaveOrders(const Journal& journal) {
  std::vector<bool> have_orders;
  for (const v1::JournalEntry& entry : journal) {
    if (entry.has_epoch_started()) have_orders.push_back(entry.epoch_started().has_order());
  }
  return have_orders;
}

TEST(JournalCompactionTest, OrdersStayWhileTheyAreRun) {
  for (const bool has_ended : {false, true}) {
    const Journal journal = JournalWithOrders(has_ended);
    EXPECT_THAT(HaveOrders(journal), testing::ElementsAre(true, true));
    const Journal kept = Compact(journal, {});
    EXPECT_THAT(HaveOrders(kept), testing::ElementsAre(false, !has_ended));
    EXPECT_EQ(DurableText(Replay(kept)), DurableText(Replay(journal)));
  }
}

TEST(JournalCompactionTest, TheNewestStepsStayAndTheRestIsMissed) {
  const Journal journal = LongJournal(40);
  const Journal kept = Compact(journal, {.steps_of_active_job = 10, .steps_of_ended_job = 3});
  EventLog log;
  State state;
  for (const v1::JournalEntry& entry : kept) {
    state.Apply(entry);
    if (!JobOfEntry(entry).empty()) {
      const JobId id(JobOfEntry(entry));
      log.Add(id, EventOfEntry(entry, state.jobs().at(id)));
    }
  }
  for (const auto& [name, steps] : {std::pair<std::string, uint64_t>{"runs", 10}, {"ended", 3}}) {
    uint64_t index = 0, last = 0, shown = 0, missing = 0;
    while (const v1::JobEvent* event = log.Find(JobId(name), index)) {
      ++index;
      if (!event->has_step()) continue;
      missing += event->num_missing();
      EXPECT_EQ(event->step().step(), last + 1 + event->num_missing());
      last = event->step().step();
      ++shown;
    }
    EXPECT_EQ(last, 40u);
    EXPECT_EQ(shown, steps + 1);
    EXPECT_EQ(missing, 40 - shown);
  }
}

TEST(JournalCompactionTest, MessagesOfAnEndedJobsStatesGo) {
  const Journal journal = LongJournal(2);
  const auto num_changes = [](const Journal& entries) {
    int changes = 0;
    for (const v1::JournalEntry& entry : entries) changes += entry.job_state_changed().job() == "waiting";
    return changes;
  };
  EXPECT_GT(num_changes(journal), 4);
  EXPECT_EQ(num_changes(Compact(journal, {})), 2);  // one message of the queue, and the end
}

TEST(JournalCompactionTest, NothingIsLeftOfForgottenJobsAndOfWorkersThatHaveLeft) {
  DecideHarness harness;
  harness.state = State({.keep_jobs = 1});
  harness.journal.clear();
  for (const char* name : {"a", "b"}) harness.Connect(name);
  for (int i = 0; i < 3; ++i) {
    harness.Submit(SmallSpec("gpt"));
    harness.FinishPlanning(SmallPlan(2));
    harness.RunUntilQuiet();
  }
  harness.Lose("b");
  harness.Connect("c");
  harness.Lose("a");
  harness.Connect("a", /*incarnation=*/2);
  harness.Submit(SmallSpec("gpt"));
  harness.FinishPlanning(SmallPlan(2));

  const Journal kept = Compact(harness.journal, {.least_dropped = 1});
  EXPECT_EQ(DurableText(Replay(kept)), DurableText(Replay(harness.journal)));
  EXPECT_EQ(DurableText(Replay(Compact(kept, {}))), DurableText(Replay(harness.journal)));
  EXPECT_EQ(Replay(kept).fleet(), (std::set<WorkerId>{WorkerId("a"), WorkerId("c")}));
  std::set<std::string> names;
  int about_workers = 0;
  for (const v1::JournalEntry& entry : kept) {
    names.insert(JobOfEntry(entry));
    about_workers += entry.has_worker_joined() || entry.has_worker_left();
  }
  EXPECT_EQ(names, (std::set<std::string>{"", "gpt-3", "gpt-4"}));
  EXPECT_EQ(about_workers, 2);
  JournalCompaction compaction({.least_dropped = 50});
  for (const v1::JournalEntry& entry : harness.journal) compaction.Count(entry);
  EXPECT_FALSE(compaction.IsWorthwhile());
  JournalCompaction eager({.least_dropped = 20});
  for (const v1::JournalEntry& entry : harness.journal) eager.Count(entry);
  EXPECT_TRUE(eager.IsWorthwhile());
}

TEST(JournalCompactionTest, MeasuredCostsStayThoughTheJobsThatNeededThemAreForgotten) {
  DecideHarness harness;
  harness.state = State({.keep_jobs = 1});
  harness.journal.clear();
  harness.Connect("a");
  for (int i = 0; i < 3; ++i) {
    harness.Submit(SmallSpec("gpt"));
    harness.FinishPlanning(SmallPlan(1));
    harness.RunUntilQuiet();
  }
  v1::JournalEntry measured = harness.journal.front();
  v1::MeasuredLayer& layer = *measured.mutable_costs_measured()->add_layers();
  layer.set_shape("block");
  layer.set_micro_batch_size(4);
  layer.mutable_seconds()->set_forward(0.5);
  measured.set_sequence(0);
  Journal journal = harness.journal;
  journal.insert(journal.begin(), measured);
  for (size_t i = 0; i < journal.size(); ++i) journal[i].set_sequence(i + 1);

  const Journal kept = Compact(journal, {.least_dropped = 1});
  EXPECT_LT(kept.size(), journal.size());
  EXPECT_EQ(DurableText(Replay(kept)), DurableText(Replay(journal)));
  const State state = Replay(Compact(kept, {}));
  ASSERT_EQ(state.costs().by_kind().size(), 1u);
  EXPECT_NE(state.costs().by_kind().begin()->second->Find("block", 4), nullptr);
}

TEST(JournalCompactionTest, IsWorthItWhenMuchIsDropped) {
  const Journal journal = LongJournal(40);
  const auto is_worthwhile = [&](uint64_t least_dropped) {
    JournalCompaction compaction({.steps_of_active_job = 10, .steps_of_ended_job = 3, .least_dropped = least_dropped});
    for (const v1::JournalEntry& entry : journal) compaction.Count(entry);
    return compaction.IsWorthwhile();
  };
  const uint64_t of_workers = 3 * 2;  // that joined and left
  EXPECT_TRUE(is_worthwhile(30 + 37 + of_workers));
  EXPECT_FALSE(is_worthwhile(30 + 37 + of_workers + 1));
}

}  // namespace
}  // namespace stagecoach
