#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/cluster/local_cluster.h"
#include "client/commands/command.h"
#include "client/commands/follow.h"
#include "client/commands/interrupts.h"
#include "client/commands/job_report.h"
#include "client/commands/output_arguments.h"
#include "client/commands/private_cluster.h"
#include "client/commands/simulated_argument.h"
#include "client/commands/spec_arguments.h"
#include "client/output/error_report.h"
#include "common/file_system.h"
#include "common/simulated_device.h"
#include "common/status_macros.h"
#include "coordinator/plan/planner.h"
#include "coordinator/resume/resume_point.h"
#include "coordinator/spec/spec_values.h"
#include "formats/corpus_identity.h"
#include "formats/text_corpus.h"

namespace stagecoach {
namespace {

struct TrainArguments {
  SpecArguments spec;
  uint32_t workers = 0;
  uint32_t threads_per_worker = 0;
  std::string device;  // empty: the specification's
  std::string simulated_block_seconds;
  std::string resume;  // likewise
  OutputArguments output;
};

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
  if (!arguments.device.empty()) resources.set_device(arguments.device);
  if (arguments.threads_per_worker > 0) resources.set_threads_per_worker(arguments.threads_per_worker);
  if (resources.threads_per_worker() == 0) resources.set_threads_per_worker(std::max(1u, NumCores() / workers));
}

// Training for hours to find out that the result cannot be written would lose it.
absl::Status CheckWritable(const std::string& directory) {
  FileSystem& files = FileSystem::Posix();
  STAGECOACH_RETURN_IF_ERROR(WithContext(files.CreateDirectories(directory), "checkpoint.dir"));
  const absl::StatusOr<std::unique_ptr<AtomicFile>> probe = files.Create(directory + "/probe");
  if (!probe.ok()) return WithContext(probe.status(), "checkpoint.dir");
  return WithContext((*probe)->Append("probe", 5), "checkpoint.dir");  // not committed: it vanishes
}

// What can be known to be wrong before anything starts.
absl::Status CheckBeforeStart(const v1::JobSpec& spec) {
  FileSystem& files = FileSystem::Posix();
  STAGECOACH_ASSIGN_OR_RETURN(const TextCorpus corpus, OpenTextCorpus(spec.data(), spec.training().seq_len(), files));
  const auto training_data = [&] { return IdentifyTrainingData(corpus, files); };
  STAGECOACH_RETURN_IF_ERROR(FindResumePoint(files, spec, training_data).status());
  const std::vector<WorkerProfile> workers(spec.resources().workers());
  STAGECOACH_RETURN_IF_ERROR(PlanJobWith(spec, workers, {.searches_order = false}).status());
  return CheckWritable(spec.checkpoint().dir());
}

int Fail(const absl::Status& status, ExitCode code) { return ReportFailure({.code = code, .status = status}, {}); }

int Train(const TrainArguments& arguments) {
  std::optional<v1::JobSpec> spec = LoadSpec(arguments.spec, /*json=*/false);
  if (!spec) return kExitUsage;
  ResolveResources(arguments, *spec);
  const auto costs = SimulatedCostsOf(spec->resources().device(), arguments.simulated_block_seconds);
  if (!costs.ok()) return Fail(costs.status(), kExitUsage);
  if (!arguments.resume.empty()) spec->mutable_checkpoint()->set_resume(arguments.resume);
  if (const absl::Status status = CheckBeforeStart(*spec); !status.ok()) return Fail(status, kExitUsage);

  const Interrupts interrupts(Interrupts::Second::kCounts);
  JobReport report(arguments.output.format == "jsonl" ? JobReport::Format::kJsonLines : JobReport::Format::kText,
                   spec->training().steps(), spec->metrics().log_interval());
  absl::StatusOr<std::unique_ptr<PrivateCluster>> cluster =
      PrivateCluster::Start(spec->resources(), arguments.simulated_block_seconds, interrupts);
  if (absl::IsCancelled(cluster.status())) return Fail(cluster.status(), kExitCancelled);
  if (!cluster.ok()) return Fail(cluster.status(), kExitError);
  if (costs->has_value()) report.OnNote("the workers are simulated: what this job makes is no trained model");
  return (*cluster)->Run(*spec, report);
}

}  // namespace

void AddTrain(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb = AddVerb(root, "train", "run one job here, with a coordinator and N workers of its own",
                           "  stagecoach train examples/tiny.yaml --workers 4\n"
                           "  stagecoach train examples/tiny.yaml --set training.steps=50 -o jsonl");
  AddSpecArguments(*verb, arguments->spec);
  verb->add_option("--workers", arguments->workers, "how many workers to start")->check(CLI::Range(1, 1024));
  verb->add_option("--threads-per-worker,--threads", arguments->threads_per_worker,
                   "threads of each; the bits depend on it")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--device", arguments->device, "instead of resources.device")
      ->check(CLI::IsMember({"cpu", "simulated"}));
  AddSimulatedBlockSeconds(*verb, arguments->simulated_block_seconds);
  verb->add_option("--resume", arguments->resume,
                   "never, auto or the name of a checkpoint in checkpoint.dir; instead of checkpoint.resume")
      ->check([](const std::string& text) { return std::string(CheckResume(text).status().message()); });
  AddFormatOption(*verb, arguments->output, {"text", "jsonl"});
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Train(*arguments); }; });
}

}  // namespace stagecoach
