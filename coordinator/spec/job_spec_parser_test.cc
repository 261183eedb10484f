#include "coordinator/spec/job_spec_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/spec_problems.h"
#include "coordinator/spec/spec_test_cases.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::JobSpec ParseGood(const std::string& text, const std::vector<SpecOverride>& overrides = {}) {
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text, overrides, errors);
  for (const SpecError& error : errors) ADD_FAILURE() << FormatSpecError("f", error);
  return spec.ok() ? *spec : v1::JobSpec();
}

TEST(JobSpecParserTest, FillsInEveryDefault) {
  const v1::JobSpec spec = ParseGood(kGoodSpec);
  EXPECT_TRUE(spec.model().config().tie_word_embeddings());
  EXPECT_EQ(spec.model().config().layer_norm_epsilon(), 1e-5);
  EXPECT_EQ(spec.model().init().seed(), 1234u);
  EXPECT_EQ(spec.model().init().std(), 0.02);
  EXPECT_EQ(spec.data().train(0).format(), "text");
  EXPECT_EQ(spec.data().tokenizer(), "byte");
  EXPECT_EQ(spec.data().seed(), 42u);
  EXPECT_TRUE(spec.data().shuffle());
  EXPECT_EQ(spec.training().precision(), v1::PRECISION_F32);
  EXPECT_EQ(spec.training().max_grad_norm(), 1.0);
  EXPECT_EQ(spec.training().validation_interval(), 0u);
  EXPECT_EQ(spec.optimizer().lr(), 6e-4);
  EXPECT_EQ(spec.optimizer().beta1(), 0.9);
  EXPECT_EQ(spec.optimizer().beta2(), 0.95);
  EXPECT_EQ(spec.optimizer().eps(), 1e-8);
  EXPECT_EQ(spec.optimizer().weight_decay(), 0.1);
  EXPECT_EQ(spec.lr_scheduler().name(), "constant");
  EXPECT_EQ(spec.lr_scheduler().decay_steps(), 20u);
  EXPECT_EQ(spec.parallelism().pipeline_parallel_degree(), 0u);
  EXPECT_EQ(spec.parallelism().data_parallel_degree(), 1u);
  EXPECT_EQ(spec.parallelism().virtual_stages(), 0u);
  EXPECT_EQ(spec.parallelism().schedule(), "auto");
  EXPECT_EQ(spec.parallelism().partition().kind(), v1::PartitionSpec::KIND_AUTO);
  EXPECT_EQ(spec.parallelism().activation_checkpointing(), "none");
  EXPECT_EQ(spec.parallelism().costs(), "measured");
  EXPECT_EQ(spec.checkpoint().resume(), "never");
  EXPECT_EQ(spec.checkpoint().interval_steps(), 0u);
  EXPECT_EQ(spec.checkpoint().interval_seconds(), 0);
  EXPECT_EQ(spec.checkpoint().keep_last(), 0u);
  EXPECT_TRUE(spec.checkpoint().async());
  EXPECT_EQ(spec.resources().device(), "cpu");
  EXPECT_EQ(spec.metrics().log_interval(), 10u);
}

TEST(JobSpecParserTest, DefaultsFollowTheOptimizerAndTheValidationData) {
  const v1::JobSpec sgd = ParseGood(GoodSpecWith("name: adamw", "name: sgd, momentum: 0.9, nesterov: true"));
  EXPECT_EQ(sgd.optimizer().weight_decay(), 0);
  EXPECT_EQ(sgd.optimizer().eps(), 0);
  EXPECT_EQ(sgd.optimizer().momentum(), 0.9);
  EXPECT_TRUE(sgd.optimizer().nesterov());
  EXPECT_EQ(
      ParseGood(GoodSpecWith("training:", "  validation: [{path: /v}]\ntraining:")).training().validation_interval(),
      100u);
  EXPECT_EQ(
      ParseGood(GoodSpecWith("training:", "  validation_fraction: 0.1\ntraining:")).training().validation_interval(),
      100u);
}

