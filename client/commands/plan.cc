#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/command.h"
#include "client/commands/output_arguments.h"
#include "client/commands/schedule_report.h"
#include "client/commands/spec_arguments.h"
#include "client/commands/timeline_text.h"
#include "client/commands/timeline_trace.h"
#include "client/output/error_report.h"
#include "client/output/schedule_text.h"
#include "client/output/table.h"
#include "common/frozen_layers.h"
#include "common/proto_json.h"
#include "common/size_text.h"
#include "common/skip_connections.h"
#include "coordinator/plan/micro_batch_sizes.h"
#include "coordinator/plan/plan_advice.h"
#include "coordinator/plan/planner.h"
#include "coordinator/program/idle_time.h"

namespace stagecoach {
namespace {

struct PlanArguments {
  SpecArguments spec;
  uint32_t workers = 0;
  uint64_t memory_bytes = 0;  // of each worker; 0: no limit
  OutputArguments output;
};

double Mebibytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// What is shown as nothing is nothing.
constexpr double kLeastGainShown = 0.0005;

std::string MoveText(const PlannedJob& job, const PlanAdvice& advice) {
  if (!advice.best_move.has_value()) {
    return advice.some_moves_unknown ? "not known: it would take another order" : "no stage has a block to spare";
  }
  const BlockMove& move = *advice.best_move;
  const std::string what = absl::StrFormat("%s from stage %d to stage %d: step %+.1f%%",
                                           job.graph.layers(static_cast<int>(move.layer)).name(), move.from_stage,
                                           move.to_stage, 100 * (move.step_seconds / advice.step_seconds - 1));
  const bool gains = move.step_seconds < advice.step_seconds * (1 - kLeastGainShown);
  return gains ? what : "none makes the step shorter; " + what;
}

// What limits the step, and what small changes would do to it.
void PrintAdvice(const PlannedJob& job) {
  const PlanAdvice advice = AdviseOn(job);
  if (advice.step_seconds <= 0) return;
  std::cout << "  critical              "
            << CriticalStageText(job.cut.timeline, static_cast<uint32_t>(job.plan.stages_size())) << "\n"
            << "  idle, s               " << IdleText(Total(IdleByCause(job.cut.timeline))) << "\n"
            << "  one block moved       " << MoveText(job, advice) << "\n";
  if (!advice.step_seconds_with_one_more.has_value()) return;
  std::cout << absl::StrFormat("  one more micro-batch  step %+.1f%%, bubble %.1f%%\n",
                               100 * (*advice.step_seconds_with_one_more / advice.step_seconds - 1),
                               100 * *advice.bubble_ratio_with_one_more);
}

std::string LayersText(const v1::ModelGraph& graph, const v1::StagePlan& stage) {
  const std::string& first = graph.layers(static_cast<int>(stage.first_layer())).name();
  if (stage.first_layer() == stage.last_layer()) return first;
  return first + " .. " + graph.layers(static_cast<int>(stage.last_layer())).name();
}

// "1, 3 to 5"
std::string NumbersText(const google::protobuf::RepeatedField<uint32_t>& layers) {
  std::string text;
  for (int i = 0; i < layers.size(); ++i) {
    const int first = i;
    while (i + 1 < layers.size() && layers[i + 1] == layers[i] + 1) ++i;
    absl::StrAppend(&text, text.empty() ? "" : ", ", layers[first]);
    if (i > first) absl::StrAppend(&text, " to ", layers[i]);
  }
  return text;
}

// Of the stages that recompute.
void PrintRecomputation(const v1::Plan& plan) {
  for (int i = 0; i < plan.stages_size(); ++i) {
    const v1::StagePlan& stage = plan.stages(i);
    if (stage.recomputed_layers().empty()) continue;
    std::cout << absl::StrFormat("stage %d recomputes layers %s: R %.2f ms\n", i,
                                 NumbersText(stage.recomputed_layers()), stage.recompute_seconds() * 1e3);
  }
}

// What frozen layers leave of the backward of the stages that have some.
void PrintFrozen(const PlannedJob& job) {
  const uint32_t lowest = LowestTrainedLayer(job.graph);
  for (int i = 0; i < job.plan.stages_size(); ++i) {
    const v1::StagePlan& stage = job.plan.stages(i);
    google::protobuf::RepeatedField<uint32_t> frozen;
    for (uint32_t layer = stage.first_layer(); layer <= stage.last_layer(); ++layer) {
      if (job.graph.layers(static_cast<int>(layer)).frozen()) frozen.Add(layer);
    }
    if (frozen.empty()) continue;
    const StageBackward backward = BackwardOfStage(job.graph, stage.first_layer(), stage.last_layer());
    const bool is_one = frozen.size() == 1;
    std::string text =
        absl::StrCat(is_one ? "layer " : "layers ", NumbersText(frozen), is_one ? " is" : " are", " frozen");
    if (!backward.input) absl::StrAppend(&text, ": no backward");
    if (backward.input && !backward.weight) absl::StrAppend(&text, ": gradients pass through, I alone");
    if (backward.weight && !backward.sends_gradient && lowest > stage.first_layer()) {
      absl::StrAppend(&text, ": the backward ends at layer ", lowest);
    }
    std::cout << absl::StrFormat("stage %d: %s\n", i, text);
  }
}

std::string CountText(size_t count, const char* what) { return absl::StrCat(count, " ", what, count == 1 ? "" : "s"); }

// Which stages hand tensors past others to which.
void PrintSkipEdges(const PlannedJob& job) {
  const std::vector<SkipEdge> edges = SkipEdgesOf(job.graph, job.plan, /*trains=*/true);
  for (const SkipEdge& edge : edges) {
    if (edge.is_gradient) continue;
    uint64_t bytes = 0;
    for (const uint32_t index : edge.connections) {
      const uint32_t from_layer = job.graph.skip_connections(static_cast<int>(index)).from_layer();
      bytes += job.graph.layers(static_cast<int>(from_layer)).cost().output_bytes();
    }
    std::string text =
        absl::StrFormat("stage %d to stage %d: %s, %.2f MiB a micro-batch", edge.from_stage, edge.to_stage,
                        CountText(edge.connections.size(), "skip connection"), Mebibytes(bytes));
    const auto back = std::find_if(edges.begin(), edges.end(), [&edge](const SkipEdge& other) {
      return other.is_gradient && other.from_stage == edge.to_stage && other.to_stage == edge.from_stage;
    });
    if (back != edges.end()) absl::StrAppend(&text, ", and ", CountText(back->connections.size(), "gradient"), " back");
    const uint32_t worker = job.plan.stages(static_cast<int>(edge.from_stage)).worker_rank();
    const bool is_local = worker == job.plan.stages(static_cast<int>(edge.to_stage)).worker_rank();
    std::cout << text << (is_local ? absl::StrCat(", within worker ", worker) : "") << "\n";
  }
}

void PrintStages(const PlannedJob& job) {
  std::cout << absl::StrFormat("%-5s %-6s %-24s %12s %10s %10s %10s %10s %8s %8s %8s\n", "stage", "worker", "layers",
                               "parameters", "state MiB", "activ MiB", "other MiB", "total MiB", "F ms", "I ms",
                               "W ms");
  for (int i = 0; i < job.plan.stages_size(); ++i) {
    const v1::StagePlan& stage = job.plan.stages(i);
    const v1::StageMemory& memory = stage.memory_bytes();
    std::cout << absl::StrFormat(
        "%-5d %-6d %-24s %12d %10.1f %10.1f %10.1f %10.1f %8.2f %8.2f %8.2f\n", i, stage.worker_rank(),
        LayersText(job.graph, stage), stage.parameters(),
        Mebibytes(memory.parameters() + memory.gradients() + memory.optimizer()), Mebibytes(memory.activations()),
        Mebibytes(memory.pending_weight() + memory.receive() + memory.scratch() + memory.snapshot()),
        Mebibytes(memory.total()), stage.forward_seconds() * 1e3, stage.backward_input_seconds() * 1e3,
        stage.backward_weight_seconds() * 1e3);
  }
}

// What was compared; nothing when there was no choice.
void PrintCandidates(const v1::Plan& plan) {
  if (plan.candidates_size() < 2) return;
  Table table({"SCHEDULE", "CHUNKS", "STEP S", "BUBBLE", "MEMORY MIB", "WHY NOT"});
  for (const v1::PlanCandidate& candidate : plan.candidates()) {
    const bool fits = candidate.step_seconds() > 0;
    table.AddRow({candidate.schedule(), absl::StrCat(candidate.virtual_stages()),
                  fits ? absl::StrFormat("%.3f", candidate.step_seconds()) : "",
                  fits ? absl::StrFormat("%.1f%%", 100 * candidate.bubble_ratio()) : "",
                  fits ? absl::StrFormat("%.1f", Mebibytes(candidate.memory_bytes())) : "", candidate.why_not()});
  }
  std::cout << "\ncandidates, the chosen one first; memory is of the worker that needs most\n" << table.Text({});
}

void PrintPlan(const v1::JobSpec& spec, const PlannedJob& job) {
  const v1::Plan& plan = job.plan;
  PrintStages(job);
  PrintRecomputation(plan);
  PrintFrozen(job);
  PrintSkipEdges(job);
  std::cout << absl::StrFormat(
      "schedule %s, %d micro-batches: step %.3f s (lower bound %.3f s), bubble %.1f%%, slowest stage %.2f x the "
      "mean\n",
      ScheduleText(plan), plan.num_micro_batches(), plan.step_seconds(), plan.lower_bound_seconds(),
      plan.bubble_ratio() * 100, plan.partition_imbalance_ratio());
  if (ChoosesMicroBatchSize(spec)) {
    std::cout << absl::StrFormat(
        "  micro-batches         of %d samples, chosen by FLOPs; workers may choose otherwise\n",
        job.graph.micro_batch_size());
  }
  // There is no worker to ask.
  std::cout << "  costs                 by FLOPs and a usual rate\n";
  PrintAdvice(job);
  PrintCandidates(plan);
  std::cout << "\n" << TimelineText(job.cut.timeline, 110);
}

int Plan(const PlanArguments& arguments) {
  const std::optional<v1::JobSpec> spec = LoadSpec(arguments.spec, arguments.output.is_json());
  if (!spec) return kExitUsage;
  uint32_t workers = arguments.workers;
  if (workers == 0) workers = std::max(spec->resources().workers(), spec->parallelism().pipeline_parallel_degree());
  const absl::StatusOr<PlannedJob> job =
      PlanJob(*spec, std::vector<WorkerProfile>(std::max(1u, workers), {.memory_bytes = arguments.memory_bytes}));
  if (!job.ok()) {
    return ReportFailure({.code = kExitUsage, .status = job.status()}, {.json = arguments.output.is_json()});
  }
  if (arguments.output.format == "json") {
    std::cout << PrintJson(job->plan) << "\n";
  } else if (arguments.output.format == "trace") {
    WriteTimelineTrace(job->cut.timeline, job->plan.schedule(), std::cout);
  } else {
    PrintPlan(*spec, *job);
  }
  return kExitOk;
}

}  // namespace

void AddPlan(CLI::App& root, Invocation& invocation) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* verb = AddVerb(root, "plan", "show how a job would be cut, what each stage needs, and the predicted step",
                           "  stagecoach plan examples/tiny.yaml --workers 4\n"
                           "  stagecoach plan examples/tiny.yaml --workers 4 -o trace > plan.json");
  AddSpecArguments(*verb, arguments->spec);
  verb->add_option("--workers", arguments->workers, "workers to plan for")->check(CLI::Range(1, 4096));
  verb->add_option("--memory", arguments->memory_bytes,
                   "that each of them has, for parameters, gradients, optimizer state "
                   "and activations: 64GiB; default: no limit")
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator([](const std::string& text) { return SizeProblem(text); }, ""));  // before the other
  AddFormatOption(*verb, arguments->output, {"text", "json", "trace"});
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Plan(*arguments); }; });
}

}  // namespace stagecoach
