#include "tests/simulation/reference_training.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "coordinator/jobs/learning_rate.h"
#include "coordinator/jobs/verdict.h"
#include "formats/text_corpus.h"
#include "tests/simulation/toy_model.h"

namespace stagecoach::simulation {

ReferenceTraining::ReferenceTraining(const v1::JobSpec& spec, std::shared_ptr<const JobPlan> plan)
    : spec_(spec), plan_(std::move(plan)) {
  State& initial = states_.emplace_back();
  for (int layer = 0; layer < plan_->planned.graph.layers_size(); ++layer) {
    initial.values.push_back(InitialValue(spec_.model().init().seed(), static_cast<uint32_t>(layer)));
  }
}

const ReferenceTraining::State& ReferenceTraining::After(uint64_t step) {
  while (states_.size() <= step) RunNextStep();
  return states_[step];
}

std::vector<uint64_t> ReferenceTraining::Forward(const State& state, uint64_t input) const {
  Skips skips;
  return ForwardLayers(plan_->planned.graph, 0, state.values, input, skips);
}

void ReferenceTraining::RunNextStep() {
  const State& before = states_.back();
  const v1::TrainingSpec& training = spec_.training();
  const uint64_t step = states_.size();
  const StepSamples samples = SamplesOfStep(step, plan_->num_train_samples, training.global_batch_size());
  const MicroBatches batches =
      DivideSamples(samples.num_samples, samples.num_samples, plan_->planned.plan.num_micro_batches(),
                    plan_->planned.graph.micro_batch_size());
  std::vector<uint64_t> gradients(before.values.size(), 0);
  auto vote = std::make_shared<v1::StepPrepared>();
  for (uint32_t i = 0; i < batches.samples.size(); ++i) {
    const std::vector<uint64_t> activations =
        Forward(before, LoadedSamples(samples.first_sample, i, batches.samples[i]));
    v1::LossPart& part = *vote->add_loss_parts();
    part.set_micro_batch(i);
    part.set_value(batches.loss_weight[i] * LossOf(activations.back()));
    Skips skips;
    const std::vector<uint64_t> output_gradients = BackwardLayers(
        plan_->planned.graph, 0, before.values, LossGradient(activations.back(), batches.loss_weight[i]), skips);
    for (size_t layer = 0; layer < gradients.size(); ++layer) {
      gradients[layer] = AddWeightGradient(gradients[layer], activations[layer], output_gradients[layer + 1]);
    }
  }
  for (size_t layer = 0; layer < gradients.size(); ++layer) {
    for (v1::SquaredNorm& norm : NormsOf(plan_->planned.graph.layers(static_cast<int>(layer)), gradients[layer])) {
      *vote->add_squared_norms() = std::move(norm);
    }
    vote->set_num_non_finite(vote->num_non_finite() + (IsNonFinite(gradients[layer]) ? 1 : 0));
  }
  const absl::StatusOr<v1::CommitRecord> record =
      DecideVerdict({.step = step,
                     .votes = {vote},
                     .samples = batches.samples,
                     .loss_scale = 1,
                     .max_grad_norm = training.max_grad_norm(),
                     .learning_rate = LearningRateOfStep(spec_.lr_scheduler(), spec_.optimizer().lr(), step),
                     .num_updates_before = before.record.num_updates()});
  STAGECOACH_CHECK(record.ok());
  State after{*record, {}};
  for (size_t layer = 0; layer < gradients.size(); ++layer) {
    after.values.push_back(UpdatedValue(before.values[layer], gradients[layer], *record));
  }
  states_.push_back(std::move(after));
}

double ReferenceTraining::LossOfRun(const State& state, uint64_t first_sample, const MicroBatches& batches) const {
  double loss = 0;
  for (uint32_t i = 0; i < batches.samples.size(); ++i) {
    if (batches.samples[i] == 0) continue;
    loss += batches.loss_weight[i] * LossOf(Forward(state, LoadedSamples(first_sample, i, batches.samples[i])).back());
  }
  return loss;
}

double ReferenceTraining::ValidationLossAfter(uint64_t step) {
  const State& state = After(step);
  const uint32_t num_micro_batches = plan_->planned.evaluation_programs[0].num_micro_batches();
  const uint64_t capacity = num_micro_batches * plan_->planned.graph.micro_batch_size();
  double loss = 0;
  for (uint64_t first = 0; first < plan_->num_validation_samples; first += capacity) {
    const uint64_t num_samples = std::min(capacity, plan_->num_validation_samples - first);
    loss += LossOfRun(state, first,
                      DivideSamples(num_samples, plan_->num_validation_samples, num_micro_batches,
                                    plan_->planned.graph.micro_batch_size()));
  }
  return loss;
}

}  // namespace stagecoach::simulation