TEST(JobSpecParserTest, ReadsJson) {
  const v1::JobSpec spec = ParseGood(
      "{\"version\":1,\n\t\"name\":\"json\",\"labels\":{\"team\":\"n\\u006cp\"},\"model\":{\"architecture\":\"gpt2\","
      "\"config\":{\"num_hidden_layers\":2,\"hidden_size\":8,\"num_attention_heads\":2,\"vocab_size\":256,"
      "\"max_position_embeddings\":16,\"tie_word_embeddings\":false}},\"data\":{\"train\":[{\"path\":\"\\/a\"}]},"
      "\"training\":{\"seq_len\":16,\"global_batch_size\":4,\"micro_batch_size\":2,\"steps\":3},"
      "\"optimizer\":{\"name\":\"adamw\",\"lr\":1e-5,\"betas\":[0.5,0.75]},\"checkpoint\":{\"dir\":\"/c\"}}");
  EXPECT_EQ(spec.labels().at("team"), "nlp");
  EXPECT_FALSE(spec.model().config().tie_word_embeddings());
  EXPECT_EQ(spec.data().train(0).path(), "/a");
  EXPECT_EQ(spec.optimizer().lr(), 1e-5);
  EXPECT_EQ(spec.optimizer().beta2(), 0.75);
}

TEST(JobSpecParserTest, AcceptsUnsupportedKeysAtTheirOnlySupportedValue) {
  const v1::JobSpec spec = ParseGood(absl::StrCat(
      kGoodSpec, "parallelism: {data_parallel_degree: 1, virtual_stages: 1, activation_checkpointing: none}\n",
      "resources: {device: cpu, workers: auto, threads_per_worker: auto}\n"));
  EXPECT_EQ(spec.parallelism().data_parallel_degree(), 1u);
}

TEST(JobSpecParserTest, AcceptsEveryFormOfANumber) {
  for (const auto& [text, value] : std::vector<std::pair<std::string, double>>{
           {"1e-5", 1e-5}, {"1.0e-5", 1e-5}, {"1E-05", 1e-5}, {"3", 3}, {".5", 0.5}, {"5.", 5}, {"+0.25", 0.25}}) {
    EXPECT_EQ(ParseGood(GoodSpecWith("6e-4", text)).optimizer().lr(), value) << text;
  }
}

TEST(JobSpecParserTest, TakesFileInFrontOfAPathAway) {
  EXPECT_EQ(ParseGood(GoodSpecWith("/ckpt", "file:/ckpt")).checkpoint().dir(), "/ckpt");
  EXPECT_EQ(ParseGood(GoodSpecWith("/ckpt", "\"file:///ckpt\"")).checkpoint().dir(), "/ckpt");
}

TEST(JobSpecParserTest, ExpandsAliases) {
  const v1::JobSpec spec = ParseGood(GoodSpecWith("training:", "  validation: *x\ntraining:")
                                         .replace(std::string(kGoodSpec).find("[{path"), 0, "&x "));
  EXPECT_EQ(spec.data().validation(0).path(), "/data/a.txt");
}

// One mistake in kGoodSpec and the one line that it must give.
struct Mistake {
  std::string from, to, error;
};

void ExpectErrors(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    EXPECT_THAT(ErrorLinesOf(GoodSpecWith(mistake.from, mistake.to)), ElementsAre(mistake.error)) << mistake.to;
  }
}

