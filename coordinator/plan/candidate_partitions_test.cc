#include "coordinator/plan/candidate_partitions.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/plan/asked_partition.h"
#include "coordinator/plan/schedule_choice.h"
#include "coordinator/plan/testing/small_job.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::EqualWorkers;
using ::testing::HasSubstr;
using testing::SmallCutRequest;

PartitionProblem ProblemOf(const std::string& schedule, uint64_t memory_bytes) {
  const ScheduleOption option{*FindSchedule(schedule), (*FindSchedule(schedule))->default_chunks()};
  return *ProblemForSchedule(SmallCutRequest(EqualWorkers(4, memory_bytes)), option);
}

v1::PartitionSpec Auto() {
  v1::PartitionSpec spec;
  spec.set_kind(v1::PartitionSpec::KIND_AUTO);
  return spec;
}

// Of the fastest cut.
uint64_t PeakBytes(const PartitionProblem& problem) {
  const std::vector<uint64_t> needed = NeededBytes(problem, PartitionAsAsked(problem, Auto())->stages);
  return *std::max_element(needed.begin(), needed.end());
}

TEST(CandidatePartitionsTest, EachIsThatOfTheProblemAlone) {
  uint64_t peak = 0;
  for (const char* schedule : {"1f1b", "zb_v", "interleaved"}) {
    const PartitionProblem problem = ProblemOf(schedule, 0);
    peak = std::max(peak, PeakBytes(problem));
  }
  // From one in which nothing counts down to one in which nothing fits.
  for (const double share : {1.1, 0.999, 0.95, 0.9, 0.8, 0.7, 0.5, 0.1}) {
    CandidatePartitions partitions(Auto());
    for (const char* schedule : {"1f1b", "gpipe", "zb_h1", "interleaved", "zb_v", "v_half", "dualpipe_v"}) {
      SCOPED_TRACE(::testing::Message() << schedule << " " << share);
      const PartitionProblem problem = ProblemOf(schedule, static_cast<uint64_t>(share * static_cast<double>(peak)));
      const absl::StatusOr<Partition> alone = PartitionAsAsked(problem, Auto());
      const absl::StatusOr<Partition> shared = partitions.Best(problem);
      ASSERT_EQ(shared.status().code(), alone.status().code()) << shared.status();
      if (!alone.ok()) continue;
      EXPECT_EQ(shared->stages, alone->stages);
      EXPECT_EQ(shared->recomputed_layers, alone->recomputed_layers);
      EXPECT_EQ(shared->bottleneck_seconds, alone->bottleneck_seconds);
      EXPECT_EQ(shared->is_optimal, alone->is_optimal);
    }
  }
}

TEST(CandidatePartitionsTest, WhatDoesNotFitSaysByHowMuch) {
  const PartitionProblem unlimited = ProblemOf("1f1b", 0);
  const uint64_t needed = PeakBytes(unlimited);
  const absl::Status status = CandidatePartitions(Auto()).Best(ProblemOf("1f1b", 1000)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith(absl::StrCat("its best cut lacks ", needed - 1000, " bytes on worker ")));
}

TEST(CandidatePartitionsTest, ACutThatIsAskedForIsTheOnlyOne) {
  v1::PartitionSpec spec;
  spec.set_kind(v1::PartitionSpec::KIND_LAYERS);
  for (const uint32_t blocks : {10U, 2U, 2U, 2U}) spec.add_num_blocks(blocks);
  CandidatePartitions partitions(spec);
  EXPECT_EQ(partitions.Best(ProblemOf("1f1b", 0))->stages[0], (LayerRange{0, 10}));
  EXPECT_THAT(std::string(partitions.Best(ProblemOf("zb_v", 0)).status().message()), HasSubstr("is for 4 stages"));
}

}  // namespace
}  // namespace stagecoach
