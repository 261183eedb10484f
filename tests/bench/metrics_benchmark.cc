// What metrics add to a step of the coordinator: all that its observer is told of one step with four stages, each of
// which votes and applies. Compare with the step of control_plane.

#include <benchmark/benchmark.h>

#include <memory>

#include "common/check.h"
#include "common/clock.h"
#include "coordinator/metrics/coordinator_metrics.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

constexpr uint32_t kNumStages = 4;

// Records what an observer was told, to tell it again.
class Recorder : public StateObserver {
 public:
  void OnEntry(const v1::JournalEntry& entry, const State&, bool) override {
    if (entry.has_step_committed()) step = entry;
  }
  void BeforeFact(const ObserveFact& fact, const State&) override {
    if (std::holds_alternative<ProgressChanged>(fact.fact)) facts.push_back(fact);
  }
  void OnStepMeasured(const StepMeasured& told, const State&) override { measured = told; }

  std::vector<ObserveFact> facts;
  v1::JournalEntry step;
  StepMeasured measured;
};

void BM_Step(benchmark::State& state) {
  DecideHarness harness;
  const auto registry = *MetricRegistry::Create(MetricSource::kCoordinator);
  CoordinatorMetrics metrics(*registry, Clock::Real());
  harness.observer = &metrics;
  for (const char* name : {"a", "b", "c", "d"}) harness.Connect(name);
  const JobId job = harness.Submit(SmallSpec());
  harness.FinishPlanning(SmallPlan(kNumStages));
  const auto reach = [&](uint64_t step) {
    harness.RunUntil([&] { return harness.job(job).history.last_commit.step() == step; });
  };
  reach(1);
  Recorder recorder;
  harness.observer = &recorder;
  reach(2);
  STAGECOACH_CHECK(recorder.step.has_step_committed());
  recorder.step.mutable_step_committed()->mutable_event()->set_step_seconds(0.001);
  for (auto _ : state) {
    for (const ObserveFact& fact : recorder.facts) metrics.BeforeFact(fact, harness.state);
    metrics.OnEntry(recorder.step, harness.state, /*replayed=*/false);
    metrics.OnStepMeasured(recorder.measured, harness.state);
  }
  state.counters["facts"] = static_cast<double>(recorder.facts.size());
}
BENCHMARK(BM_Step);

}  // namespace
}  // namespace stagecoach

BENCHMARK_MAIN();
