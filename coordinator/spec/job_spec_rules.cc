#include "coordinator/spec/job_spec_rules.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/spec/virtual_stages.h"

namespace stagecoach {
namespace {

// A transfer's tag has 16 bits for the micro-batch, and one value is kept free.
constexpr uint64_t kMaxMicroBatches = 65535;
constexpr uint64_t kByteVocabulary = 256;
constexpr uint64_t kDefaultValidationInterval = 100;

// The checks below have one shape: nothing to say unless the values that they compare are sound.
class RuleChecker {
 public:
  RuleChecker(const SpecNode& root, const v1::JobSpec& spec, SpecProblems& problems)
      : root_(root), spec_(spec), problems_(problems) {}

  void CheckAll() {
    CheckModel();
    CheckData();
    CheckBatch();
    CheckOptimizer();
    CheckOrder();
    CheckPartition();
    CheckWorkers();
  }

 private:
  void Add(absl::string_view path, absl::string_view message, absl::string_view hint = "") {
    problems_.Add(FindValueOrSection(root_, path), path, message, hint);
  }

  void CheckModel() {
    const v1::ModelConfig& config = spec_.model().config();
    if (problems_.AreSound({"model.config.hidden_size", "model.config.num_attention_heads"}) &&
        config.hidden_size() % config.num_attention_heads() != 0) {
      Add("model.config.hidden_size",
          absl::StrCat("hidden_size ", config.hidden_size(), " is not a multiple of num_attention_heads ",
                       config.num_attention_heads(),
                       "; nearest: ", NearestMultiples(config.hidden_size(), config.num_attention_heads())));
    }
    if (problems_.AreSound({"model.config.vocab_size", "data.tokenizer"}) && spec_.data().tokenizer() == "byte" &&
        config.vocab_size() < kByteVocabulary) {
      Add("model.config.vocab_size", absl::StrCat("vocab_size ", config.vocab_size(), " is less than the ",
                                                  kByteVocabulary, " tokens of data.tokenizer byte"));
    }
    if (problems_.AreSound({"training.seq_len", "model.config.max_position_embeddings"}) &&
        spec_.training().seq_len() > config.max_position_embeddings()) {
      Add("training.seq_len",
          absl::StrCat("seq_len ", spec_.training().seq_len(), " is more than model.config.max_position_embeddings ",
                       config.max_position_embeddings()));
    }
  }

  void CheckData() {
    const v1::DataSpec& data = spec_.data();
    if (!problems_.AreSound({"data.validation", "data.validation_fraction"})) return;
    if (!data.validation().empty() && data.validation_fraction() > 0) {
      Add("data.validation_fraction", "data.validation is given too; give one of the two");
    }
    const bool has_validation = !data.validation().empty() || data.validation_fraction() > 0;
    if (problems_.IsSound("training.validation_interval") && spec_.training().validation_interval() > 0 &&
        !has_validation) {
      Add("training.validation_interval", "there is no validation data",
          "give data.validation or data.validation_fraction");
    }
  }

  void CheckBatch() {
    const v1::TrainingSpec& training = spec_.training();
    if (!problems_.AreSound(
            {"training.global_batch_size", "training.micro_batch_size", "parallelism.data_parallel_degree"})) {
      return;
    }
    const uint64_t replicas = spec_.parallelism().data_parallel_degree();
    const bool is_auto = training.micro_batch_size() == 0;
    const uint64_t unit = std::max<uint64_t>(1, training.micro_batch_size()) * replicas;
    const std::string product =
        absl::StrCat(is_auto ? "" : absl::StrCat("micro_batch_size ", training.micro_batch_size(), " x "),
                     "data_parallel_degree ", replicas);
    if (training.global_batch_size() % unit != 0) {
      Add("training.global_batch_size",
          absl::StrCat("global_batch_size ", training.global_batch_size(), " is not a multiple of ", product,
                       "; nearest: ", NearestMultiples(training.global_batch_size(), unit)));
      return;
    }
    if (is_auto) return;  // the planner takes a divisor
    const uint64_t num_micro_batches = training.global_batch_size() / unit;
    if (num_micro_batches > kMaxMicroBatches) {
      Add("training.global_batch_size",
          absl::StrCat("global_batch_size ", training.global_batch_size(), " / (", product, ") makes ",
                       num_micro_batches, " micro-batches per step; at most ", kMaxMicroBatches));
    }
  }

