#include "coordinator/event_log.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

const JobId kJob("job");

v1::JobEvent Note(uint64_t sequence) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.mutable_note()->set_reason("Something");
  return event;
}

v1::JobEvent Step(uint64_t sequence, uint64_t step) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.mutable_step()->set_step(step);
  return event;
}

TEST(EventLogTest, AForgottenJobHasNoEventsAndTakesNoRoom) {
  EventLog log({.events = 3});
  for (const uint64_t sequence : {5u, 6u, 20u}) log.Add(kJob, Note(sequence));
  log.Forget(kJob);
  EXPECT_EQ(log.End(kJob), 0u);
  log.Forget(kJob);
  for (const uint64_t sequence : {30u, 31u, 32u}) log.Add(JobId("other"), Note(sequence));
  EXPECT_EQ(log.NumMissing(JobId("other"), 0), 0u);
  log.Add(kJob, Step(40, 1));
  EXPECT_EQ(log.LastSequence(kJob), 40u);
}

TEST(EventLogTest, FindsTheEventsAfterAToken) {
  EventLog log;
  for (const uint64_t sequence : {5u, 6u, 20u}) log.Add(kJob, Note(sequence));
  uint64_t index = log.IndexAfter(kJob, 0);
  EXPECT_EQ(log.Find(kJob, index)->sequence(), 5u);
  index = log.IndexAfter(kJob, 6);
  EXPECT_EQ(log.Find(kJob, index)->sequence(), 20u);
  index = log.IndexAfter(kJob, 7);
  EXPECT_EQ(log.Find(kJob, index)->sequence(), 20u);
  index = log.IndexAfter(kJob, 20);
  EXPECT_EQ(index, log.End(kJob));
  EXPECT_EQ(log.Find(kJob, index), nullptr);
  log.Add(kJob, Note(21));
  EXPECT_EQ(log.Find(kJob, index)->sequence(), 21u);
  EXPECT_EQ(log.LastSequence(kJob), 21u);
}

TEST(EventLogTest, AnUnknownJobHasNoEvents) {
  const EventLog log;
  uint64_t index = log.IndexAfter(kJob, 3);
  EXPECT_EQ(log.Find(kJob, index), nullptr);
  EXPECT_EQ(log.NumMissing(kJob, 0), 0u);
  EXPECT_EQ(log.LastSequence(kJob), 0u);
}

TEST(EventLogTest, TheNewestStayAndTheOthersAreCounted) {
  EventLog log({.events_per_job = 3});
  for (uint64_t sequence = 1; sequence <= 10; ++sequence) log.Add(kJob, Note(sequence));
  uint64_t index = log.IndexAfter(kJob, 0);
  EXPECT_EQ(log.Find(kJob, index)->sequence(), 8u);
  EXPECT_EQ(log.NumMissing(kJob, 0), 7u);
  EXPECT_EQ(log.NumMissing(kJob, 5), 2u);
  EXPECT_EQ(log.NumMissing(kJob, 7), 0u);
  // A reader whose place is gone is moved on.
  index = 2;
  EXPECT_EQ(log.Find(kJob, index)->sequence(), 8u);
  EXPECT_EQ(index, 7u);
}

TEST(EventLogTest, AStepThatComesAfterAGapSaysHowManyAreMissing) {
  EventLog log;
  log.Add(kJob, Step(1, 1));
  log.Add(kJob, Step(2, 2));
  log.Add(kJob, Step(3, 7));
  uint64_t index = 2;
  EXPECT_EQ(log.Find(kJob, index)->num_missing(), 4u);
  index = 1;
  EXPECT_EQ(log.Find(kJob, index)->num_missing(), 0u);
}

TEST(EventLogTest, OfManyJobsThoseThatAreQuietGiveWayButForTheirLastEvent) {
  EventLog log({.events_per_job = 100, .events = 10});
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) log.Add(JobId("quiet"), Note(sequence));
  for (uint64_t sequence = 6; sequence <= 20; ++sequence) log.Add(JobId("busy"), Note(sequence));
  uint64_t index = log.IndexAfter(JobId("quiet"), 0);
  EXPECT_EQ(log.Find(JobId("quiet"), index)->sequence(), 5u);
  EXPECT_EQ(log.NumMissing(JobId("quiet"), 0), 4u);
  index = log.IndexAfter(JobId("busy"), 0);
  EXPECT_EQ(log.Find(JobId("busy"), index)->sequence(), 12u);
}

}  // namespace
}  // namespace stagecoach
