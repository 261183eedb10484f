#include "coordinator/spec/job_spec_schema.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/spec/custom_values.h"
#include "coordinator/spec/frozen_layer_list.h"
#include "coordinator/spec/schedule_value.h"
#include "coordinator/spec/skip_connection_list.h"

namespace stagecoach {
namespace {

using Kind = ValueKind;

constexpr uint64_t kMaxSteps = 0xFFFF'FFFF;
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxHidden = 1 << 20;
constexpr uint64_t kMaxVocabulary = 1 << 24;
constexpr uint64_t kMaxPositions = 1 << 20;
constexpr uint64_t kMaxCheckpoints = 1'000'000;
constexpr uint64_t kMaxWorkers = 4096;
constexpr uint64_t kMaxThreads = 1024;
constexpr uint64_t kMaxMicroBatchSize = 65535;

constexpr NumberRange kProbability = {.min = 0, .max = 1, .below_max = true};
constexpr IntegerRange kOne = {1, 1};
constexpr uint64_t kMaxVirtualStages = 256;

constexpr SchemaField kFields[] = {
    {.path = "version", .kind = Kind::kInteger, .integers = kOne},
    {.path = "name", .kind = Kind::kText, .check = CheckJobName},
    {.path = "labels", .preset = "{}", .parse = ParseLabels, .print = PrintLabels},

    {.path = "model.architecture", .kind = Kind::kChoice, .choices = "gpt2", .later = "llama|mlp"},
    {.path = "model.config.num_hidden_layers", .kind = Kind::kInteger, .integers = {1, kMaxLayers}},
    {.path = "model.config.hidden_size", .kind = Kind::kInteger, .integers = {1, kMaxHidden}},
    {.path = "model.config.num_attention_heads", .kind = Kind::kInteger, .integers = {1, kMaxHidden}},
    {.path = "model.config.vocab_size", .kind = Kind::kInteger, .integers = {1, kMaxVocabulary}},
    {.path = "model.config.max_position_embeddings", .kind = Kind::kInteger, .integers = {1, kMaxPositions}},
    {.path = "model.config.tie_word_embeddings", .kind = Kind::kBoolean, .preset = "true"},
    {.path = "model.config.layer_norm_epsilon", .kind = Kind::kNumber, .preset = "1e-5", .numbers = {1e-12, 1}},
    {.path = "model.config.embd_pdrop", .kind = Kind::kNumber, .preset = "0", .numbers = kProbability},
    {.path = "model.config.attn_pdrop", .kind = Kind::kNumber, .preset = "0", .numbers = kProbability},
    {.path = "model.config.resid_pdrop", .kind = Kind::kNumber, .preset = "0", .numbers = kProbability},
    {.path = "model.init.seed", .kind = Kind::kInteger, .preset = "1234"},
    {.path = "model.init.std", .kind = Kind::kNumber, .preset = "0.02", .numbers = {0, 10}},
    {.path = "model.frozen_layers", .preset = "[]", .parse = ParseFrozenLayers, .print = PrintFrozenLayers},
    {.path = "model.skip_connections", .preset = "[]", .parse = ParseSkipConnections, .print = PrintSkipConnections},

    {.path = "data.train", .parse = ParseTrainSources, .print = PrintTrainSources},
    {.path = "data.validation", .preset = "[]", .parse = ParseValidationSources, .print = PrintValidationSources},
    {.path = "data.validation_fraction", .kind = Kind::kNumber, .preset = "0", .numbers = kProbability},
    {.path = "data.tokenizer", .kind = Kind::kChoice, .preset = "byte", .choices = "byte", .later = "*"},
    {.path = "data.seed", .kind = Kind::kInteger, .preset = "42"},
    {.path = "data.shuffle", .kind = Kind::kBoolean, .preset = "true"},

    {.path = "training.seq_len", .kind = Kind::kInteger, .integers = {1, kMaxPositions}},
    {.path = "training.global_batch_size", .kind = Kind::kInteger, .integers = {1, kMaxSteps}},
    {.path = "training.micro_batch_size", .kind = Kind::kIntegerOrAuto, .integers = {1, kMaxMicroBatchSize}},
    {.path = "training.steps", .kind = Kind::kInteger, .integers = {1, kMaxSteps}},
    {.path = "training.precision", .kind = Kind::kChoice, .preset = "f32", .choices = "f32", .later = "bf16|f16"},
    {.path = "training.max_grad_norm", .kind = Kind::kNumber, .preset = "1.0", .numbers = {0, 1e9}},
    {.path = "training.validation_interval", .kind = Kind::kInteger, .preset = kDerived, .integers = {0, kMaxSteps}},
    {.path = "training.seed", .kind = Kind::kInteger, .preset = "1234"},

    {.path = "optimizer.name", .kind = Kind::kChoice, .choices = "adamw|sgd"},
    {.path = "optimizer.lr", .kind = Kind::kNumber, .numbers = {.min = 0, .max = 1000, .above_min = true}},
    {.path = "optimizer.betas", .preset = "[0.9, 0.95]", .only_for = "adamw", .parse = ParseBetas, .print = PrintBetas},
    {.path = "optimizer.eps", .kind = Kind::kNumber, .preset = "1e-8", .numbers = {1e-30, 1}, .only_for = "adamw"},
    {.path = "optimizer.weight_decay", .kind = Kind::kNumber, .preset = "0.1", .numbers = {0, 10}, .only_for = "adamw"},
    {.path = "optimizer.weight_decay", .kind = Kind::kNumber, .preset = "0", .numbers = {0, 10}, .only_for = "sgd"},
    {.path = "optimizer.momentum", .kind = Kind::kNumber, .preset = "0", .numbers = kProbability, .only_for = "sgd"},
    {.path = "optimizer.nesterov", .kind = Kind::kBoolean, .preset = "false", .only_for = "sgd"},

    {.path = "lr_scheduler.name",
     .kind = Kind::kChoice,
     .preset = "constant",
     .choices = "constant|linear|cosine",
     .later = "wsd"},
    {.path = "lr_scheduler.warmup_steps", .kind = Kind::kInteger, .preset = "0", .integers = {0, kMaxSteps}},
    {.path = "lr_scheduler.min_lr", .kind = Kind::kNumber, .preset = "0", .numbers = {0, 1000}},
    {.path = "lr_scheduler.decay_steps", .kind = Kind::kInteger, .preset = kDerived, .integers = {1, kMaxSteps}},

    {.path = "parallelism.pipeline_parallel_degree",
     .kind = Kind::kIntegerOrAuto,
     .preset = "auto",
     .integers = {1, kMaxWorkers}},
    {.path = "parallelism.data_parallel_degree", .kind = Kind::kInteger, .preset = "1", .integers = kOne, .later = "*"},
    {.path = "parallelism.virtual_stages",
     .kind = Kind::kIntegerOrAuto,
     .preset = "auto",
     .integers = {1, kMaxVirtualStages}},
    {.path = "parallelism.schedule",
     .preset = "auto",
     .choices = kScheduleNames,
     .later = kLaterSchedules,
     .parse = ParseSchedule,
     .print = PrintSchedule},
    {.path = "parallelism.partition", .preset = "auto", .parse = ParsePartition, .print = PrintPartition},
    {.path = "parallelism.activation_checkpointing",
     .kind = Kind::kChoice,
     .preset = "none",
     .choices = "none|selective|full"},
    {.path = "parallelism.costs", .kind = Kind::kChoice, .preset = "measured", .choices = "measured|analytic"},

    {.path = "checkpoint.dir", .kind = Kind::kText, .check = CheckPath},
    {.path = "checkpoint.interval_steps", .kind = Kind::kInteger, .preset = "0", .integers = {0, kMaxSteps}},
    {.path = "checkpoint.interval_time", .preset = "0s", .parse = ParseIntervalTime, .print = PrintIntervalTime},
    {.path = "checkpoint.keep_last", .kind = Kind::kInteger, .preset = "0", .integers = {0, kMaxCheckpoints}},
    {.path = "checkpoint.async", .kind = Kind::kBoolean, .preset = "true"},
    {.path = "checkpoint.resume", .kind = Kind::kText, .preset = "never", .check = CheckResume},

    {.path = "resources.device", .kind = Kind::kChoice, .preset = "cpu", .choices = "cpu|simulated", .later = "cuda"},
    {.path = "resources.workers", .kind = Kind::kIntegerOrAuto, .preset = "auto", .integers = {1, kMaxWorkers}},
    {.path = "resources.threads_per_worker",
     .kind = Kind::kIntegerOrAuto,
     .preset = "auto",
     .integers = {1, kMaxThreads}},

    {.path = "metrics.log_interval", .kind = Kind::kInteger, .preset = "10", .integers = {1, kMaxSteps}},

    {.path = "fault_tolerance.on_worker_loss",
     .kind = Kind::kChoice,
     .preset = "fail",
     .choices = "fail",
     .later = "repartition|wait_replacement"},

    {.path = "limits.priority", .preset = "0", .parse = ParsePriority, .print = PrintPriority},
};

constexpr LaterKey kLaterKeys[] = {
    {"model.path", "models start from model.config and model.init"},
    {"training.tokens", "give training.steps"},
    {"training.epochs", "give training.steps"},
    {"loss_scale", "training.precision f32 needs none"},
    {"fault_tolerance.max_recoveries", "a job that loses a worker fails"},
    {"fault_tolerance.recovery_window", "a job that loses a worker fails"},
    {"fault_tolerance.spare_workers", "a job that loses a worker fails"},
    {"fault_tolerance.shadow", "a job that loses a worker fails"},
    {"fault_tolerance.drain_timeout", "stagecoach-worker has --leave-timeout"},
    {"resources.worker_selector", ""},
    {"resources.min_memory", ""},
    {"limits.time_limit", "cancel the job when it has run for long enough"},
    {"limits.start_deadline", "a job waits until it is cancelled"},
};

constexpr absl::string_view kCredentialWords[] = {"ca",          "cert", "certs",    "certificate", "certificates",
                                                  "credentials", "mtls", "password", "secret",      "security",
                                                  "ssl",         "tls",  "x509"};

}  // namespace

absl::Span<const SchemaField> JobSpecFields() { return kFields; }
absl::Span<const LaterKey> LaterKeys() { return kLaterKeys; }

bool AppliesTo(const SchemaField& field, const v1::JobSpec& spec) {
  return field.only_for.empty() || field.only_for == spec.optimizer().name();
}

bool IsSection(absl::string_view path) {
  const std::string prefix = absl::StrCat(path, ".");
  return std::any_of(std::begin(kFields), std::end(kFields),
                     [&](const SchemaField& field) { return absl::StartsWith(field.path, prefix); });
}

bool IsField(absl::string_view path) {
  return std::any_of(std::begin(kFields), std::end(kFields),
                     [&](const SchemaField& field) { return field.path == path; });
}

const LaterKey* FindLaterKey(absl::string_view path) {
  const auto found =
      std::find_if(std::begin(kLaterKeys), std::end(kLaterKeys), [&](const LaterKey& key) { return key.path == path; });
  return found == std::end(kLaterKeys) ? nullptr : found;
}

bool IsCredentialKey(absl::string_view key) {
  const std::string lower = absl::AsciiStrToLower(key);
  const std::vector<absl::string_view> words = absl::StrSplit(lower, absl::ByAnyChar("_-."));
  return std::any_of(words.begin(), words.end(), [](absl::string_view word) {
    return std::find(std::begin(kCredentialWords), std::end(kCredentialWords), word) != std::end(kCredentialWords);
  });
}

}  // namespace stagecoach
