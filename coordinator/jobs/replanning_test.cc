#include "coordinator/jobs/replanning.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "coordinator/plan/planner.h"
#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {
namespace {

v1::JobSpec TinySpec(const std::string& schedule, const std::string& virtual_stages,
                     std::vector<SpecOverride> overrides = {}) {
  std::ifstream file(STAGECOACH_SOURCE_DIR "/examples/tiny.yaml");
  std::stringstream text;
  text << file.rdbuf();
  std::vector<SpecError> errors;
  overrides.push_back({"parallelism.schedule", schedule});
  overrides.push_back({"parallelism.virtual_stages", virtual_stages});
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text.str(), overrides, errors);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : v1::JobSpec();
}

TEST(ReplanningTest, TheSameCutComesBackWhateverTheStagesOfAWorker) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"auto", "auto"}, {"gpipe", "1"}, {"interleaved", "auto"}, {"interleaved", "4"}, {"zb_v", "2"}};
  for (const auto& [schedule, virtual_stages] : cases) {
    SCOPED_TRACE(testing::Message() << schedule << " " << virtual_stages);
    const v1::JobSpec spec = TinySpec(schedule, virtual_stages);
    const std::vector<WorkerProfile> three(3);
    const absl::StatusOr<PlannedJob> planned = PlanJobWith(spec, three, {.searches_order = false});
    ASSERT_TRUE(planned.ok()) << planned.status();
    const absl::StatusOr<v1::JobSpec> same = SpecOfSameCut(spec, planned->plan);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(same->parallelism().pipeline_parallel_degree(), 3u);
    const absl::StatusOr<PlannedJob> again = PlanJob(*same, three);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(IsSameCut(planned->plan, again->plan));
    const absl::StatusOr<PlannedJob> other = PlanJob(spec, std::vector<WorkerProfile>(2));
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_FALSE(IsSameCut(planned->plan, other->plan));
  }
}

TEST(ReplanningTest, AnOrderOfTheUsersOwnComesBackToo) {
  const v1::JobSpec spec = TinySpec("[\"0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\", \"1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\"]",
                                    "auto", {{"training.micro_batch_size", "auto"}});
  const absl::StatusOr<PlannedJob> planned = PlanJob(spec, std::vector<WorkerProfile>(2));
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->plan.schedule(), "csv");
  const absl::StatusOr<v1::JobSpec> same = SpecOfSameCut(spec, planned->plan);
  ASSERT_TRUE(same.ok()) << same.status();
  const absl::StatusOr<PlannedJob> again = PlanJob(*same, std::vector<WorkerProfile>(2));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(IsSameCut(planned->plan, again->plan));
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(again->programs[rank].content_hash(), planned->programs[rank].content_hash());
  }
}

}  // namespace
}  // namespace stagecoach
