#include "coordinator/spec/spec_hints.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "coordinator/spec/job_spec_schema.h"
#include "coordinator/spec/spec_text.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxKeyBytes = 64;  // longer ones are no slip of the pen

// What torchtitan, Megatron-LM, the Hugging Face trainer, Axolotl, LLaMA-Factory, DeepSpeed and GPT-2's config.json
// call our keys.
struct ForeignName {
  absl::string_view name;
  absl::string_view path;
};
constexpr ForeignName kForeignNames[] = {
    {"seq_length", "training.seq_len"},
    {"sequence_length", "training.seq_len"},
    {"sequence_len", "training.seq_len"},
    {"cutoff_len", "training.seq_len"},
    {"max_length", "training.seq_len"},
    {"max_seq_length", "training.seq_len"},
    {"max_context_length", "training.seq_len"},
    {"block_size", "training.seq_len"},
    {"train_iters", "training.steps"},
    {"max_steps", "training.steps"},
    {"max_iters", "training.steps"},
    {"num_train_epochs", "training.steps"},
    {"num_epochs", "training.steps"},
    {"per_device_train_batch_size", "training.micro_batch_size"},
    {"train_micro_batch_size_per_gpu", "training.micro_batch_size"},
    {"microbatch_size", "training.micro_batch_size"},
    {"train_batch_size", "training.global_batch_size"},
    {"batch_size", "training.global_batch_size"},
    {"clip_grad", "training.max_grad_norm"},
    {"max_norm", "training.max_grad_norm"},
    {"gradient_clipping", "training.max_grad_norm"},
    {"grad_clip", "training.max_grad_norm"},
    {"dtype", "training.precision"},
    {"bf16", "training.precision"},
    {"fp16", "training.precision"},
    {"eval_interval", "training.validation_interval"},
    {"eval_steps", "training.validation_interval"},
    {"learning_rate", "optimizer.lr"},
    {"adam_beta1", "optimizer.betas"},
    {"adam_beta2", "optimizer.betas"},
    {"adam_eps", "optimizer.eps"},
    {"adam_epsilon", "optimizer.eps"},
    {"epsilon", "optimizer.eps"},
    {"lr_scheduler_type", "lr_scheduler.name"},
    {"lr_decay_style", "lr_scheduler.name"},
    {"scheduler", "lr_scheduler"},
    {"lr_warmup_iters", "lr_scheduler.warmup_steps"},
    {"warmup_iters", "lr_scheduler.warmup_steps"},
    {"warmup_ratio", "lr_scheduler.warmup_steps"},
    {"lr_decay_iters", "lr_scheduler.decay_steps"},
    {"pipeline_model_parallel_size", "parallelism.pipeline_parallel_degree"},
    {"pipeline_parallel_size", "parallelism.pipeline_parallel_degree"},
    {"pp", "parallelism.pipeline_parallel_degree"},
    {"pp_degree", "parallelism.pipeline_parallel_degree"},
    {"num_stages", "parallelism.pipeline_parallel_degree"},
    {"data_parallel_size", "parallelism.data_parallel_degree"},
    {"dp", "parallelism.data_parallel_degree"},
    {"pipeline_parallel_schedule", "parallelism.schedule"},
    {"pipeline_model_parallel_layout", "parallelism.partition"},
    {"gradient_checkpointing", "parallelism.activation_checkpointing"},
    {"activation_recomputation", "parallelism.activation_checkpointing"},
    {"recompute_activations", "parallelism.activation_checkpointing"},
    {"recompute_granularity", "parallelism.activation_checkpointing"},
    {"save_interval", "checkpoint.interval_steps"},
    {"save_steps", "checkpoint.interval_steps"},
    {"save", "checkpoint.dir"},
    {"output_dir", "checkpoint.dir"},
    {"resume_from_checkpoint", "checkpoint.resume"},
    {"logging_steps", "metrics.log_interval"},
    {"data_path", "data.train"},
    {"datasets", "data.train"},
    {"split", "data.validation_fraction"},
    {"tokenizer_type", "data.tokenizer"},
    {"model_name_or_path", "model.path"},
    {"base_model", "model.path"},
    {"n_layer", "model.config.num_hidden_layers"},
    {"num_layers", "model.config.num_hidden_layers"},
    {"n_embd", "model.config.hidden_size"},
    {"d_model", "model.config.hidden_size"},
    {"n_head", "model.config.num_attention_heads"},
    {"num_heads", "model.config.num_attention_heads"},
    {"n_positions", "model.config.max_position_embeddings"},
    {"n_ctx", "model.config.max_position_embeddings"},
    {"freeze_layers", "model.frozen_layers"},
    {"freeze_trainable_layers", "model.frozen_layers"},
    {"unfrozen_parameters", "model.frozen_layers"},
    {"skip_layers", "model.skip_connections"},
    {"skips", "model.skip_connections"},
    {"unet_skips", "model.skip_connections"},
    {"long_skip_connections", "model.skip_connections"},
    {"initializer_range", "model.init.std"},
    {"init_method_std", "model.init.std"},
};