TEST(JobSpecParserTest, RefusesUnknownKeysWithAHint) {
  ExpectErrors({
      {"  steps: 20\n", "  steps: 20\n  seq_length: 5\n",
       "f:18:3: training.seq_length: unknown key; did you mean seq_len?"},
      {"  steps: 20\n", "  steps: 20\n  cutoff_len: 5\n",
       "f:18:3: training.cutoff_len: unknown key; did you mean seq_len?"},
      {"  steps: 20\n", "  steps: 20\n  max_steps: 5\n",
       "f:18:3: training.max_steps: unknown key; did you mean steps?"},
      {"  steps: 20\n", "  steps: 20\n  train_batch_size: 5\n",
       "f:18:3: training.train_batch_size: unknown key; did you mean global_batch_size?"},
      {"  steps: 20\n", "  steps: 20\n  per_device_train_batch_size: 5\n",
       "f:18:3: training.per_device_train_batch_size: unknown key; did you mean micro_batch_size?"},
      {"  steps: 20\n", "  steps: 20\n  gradient_accumulation_steps: 5\n",
       "f:18:3: training.gradient_accumulation_steps: unknown key; it is derived: training.global_batch_size / "
       "training.micro_batch_size"},
      {"  steps: 20\n", "  steps: 20\n  clip_grad: 5\n",
       "f:18:3: training.clip_grad: unknown key; did you mean max_grad_norm?"},
      {"  steps: 20\n", "  steps: 20\n  learning_rate: 5\n",
       "f:18:3: training.learning_rate: unknown key; did you mean optimizer.lr?"},
      {"  steps: 20\n", "  steps: 20\n  percision: f32\n",
       "f:18:3: training.percision: unknown key; did you mean precision?"},
      {"  architecture: gpt2\n", "  architecture: gpt2\n  skip_layers: []\n",
       "f:5:3: model.skip_layers: unknown key; did you mean skip_connections?"},
      {"  architecture: gpt2\n", "  architecture: gpt2\n  skip_connection: []\n",
       "f:5:3: model.skip_connection: unknown key; did you mean skip_connections?"},
      {"version: 1\n", "version: 1\npp: 4\n",
       "f:2:1: pp: unknown key; did you mean parallelism.pipeline_parallel_degree?"},
      {"version: 1\n", "version: 1\nschedule: auto\n",
       "f:2:1: schedule: unknown key; did you mean parallelism.schedule?"},
      {"dir: /ckpt", "dir: /ckpt, save_steps: 5",
       "f:19:26: checkpoint.save_steps: unknown key; did you mean interval_steps?"},
      {"version: 1\n", "version: 1\nzebra_crossing: 4\n", "f:2:1: zebra_crossing: unknown key"},
      {"version: 1\n", "version: 1\n<<: {a: b}\n",
       "f:2:1: \"<<\": unknown key; YAML merge keys are not accepted; repeat the keys"},
      {"version: 1\n", "version: 1\nmodel.init: 3\n", "f:2:1: model.init: unknown key"},
      {"{path: /data/a.txt}", "{path: /data/a.txt, pathh: 4}",
       "f:12:31: data.train[0].pathh: unknown key; did you mean path?"},
  });
}

TEST(JobSpecParserTest, RefusesDuplicateKeys) {
  ExpectErrors({
      {"  steps: 20\n", "  steps: 20\n  steps: 20\n", "f:18:3: training.steps: the key is given twice, first at 17:3"},
      {"optimizer:", "training: {}\noptimizer:", "f:18:1: training: the key is given twice, first at 13:1"},
      {"{path: /data/a.txt}", "{path: /a, path: /b}",
       "f:12:22: data.train[0].path: the key is given twice, first at 12:12"},
      {"version: 1\n", "version: 1\nlabels: {a: b, a: c}\n", "f:2:16: labels.a: the key is given twice, first at 2:10"},
  });
}

