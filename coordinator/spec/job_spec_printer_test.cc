#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/spec/job_spec_parser.h"
#include "coordinator/spec/job_spec_schema.h"
#include "coordinator/spec/spec_test_cases.h"

namespace stagecoach {
namespace {

using google::protobuf::util::MessageDifferencer;

// Draws resolved specifications: each field of the schema by its own range.
class RandomSpec {
 public:
  explicit RandomSpec(uint64_t seed) : random_(seed) {}

  v1::JobSpec Draw() {
    std::vector<SpecError> errors;
    v1::JobSpec spec = *ParseJobSpec(kGoodSpec, {}, errors);
    DrawModel(spec);
    DrawData(spec);
    DrawOptimizer(spec);
    DrawRest(spec);
    return spec;
  }

 private:
  uint64_t Integer(uint64_t min, uint64_t max) { return std::uniform_int_distribution<uint64_t>(min, max)(random_); }
  double Number(double max) { return std::uniform_real_distribution<double>(0, max)(random_); }
  // Over many orders of magnitude.
  double Small() { return std::pow(10.0, -20 * Number(1)); }
  bool Coin() { return Integer(0, 1) == 1; }
  std::string Text() {
    constexpr const char* kPieces[] = {"a", "Z", "0",  " ",    "\"",  "\\",  "\n", "\t", ": ", " #", "'", "\xc3\xa4",
                                       "-", "{", "no", "null", "1e5", "${x", "%",  "&",  "*",  ",",  "~"};
    std::string text;
    for (uint64_t i = Integer(0, 6); i > 0; --i) text += kPieces[Integer(0, std::size(kPieces) - 1)];
    // The one thing that text may not hold.
    return absl::StrContains(text, "${") ? "$" : text;
  }
  std::string Path() {
    std::string text = "/";
    for (const char c : Text()) text += c == '\n' || c == '\t' ? '_' : c;
    return text;
  }

  void DrawModel(v1::JobSpec& spec) {
    for (uint64_t i = Integer(0, 4); i > 0; --i) (*spec.mutable_labels())[absl::StrCat("on/", i, ".1")] = Text();
    v1::ModelConfig& config = *spec.mutable_model()->mutable_config();
    config.set_num_attention_heads(Integer(1, 64));
    config.set_hidden_size(config.num_attention_heads() * Integer(1, 64));
    config.set_vocab_size(Integer(256, 1 << 24));
    config.set_tie_word_embeddings(Coin());
    config.set_layer_norm_epsilon(std::max(1e-12, Small()));
    config.set_attn_pdrop(Number(0.999));
    spec.mutable_model()->mutable_init()->set_seed(Integer(0, UINT64_MAX));
    spec.mutable_model()->mutable_init()->set_std(Small());
    for (uint64_t block = Integer(0, 12); block + 2 < 12; block += Integer(1, 4)) {
      v1::SkipConnectionSpec& connection = *spec.mutable_model()->add_skip_connections();
      connection.set_from(absl::StrCat("transformer.h.", block));
      connection.set_to(absl::StrCat("transformer.h.", block + 2));
    }
  }

  void DrawData(v1::JobSpec& spec) {
    const auto add = [&](auto& sources) {
      v1::DataSource& source = *sources.Add();
      source.set_path(Path());
      source.set_format("text");
    };
    for (uint64_t i = Integer(0, 3); i > 0; --i) add(*spec.mutable_data()->mutable_train());
    const bool validation = Coin();
    if (validation && Coin()) {
      add(*spec.mutable_data()->mutable_validation());
    } else if (validation) {
      spec.mutable_data()->set_validation_fraction(Number(0.999) + 1e-9);
    }
    spec.mutable_training()->set_validation_interval(validation ? Integer(0, 1000) : 0);
    spec.mutable_data()->set_seed(Integer(0, UINT64_MAX));
    spec.mutable_data()->set_shuffle(Coin());
  }

  void DrawOptimizer(v1::JobSpec& spec) {
    v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
    optimizer.Clear();
    optimizer.set_name(Coin() ? "adamw" : "sgd");
    optimizer.set_lr(Small());
    optimizer.set_weight_decay(Number(10));
    if (optimizer.name() == "adamw") {
      optimizer.set_beta1(Number(0.999));
      optimizer.set_beta2(Number(0.999));
      optimizer.set_eps(Small());
    } else {
      optimizer.set_momentum(Number(0.999) + 1e-9);
      optimizer.set_nesterov(Coin());
    }
    v1::LearningRateSpec& scheduler = *spec.mutable_lr_scheduler();
    const char* const names[] = {"constant", "linear", "cosine"};
    scheduler.set_name(names[Integer(0, 2)]);
    scheduler.set_warmup_steps(Integer(0, 0xFFFFFFFF));
    scheduler.set_decay_steps(Integer(1, 0xFFFFFFFF));
    scheduler.set_min_lr(optimizer.lr() * Number(1));
  }

