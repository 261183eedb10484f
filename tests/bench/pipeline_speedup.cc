// What two pipeline stages gain on two cores, against what the cores themselves gain.
//
//   pipeline_speedup [--rounds 5] [--steps 2] [--blocks 16] [--hidden 256] [--seq 128] [--micro-batch 2]
//   pipeline_speedup --idle
//
// Trains a GPT-2 of equal blocks, 16 micro-batches a step, in turns with one worker and with two, each of one thread;
// and in the same turns lets one process of one thread, then two at once, multiply the matrices of such a block. The
// first step of each training run is not counted. Prints a line per round and then, as medians over the rounds:
//
//   speed-up      step time of one worker / step time of two
//   scaling       products per second of two processes / of one: 2 on two free cores
//   bar           0.93 x 1.88 x scaling / 2, where 1.88 = 2 x 16 / (16 + 1) is what 1F1B allows; void when the
//                 scaling is under 1.9, since then the machine was not free
//   bubble        as the job reports it for two workers: idle time of the stages in the step's span
//                 (a stage sends the gradient of its input before it computes its weights' gradients, so that the
//                 speed-up can pass 1F1B's ideal, which counts a backward as one piece)
//   processor     of the whole process / time that passed: 2 is all of two cores
//
// --idle holds one of two workers inside an operation (asleep, as a device does that works by itself), first the last
// stage's, then the first stage's, so that everything else waits; it prints what each thread uses of a core meanwhile.

#include <sys/resource.h>

#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/log.h"
#include "tests/bench/gemm_process.h"
#include "tests/bench/measured_job.h"
#include "tests/bench/waiting_threads.h"
#include "worker/device/cpu/cpu_device.h"

namespace stagecoach {
namespace {

constexpr uint32_t kMicroBatches = 16;
constexpr double kIdealSpeedUp = 2.0 * kMicroBatches / (kMicroBatches + 1);
constexpr double kShareOfIdeal = 0.93;
constexpr double kLeastScaling = 1.9;

struct Arguments {
  int rounds = 5;
  int steps = 2;  // counted ones of a run
  int64_t blocks = 16, hidden = 256, seq = 128, micro_batch = 2;
  double gemm_seconds = 3;
  bool idle = false;
  bool gemm_process = false;  // this is one of those that multiply
};

v1::JobSpec SpecOf(const Arguments& arguments) {
  const std::string text = absl::StrCat(
      "version: 1\nname: pipeline-speedup\n",
      "model: {architecture: gpt2, config: {num_hidden_layers: ", arguments.blocks, ", hidden_size: ", arguments.hidden,
      ", num_attention_heads: 4, vocab_size: 256, max_position_embeddings: ", arguments.seq, "}}\n",
      "data: {train: [{path: \"/usr/share/common-licenses/*\"}], tokenizer: byte}\n",
      "training: {seq_len: ", arguments.seq, ", global_batch_size: ", kMicroBatches * arguments.micro_batch,
      ", micro_batch_size: ", arguments.micro_batch, ", steps: 1000}\n", "optimizer: {name: adamw, lr: 1.0e-4}\n",
      "checkpoint: {dir: /tmp/stagecoach/pipeline-speedup}\n");
  return RequireSpec(text, {});
}

struct Run {
  double step_seconds = 0;
  double bubble_ratio = 0;
  double processor_share = 0;  // processor seconds of the process per second
};

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Run Train(const Arguments& arguments, uint32_t num_workers) {
  Run run;
  absl::Time start;
  double processor_start = 0;
  int counted = -1;  // the first step warms up
  const auto on_step = [&](const v1::StepEvent& step) {
    if (counted < 0) {
      start = absl::Now();
      processor_start = ProcessorSeconds();
    } else {
      run.bubble_ratio += step.bubble_ratio() / arguments.steps;
    }
    if (++counted < arguments.steps) return true;
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    run.step_seconds = seconds / arguments.steps;
    run.processor_share = (ProcessorSeconds() - processor_start) / seconds;
    return false;
  };
  TrainUntil(SpecOf(arguments), num_workers, CpuDevice::Create, on_step, [] { return false; });
  return run;
}

void Compare(const Arguments& arguments) {
  const BlockShape block = {.rows = arguments.seq * arguments.micro_batch, .hidden = arguments.hidden};
  std::vector<double> speed_ups, scalings, bubbles, processor_shares;
  for (int round = 1; round <= arguments.rounds; ++round) {
    const Run one = Train(arguments, 1);
    const Run two = Train(arguments, 2);
    const double one_process = GemmProcessesRate(1, block, arguments.gemm_seconds);
    const double two_processes = GemmProcessesRate(2, block, arguments.gemm_seconds);
    speed_ups.push_back(one.step_seconds / two.step_seconds);
    scalings.push_back(two_processes / one_process);
    bubbles.push_back(two.bubble_ratio);
    processor_shares.push_back(two.processor_share);
    std::printf(
        "round %d: step %.3f s and %.3f s, speed-up %.3f; products %.1f and %.1f GFLOP/s, scaling %.3f; "
        "bubble %.3f; processor %.2f and %.2f\n",
        round, one.step_seconds, two.step_seconds, speed_ups.back(), one_process / 1e9, two_processes / 1e9,
        scalings.back(), two.bubble_ratio, one.processor_share, two.processor_share);
    std::fflush(stdout);
  }
  const double speed_up = Median(speed_ups), scaling = Median(scalings);
  const double bar = kShareOfIdeal * kIdealSpeedUp * scaling / 2;
  std::printf("speed-up      %.3f\nscaling       %.3f\n", speed_up, scaling);
  std::printf("bar           %.3f; speed-up / bar %.3f: %s\n", bar, speed_up / bar,
              scaling < kLeastScaling ? "void, the machine was not free"
              : speed_up >= bar       ? "reached"
                                      : "missed");
  std::printf("bubble        %.3f (1F1B ideal %.3f)\n", Median(bubbles), 1.0 / (kMicroBatches + 1));
  std::printf("processor     %.2f\n", Median(processor_shares));
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("What two pipeline stages gain on two cores, against what the cores themselves gain");
  app.add_option("--rounds", arguments.rounds, "of all four measurements")->check(CLI::Range(1, 1000));
  app.add_option("--steps", arguments.steps, "to count in each training run")->check(CLI::Range(1, 1000));
  app.add_option("--blocks", arguments.blocks, "of the model")->check(CLI::Range(2, 1024));
  app.add_option("--hidden", arguments.hidden, "size, a multiple of 4 heads")->check(CLI::Range(4, 65536));
  app.add_option("--seq", arguments.seq, "tokens of a sequence")->check(CLI::Range(1, 65536));
  app.add_option("--micro-batch", arguments.micro_batch, "sequences")->check(CLI::Range(1, 1024));
  app.add_option("--gemm-seconds", arguments.gemm_seconds, "of one measurement of products");
  app.add_flag("--idle", arguments.idle, "measure what threads use that wait");
  app.add_flag("--gemm-process", arguments.gemm_process)->group("");
  CLI11_PARSE(app, argc, argv);
  StartLog("pipeline_speedup");
  if (arguments.gemm_process) {
    MultiplyWhenTold({.rows = arguments.seq, .hidden = arguments.hidden}, arguments.gemm_seconds);
  } else if (arguments.idle) {
    PrintWaitingThreads(SpecOf(arguments));
  } else {
    Compare(arguments);
  }
  return 0;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Main(argc, argv); }
