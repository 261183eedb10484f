#include "coordinator/resume/spec_changes.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/simulated_device.h"
#include "coordinator/spec/job_spec_schema.h"

namespace stagecoach {
namespace {

// Names of keys, or of sections with the dot.
constexpr absl::string_view kForbidden[] = {
    "model.architecture",
    "model.config.num_hidden_layers",
    "model.config.hidden_size",
    "model.config.num_attention_heads",
    "model.config.vocab_size",
    "model.config.max_position_embeddings",
    "model.config.tie_word_embeddings",
    "model.config.layer_norm_epsilon",
    "model.frozen_layers",  // frozen layers have no optimizer state
    "model.skip_connections",
    "data.tokenizer",
    "data.seed",
    "data.shuffle",
    "training.seq_len",
    "training.global_batch_size",
    "training.precision",
    "optimizer.name",
    "optimizer.momentum",  // without it there is no such state
};
// The initial parameters are no longer needed; of training data the contents count, which are compared elsewhere; the
// bits do not depend on the others.
constexpr absl::string_view kIgnored[] = {
    "version",     "name",     "labels",           "model.init.", "parallelism.",
    "checkpoint.", "metrics.", "fault_tolerance.", "limits.",     "resources.workers",
    "data.train"};

// Whose steps have trained nothing.
bool IsSimulated(const v1::JobSpec& spec) { return spec.resources().device() == kSimulatedDevice; }

template <size_t N>
bool IsAmong(absl::string_view path, const absl::string_view (&list)[N]) {
  return std::any_of(std::begin(list), std::end(list), [&](absl::string_view entry) {
    return absl::EndsWith(entry, ".") ? absl::StartsWith(path, entry) : path == entry;
  });
}

std::string ValueOf(const SchemaField& field, const v1::JobSpec& spec) {
  return AppliesTo(field, spec) ? PrintField(field, spec) : "nothing";
}

// Who leaves it to the planner gets that of the checkpoint.
bool IsKept(const SchemaField& field, const v1::JobSpec& resumed_by) {
  return field.path == "training.micro_batch_size" && resumed_by.training().micro_batch_size() == 0;
}

// Of a long value what is around the first byte in which it differs.
std::string Excerpt(const std::string& value, size_t differs_at) {
  constexpr size_t kMostBytes = 160;
  constexpr size_t kBytesBefore = 40;
  if (value.size() <= kMostBytes) return value;
  const size_t begin = differs_at > kBytesBefore ? differs_at - kBytesBefore : 0;
  const bool is_end = value.size() - begin <= kMostBytes;
  return absl::StrCat(begin > 0 ? "..." : "", value.substr(begin, kMostBytes), is_end ? "" : "...", " (", value.size(),
                      " bytes)");
}

std::string ChangeText(absl::string_view path, const std::string& before, const std::string& now) {
  const auto differs = std::mismatch(before.begin(), before.end(), now.begin(), now.end());
  const auto at = static_cast<size_t>(differs.first - before.begin());
  return absl::StrCat(path, ": ", Excerpt(before, at), " -> ", Excerpt(now, at));
}

}  // namespace

SpecChanges CompareSpecs(const v1::JobSpec& written_by, const v1::JobSpec& resumed_by) {
  SpecChanges changes;
  const bool simulated_by_one = IsSimulated(written_by) != IsSimulated(resumed_by);
  for (const SchemaField& field : JobSpecFields()) {
    if (IsAmong(field.path, kIgnored)) continue;
    const std::string before = ValueOf(field, written_by);
    const std::string now = ValueOf(field, resumed_by);
    if (before == now || IsKept(field, resumed_by)) continue;
    const bool is_forbidden = IsAmong(field.path, kForbidden) || (field.path == "resources.device" && simulated_by_one);
    (is_forbidden ? changes.forbidden : changes.allowed).push_back(ChangeText(field.path, before, now));
  }
  return changes;
}

}  // namespace stagecoach
