#include "coordinator/spec/job_spec_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/spec/spec_test_cases.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct RuleCase {
  std::vector<std::string> changes;
  std::string error;  // empty: none
};

void ExpectCases(const std::vector<RuleCase>& cases) {
  for (const RuleCase& rule : cases) {
    std::vector<SpecOverride> overrides;
    for (const std::string& change : rule.changes) overrides.push_back(*ParseOverride(change));
    const std::vector<std::string> lines = ErrorLinesOf(kGoodSpec, overrides);
    if (rule.error.empty()) {
      EXPECT_THAT(lines, IsEmpty()) << rule.changes[0];
    } else {
      EXPECT_THAT(lines, ElementsAre(rule.error)) << rule.changes[0];
    }
  }
}

TEST(JobSpecRulesTest, ShowsTheArithmeticOfBatches) {
  EXPECT_THAT(ErrorLinesOf(GoodSpecWith("micro_batch_size: 4", "micro_batch_size: 7")),
              ElementsAre("f:15:22: training.global_batch_size: global_batch_size 480 is not a multiple of "
                          "micro_batch_size 7 x data_parallel_degree 1; nearest: 476, 483"));
  ExpectCases({
      {{"training.micro_batch_size=481"},
       "f:15:22: training.global_batch_size: global_batch_size 480 is not a multiple of micro_batch_size 481 x "
       "data_parallel_degree 1; nearest: 481"},
      {{"training.micro_batch_size=1", "training.global_batch_size=65535"}, ""},
      {{"training.micro_batch_size=1", "training.global_batch_size=65536"},
       "f: --set training.global_batch_size: global_batch_size 65536 / (micro_batch_size 1 x data_parallel_degree 1) "
       "makes 65536 micro-batches per step; at most 65535"},
      {{"training.micro_batch_size=auto"}, ""},
      {{"training.micro_batch_size=auto", "training.global_batch_size=65536"}, ""},
  });
}

TEST(JobSpecRulesTest, ComparesSizesOfTheModel) {
  ExpectCases({
      {{"model.config.num_attention_heads=7"},
       "f:7:18: model.config.hidden_size: hidden_size 768 is not a multiple of num_attention_heads 7; nearest: 763, "
       "770"},
      {{"training.seq_len=1024"}, ""},
      {{"training.seq_len=1025"},
       "f: --set training.seq_len: seq_len 1025 is more than model.config.max_position_embeddings 1024"},
      {{"model.config.vocab_size=256"}, ""},
      {{"model.config.vocab_size=255"},
       "f: --set model.config.vocab_size: vocab_size 255 is less than the 256 tokens of data.tokenizer byte"},
  });
}

TEST(JobSpecRulesTest, NeverDropsABlock) {
  ExpectCases({
      {{"parallelism.partition=[3, 3, 3, 3]"}, ""},
      {{"parallelism.partition=[3, 3, 3, 3]", "parallelism.pipeline_parallel_degree=4"}, ""},
      {{"parallelism.partition=[3, 3, 3]"},
       "f: --set parallelism.partition: 3 + 3 + 3 = 9 is not num_hidden_layers 12"},
      {{"parallelism.partition=[]"}, "f: --set parallelism.partition: 0 = 0 is not num_hidden_layers 12"},
      {{"parallelism.partition=[6, 6]", "parallelism.pipeline_parallel_degree=4"},
       "f: --set parallelism.partition: a list of 2 stages, and pipeline_parallel_degree is 4"},
      {{"parallelism.partition=[12, 0]"},
       "f: --set parallelism.partition[1]: \"0\" is out of range: must be from 1 to 4096"},
      {{"parallelism.pipeline_parallel_degree=12"}, ""},
      {{"parallelism.pipeline_parallel_degree=13"},
       "f: --set parallelism.pipeline_parallel_degree: pipeline_parallel_degree 13 is more than num_hidden_layers 12: "
       "every stage has at least one block"},
      {{"parallelism.pipeline_parallel_degree=6", "parallelism.schedule=zb_v"}, ""},
      {{"parallelism.pipeline_parallel_degree=7", "parallelism.schedule=zb_v"},
       "f: --set parallelism.pipeline_parallel_degree: pipeline_parallel_degree 7 x virtual_stages 2 = 14 stages is "
       "more "
       "than num_hidden_layers 12: every stage has at least one block"},
      {{"parallelism.partition=[3, 3, 3, 3]", "parallelism.pipeline_parallel_degree=2",
        "parallelism.schedule=interleaved"},
       ""},
      {{"parallelism.partition=[3, 3, 3, 3]", "parallelism.pipeline_parallel_degree=4",
        "parallelism.schedule=interleaved"},
       "f: --set parallelism.partition: a list of 4 stages, and pipeline_parallel_degree is 4 with 2 stages per "
       "worker"},
      {{"parallelism.partition=[6, 3, 3]", "parallelism.schedule=interleaved"},
       "f: --set parallelism.partition: a list of 3 stages, and each worker has 2: they must divide the stages"},
      {{"parallelism.partition=[3, 3, 3, 3]", "parallelism.virtual_stages=4", "parallelism.schedule=interleaved"}, ""},
      {{"parallelism.pipeline_parallel_degree=4", "resources.workers=3"},
       "f: --set resources.workers: workers 3 is less than pipeline_parallel_degree 4"},
  });
}

