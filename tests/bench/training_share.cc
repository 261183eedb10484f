// How much of oneDNN's speed one-thread training of a GPT-2 keeps, and where the rest goes.
//
//   training_share [--config gpt2-124m|tiny] [--micro-batches 2] [--steps 3]
//
// Trains examples/<config>.yaml with one worker of one thread, a global batch of a few micro-batches, and one step of
// warm-up. Before each next step the worker's thread multiplies the matrices of a whole step again, in their order,
// from buffers of its own, so that training and oneDNN's rate are measured in turns. Prints, as medians over the steps:
//
//   useful work   floating-point operations that the model needs: 6 x parameters of matrices x tokens (the head: once
//                 forward, twice backward) and 3 x 4 T^2 C / 2 for causal attention of each layer and sequence
//   recomputation what matrix products do beyond that: logits, once more for the head's weight gradient
//   step          seconds that passed, and seconds of the worker's thread on its processor
//   achieved      useful work / seconds
//   oneDNN        rate of the step's products by themselves
//   share         achieved / oneDNN: over the time that passed, which is what counts, and over the processor time,
//                 which says what it would be on a machine that nobody else uses
//   breakdown     processor time by families of operations, in percent of the step's time and of its processor time;
//                 "executor and layers" is the thread's other work; "idle" is when it was not on a processor: it
//                 waited, or others used it

#include <array>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "common/log.h"
#include "common/message_queue.h"
#include "tests/bench/measured_job.h"
#include "tests/bench/observed_device.h"
#include "tests/bench/product_replay.h"

namespace stagecoach {
namespace {

constexpr double kBar = 0.60;

struct Seconds {
  double wall = 0;
  double processor = 0;  // of the calling thread

  static Seconds Now() { return {Of(CLOCK_MONOTONIC), Of(CLOCK_THREAD_CPUTIME_ID)}; }
  friend Seconds operator-(const Seconds& a, const Seconds& b) { return {a.wall - b.wall, a.processor - b.processor}; }

 private:
  static double Of(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
};

struct MeasuredStep {
  Seconds step;
  std::array<double, kNumOperationFamilies> processor_seconds{};
  double product_operations = 0;  // floating-point operations of the matrix products
  Seconds replay;                 // of the same products
};
using MeasuredSteps = MessageQueue<MeasuredStep>;

// Times the operations of a device, finds where a step begins, and replays the products of the step before it there.
class StepProbe : public OperationObserver {
 public:
  StepProbe(Device& device, std::shared_ptr<MeasuredSteps> steps)
      : products_(device), steps_(std::move(steps)), step_start_(Seconds::Now()) {}

  void OnStart(OperationFamily family, const Matmul* matmul) override {
    // What comes first after the updates of a step belongs to the next.
    if (updated_ && family != OperationFamily::kUpdate) EndStep();
    if (matmul != nullptr) products_.Add(*matmul);
    operation_start_ = Seconds::Now();
  }
  void OnEnd(OperationFamily family) override {
    current_.processor_seconds[static_cast<size_t>(family)] += (Seconds::Now() - operation_start_).processor;
    updated_ = family == OperationFamily::kUpdate;
  }

 private:
  void EndStep() {
    current_.step = Seconds::Now() - step_start_;
    current_.product_operations = products_.operations();
    if (warm_) {
      const Seconds start = Seconds::Now();
      Require(products_.Multiply());
      current_.replay = Seconds::Now() - start;
      Require(steps_->Push(current_));
    } else {
      Require(products_.Prepare());
    }
    warm_ = true;
    updated_ = false;
    products_.Clear();
    current_ = {};
    step_start_ = Seconds::Now();
  }

