#include "coordinator/resume/spec_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr char kSpec[] = R"(version: 1
name: gpt
model: {architecture: gpt2, config: {num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4, vocab_size: 256,
  max_position_embeddings: 64}}
data: {train: [{path: /data/a.txt}]}
training: {seq_len: 64, global_batch_size: 8, micro_batch_size: 2, steps: 20}
optimizer: {name: adamw, lr: 6e-4}
checkpoint: {dir: /ckpt}
)";

v1::JobSpec Spec(const std::vector<SpecOverride>& overrides = {}) {
  std::vector<SpecError> errors;
  auto spec = ParseJobSpec(kSpec, overrides, errors);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

SpecChanges Change(const std::vector<SpecOverride>& overrides) { return CompareSpecs(Spec(), Spec(overrides)); }

TEST(SpecChangesTest, EqualSpecificationsHaveNone) {
  EXPECT_THAT(Change({}).forbidden, IsEmpty());
  EXPECT_THAT(Change({}).allowed, IsEmpty());
}

TEST(SpecChangesTest, WhatTheBitsDoNotDependOnIsNotCompared) {
  const SpecChanges changes = Change({{"name", "other"},
                                      {"parallelism.pipeline_parallel_degree", "2"},
                                      {"parallelism.schedule", "gpipe"},
                                      {"checkpoint.dir", "/elsewhere"},
                                      {"checkpoint.interval_steps", "5"},
                                      {"limits.priority", "3"},
                                      {"resources.workers", "2"},
                                      {"metrics.log_interval", "1"},
                                      {"model.init.seed", "9"}});
  EXPECT_THAT(changes.forbidden, IsEmpty());
  EXPECT_THAT(changes.allowed, IsEmpty());
}

TEST(SpecChangesTest, AMicroBatchSizeThatIsLeftToThePlannerIsTheCheckpoints) {
  EXPECT_THAT(Change({{"training.micro_batch_size", "auto"}}).allowed, IsEmpty());
}

TEST(SpecChangesTest, HowTrainingGoesOnMayChangeAndIsSaid) {
  const SpecChanges changes =
      Change({{"training.steps", "40"}, {"optimizer.lr", "3e-4"}, {"training.micro_batch_size", "4"}});
  EXPECT_THAT(changes.forbidden, IsEmpty());
  EXPECT_THAT(changes.allowed, testing::IsSupersetOf({"training.steps: 20 -> 40", "optimizer.lr: 6.0e-04 -> 3.0e-04",
                                                      "training.micro_batch_size: 2 -> 4"}));
}

TEST(SpecChangesTest, WhatTheStateDependsOnMayNot) {
  const std::vector<std::pair<SpecOverride, std::string>> cases = {
      {{"model.config.num_hidden_layers", "5"}, "model.config.num_hidden_layers: 4 -> 5"},
      {{"model.config.hidden_size", "128"}, "model.config.hidden_size: 64 -> 128"},
      {{"model.config.tie_word_embeddings", "false"}, "model.config.tie_word_embeddings: true -> false"},
      {{"model.frozen_layers", "[transformer.h.1]"}, "model.frozen_layers: [] -> [transformer.h.1]"},
      {{"model.skip_connections", "[{from: transformer.h.0, to: transformer.h.2}]"},
       "model.skip_connections: [] -> [{from: transformer.h.0, to: transformer.h.2}]"},
      {{"data.seed", "1"}, "data.seed: 42 -> 1"},
      {{"data.shuffle", "false"}, "data.shuffle: true -> false"},
      {{"training.seq_len", "32"}, "training.seq_len: 64 -> 32"},
      {{"training.global_batch_size", "16"}, "training.global_batch_size: 8 -> 16"},
      {{"optimizer.name", "sgd"}, "optimizer.name: adamw -> sgd"},
      {{"resources.device", "simulated"}, "resources.device: cpu -> simulated"},
  };
  for (const auto& [override, text] : cases) {
    EXPECT_THAT(Change({override}).forbidden, testing::Contains(text)) << text;
  }
}

TEST(SpecChangesTest, TheOrderInWhichConnectionsAreGivenIsNoChange) {
  const SpecOverride before = {
      "model.skip_connections",
      "[{from: transformer.h.0, to: transformer.h.2}, {from: transformer.h.1, to: transformer.h.3}]"};
  const SpecOverride after = {
      "model.skip_connections",
      "[{from: transformer.h.1, to: transformer.h.3}, {from: transformer.h.0, to: transformer.h.2}]"};
  EXPECT_THAT(CompareSpecs(Spec({before}), Spec({after})).forbidden, IsEmpty());
  EXPECT_THAT(CompareSpecs(Spec({before}), Spec()).forbidden,
              ElementsAre("model.skip_connections: [{from: transformer.h.0, to: transformer.h.2}, {from: "
                          "transformer.h.1, to: transformer.h.3}] -> []"));
}

TEST(SpecChangesTest, OfALongValueIsSaidWhereItDiffers) {
  const SpecChanges changes =
      Change({{"model.config.num_hidden_layers", "30"}, {"model.frozen_layers", "[transformer.h.*]"}});
  EXPECT_THAT(changes.forbidden,
              testing::Contains(testing::AllOf(testing::StartsWith("model.frozen_layers: [] -> [transformer.h.0, "),
                                               testing::EndsWith("... (530 bytes)"))));
}

}  // namespace
}  // namespace stagecoach