  void DrawRest(v1::JobSpec& spec) {
    v1::TrainingSpec& training = *spec.mutable_training();
    training.set_micro_batch_size(Integer(1, 65535));
    training.set_global_batch_size(training.micro_batch_size() * Integer(1, 65535));
    if (Coin()) training.set_micro_batch_size(0);
    training.set_steps(Integer(1, 0xFFFFFFFF));
    training.set_max_grad_norm(Number(1e9));
    v1::ParallelismSpec& parallelism = *spec.mutable_parallelism();
    parallelism.set_costs(Coin() ? "measured" : "analytic");
    const char* const schedules[] = {"auto", "gpipe", "1f1b", "interleaved", "zb_v"};
    parallelism.set_schedule(schedules[Integer(0, 4)]);
    parallelism.set_virtual_stages(static_cast<uint32_t>(Integer(0, 1)));
    parallelism.set_pipeline_parallel_degree(static_cast<uint32_t>(Integer(0, 6)));
    if (Coin()) parallelism.mutable_partition()->set_kind(v1::PartitionSpec::KIND_EVEN);
    if (Coin()) {
      parallelism.set_virtual_stages(1);
      parallelism.set_pipeline_parallel_degree(3);
      parallelism.mutable_partition()->set_kind(v1::PartitionSpec::KIND_LAYERS);
      for (const uint32_t blocks : {1u, 10u, 1u}) parallelism.mutable_partition()->add_num_blocks(blocks);
    }
    if (Coin() && Coin()) DrawOrder(spec);
    v1::CheckpointSpec& checkpoint = *spec.mutable_checkpoint();
    checkpoint.set_dir(Path());
    const char* const resumes[] = {"never", "auto", "step-0000000007"};
    checkpoint.set_resume(resumes[Integer(0, 2)]);
    checkpoint.set_interval_steps(Coin() ? 0 : Integer(1, 0xFFFFFFFF));
    checkpoint.set_interval_seconds(Coin() ? 0 : static_cast<double>(Integer(1, 36'000'000)));
    checkpoint.set_keep_last(Coin() ? 0 : static_cast<uint32_t>(Integer(1, 1'000'000)));
    checkpoint.set_async(Coin());
    spec.mutable_resources()->set_workers(Coin() ? 0 : static_cast<uint32_t>(Integer(12, 4096)));
    spec.mutable_resources()->set_threads_per_worker(static_cast<uint32_t>(Integer(0, 1024)));
    spec.mutable_metrics()->set_log_interval(Integer(1, 0xFFFFFFFF));
    spec.mutable_limits()->set_priority(static_cast<int32_t>(Integer(0, 2000)) - 1000);
  }

  // What fits it is written into the specification.
  void DrawOrder(v1::JobSpec& spec) {
    v1::ParallelismSpec& parallelism = *spec.mutable_parallelism();
    const auto num_workers = static_cast<uint32_t>(Integer(1, 4));
    const auto num_stages = static_cast<uint32_t>(num_workers * Integer(1, 3));
    parallelism.set_schedule("csv");
    parallelism.set_pipeline_parallel_degree(num_workers);
    parallelism.set_virtual_stages(num_stages / num_workers);
    parallelism.mutable_partition()->Clear();
    parallelism.mutable_partition()->set_kind(v1::PartitionSpec::KIND_AUTO);
    v1::ComputeTable& order = *parallelism.mutable_order();
    order.set_schedule("csv");
    order.set_num_stages(num_stages);
    order.set_num_micro_batches(static_cast<uint32_t>(Integer(1, 5)));
    for (uint32_t worker = 0; worker < num_workers; ++worker) order.add_workers();
    for (uint32_t i = 0; i < num_stages * order.num_micro_batches(); ++i) {
      for (const v1::ActionKind kind : {v1::ACTION_KIND_FORWARD, v1::ACTION_KIND_BACKWARD}) {
        v1::Action& action = *order.mutable_workers(static_cast<int>(i % num_workers))->add_actions();
        action.set_kind(kind);
        action.set_stage(i % num_stages);
        action.set_micro_batch(i / num_stages);
      }
    }
    v1::TrainingSpec& training = *spec.mutable_training();
    training.set_micro_batch_size(Integer(1, 65535));
    training.set_global_batch_size(training.micro_batch_size() * order.num_micro_batches());
  }

  std::mt19937_64 random_;
};

TEST(JobSpecPrinterTest, ReadsBackWhatItPrints) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const v1::JobSpec spec = RandomSpec(seed).Draw();
    const std::string text = PrintJobSpec(spec);
    std::vector<SpecError> errors;
    const absl::StatusOr<v1::JobSpec> again = ParseJobSpec(text, {}, errors);
    ASSERT_TRUE(again.ok()) << "seed " << seed << ": " << FormatSpecError("", errors.at(0)) << "\n" << text;
    ASSERT_TRUE(MessageDifferencer::Equals(spec, *again)) << "seed " << seed << "\n" << text;
    EXPECT_EQ(PrintJobSpec(*again), text);
  }
}

TEST(JobSpecPrinterTest, PrintsEveryKeyOfTheOptimizerInUse) {
  std::vector<SpecError> errors;
  const std::string text = PrintJobSpec(*ParseJobSpec(kGoodSpec, {}, errors));
  EXPECT_THAT(text, testing::HasSubstr("optimizer:\n  name: adamw\n  lr: 6.0e-04\n  betas: [0.9, 0.95]\n"
                                       "  eps: 1.0e-08\n  weight_decay: 0.1\nlr_scheduler:\n"));
  EXPECT_THAT(text, testing::HasSubstr("data:\n  train:\n    - {path: /data/a.txt, format: text}\n  validation: []\n"));
}

TEST(JobSpecPrinterTest, PrintsAnEmptySpecificationToo) { EXPECT_FALSE(PrintJobSpec(v1::JobSpec()).empty()); }

TEST(JobSpecPrinterTest, PrintsNumbersThatEveryYamlReaderTakesForNumbers) {
  EXPECT_EQ(PrintNumber(1e-5), "1.0e-05");
  EXPECT_EQ(PrintNumber(1.5e-7), "1.5e-07");
  EXPECT_EQ(PrintNumber(0.02), "0.02");
  EXPECT_EQ(PrintNumber(1), "1");
}

}  // namespace
}  // namespace stagecoach
