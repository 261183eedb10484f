// A coordinator that is started again under a job whose order was searched: what is journalled is lowered, whatever a
// search would find by then.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "coordinator/job_planning.h"
#include "coordinator/plan/layer_costs.h"
#include "coordinator/plan/testing/small_job.h"
#include "coordinator/testing/decide_harness.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

constexpr const char* kWorkers[] = {"a", "b", "c", "d"};

class ReplayedOrderTest : public ::testing::Test {
 protected:
  ReplayedOrderTest() {
    EXPECT_TRUE(WriteFileAtomically(files_, text_, std::string(128 * 64 + 1, 'x')).ok());
    spec_ = testing::SmallJobSpec(/*global_batch_size=*/16, /*micro_batch_size=*/2);
    spec_.set_name("job");
    spec_.mutable_data()->add_train()->set_path(text_);
    spec_.mutable_training()->set_steps(4);
    spec_.mutable_optimizer()->set_lr(0.5);
    spec_.mutable_lr_scheduler()->set_name("constant");
    spec_.mutable_parallelism()->set_costs("analytic");
    spec_.mutable_resources()->set_workers(4);
    spec_.mutable_checkpoint()->set_dir(directory_.Path("checkpoints"));
    spec_.mutable_checkpoint()->set_resume("never");
    for (const char* name : kWorkers) harness_.Connect(name);
  }
  std::shared_ptr<const JobPlan> Planned(const StartPlanning& order) {
    const PlanReady ready = PlanJobOfSpec(order, PlanJob, files_);
    EXPECT_TRUE(ready.plan.ok()) << ready.plan.status();
    return ready.plan.ok() ? *ready.plan : nullptr;
  }
  // Of the programs that the workers were assigned last.
  std::vector<std::string> AssignedHashes() const {
    std::vector<std::string> hashes;
    for (const char* name : kWorkers) {
      const auto sent = harness_.Sent(name, v1::CoordinatorMessage::kAssignStages);
      hashes.push_back(sent.empty() ? "" : sent.back().assign_stages().program().content_hash());
    }
    return hashes;
  }
  // A head that takes as long as many blocks.
  static std::shared_ptr<const LayerCosts> OtherCosts(const v1::ModelGraph& graph) {
    LayerCosts costs;
    for (const v1::LayerSpec& layer : graph.layers()) {
      const double seconds = layer.kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD ? 9 : 1;
      costs.Add(LayerShape(layer, graph.seq_len()), graph.micro_batch_size(), {seconds, seconds / 3, seconds / 2});
    }
    return std::make_shared<const LayerCosts>(std::move(costs));
  }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  const std::string text_ = directory_.Path("text");
  v1::JobSpec spec_;
  DecideHarness harness_;
};

TEST_F(ReplayedOrderTest, TheProgramsAreTheSameWhateverASearchWouldFindByThen) {
  const JobId job = harness_.Submit(spec_);
  ASSERT_TRUE(harness_.planning.has_value());
  const std::shared_ptr<const JobPlan> plan = Planned(*harness_.planning);
  ASSERT_NE(plan, nullptr);
  ASSERT_TRUE(plan->planned.order.has_value()) << plan->planned.plan.schedule();
  harness_.FinishPlanning(plan);
  harness_.RunUntil([&] { return harness_.job(job).history.last_commit.step() == 1; });
  ASSERT_EQ(harness_.job(job).history.last_commit.step(), 1u);
  const std::vector<std::string> before = AssignedHashes();

  harness_.Restart();
  for (const char* name : kWorkers) harness_.Dial(name);
  ASSERT_TRUE(harness_.planning.has_value());
  StartPlanning order = *harness_.planning;
  for (WorkerProfile& worker : order.workers) worker.measured = OtherCosts(plan->planned.graph);
  StartPlanning anew = order;
  anew.same_cut_as = nullptr;
  anew.order = nullptr;
  EXPECT_NE(Planned(anew)->planned.programs[0].content_hash(), before[0]);
  harness_.FinishPlanning(Planned(order));
  EXPECT_EQ(harness_.job(job).history.epoch, Epoch(2));
  EXPECT_EQ(harness_.Sent("a", v1::CoordinatorMessage::kAssignStages).size(), 2u);
  EXPECT_EQ(AssignedHashes(), before);
  EXPECT_EQ(harness_.job(job).history.plan->SerializeAsString(), plan->planned.plan.SerializeAsString());
  harness_.RunUntilQuiet();
  EXPECT_EQ(harness_.job(job).history.state, v1::JOB_STATE_SUCCEEDED) << harness_.job(job).history.message;
}

}  // namespace
}  // namespace stagecoach