  void CheckOptimizer() {
    const v1::OptimizerSpec& optimizer = spec_.optimizer();
    if (problems_.AreSound({"optimizer.nesterov", "optimizer.momentum"}) && optimizer.nesterov() &&
        optimizer.momentum() == 0) {
      Add("optimizer.nesterov", "nesterov needs a momentum above 0");
    }
    if (problems_.AreSound({"optimizer.lr", "lr_scheduler.min_lr"}) && spec_.lr_scheduler().min_lr() > optimizer.lr()) {
      Add("lr_scheduler.min_lr",
          absl::StrCat("min_lr ", spec_.lr_scheduler().min_lr(), " is more than optimizer.lr ", optimizer.lr()));
    }
  }

  // That an order of the user's own is for what the other values say.
  void CheckOrder() {
    const v1::ParallelismSpec& parallelism = spec_.parallelism();
    if (!parallelism.has_order() || !problems_.IsSound("parallelism.schedule")) return;
    const auto num_workers = static_cast<uint32_t>(parallelism.order().workers_size());
    const uint32_t num_stages = parallelism.order().num_stages();
    if (num_stages % num_workers != 0) {
      Add("parallelism.schedule", absl::StrCat("an order of ", num_stages, " stages on ", num_workers,
                                               " workers; each worker has as many stages as any other"));
      return;
    }
    CheckOrderValue("pipeline_parallel_degree", parallelism.pipeline_parallel_degree(), num_workers, "worker(s)");
    CheckOrderValue("virtual_stages", parallelism.virtual_stages(), num_stages / num_workers, "stage(s) on a worker");
    CheckMicroBatchesOfOrder();
  }

  void CheckOrderValue(absl::string_view key, uint32_t value, uint32_t of_order, absl::string_view what) {
    const std::string path = absl::StrCat("parallelism.", key);
    if (!problems_.IsSound(path) || value == of_order) return;
    Add(path, absl::StrCat(key, " is ", value, ", and the order of parallelism.schedule is for ", of_order, " ", what));
  }

  void CheckMicroBatchesOfOrder() {
    const v1::TrainingSpec& training = spec_.training();
    if (!problems_.AreSound(
            {"training.global_batch_size", "training.micro_batch_size", "parallelism.data_parallel_degree"})) {
      return;
    }
    const uint64_t of_order = spec_.parallelism().order().num_micro_batches();
    const uint64_t unit = training.micro_batch_size() * spec_.parallelism().data_parallel_degree();
    if (training.global_batch_size() == of_order * unit) return;
    const std::string made = unit == 0 ? "makes no such number with any micro_batch_size"
                                       : absl::StrCat("makes ", training.global_batch_size() / unit,
                                                      " with micro_batch_size ", training.micro_batch_size());
    Add("training.global_batch_size",
        absl::StrCat("the order of parallelism.schedule is for ", of_order, " micro-batch(es), and global_batch_size ",
                     training.global_batch_size(), " ", made));
  }

  void CheckPartition() {
    const v1::ParallelismSpec& parallelism = spec_.parallelism();
    if (!problems_.AreSound({"model.config.num_hidden_layers", "parallelism.pipeline_parallel_degree",
                             "parallelism.virtual_stages", "parallelism.schedule", "parallelism.partition"})) {
      return;
    }
    const uint64_t num_blocks = spec_.model().config().num_hidden_layers();
    const uint32_t degree = parallelism.pipeline_parallel_degree();
    const uint32_t chunks = VirtualStagesOf(parallelism);
    if (uint64_t{std::max(1u, degree)} * chunks > num_blocks) {
      const std::string stages = chunks == 1 ? absl::StrCat(degree)
                                             : absl::StrCat(std::max(1u, degree), " x virtual_stages ", chunks, " = ",
                                                            uint64_t{std::max(1u, degree)} * chunks, " stages");
      Add("parallelism.pipeline_parallel_degree",
          absl::StrCat("pipeline_parallel_degree ", stages, " is more than num_hidden_layers ", num_blocks,
                       ": every stage has at least one block"));
      return;
    }
    if (parallelism.partition().kind() == v1::PartitionSpec::KIND_LAYERS) CheckBlockList(num_blocks, degree, chunks);
  }

