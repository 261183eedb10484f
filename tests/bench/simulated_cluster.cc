#include "tests/bench/simulated_cluster.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cluster/log_file.h"
#include "client/coordinator_client/message_stream.h"
#include "client/trace/collected_trace.h"
#include "tests/bench/measured_job.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kStartTimeout = absl::Minutes(2);
constexpr absl::Duration kPoll = absl::Milliseconds(2);
constexpr int kTailLines = 5;
constexpr absl::Duration kReadTimeout = absl::Minutes(1);

// [step] seconds of its run, at the worker where that took longest.
std::map<uint64_t, double> LongestRuns(const CollectedTrace& trace) {
  std::map<uint64_t, double> seconds;
  for (const CollectedTrace::Worker& worker : trace.workers) {
    for (const v1::StepTrace& run : worker.runs) {
      double& longest = seconds[run.step()];
      longest = std::max(longest, 1e-9 * static_cast<double>(run.end()));
    }
  }
  return seconds;
}

}  // namespace

SimulatedCluster::SimulatedCluster(const Options& options) {
  StartCoordinator();
  StartWorkers(options);
}

void SimulatedCluster::Start(const std::string& name, const std::string& program,
                             const std::vector<std::string>& arguments) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  absl::StatusOr<std::unique_ptr<ChildProcess>> process =
      ChildProcess::Start({.program = here / program,
                           .arguments = arguments,
                           .environment = {"OMP_WAIT_POLICY=passive"},
                           .log_path = directory_.Path(name)});
  Require(process.status());
  processes_.push_back({name, *std::move(process)});
}

void SimulatedCluster::StartCoordinator() {
  const std::string address_file = directory_.Path("address");
  Start("coordinator", "stagecoach-coordinator",
        {"--state-dir", directory_.Path("state"), "--listen", "127.0.0.1:0", "--address-file", address_file});
  const absl::Time deadline = absl::Now() + kStartTimeout;
  for (; address_.empty(); absl::SleepFor(kPoll)) {
    CheckAllLive(deadline);
    std::getline(std::ifstream(address_file), address_);
  }
  client_ = std::make_unique<CoordinatorClient>(CoordinatorClient::Options{.address = address_});
}

void SimulatedCluster::StartWorkers(const Options& options) {
  for (uint32_t i = 0; i < options.num_workers; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    Start(name, "stagecoach-worker",
          {"--coordinator", address_, "--name", name, "--device", "simulated", "--simulated-block-seconds",
           options.block_seconds, "--threads", "1", "--memory", "64MiB", "--transport", options.transport});
  }
  const absl::Time deadline = absl::Now() + kStartTimeout;
  const auto all_known = [&] {
    const absl::StatusOr<v1::ListWorkersResponse> known = client_->ListWorkers();
    return known.ok() && known->workers_size() >= static_cast<int>(options.num_workers);
  };
  for (; !all_known(); absl::SleepFor(kPoll)) CheckAllLive(deadline);
}

void SimulatedCluster::CheckAllLive(absl::Time deadline) {
  for (const Process& process : processes_) {
    const std::optional<std::string> end = process.process->Poll();
    if (end) Fail(absl::StrCat(process.name, " ", *end));
  }
  if (absl::Now() > deadline) Fail("the cluster does not come up");
}

std::string SimulatedCluster::Submit(const v1::JobSpec& spec) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.mutable_spec()->mutable_checkpoint()->set_dir(directory_.Path("checkpoints"));
  const absl::StatusOr<std::string> job = client_->SubmitJob(std::move(request));
  if (!job.ok()) Fail(absl::StrCat("submission: ", job.status().message()));
  return *job;
}

void SimulatedCluster::WaitFor(const std::string& job) {
  v1::FollowJobRequest request;
  request.set_job(job);
  MessageStream<v1::JobEvent> events(client_->FollowJob(request));
  v1::JobStatus last;
  for (;;) {
    const absl::StatusOr<std::optional<v1::JobEvent>> event = events.Next(absl::InfiniteDuration());
    if (!event.ok()) break;
    if (*event && (*event)->has_status()) last = (*event)->status();
  }
  if (last.state() != v1::JOB_STATE_SUCCEEDED) Fail(absl::StrCat("the job: ", last.reason(), ": ", last.message()));
}

std::vector<MeasuredStep> SimulatedCluster::Train(const v1::JobSpec& spec, uint32_t num_steps) {
  v1::ReadTraceRequest request;
  request.set_job(Submit(spec));
  request.set_steps(num_steps + 1);
  WaitFor(request.job());
  MessageStream<v1::TraceChunk> call(client_->ReadTrace(request));
  const absl::StatusOr<CollectedTrace> trace = CollectTrace(call, kReadTimeout);
  if (!trace.ok()) Fail(absl::StrCat("the job's timeline: ", trace.status().message()));
  const std::map<uint64_t, double> spans = LongestRuns(*trace);
  std::vector<MeasuredStep> steps;
  const auto& windows = trace->header.steps();
  for (int i = 1; i < windows.size(); ++i) {
    const auto span = spans.find(windows[i].step());
    if (span == spans.end()) continue;
    steps.push_back({.span = span->second,
                     .verdict = 1e-9 * static_cast<double>(windows[i].end() - windows[i].begin()),
                     .interval = 1e-9 * static_cast<double>(windows[i].end() - windows[i - 1].end())});
  }
  if (steps.empty()) Fail("nobody keeps a timeline of the job");
  return steps;
}

void SimulatedCluster::Fail(const std::string& what) const {
  std::fprintf(stderr, "%s\n", what.c_str());
  for (const Process& process : processes_) {
    const std::string tail = LogTail(directory_.Path(process.name), kTailLines);
    std::fprintf(stderr, "the end of the log of %s:\n%s", process.name.c_str(), tail.c_str());
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory_.path(), ignored);
  std::exit(1);
}

}  // namespace stagecoach
