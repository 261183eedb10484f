#include "tests/simulation/plan_catalog.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/program/testing/small_pipeline.h"

namespace stagecoach::simulation {
namespace {

constexpr uint64_t kGlobalBatchSize = 6;
constexpr uint64_t kMicroBatchSize = 2;
constexpr uint32_t kNumMicroBatches = 3;
constexpr uint32_t kNumEvaluationMicroBatches = 2;

// Nested, and from the ends of the model, so that two share an edge and the third, of four workers or more, does not.
std::vector<std::pair<uint32_t, uint32_t>> SkipConnectionsOf(uint32_t num_workers) {
  std::vector<std::pair<uint32_t, uint32_t>> connections = {{0, num_workers + 2}};
  if (num_workers >= 2) connections.emplace_back(1, num_workers + 1);
  if (num_workers >= 4) connections.emplace_back(2, num_workers);
  return connections;
}

std::shared_ptr<const JobPlan> MakePlan(uint32_t num_workers, bool has_validation, bool has_skips) {
  testing::SmallPipelineOptions options = {
      .num_stages = num_workers, .num_micro_batches = kNumMicroBatches, .tied = false};
  if (has_skips) options.skip_connections = SkipConnectionsOf(num_workers);
  const auto training = testing::MakeSmallPipeline("1f1b", options);
  auto plan = std::make_shared<JobPlan>();
  plan->num_train_samples = kNumTrainSamples;
  plan->planned.graph = training.graph;
  plan->planned.plan = training.plan;
  plan->planned.plan.set_step_seconds(kPlannedStepSeconds);
  plan->planned.programs = training.programs;
  if (!has_validation) return plan;
  plan->num_validation_samples = kNumValidationSamples;
  options.num_micro_batches = kNumEvaluationMicroBatches;
  plan->planned.evaluation_programs = testing::MakeSmallPipeline("forward_only", options).programs;
  return plan;
}

}  // namespace

v1::JobSpec SmallSpec(const std::string& name, uint32_t degree, uint64_t steps, uint64_t validation_interval,
                      uint64_t seed) {
  v1::JobSpec spec;
  spec.set_version(1);
  spec.set_name(name);
  spec.mutable_model()->mutable_init()->set_seed(seed);
  spec.mutable_model()->set_architecture("gpt2");  // that costs are asked of; the toy model is what is trained
  v1::ModelConfig& config = *spec.mutable_model()->mutable_config();
  config.set_num_hidden_layers(2);
  config.set_hidden_size(8);
  config.set_num_attention_heads(2);
  config.set_vocab_size(256);
  config.set_max_position_embeddings(32);
  if (validation_interval > 0) spec.mutable_data()->set_validation_fraction(0.25);
  v1::TrainingSpec& training = *spec.mutable_training();
  training.set_seq_len(20);
  training.set_global_batch_size(kGlobalBatchSize);
  training.set_micro_batch_size(kMicroBatchSize);
  training.set_steps(steps);
  training.set_validation_interval(validation_interval);
  training.set_max_grad_norm(1);
  spec.mutable_optimizer()->set_lr(0.5);
  spec.mutable_lr_scheduler()->set_name("linear");
  spec.mutable_lr_scheduler()->set_warmup_steps(2);
  spec.mutable_lr_scheduler()->set_decay_steps(steps + 2);
  spec.mutable_parallelism()->set_pipeline_parallel_degree(degree);
  spec.mutable_checkpoint()->set_dir("/checkpoints");
  spec.mutable_fault_tolerance()->set_on_worker_loss("fail");
  return spec;
}

std::shared_ptr<const JobPlan> PlanOf(const v1::JobSpec& spec, uint32_t num_workers) {
  static auto& plans = *new std::map<std::tuple<uint32_t, bool, bool>, std::shared_ptr<const JobPlan>>();
  const bool has_validation = spec.data().validation_fraction() > 0;
  const bool has_skips = spec.model().init().seed() % 2 == 0;
  auto& plan = plans[{num_workers, has_validation, has_skips}];
  if (plan == nullptr) plan = MakePlan(num_workers, has_validation, has_skips);
  return plan;
}

}  // namespace stagecoach::simulation
