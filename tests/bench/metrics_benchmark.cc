// What metrics and the timeline's ring add to a step of four stages and 16 micro-batches, in which nothing else is
// counted: on the coordinator, all that its observer is told of one step, each stage of which votes and applies; on a
// worker, the record of a run and what its observer is told at the end; on both, a scrape. Compare with the seconds of
// a real step.

#include <benchmark/benchmark.h>

#include <memory>

#include "common/check.h"
#include "common/clock.h"
#include "coordinator/metrics/coordinator_metrics.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/testing/decide_harness.h"
#include "worker/executor/run_recorder.h"
#include "worker/executor/trace_ring.h"
#include "worker/metrics/worker_metrics.h"

namespace stagecoach {
namespace {

constexpr uint32_t kNumStages = 4;
constexpr uint32_t kNumMicroBatches = 16;

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

// Of the second stage, which has neighbours on both sides.
v1::StageProgram Program() {
  return testing::MakeSmallPipeline("1f1b", {.num_stages = kNumStages, .num_micro_batches = kNumMicroBatches})
      .programs[1];
}

void BM_RecordRun(benchmark::State& state) {
  const v1::StageProgram program = Program();
  TraceRing ring;
  ring.BeginJob(JobId("job"));
  RunRecorder recorder(&ring, Epoch(1), program);
  uint64_t step = 0;
  uint64_t transfers = 0;
  for (auto _ : state) {
    absl::Duration now = absl::Seconds(++step);
    recorder.Begin(Step(step), now);
    transfers = 0;
    for (const v1::Instruction& instruction : program.instructions()) {
      const absl::Duration begin = now;
      recorder.NoteWait(now += absl::Microseconds(1));
      recorder.AddInstruction(instruction.action(), begin, now += absl::Microseconds(1));
      if (instruction.action().kind() >= v1::ACTION_KIND_SEND_FORWARD &&
          instruction.action().kind() <= v1::ACTION_KIND_RECV_BACKWARD) {
        TransferRecord record{};
        record.post = absl::ToInt64Nanoseconds(now);
        ring.Complete(ring.Add(record), absl::ToInt64Nanoseconds(now));
        ++transfers;
      }
    }
    recorder.End(now, /*failed=*/false);
  }
  state.counters["instructions"] = program.instructions_size();
  state.counters["transfers"] = static_cast<double>(transfers);
}
BENCHMARK(BM_RecordRun);

struct ObservedWorker {
  ObservedWorker() {
    metrics.OnStagesPrepared(JobId("job"), program, {.state = 1000, .arena = 400, .snapshot = 600});
    for (uint32_t i = 0; i < static_cast<uint32_t>(program.channels_size()); ++i) {
      report.traffic.push_back({.channel = i, .sent = i % 2 == 0, .bytes = 1000, .wait_seconds = 0.001});
    }
  }
  void Run() { metrics.OnRun(JobId("job"), program, report); }

  const v1::StageProgram program = Program();
  RunReport report;
  const std::unique_ptr<MetricRegistry> registry = *MetricRegistry::Create(MetricSource::kWorker);
  WorkerMetrics metrics{*registry, Clock::Real(), /*memory_limit=*/5000};
};

void BM_WorkerRun(benchmark::State& state) {
  ObservedWorker worker;
  for (auto _ : state) worker.Run();
}
BENCHMARK(BM_WorkerRun);

// Every 15 s by default, on a thread of its own.
void BM_WorkerScrape(benchmark::State& state) {
  ObservedWorker worker;
  worker.Run();
  for (auto _ : state) benchmark::DoNotOptimize(worker.registry->Text());
}
BENCHMARK(BM_WorkerScrape);

}  // namespace
}  // namespace stagecoach

BENCHMARK_MAIN();