TEST(JobSpecParserTest, RefusesWrongTypes) {
  ExpectErrors({
      {"steps: 20", "steps: many", "f:17:10: training.steps: expected an integer, got \"many\""},
      {"steps: 20", "steps: \"20\"",
       "f:17:10: training.steps: expected an integer, got \"20\"; without quotes it would be an integer"},
      {"steps: 20", "steps: 2e1", "f:17:10: training.steps: expected an integer, got \"2e1\"; write 20"},
      {"steps: 20", "steps: 1_000", "f:17:10: training.steps: expected an integer, got \"1_000\"; write 1000"},
      {"steps: 20", "steps: 020", "f:17:10: training.steps: an integer has no leading zeros: \"020\""},
      {"steps: 20", "steps: 0x20", "f:17:10: training.steps: expected an integer, got \"0x20\""},
      {"steps: 20", "steps: [20]", "f:17:10: training.steps: expected an integer, got a list"},
      {"steps: 20",
       "steps:", "f:17:3: training.steps: expected an integer, got nothing; give a value, or leave the key out"},
      {"name: good", "name: 123",
       "f:2:7: name: expected text, got the number \"123\"; put it in quotes if it is meant as text"},
      {"name: good", "name: no",
       "f:2:7: name: expected text, got the truth value \"no\"; put it in quotes if it is meant as text"},
      {"checkpoint: {dir: /ckpt}", "checkpoint: /ckpt", "f:19:13: checkpoint: expected a mapping, got a single value"},
      {"checkpoint: {dir: /ckpt}",
       "checkpoint:", "f:19:1: checkpoint: expected a mapping, got nothing; give its keys, or leave it out"},
      {"[{path: /data/a.txt}]", "/data/a.txt",
       "f:12:10: data.train: expected a list, got a single value; write [{path: /a/file.txt}]"},
      {"[{path: /data/a.txt}]", "[/data/a.txt]",
       "f:12:11: data.train[0]: expected a mapping, got a single value; write {path: /a/file.txt}"},
      {"[{path: /data/a.txt}]", "[]", "f:12:10: data.train: the list is empty; write [{path: /a/file.txt}]"},
      {"lr: 6e-4", "lr: 6e-4, betas: [0.9]",
       "f:18:43: optimizer.betas: expected a list of two numbers, got a list; write [0.9, 0.95]"},
      {"name: adamw", "name: adam",
       "f:18:19: optimizer.name: expected adamw or sgd, got \"adam\"; did you mean adamw?"},
      {"lr: 6e-4", "lr: 6e-4, momentum: 0.9",
       "f:18:36: optimizer.momentum: a key of optimizer sgd, and optimizer.name is adamw; adamw has lr, betas, eps, "
       "weight_decay"},
  });
}

TEST(JobSpecParserTest, RefusesLooseBooleans) {
  for (const auto& [text, hint] :
       std::vector<std::pair<std::string, std::string>>{{"yes", "write true"},
                                                        {"no", "write false"},
                                                        {"on", "write true"},
                                                        {"OFF", "write false"},
                                                        {"True", "write true"},
                                                        {"'true'", "write true, without quotes"},
                                                        {"maybe", ""}}) {
    const std::vector<SpecError> errors = ErrorsOf(GoodSpecWith("training:", "  shuffle: " + text + "\ntraining:"));
    ASSERT_THAT(errors, SizeIs(1)) << text;
    EXPECT_EQ(errors[0].path, "data.shuffle");
    EXPECT_EQ(errors[0].line, 13);
    EXPECT_EQ(errors[0].column, 12);
    EXPECT_EQ(errors[0].hint, hint) << text;
  }
}

