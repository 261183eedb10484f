#include "coordinator/jobs/manifest.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "formats/tensor_digest.h"
#include "formats/text_corpus.h"

namespace stagecoach {
namespace {

struct TensorInShard {
  uint32_t shard = 0;
  const v1::TensorDigestReport* report = nullptr;
};
using Tensors = std::map<std::string, TensorInShard>;

TensorDigest DigestOf(const v1::TensorDigestReport& report) { return {{report.low(), report.high()}}; }

absl::StatusOr<Tensors> CollectTensors(const JobRecord& job) {
  Tensors tensors;
  for (uint32_t rank = 0; rank < job.progress.said.size(); ++rank) {
    for (const v1::TensorDigestReport& report : job.progress.said[rank].shard->tensors()) {
      if (!tensors.emplace(report.name(), TensorInShard{rank, &report}).second) {
        return absl::InternalError(absl::StrCat("tensor ", report.name(), " is in two shards of the checkpoint"));
      }
    }
  }
  for (const v1::LayerSpec& layer : job.progress.plan->planned.graph.layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      if (parameter.has_tied_to_layer() || tensors.contains(parameter.name())) continue;
      return absl::InternalError(absl::StrCat("tensor ", parameter.name(), " is in no shard of the checkpoint"));
    }
  }
  return tensors;
}

// Between the update and the file nothing may change a tensor. Members that were not asked for digests reported none.
absl::Status CompareWithApplied(const JobRecord& job, const Tensors& tensors) {
  for (const MemberProgress& member : job.progress.said) {
    if (member.applied == nullptr || member.applied->step() != job.history.last_commit.step()) continue;
    for (const v1::TensorDigestReport& applied : member.applied->digests()) {
      const auto found = tensors.find(applied.name());
      if (found == tensors.end() || !(DigestOf(applied) == DigestOf(*found->second.report))) {
        return absl::InternalError(absl::StrCat("tensor ", applied.name(),
                                                " of the checkpoint is not the one after step ",
                                                job.history.last_commit.step(), "; the checkpoint was not completed"));
      }
    }
  }
  return absl::OkStatus();
}

void AddTensors(const Tensors& tensors, v1::CheckpointManifest& manifest) {
  ModelDigest parameters, state;
  for (const auto& [name, tensor] : tensors) {
    const v1::TensorDigestReport& report = *tensor.report;
    v1::CheckpointTensor& entry = *manifest.add_tensors();
    entry.set_name(name);
    entry.set_dtype(report.dtype());
    *entry.mutable_shape() = report.shape();
    entry.set_shard(tensor.shard);
    entry.set_digest(DigestOf(report).Hex());
    entry.set_optimizer_state(report.optimizer_state());
    const std::vector<uint64_t> shape(report.shape().begin(), report.shape().end());
    if (!report.optimizer_state()) parameters.Add(name, report.dtype(), shape, DigestOf(report));
    state.Add(name, report.dtype(), shape, DigestOf(report));
  }
  state.AddUpdateCount(manifest.num_updates());
  manifest.set_digest(parameters.Hex());
  manifest.set_state_digest(state.Hex());
}

}  // namespace

absl::StatusOr<v1::CheckpointManifest> BuildManifest(const JobRecord& job, CoordinatorTerm term) {
  STAGECOACH_ASSIGN_OR_RETURN(const Tensors tensors, CollectTensors(job));
  STAGECOACH_RETURN_IF_ERROR(CompareWithApplied(job, tensors));
  const v1::CommitRecord& commit = job.history.last_commit;
  v1::CheckpointManifest manifest;
  manifest.set_version(1);
  manifest.set_job(job.id.value());
  manifest.set_epoch(job.history.epoch.value());
  manifest.set_coordinator_term(term.value());
  manifest.set_step(commit.step());
  manifest.set_num_updates(commit.num_updates());
  manifest.set_next_sample(SamplesOfStep(commit.step() + 1, job.progress.plan->num_train_samples,
                                         job.history.spec->training().global_batch_size())
                               .first_sample);
  *manifest.mutable_spec() = *job.history.spec;
  for (uint32_t rank = 0; rank < job.progress.said.size(); ++rank) {
    const v1::ShardWritten& written = *job.progress.said[rank].shard;
    v1::CheckpointShard& shard = *manifest.add_shards();
    shard.set_file(written.file());
    shard.set_bytes(written.bytes());
    shard.set_digest(written.digest());
    shard.set_writer_incarnation(job.progress.members->at(rank).incarnation.value());
  }
  AddTensors(tensors, manifest);
  return manifest;
}

}  // namespace stagecoach
