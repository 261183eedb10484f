#include "coordinator/plan/testing/small_job.h"

#include "coordinator/plan/job_cut.h"

namespace stagecoach::testing {

v1::JobSpec SmallJobSpec(uint64_t global_batch_size, uint64_t micro_batch_size) {
  v1::JobSpec spec;
  spec.mutable_model()->set_architecture("gpt2");
  v1::ModelConfig& config = *spec.mutable_model()->mutable_config();
  config.set_num_hidden_layers(16);
  config.set_hidden_size(256);
  config.set_num_attention_heads(4);
  config.set_vocab_size(256);
  config.set_max_position_embeddings(128);
  spec.mutable_training()->set_seq_len(128);
  spec.mutable_training()->set_global_batch_size(global_batch_size);
  spec.mutable_training()->set_micro_batch_size(micro_batch_size);
  spec.mutable_optimizer()->set_name("adamw");
  spec.mutable_parallelism()->set_schedule("auto");
  spec.mutable_parallelism()->mutable_partition()->set_kind(v1::PartitionSpec::KIND_AUTO);
  return spec;
}

std::vector<WorkerProfile> EqualWorkers(size_t count, uint64_t memory_bytes) {
  return std::vector<WorkerProfile>(count, {.memory_bytes = memory_bytes});
}

CutRequest SmallCutRequest(const std::vector<WorkerProfile>& workers, uint32_t num_micro_batches) {
  constexpr uint64_t kMicroBatchSize = 4;
  const v1::JobSpec spec = SmallJobSpec(num_micro_batches * kMicroBatchSize, kMicroBatchSize);
  return JobRequestOf(spec, workers, {.searches_order = false})->cut;
}

}  // namespace stagecoach::testing
