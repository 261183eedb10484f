#include "coordinator/plan/job_cut.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/plan/testing/small_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using testing::EqualWorkers;
using ::testing::HasSubstr;
using testing::SmallJobSpec;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Candidates(const v1::JobSpec& spec, size_t num_workers) {
  const absl::StatusOr<JobRequest> request = JobRequestOf(spec, EqualWorkers(num_workers), {});
  if (!request.ok()) return {std::string(request.status().message())};
  std::vector<std::string> names;
  for (const ScheduleOption& option : request->schedules) {
    names.push_back(absl::StrCat(option.schedule->name(), " ", option.num_chunks));
  }
  return names;
}

TEST(JobCutTest, AutoHasEveryScheduleThatMakesSense) {
  EXPECT_THAT(Candidates(SmallJobSpec(32, 1), 4),
              UnorderedElementsAre("1f1b 1", "gpipe 1", "zb_h1 1", "interleaved 2", "interleaved 4", "zb_v 2",
                                   "v_half 2", "dualpipe_v 2"));
  // Fewer than two micro-batches for each worker.
  EXPECT_THAT(Candidates(SmallJobSpec(7, 1), 4), ::testing::Not(::testing::Contains("dualpipe_v 2")));
  EXPECT_THAT(Candidates(SmallJobSpec(32, 1), 1), UnorderedElementsAre("1f1b 1", "gpipe 1", "zb_h1 1"));
}

TEST(JobCutTest, AutoKeepsToTheStagesThatAreAskedFor) {
  v1::JobSpec spec = SmallJobSpec(32, 1);
  spec.mutable_parallelism()->set_virtual_stages(1);
  EXPECT_THAT(Candidates(spec, 4), UnorderedElementsAre("1f1b 1", "gpipe 1", "zb_h1 1"));
  spec.mutable_parallelism()->set_virtual_stages(2);
  EXPECT_THAT(Candidates(spec, 4), UnorderedElementsAre("interleaved 2", "zb_v 2", "v_half 2", "dualpipe_v 2"));
  spec.mutable_parallelism()->set_virtual_stages(3);
  EXPECT_THAT(Candidates(spec, 4), ElementsAre("interleaved 3"));
  spec.mutable_parallelism()->set_virtual_stages(0);
  spec.mutable_parallelism()->mutable_partition()->set_kind(v1::PartitionSpec::KIND_LAYERS);
  for (int stage = 0; stage < 4; ++stage) spec.mutable_parallelism()->mutable_partition()->add_num_blocks(4);
  EXPECT_THAT(Candidates(spec, 4), UnorderedElementsAre("1f1b 1", "gpipe 1", "zb_h1 1"));
}

// Two stages a worker would be more than can be lowered, and five workers are.
TEST(JobCutTest, AutoHasNoneThatIsTooLargeToLower) {
  const v1::JobSpec spec = SmallJobSpec(65535, 1);
  EXPECT_THAT(Candidates(spec, 4), UnorderedElementsAre("1f1b 1", "gpipe 1", "zb_h1 1"));
  EXPECT_THAT(Candidates(spec, 5), ElementsAre(HasSubstr("5 stages x 65535 micro-batches is more than 262144")));
}

TEST(JobCutTest, ANamedScheduleIsTheOnlyOne) {
  v1::JobSpec spec = SmallJobSpec(32, 1);
  spec.mutable_parallelism()->set_schedule("interleaved");
  EXPECT_THAT(Candidates(spec, 4), ElementsAre("interleaved 2"));
  spec.mutable_parallelism()->set_virtual_stages(3);
  EXPECT_THAT(Candidates(spec, 4), ElementsAre("interleaved 3"));
  spec.mutable_parallelism()->set_schedule("v_half");
  EXPECT_THAT(Candidates(spec, 4), ElementsAre(HasSubstr("virtual_stages is 3, with which schedule v_half does not")));
}

// What hand-made schedules gain by their formulas is what a job gains.
TEST(JobCutTest, AutoIsNoWorseThanAnySchedule) {
  for (const size_t num_workers : {2U, 4U, 8U}) {
    for (const uint64_t num_micro_batches : {4U, 16U, 32U}) {
      v1::JobSpec spec = SmallJobSpec(num_micro_batches, 1);
      const absl::StatusOr<JobCut> chosen = CutJob(spec, EqualWorkers(num_workers), {});
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      for (const ScheduleCandidate& candidate : chosen->choice.candidates) {
        SCOPED_TRACE(absl::StrCat(candidate.schedule, " ", num_workers, " ", num_micro_batches));
        spec.mutable_parallelism()->set_schedule(candidate.schedule);
        spec.mutable_parallelism()->set_virtual_stages(candidate.num_chunks);
        const absl::StatusOr<JobCut> named = CutJob(spec, EqualWorkers(num_workers), {});
        ASSERT_EQ(named.ok(), candidate.status.ok()) << named.status();
        if (!named.ok()) continue;
        EXPECT_EQ(named->choice.cut.step_seconds(), candidate.step_seconds);
        EXPECT_LE(chosen->choice.cut.step_seconds(), candidate.step_seconds * (1 + 1e-9));
      }
    }
  }
}

}  // namespace
}  // namespace stagecoach