TEST(JobSpecParserTest, RefusesNumbersThatAreNotFiniteOrOutOfRange) {
  for (const std::string text : {"nan", ".nan", ".NaN", "inf", "-inf", ".inf", "-.INF", "Infinity", "+.inf"}) {
    EXPECT_THAT(ErrorLinesOf(GoodSpecWith("6e-4", text)),
                ElementsAre("f:18:30: optimizer.lr: a number must be finite, got " + text));
    EXPECT_THAT(ErrorLinesOf(GoodSpecWith("steps: 20", "steps: " + text)),
                ElementsAre("f:17:10: training.steps: expected an integer, got " + text + "; numbers must be finite"));
  }
  ExpectErrors({
      {"6e-4", "1e999", "f:18:30: optimizer.lr: \"1e999\" is out of range: must be above 0 and at most 1000"},
      {"6e-4", "1e-999", "f:18:30: optimizer.lr: \"1e-999\" is out of range: must be above 0 and at most 1000"},
      {"6e-4", "0", "f:18:30: optimizer.lr: \"0\" is out of range: must be above 0 and at most 1000"},
      {"steps: 20", "steps: -1", "f:17:10: training.steps: \"-1\" is out of range: must be from 1 to 4294967295"},
      {"steps: 20", "steps: 4294967296",
       "f:17:10: training.steps: \"4294967296\" is out of range: must be from 1 to 4294967295"},
      {"steps: 20", "steps: 99999999999999999999999",
       "f:17:10: training.steps: \"99999999999999999999999\" is out of range: must be from 1 to 4294967295"},
      {"version: 1", "version: 2", "f:1:10: version: \"2\" is out of range: must be 1"},
      {"    vocab_size", "    embd_pdrop: 1.0\n    vocab_size",
       "f:9:17: model.config.embd_pdrop: \"1.0\" is out of range: must be at least 0 and below 1"},
  });
}

TEST(JobSpecParserTest, RefusesNamesAndPathsThatAreNot) {
  for (const std::string name : {"Good", "-a", "a-", "a_b", "''", "a b", "\"a\\nb\""}) {
    EXPECT_THAT(ErrorLinesOf(GoodSpecWith("name: good", "name: " + name)), ElementsAre(HasSubstr("f:2:7: name: ")));
  }
  EXPECT_THAT(ErrorsOf(GoodSpecWith("name: good", "name: " + std::string(63, 'a'))), IsEmpty());
  EXPECT_THAT(ErrorsOf(GoodSpecWith("name: good", "name: " + std::string(64, 'a'))), SizeIs(1));
  ExpectErrors({
      {"/data/a.txt", "a.txt",
       "f:12:18: data.train[0].path: \"a.txt\" is not an absolute path: it must start with '/'"},
      {"/data/a.txt", "/data/../a", "f:12:18: data.train[0].path: \"/data/../a\": '..' is not accepted in a path"},
      {"/data/a.txt", "s3://bucket/a",
       "f:12:18: data.train[0].path: \"s3://bucket/a\": object stores are not supported yet; give an absolute path"},
      {"/ckpt", "ckpt", "f:19:19: checkpoint.dir: \"ckpt\" is not an absolute path: it must start with '/'"},
  });
}

TEST(JobSpecParserTest, ReadsWhenCheckpointsAreWrittenAndWhichOneIsResumed) {
  const v1::JobSpec spec =
      ParseGood(GoodSpecWith("{dir: /ckpt}",
                             "{dir: /ckpt, interval_steps: 500, interval_time: 1h30m, keep_last: 3, "
                             "async: false, resume: step-0000000020.2}"));
  EXPECT_EQ(spec.checkpoint().interval_steps(), 500u);
  EXPECT_EQ(spec.checkpoint().interval_seconds(), 5400);
  EXPECT_EQ(spec.checkpoint().keep_last(), 3u);
  EXPECT_FALSE(spec.checkpoint().async());
  EXPECT_EQ(spec.checkpoint().resume(), "step-0000000020.2");
  EXPECT_EQ(ParseGood(GoodSpecWith("{dir: /ckpt}", "{dir: /ckpt, resume: auto}")).checkpoint().resume(), "auto");
  ExpectErrors({
      {"{dir: /ckpt}", "{dir: /ckpt, interval_time: 15}",
       "f:19:41: checkpoint.interval_time: expected text, got the number \"15\"; put it in quotes if it is meant as "
       "text"},
      {"{dir: /ckpt}", "{dir: /ckpt, interval_time: soon}",
       "f:19:41: checkpoint.interval_time: expected a duration up to 10000h, got \"soon\"; write 15m, 1h30m or 90s"},
      {"{dir: /ckpt}", "{dir: /ckpt, interval_time: -3s}",
       "f:19:41: checkpoint.interval_time: expected a duration up to 10000h, got \"-3s\"; write 15m, 1h30m or 90s"},
      {"{dir: /ckpt}", "{dir: /ckpt, resume: ../other}",
       "f:19:34: checkpoint.resume: expected never, auto or the name of a checkpoint in checkpoint.dir, like "
       "step-0000000020; got \"../other\""},
  });
}