  ProductReplay products_;
  const std::shared_ptr<MeasuredSteps> steps_;
  bool warm_ = false;
  bool updated_ = false;
  MeasuredStep current_;
  Seconds step_start_, operation_start_;
};

std::vector<MeasuredStep> Measure(const v1::JobSpec& spec, size_t num_steps) {
  const auto queue = std::make_shared<MeasuredSteps>(num_steps + spec.training().steps());
  std::vector<MeasuredStep> steps;
  const auto collect = [&] {
    for (absl::StatusOr<MeasuredStep> step = queue->Pop(absl::ZeroDuration()); step.ok() && steps.size() < num_steps;
         step = queue->Pop(absl::ZeroDuration())) {
      steps.push_back(*step);
      std::fprintf(stderr, "step %zu of %zu: %.2f s, its products by themselves %.2f s\n", steps.size(), num_steps,
                   step->step.wall, step->replay.wall);
    }
    return steps.size() == num_steps;
  };
  const DeviceFactory device =
      ObservedCpuDevices([&](Device& inner) { return std::make_unique<StepProbe>(inner, queue); });
  TrainUntil(
      spec, /*num_workers=*/1, device, [](const v1::StepEvent&) { return true; }, collect);
  return steps;
}

struct UsefulOperations {
  double products = 0, attention = 0;
  double total() const { return products + attention; }
};

UsefulOperations UsefulOperationsOf(const v1::JobSpec& spec) {
  const v1::ModelConfig& config = spec.model().config();
  const auto hidden = static_cast<double>(config.hidden_size());
  const auto layers = static_cast<double>(config.num_hidden_layers());
  const auto seq = static_cast<double>(spec.training().seq_len());
  const auto samples = static_cast<double>(spec.training().global_batch_size());
  const double matrix_parameters = layers * 12 * hidden * hidden + hidden * static_cast<double>(config.vocab_size());
  return {.products = 6 * matrix_parameters * samples * seq,
          .attention = 3 * 4 * seq * seq * hidden / 2 * layers * samples};
}

template <typename Value>
double MedianOf(const std::vector<MeasuredStep>& steps, const Value& value) {
  std::vector<double> values;
  for (const MeasuredStep& step : steps) values.push_back(value(step));
  return Median(std::move(values));
}

void PrintBreakdown(const std::vector<MeasuredStep>& steps) {
  static constexpr const char* kNames[kNumOperationFamilies] = {
      "GEMM",      "column sums",   "attention",        "norms",          "elementwise",
      "embedding", "cross entropy", "optimizer update", "gradient norms", "copies"};
  const auto print = [&](const char* name, const auto& seconds) {
    std::printf("  %-20s %9.3f s %6.2f%%", name, MedianOf(steps, seconds),
                100 * MedianOf(steps, [&](const auto& s) { return seconds(s) / s.step.wall; }));
    std::printf(" %6.2f%%\n", 100 * MedianOf(steps, [&](const auto& s) { return seconds(s) / s.step.processor; }));
  };
  std::printf("breakdown                         of step  of processor\n");
  for (size_t family = 0; family < kNumOperationFamilies; ++family) {
    print(kNames[family], [&](const MeasuredStep& step) { return step.processor_seconds[family]; });
  }
  print("executor and layers", [](const MeasuredStep& step) {
    return std::accumulate(step.processor_seconds.begin(), step.processor_seconds.end(), step.step.processor,
                           std::minus<>());
  });
  print("idle", [](const MeasuredStep& step) { return step.step.wall - step.step.processor; });
}

void Print(const v1::JobSpec& spec, const std::vector<MeasuredStep>& steps) {
  const UsefulOperations useful = UsefulOperationsOf(spec);
  const double total = useful.total();
  const auto median = [&](const auto& value) { return MedianOf(steps, value); };
  std::printf("%s: %llu tokens a step, %zu steps\n", spec.name().c_str(),
              static_cast<unsigned long long>(spec.training().global_batch_size() * spec.training().seq_len()),
              steps.size());
  std::printf("useful work   %.1f GFLOP a step: products %.1f, attention %.1f\n", total / 1e9, useful.products / 1e9,
              useful.attention / 1e9);
  std::printf("recomputation %.1f GFLOP a step\n", (steps.front().product_operations - useful.products) / 1e9);
  std::printf("step          %.3f s, on the processor %.3f s\n", median([](const auto& s) { return s.step.wall; }),
              median([](const auto& s) { return s.step.processor; }));
  std::printf("achieved      %.1f GFLOP/s, of processor time %.1f\n",
              median([&](const auto& s) { return total / s.step.wall; }) / 1e9,
              median([&](const auto& s) { return total / s.step.processor; }) / 1e9);
  std::printf("oneDNN        %.1f GFLOP/s, of processor time %.1f (inside the steps %.1f)\n",
              median([](const auto& s) { return s.product_operations / s.replay.wall; }) / 1e9,
              median([](const auto& s) { return s.product_operations / s.replay.processor; }) / 1e9,
              median([](const auto& s) { return s.product_operations / s.processor_seconds[0]; }) / 1e9);
  const double share =
      median([&](const auto& s) { return total / s.step.wall / (s.product_operations / s.replay.wall); });
  const double processor_share =
      median([&](const auto& s) { return total / s.step.processor / (s.product_operations / s.replay.processor); });
  std::printf("share         %.1f%%, of processor time %.1f%%; the bar is %.0f%%: %s\n", 100 * share,
              100 * processor_share, 100 * kBar, share >= kBar ? "reached" : "missed");
  PrintBreakdown(steps);
}

int Main(int argc, char** argv) {
  CLI::App app("How much of oneDNN's speed one-thread training of a GPT-2 keeps");
  std::string config = "gpt2-124m";
  uint64_t micro_batches = 2, num_steps = 3;
  app.add_option("--config", config, "a file in examples, without .yaml");
  app.add_option("--micro-batches", micro_batches, "of a step")->check(CLI::Range(1, 1024));
  app.add_option("--steps", num_steps, "how many to measure")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  StartLog("training_share");

  const absl::StatusOr<std::string> text =
      ReadFile(FileSystem::Posix(), absl::StrCat(STAGECOACH_SOURCE_DIR "/examples/", config, ".yaml"), 1 << 20);
  Require(text.status());
  const uint64_t micro_batch_size = RequireSpec(*text, {}).training().micro_batch_size();
  const v1::JobSpec spec =
      RequireSpec(*text, {absl::StrCat("training.global_batch_size=", micro_batches * micro_batch_size),
                          absl::StrCat("training.steps=", num_steps + 3), "training.validation_interval=0",
                          "data.validation_fraction=0", "checkpoint.interval_steps=0"});
  Print(spec, Measure(spec, num_steps));
  return 0;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Main(argc, argv); }
