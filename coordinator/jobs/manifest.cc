#include "coordinator/jobs/manifest.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "formats/checkpoint_manifest.h"
#include "formats/tensor_digest.h"
#include "formats/text_corpus.h"

namespace stagecoach {
namespace {

// Null: no shard has it.
const v1::CheckpointTensor* FindTensor(const v1::CheckpointManifest& manifest, const std::string& name) {
  const auto& tensors = manifest.tensors();  // in bytewise name order
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const v1::CheckpointTensor& tensor, const std::string& wanted) { return tensor.name() < wanted; });
  return found == tensors.end() || found->name() != name ? nullptr : &*found;
}

absl::Status CheckParameters(const v1::ModelGraph& graph, const v1::CheckpointManifest& manifest) {
  for (const v1::LayerSpec& layer : graph.layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      if (parameter.has_tied_to_layer() || FindTensor(manifest, parameter.name()) != nullptr) continue;
      return absl::InternalError(absl::StrCat("no stage has written ", parameter.name(), " into the checkpoint"));
    }
  }
  return absl::OkStatus();
}

// Between the update and the file nothing may change a tensor. Members that were not asked for digests reported none.
absl::Status CompareWithApplied(const JobRecord& job, const v1::CheckpointManifest& manifest) {
  for (const MemberProgress& member : job.progress.said) {
    if (member.applied == nullptr || member.applied->step() != manifest.step()) continue;
    for (const v1::TensorDigestReport& applied : member.applied->digests()) {
      const TensorDigest digest{{applied.low(), applied.high()}};
      const v1::CheckpointTensor* written = FindTensor(manifest, applied.name());
      if (written != nullptr && written->digest() == digest.Hex()) continue;
      return absl::InternalError(absl::StrCat("what was written of ", applied.name(),
                                              " is not what its stage had after step ", manifest.step()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::CheckpointManifest> BuildManifest(const JobRecord& job, CoordinatorTerm term) {
  const v1::CommitRecord& commit = job.progress.checkpoint.record;
  v1::CheckpointManifest manifest;
  manifest.set_version(kManifestVersion);
  manifest.set_job(job.id.value());
  manifest.set_epoch(job.history.epoch.value());
  manifest.set_coordinator_term(term.value());
  manifest.set_step(commit.step());
  manifest.set_num_updates(commit.num_updates());
  manifest.set_next_sample(SamplesOfStep(commit.step() + 1, job.progress.plan->num_train_samples,
                                         job.history.spec->training().global_batch_size())
                               .first_sample);
  *manifest.mutable_spec() = *job.history.spec;
  *manifest.mutable_last_commit() = commit;
  manifest.mutable_training_data()->set_bytes(job.progress.plan->training_data.bytes);
  manifest.mutable_training_data()->set_digest(job.progress.plan->training_data.digest);
  std::vector<ShardReceipt> receipts;
  for (uint32_t rank = 0; rank < job.progress.said.size(); ++rank) {
    receipts.push_back({*job.progress.said[rank].shard, job.progress.members->at(rank).incarnation});
  }
  STAGECOACH_RETURN_IF_ERROR(AddShards(receipts, manifest));
  STAGECOACH_RETURN_IF_ERROR(CheckParameters(job.progress.plan->planned.graph, manifest));
  STAGECOACH_RETURN_IF_ERROR(CompareWithApplied(job, manifest));
  return manifest;
}

}  // namespace stagecoach
