#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

v1::JobSpec GoodSpec() {
  std::vector<SpecError> errors;
  const auto spec = ParseJobSpec(
      "{version: 1, name: job, model: {architecture: gpt2, config: {num_hidden_layers: 2, hidden_size: 8, "
      "num_attention_heads: 1, vocab_size: 256, max_position_embeddings: 8}}, data: {train: [{path: /text}]}, "
      "training: {seq_len: 8, global_batch_size: 4, micro_batch_size: 1, steps: 4}, optimizer: {name: adamw, lr: 0.1}, "
      "checkpoint: {dir: /checkpoints}}",
      {}, errors);
  EXPECT_TRUE(spec.ok());
  return *spec;
}

TEST(JobSpecCheckTest, AcceptsWhatTheParserMakes) {
  v1::JobSpec spec = GoodSpec();
  EXPECT_TRUE(CheckJobSpec(spec).ok()) << CheckJobSpec(spec);
  spec.mutable_resources()->set_threads_per_worker(3);
  EXPECT_TRUE(CheckJobSpec(spec).ok()) << CheckJobSpec(spec);
}

TEST(JobSpecCheckTest, SaysWhatIsWrongWithASpecificationFromElsewhere) {
  const std::vector<std::pair<std::string, std::function<void(v1::JobSpec&)>>> bad = {
      {"name", [](v1::JobSpec& spec) { spec.clear_name(); }},
      {"training.seq_len", [](v1::JobSpec& spec) { spec.mutable_training()->set_seq_len(0); }},
      {"training.micro_batch_size", [](v1::JobSpec& spec) { spec.mutable_training()->set_micro_batch_size(65536); }},
      {"training.global_batch_size", [](v1::JobSpec& spec) { spec.mutable_training()->set_global_batch_size(~0ull); }},
      {"training.steps", [](v1::JobSpec& spec) { spec.mutable_training()->set_steps(0); }},
      {"optimizer.lr", [](v1::JobSpec& spec) { spec.mutable_optimizer()->set_lr(std::nan("")); }},
      {"optimizer.lr", [](v1::JobSpec& spec) { spec.mutable_optimizer()->set_lr(-1); }},
      {"optimizer.name", [](v1::JobSpec& spec) { spec.mutable_optimizer()->set_name("magic"); }},
      {"data.train", [](v1::JobSpec& spec) { spec.mutable_data()->clear_train(); }},
      {"parallelism.schedule", [](v1::JobSpec& spec) { spec.mutable_parallelism()->set_schedule("csv"); }},
      {"parallelism.schedule", [](v1::JobSpec& spec) { spec.mutable_parallelism()->set_schedule("/order.csv"); }},
      {"parallelism.schedule",
       [](v1::JobSpec& spec) {
         spec.mutable_parallelism()->set_schedule("csv");
         spec.mutable_parallelism()->mutable_order()->add_workers()->add_actions();  // of no kind
       }},
      {"order", [](v1::JobSpec& spec) { spec.mutable_parallelism()->mutable_order()->set_num_stages(2); }},
      {"", [](v1::JobSpec& spec) { spec.Clear(); }},
  };
  for (const auto& [what, damage] : bad) {
    v1::JobSpec spec = GoodSpec();
    damage(spec);
    const absl::Status status = CheckJobSpec(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

// A derived value that the client should have filled in.
TEST(JobSpecCheckTest, RefusesWhatIsNotResolved) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_lr_scheduler()->set_decay_steps(0);
  EXPECT_EQ(CheckJobSpec(spec).code(), absl::StatusCode::kInvalidArgument);
}

TEST(JobSpecCheckTest, RefusesFieldsOfALaterVersion) {
  v1::JobSpec spec;
  ASSERT_TRUE(spec.ParseFromString(GoodSpec().SerializeAsString() + std::string("\xf8\x3f\x01", 3)));  // field 1023
  const absl::Status status = CheckJobSpec(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("this version does not know"));
}

}  // namespace
}  // namespace stagecoach
