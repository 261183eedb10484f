// What a step costs when it computes nothing: a coordinator's process with its journal on disk, and workers that answer
// at once, each over a connection of its own.
//
//   control_plane [--workers 4] [--steps 5000] [--unix] [--metrics]
//
// Prints the time from the last StepPrepared that a worker sends to the last CommitStep that one receives, as median
// and 99th percentile over the steps, and steps per second. All workers are threads of this program, so that on few
// cores many of them wait for each other as much as for the coordinator.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "coordinator/service/testing/grpc_worker.h"
#include "coordinator/spec/job_spec_parser.h"
#include "stagecoach/v1/coordinator.grpc.pb.h"
#include "tests/testing/coordinator/coordinator_process.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr double kBarMilliseconds = 1;
constexpr std::chrono::milliseconds kHeartbeatInterval{250};

// When the last worker did something, by step.
class LastTimes {
 public:
  explicit LastTimes(uint64_t steps) : times_(steps + 1) {}
  void Note(uint64_t step) {
    const int64_t now = SteadyClock::now().time_since_epoch().count();
    int64_t last = times_[step];
    while (last < now && !times_[step].compare_exchange_weak(last, now)) {
    }
  }
  SteadyClock::time_point Of(uint64_t step) const {
    return SteadyClock::time_point(SteadyClock::duration(times_[step]));
  }

 private:
  std::vector<std::atomic<int64_t>> times_;
};

struct Arguments {
  uint32_t workers = 4;
  uint64_t steps = 5000;
  bool unix_socket = false;
  bool metrics = false;
};

v1::JobSpec MakeSpec(const Arguments& arguments, const TemporaryDirectory& directory) {
  std::ofstream(directory.Path("text")) << std::string(1 << 16, 'x');
  const std::string text = absl::StrCat(
      "{version: 1, name: nothing, model: {architecture: gpt2, config: {num_hidden_layers: ", arguments.workers,
      ", hidden_size: 8, num_attention_heads: 1, vocab_size: 256, max_position_embeddings: 8}}, data: {train: [{path: ",
      directory.Path("text"),
      "}]}, training: {seq_len: 8, global_batch_size: 4, micro_batch_size: 1, steps: ", arguments.steps,
      "}, optimizer: {name: sgd, lr: 0.1}, parallelism: {pipeline_parallel_degree: ", arguments.workers,
      "}, resources: {workers: ", arguments.workers, "}, checkpoint: {dir: ", directory.Path("checkpoints"), "}}");
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text, {}, errors);
  for (const SpecError& error : errors) std::fprintf(stderr, "%s\n", FormatSpecError("spec", error).c_str());
  STAGECOACH_CHECK(spec.ok());
  return *std::move(spec);
}

// Beats for all workers until it is destroyed.
class Heart {
 public:
  explicit Heart(const std::vector<std::unique_ptr<GrpcWorker>>& workers)
      : workers_(workers), thread_("heart", [this] { Loop(); }) {}
  ~Heart() {
    stopping_ = true;
    thread_.Join();
  }

 private:
  void Loop() {
    for (uint64_t beat = 1; !stopping_; ++beat) {
      std::this_thread::sleep_for(kHeartbeatInterval);
      for (const auto& worker : workers_) worker->SendHeartbeat(beat);
    }
  }

  const std::vector<std::unique_ptr<GrpcWorker>>& workers_;
  std::atomic<bool> stopping_ = false;
  NamedThread thread_;
};

std::vector<std::unique_ptr<GrpcWorker>> StartWorkers(const CoordinatorProcess& coordinator, uint32_t number,
                                                      LastTimes& prepared, LastTimes& committed) {
  std::vector<std::unique_ptr<GrpcWorker>> workers;
  for (uint32_t i = 0; i < number; ++i) {
    auto fake = std::make_unique<FakeWorker>(absl::StrCat("worker-", i), Incarnation(1), &FileSystem::Posix());
    workers.push_back(std::make_unique<GrpcWorker>(
        coordinator.Dial(), std::move(fake),
        [&](const v1::CoordinatorMessage& message, const std::optional<v1::WorkerMessage>& answer) {
          if (message.has_commit_step()) committed.Note(message.commit_step().record().step());
          if (answer.has_value() && answer->has_step_prepared()) prepared.Note(answer->step_prepared().step());
        }));
  }
  return workers;
}