// Two workers of two stages each, one micro-batch: 12 blocks and 480 samples.
constexpr char kOrder[] = "parallelism.schedule=[\"0F0,2F0,2B0,0B0\", \"1F0,3F0,3B0,1B0\"]";

TEST(JobSpecRulesTest, AnOrderIsForTheWorkersStagesAndMicroBatchesThatThereAre) {
  ExpectCases({
      {{kOrder, "training.micro_batch_size=480"}, ""},
      {{kOrder, "training.micro_batch_size=auto"}, ""},
      {{kOrder, "training.micro_batch_size=480", "parallelism.pipeline_parallel_degree=2",
        "parallelism.virtual_stages=2"},
       ""},
      {{kOrder, "training.micro_batch_size=480", "parallelism.pipeline_parallel_degree=3"},
       "f: --set parallelism.pipeline_parallel_degree: pipeline_parallel_degree is 3, and the order of "
       "parallelism.schedule is for 2 worker(s)"},
      {{kOrder, "training.micro_batch_size=480", "parallelism.virtual_stages=1"},
       "f: --set parallelism.virtual_stages: virtual_stages is 1, and the order of parallelism.schedule is for 2 "
       "stage(s) on a worker"},
      {{kOrder},
       "f:15:22: training.global_batch_size: the order of parallelism.schedule is for 1 micro-batch(es), and "
       "global_batch_size 480 makes 120 with micro_batch_size 4"},
      {{kOrder, "training.micro_batch_size=480", "parallelism.partition=[3, 3, 6]"},
       "f: --set parallelism.partition: a list of 3 stages, and each worker has 2: they must divide the stages"},
      {{"parallelism.schedule=[\"0F0,0B0\", \"1F0,1B0,2F0,2B0\"]", "training.micro_batch_size=480"},
       "f: --set parallelism.schedule: an order of 3 stages on 2 workers; each worker has as many stages as any other"},
      {{"parallelism.schedule=[\"0F0,0B0,0F6,0B6\"]", "training.micro_batch_size=auto"},
       "f:15:22: training.global_batch_size: the order of parallelism.schedule is for 7 micro-batch(es), and "
       "global_batch_size 480 makes no such number with any micro_batch_size"},
  });
}

TEST(JobSpecRulesTest, WantsValidationDataToValidate) {
  ExpectCases({
      {{"training.validation_interval=5"},
       "f: --set training.validation_interval: there is no validation data; give data.validation or "
       "data.validation_fraction"},
      {{"training.validation_interval=5", "data.validation_fraction=0.1"}, ""},
      {{"training.validation_interval=0", "data.validation_fraction=0.1"}, ""},
      {{"data.validation_fraction=0.1", "data.validation=[{path: /v}]"},
       "f: --set data.validation_fraction: data.validation is given too; give one of the two"},
  });
}

TEST(JobSpecRulesTest, ComparesLearningRatesAndMomentum) {
  ExpectCases({
      {{"lr_scheduler.min_lr=0.0006"}, ""},
      {{"lr_scheduler.min_lr=0.001"}, "f: --set lr_scheduler.min_lr: min_lr 0.001 is more than optimizer.lr 0.0006"},
      {{"optimizer={name: sgd, lr: 1, nesterov: true}"},
       "f: --set optimizer.nesterov: nesterov needs a momentum above 0"},
      {{"lr_scheduler={name: cosine, warmup_steps: 1000, decay_steps: 2000}"}, ""},
  });
}

}  // namespace
}  // namespace stagecoach