TEST(JobSpecParserTest, NamesWhatIsNotSupportedYet) {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"model.architecture=llama", "\"llama\" is not supported yet"},
      {"model.path=/models/gpt2", "is not supported yet"},
      {"data.tokenizer=/t.json", "\"/t.json\" is not supported yet"},
      {"data.train=[{path: /a, format: nanogpt}]", "\"nanogpt\" is not supported yet"},
      {"data.train=[{path: /a, weight: 1.0}]", "is not supported yet"},
      {"training.tokens=5", "is not supported yet"},
      {"training.epochs=5", "is not supported yet"},
      {"training.precision=bf16", "\"bf16\" is not supported yet"},
      {"training.precision=f16", "\"f16\" is not supported yet"},
      {"loss_scale={initial: 65536}", "is not supported yet"},
      {"lr_scheduler.name=wsd", "\"wsd\" is not supported yet"},
      {"parallelism.schedule=looped_bfs", "\"looped_bfs\" is not supported yet"},
      {"parallelism.data_parallel_degree=2", "a value of 2 is not supported yet"},
      {"fault_tolerance={max_recoveries: 10}", "is not supported yet"},
      {"fault_tolerance={spare_workers: 1}", "is not supported yet"},
      {"fault_tolerance.on_worker_loss=repartition", "\"repartition\" is not supported yet"},
      {"fault_tolerance.on_worker_loss=wait_replacement", "\"wait_replacement\" is not supported yet"},
      {"resources.device=cuda", "\"cuda\" is not supported yet"},
      {"resources.worker_selector={gpu.model: H200}", "is not supported yet"},
      {"resources.min_memory=80GiB", "is not supported yet"},
      {"limits={time_limit: 24h}", "is not supported yet"},
      {"limits.start_deadline=1h", "is not supported yet"},
      {"tls={cert: /a/b}", "certificates and credentials are not supported yet"},
      {"security={}", "certificates and credentials are not supported yet"},
      {"resources.ca_file=/a", "certificates and credentials are not supported yet"},
      {"checkpoint.client_certificate=/a", "certificates and credentials are not supported yet"},
      {"checkpoint.dir=\"${env:HOME}/x\"", "${...}: expansion of the environment is not supported yet"},
  };
  for (const auto& [change, message] : values) {
    const std::vector<SpecError> errors = ErrorsOf(kGoodSpec, {*ParseOverride(change)});
    ASSERT_THAT(errors, SizeIs(1)) << change;
    EXPECT_EQ(errors[0].message, message) << change;
    EXPECT_THAT(errors[0].path, testing::StartsWith(change.substr(0, change.find('=')))) << change;
  }
  EXPECT_THAT(ErrorLinesOf(GoodSpecWith("steps: 20", "steps: 20\n  tokens: 5")),
              ElementsAre("f:18:3: training.tokens: is not supported yet; give training.steps"));
}

TEST(JobSpecParserTest, PriorityIsASmallIntegerOfEitherSign) {
  const auto priority = [](const std::string& value) {
    std::vector<SpecError> errors;
    return ParseJobSpec(kGoodSpec, {*ParseOverride("limits.priority=" + value)}, errors)->limits().priority();
  };
  EXPECT_EQ(priority("-7"), -7);
  EXPECT_EQ(priority("+12"), 12);
  EXPECT_EQ(priority("1000"), 1000);
  const auto message = [](const std::string& value) {
    return ErrorsOf(kGoodSpec, {*ParseOverride("limits.priority=" + value)}).at(0).message;
  };
  EXPECT_EQ(message("1001"), "\"1001\" is out of range: must be at least -1000 and at most 1000");
  EXPECT_EQ(message("1e2"), "expected an integer, got \"1e2\"");
  EXPECT_EQ(message("high"), "expected a number, got \"high\"");
}

