#include "coordinator/jobs/job_state.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <utility>

namespace stagecoach {
namespace {

TEST(JobStateTest, RefusesEveryTransitionThatIsNotInTheTable) {
  std::set<std::pair<int, int>> legal;
  for (const JobStateTransition& transition : JobStateTransitions()) legal.emplace(transition.from, transition.to);
  for (int from = v1::JobState_MIN; from <= v1::JobState_MAX; ++from) {
    for (int to = v1::JobState_MIN; to <= v1::JobState_MAX; ++to) {
      const auto from_state = static_cast<v1::JobState>(from), to_state = static_cast<v1::JobState>(to);
      const bool new_reason = from == to && from != v1::JOB_STATE_UNSPECIFIED && !HasEnded(from_state);
      EXPECT_EQ(CheckTransition(from_state, to_state).ok(), legal.contains({from, to}) || new_reason)
          << JobStateName(from_state) << " to " << JobStateName(to_state);
    }
  }
}

TEST(JobStateTest, TableIsTheOneThatIsPublished) {
  std::ifstream page(STAGECOACH_SOURCE_DIR "/docs/protocol.md");
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  std::set<std::string> rows;
  for (const JobStateTransition& transition : JobStateTransitions()) {
    if (transition.from == v1::JOB_STATE_UNSPECIFIED) continue;
    rows.insert("| " + JobStateName(transition.from) + " | " + JobStateName(transition.to) + " | ");
  }
  for (int from = v1::JobState_MIN; from <= v1::JobState_MAX; ++from) {
    for (int to = v1::JobState_MIN; to <= v1::JobState_MAX; ++to) {
      const std::string row = "| " + JobStateName(static_cast<v1::JobState>(from)) + " | " +
                              JobStateName(static_cast<v1::JobState>(to)) + " | ";
      EXPECT_EQ(text.find("\n" + row) != std::string::npos, rows.contains(row)) << row;
    }
  }
}

TEST(JobStateTest, NothingLeavesAnEnd) {
  for (const JobStateTransition& transition : JobStateTransitions()) EXPECT_FALSE(HasEnded(transition.from));
  EXPECT_FALSE(CheckTransition(v1::JOB_STATE_FAILED, v1::JOB_STATE_FAILED).ok());
}

TEST(JobStateTest, EveryStateInTheTableCanBeReachedAndLeft) {
  std::set<int> reachable = {v1::JOB_STATE_UNSPECIFIED}, left;
  for (const JobStateTransition& transition : JobStateTransitions()) {
    reachable.insert(transition.to);
    left.insert(transition.from);
  }
  for (const JobStateTransition& transition : JobStateTransitions()) {
    EXPECT_TRUE(reachable.contains(transition.from)) << JobStateName(transition.from);
    EXPECT_TRUE(HasEnded(transition.to) || left.contains(transition.to)) << JobStateName(transition.to);
  }
}

TEST(JobStateTest, RefusalNamesBothStates) {
  const absl::Status status = CheckTransition(v1::JOB_STATE_QUEUED, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "a job does not go from QUEUED to SUCCEEDED");
}

}  // namespace
}  // namespace stagecoach
