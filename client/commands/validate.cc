#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "client/commands/command.h"
#include "client/commands/output_arguments.h"
#include "client/commands/spec_arguments.h"
#include "client/output/error_report.h"
#include "common/file_system.h"
#include "common/proto_json.h"
#include "coordinator/plan/planner.h"
#include "coordinator/resume/resume_point.h"
#include "coordinator/spec/job_spec_parser.h"
#include "formats/corpus_identity.h"
#include "formats/text_corpus.h"

namespace stagecoach {
namespace {

struct ValidateArguments {
  SpecArguments spec;
  OutputArguments output;
};

void PrintSummary(const v1::JobSpec& spec, const TextCorpus& corpus, const PlannedJob& job) {
  uint64_t parameters = 0;
  for (const v1::LayerSpec& layer : job.graph.layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      uint64_t elements = parameter.has_tied_to_layer() ? 0 : 1;
      for (const uint64_t dim : parameter.shape()) elements *= dim;
      parameters += elements;
    }
  }
  const v1::TrainingSpec& training = spec.training();
  std::cout << absl::StrFormat("%s is valid\n", spec.name());
  std::cout << absl::StrFormat("  model        %s, %d blocks, %d parameters%s\n", spec.model().architecture(),
                               spec.model().config().num_hidden_layers(), parameters,
                               spec.model().config().tie_word_embeddings() ? " (tied embeddings)" : "");
  std::cout << absl::StrFormat("  batch        %d = %d micro-batches x %d samples of %d tokens\n",
                               training.global_batch_size(), job.plan.num_micro_batches(), training.micro_batch_size(),
                               training.seq_len());
  std::cout << absl::StrFormat("  training     %d samples in %d files, %.2f passes in %d steps\n",
                               corpus.num_train_samples, corpus.train.size(),
                               static_cast<double>(training.steps() * training.global_batch_size()) /
                                   static_cast<double>(corpus.num_train_samples),
                               training.steps());
  std::cout << absl::StrFormat("  validation   %d samples in %d files\n", corpus.num_validation_samples,
                               corpus.validation.size());
  uint64_t largest = 0;
  for (const v1::StagePlan& stage : job.plan.stages()) largest = std::max(largest, stage.memory_bytes().total());
  std::cout << absl::StrFormat("  stages       %d, schedule %s, at most %.1f MiB each\n", job.plan.stages_size(),
                               job.plan.schedule(), static_cast<double>(largest) / (1 << 20));
}

int Validate(const ValidateArguments& arguments) {
  const std::optional<v1::JobSpec> spec = LoadSpec(arguments.spec, arguments.output.is_json());
  if (!spec) return kExitUsage;
  const absl::StatusOr<TextCorpus> corpus =
      OpenTextCorpus(spec->data(), spec->training().seq_len(), FileSystem::Posix());
  if (!corpus.ok()) {
    return ReportFailure({.code = kExitUsage, .status = corpus.status()}, {.json = arguments.output.is_json()});
  }
  const auto training_data = [&] { return IdentifyTrainingData(*corpus, FileSystem::Posix()); };
  const auto resumed = FindResumePoint(FileSystem::Posix(), *spec, training_data);
  if (!resumed.ok()) {
    return ReportFailure({.code = kExitUsage, .status = resumed.status()}, {.json = arguments.output.is_json()});
  }
  const uint32_t workers = std::max(1u, spec->parallelism().pipeline_parallel_degree());
  const absl::StatusOr<PlannedJob> job = PlanJob(*spec, std::vector<WorkerProfile>(workers));
  if (!job.ok()) {
    return ReportFailure({.code = kExitUsage, .status = job.status()}, {.json = arguments.output.is_json()});
  }
  if (arguments.output.format == "yaml") {
    std::cout << PrintJobSpec(*spec);
  } else if (arguments.output.format == "json") {
    std::cout << PrintJson(*spec) << "\n";
  } else {
    PrintSummary(*spec, *corpus, *job);
  }
  return kExitOk;
}

}  // namespace

void AddValidate(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<ValidateArguments>();
  CLI::App* verb = AddVerb(root, "validate", "check a specification, its arithmetic, its data and its plan",
                           "  stagecoach validate examples/tiny.yaml\n"
                           "  stagecoach validate examples/tiny.yaml -o yaml   # with every default");
  AddSpecArguments(*verb, arguments->spec);
  AddFormatOption(*verb, arguments->output, {"text", "yaml", "json"});
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Validate(*arguments); }; });
}

}  // namespace stagecoach
