#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <thread>
#include <variant>

#include "client/commands/command.h"
#include "client/commands/exit_codes.h"
#include "client/commands/spec_arguments.h"
#include "client/commands/train_report.h"
#include "client/embedded/device_registry.h"
#include "client/embedded/embedded_run.h"
#include "common/status_macros.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/plan/planner.h"
#include "formats/text_corpus.h"

namespace stagecoach {
namespace {

struct TrainArguments {
  SpecArguments spec;
  uint32_t workers = 0;
  uint32_t threads_per_worker = 0;
  std::string device = "cpu";
  std::string resume = "never";
  std::string output = "text";
};

constexpr absl::Duration kSignalPollInterval = absl::Milliseconds(100);

volatile std::sig_atomic_t interrupted = 0;

// The first asks the job to end in order; the second ends the process.
void OnInterrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

uint32_t NumCores() { return std::max(1u, std::thread::hardware_concurrency()); }

// Workers and threads, from the command line, the specification, or this machine.
void ResolveResources(const TrainArguments& arguments, v1::JobSpec& spec) {
  v1::ResourcesSpec& resources = *spec.mutable_resources();
  uint32_t workers = arguments.workers;
  if (workers == 0) workers = resources.workers();
  if (workers == 0) workers = spec.parallelism().pipeline_parallel_degree();
  if (workers == 0) {
    const uint64_t blocks = spec.model().config().num_hidden_layers();
    workers = static_cast<uint32_t>(std::min<uint64_t>(NumCores(), blocks));
  }
  resources.set_workers(workers);
  resources.set_device(arguments.device);
  if (arguments.threads_per_worker > 0) resources.set_threads_per_worker(arguments.threads_per_worker);
  if (resources.threads_per_worker() == 0) resources.set_threads_per_worker(std::max(1u, NumCores() / workers));
}

// Training for hours to find out that the result cannot be written would lose it.
absl::Status CheckWritable(const std::string& directory) {
  FileSystem& files = FileSystem::Posix();
  STAGECOACH_RETURN_IF_ERROR(WithContext(files.CreateDirectories(directory), "checkpoint.dir"));
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> probe, files.Create(directory + "/probe"));
  return WithContext(probe->Append("probe", 5), "checkpoint.dir");  // not committed: it vanishes
}

// What can be known to be wrong before anything starts.
absl::Status CheckBeforeStart(const v1::JobSpec& spec) {
  STAGECOACH_RETURN_IF_ERROR(OpenTextCorpus(spec.data(), spec.training().seq_len(), FileSystem::Posix()).status());
  STAGECOACH_RETURN_IF_ERROR(PlanJob(spec, std::vector<WorkerProfile>(spec.resources().workers())).status());
  return CheckWritable(spec.checkpoint().dir());
}

int ExitCodeOf(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_SUCCEEDED:
      return kExitOk;
    case v1::JOB_STATE_CANCELLED:
      return kExitCancelled;
    case v1::JOB_STATE_FAILED:
      return kExitJobFailed;
    default:
      return kExitError;
  }
}

int Fail(const absl::Status& status, ExitCode code) {
  std::cerr << "stagecoach: " << status.message() << "\n";
  return code;
}

// Shows events until the job has ended; an interrupt cancels it, once.
absl::Status Watch(EmbeddedRun& run, TrainReport& report) {
  bool cancelled = false;
  for (;;) {
    if (interrupted != 0 && !cancelled) {
      cancelled = true;
      std::cerr << "\ninterrupted: ends after the step under way, with a checkpoint; once more to end at once\n";
      // FAILED_PRECONDITION: it has just ended by itself.
      if (const absl::Status status = run.Cancel(); !status.ok() && !absl::IsFailedPrecondition(status)) return status;
    }
    const absl::StatusOr<FollowEvent> event = run.NextEvent(kSignalPollInterval);
    if (absl::IsDeadlineExceeded(event.status())) continue;
    if (!event.ok()) return event.status();
    if (const auto* step = std::get_if<v1::StepEvent>(&*event)) {
      report.OnStep(*step);
    } else if (const auto* status = std::get_if<v1::JobStatus>(&*event)) {
      report.OnStatus(*status);
      if (HasEnded(status->state())) return absl::OkStatus();
    } else {
      return std::get<absl::Status>(*event);
    }
  }
}

int Train(const TrainArguments& arguments) {
  std::optional<v1::JobSpec> spec = LoadSpec(arguments.spec);
  if (!spec) return kExitUsage;
  ResolveResources(arguments, *spec);
  if (const absl::Status status = CheckBeforeStart(*spec); !status.ok()) return Fail(status, kExitUsage);

  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  std::signal(SIGHUP, OnInterrupt);
  TrainReport report(arguments.output == "jsonl" ? TrainReport::Format::kJsonLines : TrainReport::Format::kText,
                     spec->training().steps(), spec->metrics().log_interval());
  const absl::StatusOr<DeviceFactory> device = FindDevice(spec->resources().device());
  if (!device.ok()) return Fail(device.status(), kExitUsage);
  EmbeddedRun::Options options{.num_workers = spec->resources().workers(), .device = *device};
  const absl::StatusOr<std::unique_ptr<EmbeddedRun>> run = EmbeddedRun::Start(*spec, options);
  if (!run.ok()) return Fail(run.status(), kExitError);
  if (const absl::Status status = Watch(**run, report); !status.ok()) return Fail(status, kExitError);
  const absl::StatusOr<v1::Job> job = (*run)->Describe();
  if (!job.ok()) return Fail(job.status(), kExitError);
  report.OnEnd(*job);
  return ExitCodeOf(job->status().state());
}

}  // namespace

void AddTrain(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb = root.add_subcommand("train", "run a job here: a coordinator and N workers in this process");
  AddSpecArguments(*verb, arguments->spec);
  verb->add_option("--workers", arguments->workers, "how many workers to start")->check(CLI::Range(1, 4096));
  verb->add_option("--threads-per-worker", arguments->threads_per_worker, "threads of each; the bits depend on it")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--device", arguments->device, "cpu")->check(CLI::IsMember({"cpu"}));
  verb->add_option("--resume", arguments->resume, "never: checkpoints cannot be resumed from yet")
      ->check(CLI::IsMember({"never"}));
  verb->add_option("-o,--output", arguments->output, "text, or one JSON object per step")
      ->check(CLI::IsMember({"text", "jsonl"}));
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Train(*arguments); }; });
}

}  // namespace stagecoach
