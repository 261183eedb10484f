#include "common/metrics/metric_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class MetricRegistryTest : public testing::Test {
 protected:
  const std::unique_ptr<MetricRegistry> registry_ = *MetricRegistry::Create(MetricSource::kCoordinator);
};

TEST_F(MetricRegistryTest, ASeriesIsThereOnceItIsAskedFor) {
  EXPECT_THAT(registry_->Text(), Not(HasSubstr("stagecoach_steps_total")));
  registry_->Counter("stagecoach_steps_total", {"tiny"}).Increment(2);
  registry_->Counter("stagecoach_steps_total", {"tiny"}).Increment();
  EXPECT_THAT(registry_->Text(), AllOf(HasSubstr("stagecoach_steps_total{run=\"tiny\"} 3\n"),
                                       HasSubstr("# TYPE stagecoach_steps_total counter\n")));
}

TEST_F(MetricRegistryTest, LabelsAreInTheOrderOfTheTable) {
  registry_->Counter("stagecoach_stage_busy_seconds_total", {"tiny", "3", "idle"}).Increment(0.5);
  EXPECT_THAT(registry_->Text(),
              AllOf(HasSubstr("run=\"tiny\""), HasSubstr("stage=\"3\""), HasSubstr("state=\"idle\"")));
}

TEST_F(MetricRegistryTest, AHistogramHasTheBucketsOfTheTable) {
  registry_->Histogram("stagecoach_step_duration_seconds", {"tiny"}).Observe(0.02);
  EXPECT_THAT(registry_->Text(), AllOf(HasSubstr("_bucket{run=\"tiny\",le=\"0.01\"} 0\n"),
                                       HasSubstr("_bucket{run=\"tiny\",le=\"0.025\"} 1\n"),
                                       HasSubstr("_bucket{run=\"tiny\",le=\"+Inf\"} 1\n")));
}

TEST_F(MetricRegistryTest, AGroupTakesItsSeriesWithIt) {
  registry_->Gauge("stagecoach_step", {"stays"}).Set(1);
  {
    SeriesGroup group(*registry_);
    group.Gauge("stagecoach_step", {"goes"}).Set(7);
    group.Gauge("stagecoach_step", {"goes"}).Set(8);  // the same series
    group.Histogram("stagecoach_step_duration_seconds", {"goes"}).Observe(1);
    group.Counter("stagecoach_steps_total", {"goes"}).Increment();
    EXPECT_THAT(registry_->Text(), HasSubstr("stagecoach_step{run=\"goes\"} 8\n"));
  }
  EXPECT_THAT(registry_->Text(), AllOf(Not(HasSubstr("goes")), HasSubstr("stagecoach_step{run=\"stays\"} 1\n")));
}

TEST(MetricRegistryOfTest, HasTheMetricsOfItsDaemon) {
  const auto worker = *MetricRegistry::Create(MetricSource::kWorker);
  worker->Gauge("stagecoach_session_up").Set(1);
  worker->Gauge("stagecoach_build_info", {"1.2.3"}).Set(1);
  EXPECT_DEATH(worker->Counter("stagecoach_steps_total", {"tiny"}), "");
}

TEST_F(MetricRegistryTest, DiesOfWhatTheTableDoesNotHave) {
  EXPECT_DEATH(registry_->Gauge("stagecoach_steps_total", {"tiny"}), "");  // a counter
  EXPECT_DEATH(registry_->Counter("stagecoach_steps_total"), "");          // without its label
  EXPECT_DEATH(registry_->Counter("stagecoach_nothing_total"), "");
}

}  // namespace
}  // namespace stagecoach