std::string Submit(v1::CoordinatorService::Stub& client, const v1::JobSpec& spec) {
  grpc::ClientContext context;
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  v1::SubmitJobResponse response;
  const grpc::Status status = client.SubmitJob(&context, request, &response);
  if (!status.ok()) std::fprintf(stderr, "submit: %s\n", status.error_message().c_str());
  STAGECOACH_CHECK(status.ok());
  return response.job();
}

// False: it has not succeeded.
bool WaitForEnd(v1::CoordinatorService::Stub& client, const std::string& job) {
  grpc::ClientContext context;
  v1::FollowJobRequest request;
  request.set_job(job);
  const auto stream = client.FollowJob(&context, request);
  v1::JobEvent event, last;
  while (stream->Read(&event)) {
    if (event.has_status()) last = event;
  }
  if (last.status().state() == v1::JOB_STATE_SUCCEEDED) return true;
  std::fprintf(stderr, "the job ended %s: %s\n", last.status().reason().c_str(), last.status().message().c_str());
  return false;
}

void Report(const Arguments& arguments, const LastTimes& prepared, const LastTimes& committed) {
  std::vector<double> milliseconds;
  for (uint64_t step = 1; step <= arguments.steps; ++step) {
    milliseconds.push_back(std::chrono::duration<double, std::milli>(committed.Of(step) - prepared.Of(step)).count());
  }
  const std::chrono::duration<double> all = committed.Of(arguments.steps) - prepared.Of(1);
  std::sort(milliseconds.begin(), milliseconds.end());
  const double median = milliseconds[milliseconds.size() / 2];
  std::printf(
      "%u workers, %llu steps: last StepPrepared to last CommitStep median %.3f ms, p99 %.3f ms; %.0f steps/s\n",
      arguments.workers, static_cast<unsigned long long>(arguments.steps), median,
      milliseconds[milliseconds.size() * 99 / 100], static_cast<double>(arguments.steps - 1) / all.count());
  if (arguments.workers == 4)
    std::printf("bar at 4: median under %.0f ms: %s\n", kBarMilliseconds, median < kBarMilliseconds ? "met" : "MISSED");
}

int Run(const Arguments& arguments, const std::string& coordinator_binary) {
  const TemporaryDirectory directory;
  const std::string listen = arguments.unix_socket ? "unix:" + directory.Path("socket") : "127.0.0.1:0";
  std::vector<std::string> options = {"--state-dir", directory.Path("state"), "--listen",
                                      listen,        "--log-level",           "warn"};
  if (arguments.metrics) options.insert(options.end(), {"--metrics-listen", "127.0.0.1:0"});
  CoordinatorProcess coordinator(coordinator_binary, directory.path(), options);
  if (!coordinator.WaitUntilItServes()) {
    std::fprintf(stderr, "%s", coordinator.Log().c_str());
    return 1;
  }
  LastTimes prepared(arguments.steps), committed(arguments.steps);
  const auto workers = StartWorkers(coordinator, arguments.workers, prepared, committed);
  const Heart heart(workers);
  const auto client = v1::CoordinatorService::NewStub(coordinator.Dial());
  const std::string job = Submit(*client, MakeSpec(arguments, directory));
  if (!WaitForEnd(*client, job)) return 1;
  Report(arguments, prepared, committed);
  return 0;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) {
  stagecoach::StartLog("control_plane");
  CLI::App app("what a step that computes nothing costs");
  stagecoach::Arguments arguments;
  app.add_option("--workers", arguments.workers, "fake ones, threads of this program")->check(CLI::Range(1, 256));
  app.add_option("--steps", arguments.steps, "of the job")->check(CLI::Range(100, 1'000'000));
  app.add_flag("--unix", arguments.unix_socket, "over a Unix socket");
  app.add_flag("--metrics", arguments.metrics, "exported, and scraped by nobody");
  CLI11_PARSE(app, argc, argv);
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return stagecoach::Run(arguments, here / "stagecoach-coordinator");
}
