#include "common/metrics/metric_table.h"

#include <algorithm>
#include <array>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// Labels whose values are few: no step, micro-batch, address, path or message is among them.
constexpr std::array kLabels = {"run",   "stage",  "peer_stage", "state",   "kind",  "reason",   "direction", "outcome",
                                "phase", "method", "code",       "version", "model", "schedule", "precision"};

// A metric of the table; its labels separated by commas.
struct Row {
  const char* name;
  MetricType type;
  const char* labels;
  const char* unit;
  const char* help;
  std::span<const double> buckets = {};
};

constexpr auto kCounter = MetricType::kCounter;
constexpr auto kGauge = MetricType::kGauge;
constexpr auto kHistogram = MetricType::kHistogram;

constexpr double kStepBuckets[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                   1,     2.5,    5,     10,   25,    60,   150, 300};
constexpr double kCheckpointBuckets[] = {0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800};
constexpr double kCallBuckets[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30};

constexpr Row kOfBoth[] = {
    {"stagecoach_build_info", kGauge, "version", "", "The build that runs; always 1."},
};

constexpr Row kOfRuns[] = {
    {"stagecoach_run_info", kGauge, "run, model, schedule, precision", "",
     "What a run trains and how it is scheduled; always 1."},
    {"stagecoach_run_state", kGauge, "run, state", "",
     "1 for the state that the run is in; other states have no series."},
    {"stagecoach_run_start_timestamp_seconds", kGauge, "run", "seconds",
     "When the run first began to train, in Unix time."},
    {"stagecoach_step", kGauge, "run", "", "Completed steps."},
    {"stagecoach_target_steps", kGauge, "run", "", "Steps that the run is to complete."},
    {"stagecoach_steps_total", kCounter, "run", "", "Steps committed in this life of the coordinator."},
    {"stagecoach_tokens_total", kCounter, "run", "", "Tokens of the steps committed in this life of the coordinator."},
    {"stagecoach_skipped_steps_total", kCounter, "run, reason", "",
     "Steps whose update was skipped; reason not_finite: the gradients were not."},
    {"stagecoach_loss", kGauge, "run", "", "Mean loss over the tokens of the newest step, before its update."},
    {"stagecoach_validation_loss", kGauge, "run", "",
     "Mean loss over the tokens of the validation data, at the newest evaluation."},
    {"stagecoach_grad_norm", kGauge, "run", "", "Norm of all gradients of the newest step, before clipping."},
    {"stagecoach_learning_rate", kGauge, "run", "", "Learning rate of the newest step."},
    {"stagecoach_loss_scale", kGauge, "run", "", "Factor that the gradients of the newest step carried."},
    {"stagecoach_step_duration_seconds", kHistogram, "run", "seconds", "From the order to run a step to its verdict.",
     kStepBuckets},
    {"stagecoach_last_step_timestamp_seconds", kGauge, "run", "seconds",
     "When the newest step was committed, or training began or went on after it, in Unix time."},
    {"stagecoach_stage_busy_seconds_total", kCounter, "run, stage, state", "seconds",
     "What the stage's worker did with the time in which the run trained, evaluated or wrote checkpoints; the states "
     "sum to that time."},
    {"stagecoach_utilization_ratio", kGauge, "run, stage", "ratio",
     "Share of the newest step in which the stage's worker was busy."},
    {"stagecoach_bubble_ratio", kGauge, "run, stage", "ratio",
     "Share of the newest step in which the stage's worker waited; the mean over stages is the bubble of the span."},
    {"stagecoach_stage_layers", kGauge, "run, stage", "", "Layers of the stage in the newest plan."},
    {"stagecoach_partition_imbalance_ratio", kGauge, "run", "ratio",
     "Slowest stage over mean stage as planned; 1 is perfect."},
    {"stagecoach_checkpoints_total", kCounter, "run, outcome", "", "Checkpoints that were completed or failed."},
    {"stagecoach_checkpoint_duration_seconds", kHistogram, "run, phase", "seconds",
     "Of completed checkpoints: writing shards, and publishing the manifest.", kCheckpointBuckets},
    {"stagecoach_checkpoint_interval_seconds", kGauge, "run", "seconds",
     "How often a checkpoint is due, by its interval in time or in steps of the newest step's duration; no series: "
     "only at the end."},
    {"stagecoach_last_checkpoint_timestamp_seconds", kGauge, "run", "seconds",
     "When the newest checkpoint was completed, in Unix time."},
    {"stagecoach_last_checkpoint_step", kGauge, "run", "",
     "Step of the newest checkpoint, or of the one that the run resumed from."},
};

constexpr Row kOfTheFleet[] = {
    {"stagecoach_jobs", kGauge, "state", "", "Jobs that the coordinator remembers."},
    {"stagecoach_queue_depth", kGauge, "", "", "Jobs that wait for workers."},
    {"stagecoach_jobs_submitted_total", kCounter, "outcome", "",
     "Submissions: new jobs that were accepted, and requests that were rejected."},
    {"stagecoach_workers", kGauge, "state", "", "Workers that the coordinator knows."},
    {"stagecoach_worker_losses_total", kCounter, "reason", "",
     "Workers lost: lease_expired, session_ended, left, hung, or replaced by a process of the same name."},
    {"stagecoach_rpc_handled_total", kCounter, "method, code", "",
     "Calls of clients that have ended, by their status."},
    {"stagecoach_rpc_duration_seconds", kHistogram, "method", "seconds", "Duration of calls that have one answer.",
     kCallBuckets},
};