TEST(JobSpecParserTest, SaysWhatIsMissing) {
  ExpectErrors({
      {"version: 1\n", "", "f:1:1: version: is required and missing"},
      {"  seq_len: 512\n", "", "f:14:3: training.seq_len: is required and missing"},
      {"checkpoint: {dir: /ckpt}", "", "f:1:1: checkpoint: is required and missing"},
      {"{dir: /ckpt}", "{}", "f:19:13: checkpoint.dir: is required and missing"},
      {"{path: /data/a.txt}", "{format: text}", "f:12:11: data.train[0].path: is required and missing"},
  });
  EXPECT_THAT(ErrorLinesOf("version: 1"), SizeIs(6));  // name and five sections, each named once
}

TEST(JobSpecParserTest, ReportsErrorsInTheOrderOfTheFileAndNotTooMany) {
  const std::vector<SpecError> errors = ErrorsOf(
      "nope: 1\nversion: 7\nname: NO\nmodel: 3\ndata: {train: [], x: 1}\ntraining: {steps: x}\noptimizer: {}\n");
  for (size_t i = 1; i < errors.size(); ++i) EXPECT_LE(errors[i - 1].line, errors[i].line);
  EXPECT_GE(errors.size(), 9u);

  std::string many;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&many, "key", i, ": 1\n");
  EXPECT_THAT(ErrorsOf(many), SizeIs(SpecProblems::kMaxErrors));
}

TEST(JobSpecParserTest, AppliesOverrides) {
  const v1::JobSpec spec = ParseGood(kGoodSpec, {{"training.steps", "7"},
                                                 {"parallelism.partition", "[6, 6]"},
                                                 {"optimizer", "{name: sgd, lr: 0.5}"},
                                                 {"labels.team", "nlp"}});
  EXPECT_EQ(spec.training().steps(), 7u);
  EXPECT_EQ(spec.lr_scheduler().decay_steps(), 7u);
  EXPECT_EQ(spec.parallelism().pipeline_parallel_degree(), 2u);
  EXPECT_EQ(spec.optimizer().name(), "sgd");
  EXPECT_EQ(spec.labels().at("team"), "nlp");
}

TEST(JobSpecParserTest, RefusesBadOverrides) {
  EXPECT_THAT(ErrorLinesOf(kGoodSpec, {{"training.stepz", "7"}}),
              ElementsAre("f: --set training.stepz: unknown key; did you mean steps?"));
  EXPECT_THAT(ErrorLinesOf(kGoodSpec, {{"training.steps", "x"}}),
              ElementsAre("f: --set training.steps: expected an integer, got \"x\""));
  EXPECT_THAT(ErrorLinesOf(kGoodSpec, {{"training.steps.more", "7"}}),
              ElementsAre("f: --set training.steps.more: training.steps is a single value: set it as a whole"));
  EXPECT_THAT(ErrorLinesOf(kGoodSpec, {{"training.steps", "[1"}}),
              ElementsAre(HasSubstr("f: --set training.steps: not valid YAML")));
  EXPECT_THAT(ErrorsOf(kGoodSpec, {{"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r", "1"}}), SizeIs(1));
  for (const std::string text : {"", "a", "=1", "a..b=1", ".a=1", "a b=1", "training.steps"}) {
    EXPECT_FALSE(ParseOverride(text).ok()) << text;
  }
  EXPECT_EQ(ParseOverride("a.b=c=d")->path, "a.b");
  EXPECT_EQ(ParseOverride("a.b=c=d")->value, "c=d");
}

}  // namespace
}  // namespace stagecoach