  void CheckBlockList(uint64_t num_blocks, uint32_t degree, uint32_t chunks) {
    const auto& counts = spec_.parallelism().partition().num_blocks();
    const uint64_t sum = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
    const auto num_stages = static_cast<uint64_t>(counts.size());
    if (sum != num_blocks) {
      Add("parallelism.partition", absl::StrCat(counts.empty() ? "0" : absl::StrJoin(counts, " + "), " = ", sum,
                                                " is not num_hidden_layers ", num_blocks));
    } else if (num_stages % chunks != 0) {
      Add("parallelism.partition", absl::StrCat("a list of ", num_stages, " stages, and each worker has ", chunks,
                                                ": they must divide the stages"));
    } else if (degree != 0 && uint64_t{degree} * chunks != num_stages) {
      Add("parallelism.partition",
          absl::StrCat("a list of ", num_stages, " stages, and pipeline_parallel_degree is ", degree,
                       chunks == 1 ? "" : absl::StrCat(" with ", chunks, " stages per worker")));
    }
  }

  void CheckWorkers() {
    if (!problems_.AreSound({"resources.workers", "parallelism.pipeline_parallel_degree"})) return;
    const uint32_t workers = spec_.resources().workers();
    const uint32_t degree = spec_.parallelism().pipeline_parallel_degree();
    if (workers != 0 && degree > workers) {
      Add("resources.workers", absl::StrCat("workers ", workers, " is less than pipeline_parallel_degree ", degree));
    }
  }

  static std::string NearestMultiples(uint64_t value, uint64_t unit) {
    const uint64_t below = value / unit * unit;
    return below == 0 ? absl::StrCat(unit) : absl::StrCat(below, ", ", below + unit);
  }

  const SpecNode& root_;
  const v1::JobSpec& spec_;
  SpecProblems& problems_;
};

// What is left to be chosen follows from an order of the user's own.
void FillFromOrder(v1::JobSpec& spec) {
  v1::ParallelismSpec& parallelism = *spec.mutable_parallelism();
  if (!parallelism.has_order()) return;
  const auto num_workers = static_cast<uint32_t>(parallelism.order().workers_size());
  if (parallelism.pipeline_parallel_degree() == 0) parallelism.set_pipeline_parallel_degree(num_workers);
  if (parallelism.virtual_stages() == 0) parallelism.set_virtual_stages(parallelism.order().num_stages() / num_workers);
  v1::TrainingSpec& training = *spec.mutable_training();
  const uint64_t num_parts = uint64_t{parallelism.order().num_micro_batches()} * parallelism.data_parallel_degree();
  if (training.micro_batch_size() != 0 || num_parts == 0 || training.global_batch_size() % num_parts != 0) return;
  training.set_micro_batch_size(training.global_batch_size() / num_parts);
}

}  // namespace

const SpecNode& FindValueOrSection(const SpecNode& root, absl::string_view path) {
  const SpecNode* node = &root;
  for (const absl::string_view key : absl::StrSplit(path, '.')) {
    const SpecNode* child = node->Find(key);
    if (child == nullptr) break;
    node = child;
  }
  return *node;
}

void FillDerivedValues(const SpecNode& root, v1::JobSpec& spec) {
  const auto is_given = [&](absl::string_view section, absl::string_view key) {
    const SpecNode* node = root.Find(section);
    return node != nullptr && node->Find(key) != nullptr;
  };
  const bool has_validation = !spec.data().validation().empty() || spec.data().validation_fraction() > 0;
  if (!is_given("training", "validation_interval")) {
    spec.mutable_training()->set_validation_interval(has_validation ? kDefaultValidationInterval : 0);
  }
  if (!is_given("lr_scheduler", "decay_steps")) {
    spec.mutable_lr_scheduler()->set_decay_steps(spec.training().steps());
  }
  FillFromOrder(spec);
  // A list of blocks is the degree too.
  v1::ParallelismSpec& parallelism = *spec.mutable_parallelism();
  if (parallelism.pipeline_parallel_degree() == 0 && parallelism.partition().kind() == v1::PartitionSpec::KIND_LAYERS) {
    const auto num_stages = static_cast<uint32_t>(parallelism.partition().num_blocks_size());
    parallelism.set_pipeline_parallel_degree(num_stages / VirtualStagesOf(parallelism));
  }
}

void CheckJobSpecRules(const SpecNode& root, const v1::JobSpec& spec, SpecProblems& problems) {
  RuleChecker(root, spec, problems).CheckAll();
}

}  // namespace stagecoach