std::string LowerWithUnderscores(absl::string_view key) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(key), {{"-", "_"}, {" ", "_"}});
}

std::string DidYouMean(absl::string_view section, absl::string_view path) {
  const std::string prefix = absl::StrCat(section, section.empty() ? "" : ".");
  const absl::string_view rest = absl::StripPrefix(path, prefix);
  const bool is_sibling = absl::StartsWith(path, prefix) && !absl::StrContains(rest, '.');
  return absl::StrCat("did you mean ", is_sibling ? rest : path, "?");
}

// Every path of the format, sections and later keys included, without doubles.
std::set<absl::string_view> AllPaths() {
  std::set<absl::string_view> paths;
  const auto add = [&](absl::string_view path) {
    for (size_t dot = path.find('.'); dot != absl::string_view::npos; dot = path.find('.', dot + 1)) {
      paths.insert(path.substr(0, dot));
    }
    paths.insert(path);
  };
  for (const SchemaField& field : JobSpecFields()) add(field.path);
  for (const LaterKey& key : LaterKeys()) add(key.path);
  return paths;
}

absl::string_view LastPart(absl::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

std::string HintFromCandidates(absl::string_view key, const std::vector<absl::string_view>& candidates) {
  if (key.size() > kMaxKeyBytes) return "";
  const std::string lower = LowerWithUnderscores(key);
  absl::string_view best;
  size_t best_distance = kMaxKeyBytes;
  for (const absl::string_view candidate : candidates) {
    const size_t limit = std::max<size_t>(1, std::min(lower.size(), candidate.size()) / 3);
    const size_t distance = EditDistance(lower, candidate);
    if (distance <= limit && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? "" : absl::StrCat("did you mean ", best, "?");
}

std::string HintForUnknownKey(absl::string_view section, absl::string_view key) {
  const std::string lower = LowerWithUnderscores(key);
  if (key == "<<") return "YAML merge keys are not accepted; repeat the keys";
  if (lower == "gradient_accumulation_steps" || lower == "num_micro_batches") {
    return "it is derived: training.global_batch_size / training.micro_batch_size";
  }
  const auto foreign = std::find_if(std::begin(kForeignNames), std::end(kForeignNames),
                                    [&](const ForeignName& name) { return name.name == lower; });
  if (foreign != std::end(kForeignNames)) return DidYouMean(section, foreign->path);

  std::vector<absl::string_view> siblings, elsewhere;
  for (const absl::string_view path : AllPaths()) {
    const bool is_sibling =
        path.substr(0, path.size() - LastPart(path).size()) == absl::StrCat(section, section.empty() ? "" : ".");
    if (is_sibling) {
      siblings.push_back(LastPart(path));
    } else if (LastPart(path) == lower) {
      elsewhere.push_back(path);
    }
  }
  const bool is_sibling_in_other_case = std::find(siblings.begin(), siblings.end(), lower) != siblings.end();
  if (!elsewhere.empty() && !is_sibling_in_other_case)
    return absl::StrCat("did you mean ", absl::StrJoin(elsewhere, " or "), "?");
  return HintFromCandidates(key, siblings);
}

std::string DuplicateKeyMessage(const SpecNode& first) {
  if (first.key_line == 0) return "the key is given twice";
  return absl::StrCat("the key is given twice, first at ", first.key_line, ":", first.key_column);
}

}  // namespace stagecoach