constexpr Row kOfWorkers[] = {
    {"stagecoach_session_up", kGauge, "", "", "1 while the worker is in session with its coordinator."},
    {"stagecoach_sessions_total", kCounter, "", "", "Sessions that the worker was welcomed to."},
    {"stagecoach_p2p_bytes_total", kCounter, "run, stage, peer_stage, direction", "bytes",
     "Bytes of tensors sent to and received from another stage."},
    {"stagecoach_p2p_transfer_seconds_total", kCounter, "run, stage, peer_stage, direction", "seconds",
     "Time in which the stage did nothing but wait for such transfers."},
    {"stagecoach_device_memory_bytes", kGauge, "run, stage, kind", "bytes",
     "Memory of the stage's worker: allocated for state and activations, activations alone (with transfer slots and "
     "scratch), the snapshot in host memory that checkpoints are written from behind training, and the limit."},
};

void AddRows(std::span<const Row> rows, MetricSource source, std::vector<MetricSpec>& table) {
  for (const Row& row : rows) {
    table.push_back({.name = row.name,
                     .type = row.type,
                     .labels = absl::StrSplit(row.labels, ", ", absl::SkipEmpty()),
                     .unit = row.unit,
                     .help = row.help,
                     .source = source,
                     .buckets = {row.buckets.begin(), row.buckets.end()}});
  }
}

std::vector<MetricSpec> MakeTable() {
  std::vector<MetricSpec> table;
  AddRows(kOfBoth, MetricSource::kBoth, table);
  AddRows(kOfRuns, MetricSource::kCoordinator, table);
  AddRows(kOfTheFleet, MetricSource::kCoordinator, table);
  AddRows(kOfWorkers, MetricSource::kWorker, table);
  return table;
}

bool IsName(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  });
}

absl::Status CheckName(const MetricSpec& metric) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("metric \"", metric.name, "\" ", why));
  };
  if (!absl::StartsWith(metric.name, "stagecoach_") || !IsName(metric.name)) return bad("has no valid name");
  const bool ends_as_counter = absl::EndsWith(metric.name, "_total");
  if (ends_as_counter != (metric.type == MetricType::kCounter)) return bad("ends _total and is no counter, or should");
  std::string stem = metric.name;
  if (ends_as_counter) stem.resize(stem.size() - std::string("_total").size());
  for (const char* unit : {"seconds", "bytes", "ratio"}) {
    const bool has_suffix = absl::EndsWith(stem, absl::StrCat("_", unit));
    if (has_suffix != (metric.unit == unit)) return bad(absl::StrCat("does not say its unit as _", unit));
  }
  return absl::OkStatus();
}

absl::Status CheckMetric(const MetricSpec& metric) {
  STAGECOACH_RETURN_IF_ERROR(CheckName(metric));
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("metric \"", metric.name, "\" ", why));
  };
  const bool is_one_line = std::none_of(metric.help.begin(), metric.help.end(), absl::ascii_iscntrl);
  if (metric.help.empty() || metric.help.back() != '.' || !is_one_line) return bad("has no help text of one line");
  for (const std::string& label : metric.labels) {
    if (std::find(kLabels.begin(), kLabels.end(), label) == kLabels.end()) {
      return bad(absl::StrCat("has label \"", label, "\", which is not one of those allowed"));
    }
  }
  if (std::set<std::string>(metric.labels.begin(), metric.labels.end()).size() != metric.labels.size()) {
    return bad("has a label twice");
  }
  if ((metric.type == MetricType::kHistogram) == metric.buckets.empty()) return bad("has buckets and should not, or");
  const bool ascends =
      std::adjacent_find(metric.buckets.begin(), metric.buckets.end(), std::greater_equal()) == metric.buckets.end();
  return ascends ? absl::OkStatus() : bad("has buckets that do not ascend");
}

const char* NameOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      break;
  }
  return "histogram";
}

const char* NameOf(MetricSource source) {
  switch (source) {
    case MetricSource::kCoordinator:
      return "coordinator";
    case MetricSource::kWorker:
      return "worker";
    case MetricSource::kBoth:
      break;
  }
  return "both";
}

}  // namespace

std::span<const MetricSpec> MetricTable() {
  static const auto* const table = new std::vector<MetricSpec>(MakeTable());
  return *table;
}

absl::Status CheckMetricTable(std::span<const MetricSpec> table) {
  std::set<std::string> names;
  for (const MetricSpec& metric : table) {
    STAGECOACH_RETURN_IF_ERROR(CheckMetric(metric));
    if (!names.insert(metric.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("metric \"", metric.name, "\" is there twice"));
    }
  }
  return absl::OkStatus();
}

std::string MetricTableText(std::span<const MetricSpec> table) {
  std::string text = "| metric | type | labels | unit | of | meaning |\n|---|---|---|---|---|---|\n";
  for (const MetricSpec& metric : table) {
    absl::StrAppend(&text, "| `", metric.name, "` | ", NameOf(metric.type), " | ", absl::StrJoin(metric.labels, ", "),
                    " | ", metric.unit, " | ", NameOf(metric.source), " | ", metric.help, " |\n");
  }
  return text;
}

}  // namespace stagecoach
