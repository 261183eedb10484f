#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "client/commands/command.h"
#include "client/commands/output_arguments.h"
#include "client/commands/spec_arguments.h"
#include "client/output/error_report.h"
#include "client/output/schedule_text.h"
#include "common/file_system.h"
#include "common/proto_json.h"
#include "coordinator/plan/micro_batch_sizes.h"
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

// Where a size that the specification does not have comes from. `resumed_size`: of the checkpoint; 0: there is none.
std::string SizeNote(const v1::JobSpec& spec, uint64_t resumed_size) {
  if (!ChoosesMicroBatchSize(spec)) return "";
  return resumed_size != 0 ? " (that of the checkpoint)" : " (chosen by FLOPs; workers may choose otherwise)";
}

void PrintSummary(const v1::JobSpec& spec, const TextCorpus& corpus, const PlannedJob& job, uint64_t resumed_size) {
  uint64_t parameters = 0;
  uint64_t trained = 0;
  for (const v1::LayerSpec& layer : job.graph.layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      uint64_t elements = parameter.has_tied_to_layer() ? 0 : 1;
      for (const uint64_t dim : parameter.shape()) elements *= dim;
      parameters += elements;
      if (!layer.frozen()) trained += elements;
    }
  }
  const v1::TrainingSpec& training = spec.training();
  std::cout << absl::StrFormat("%s is valid\n", spec.name());
  std::cout << absl::StrFormat("  model        %s, %d blocks, %d parameters%s\n", spec.model().architecture(),
                               spec.model().config().num_hidden_layers(), parameters,
                               spec.model().config().tie_word_embeddings() ? " (tied embeddings)" : "");
  if (trained != parameters) {
    std::cout << absl::StrFormat("  frozen       %d layer(s); %d parameters are trained\n",
                                 spec.model().frozen_layers_size(), trained);
  }
  if (!spec.model().skip_connections().empty()) {
    std::cout << absl::StrFormat("  skips        %d connection(s) past layers\n", spec.model().skip_connections_size());
  }
  std::cout << absl::StrFormat("  batch        %d = %d micro-batches x %d samples of %d tokens%s\n",
                               training.global_batch_size(), job.plan.num_micro_batches(), job.graph.micro_batch_size(),
                               training.seq_len(), SizeNote(spec, resumed_size));
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
                               ScheduleText(job.plan), static_cast<double>(largest) / (1 << 20));
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
  const uint64_t resumed_size = resumed->micro_batch_size;
  const bool keeps_size = ChoosesMicroBatchSize(*spec) && resumed_size != 0;
  const absl::StatusOr<PlannedJob> job =
      PlanJob(keeps_size ? WithMicroBatchSize(*spec, resumed_size) : *spec, std::vector<WorkerProfile>(workers));
  if (!job.ok()) {
    return ReportFailure({.code = kExitUsage, .status = job.status()}, {.json = arguments.output.is_json()});
  }
  if (arguments.output.format == "yaml") {
    std::cout << PrintJobSpec(*spec);
  } else if (arguments.output.format == "json") {
    std::cout << PrintJson(*spec) << "\n";
  } else {
    PrintSummary(*spec, *corpus, *job, resumed_size);
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
