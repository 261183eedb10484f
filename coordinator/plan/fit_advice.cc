#include "coordinator/plan/fit_advice.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/snapshots.h"
#include "common/status_macros.h"
#include "coordinator/plan/asked_partition.h"
#include "coordinator/plan/memory_shortfall.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxWorkers = 1024;
constexpr int kMaxMicroBatchSizes = 32;

class Adviser {
 public:
  Adviser(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers, const PlanOptions& options)
      : spec_(spec), workers_(workers), options_(options) {}

  std::string Advice() {
    TryRecomputation();
    TryPartition();
    TrySchedule();
    TryWorkers();
    TryMicroBatchSizes();
    TryCheckpoints();
    if (changes_.empty() && spec_.parallelism().has_order()) {
      return "parallelism.schedule auto does not make it fit either, on as many workers in micro-batches as large";
    }
    if (changes_.empty()) {
      return absl::StrCat("it does not fit on up to ", kMaxWorkers,
                          " such workers, nor in smaller micro-batches: make ",
                          "the model or training.seq_len smaller");
    }
    const std::string last = changes_.back();
    changes_.pop_back();
    return absl::StrCat("it fits with ", absl::StrJoin(changes_, ", with "), changes_.empty() ? "" : ", or with ",
                        last);
  }

 private:
  bool Fits(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers) const {
    const absl::StatusOr<JobRequest> request = JobRequestOf(spec, workers, options_);
    return request.ok() && SomeScheduleFits(request->cut, request->schedules);
  }

  void TryRecomputation() {
    const std::string& now = spec_.parallelism().activation_checkpointing();
    if (now == "selective" || now == "full") return;
    v1::JobSpec changed = spec_;
    changed.mutable_parallelism()->set_activation_checkpointing("selective");
    if (Fits(changed, workers_)) changes_.push_back("parallelism.activation_checkpointing selective");
  }

  void TryPartition() {
    if (spec_.parallelism().partition().kind() == v1::PartitionSpec::KIND_AUTO) return;
    v1::JobSpec changed = spec_;
    changed.mutable_parallelism()->mutable_partition()->set_kind(v1::PartitionSpec::KIND_AUTO);
    if (Fits(changed, workers_)) changes_.push_back("parallelism.partition auto");
  }

  void TrySchedule() {
    if (spec_.parallelism().schedule() == "auto") return;
    v1::JobSpec changed = spec_;
    changed.mutable_parallelism()->set_schedule("auto");
    if (changed.parallelism().has_order()) changed.mutable_parallelism()->set_virtual_stages(0);  // the order's
    changed.mutable_parallelism()->clear_order();
    if (Fits(changed, workers_)) changes_.push_back("parallelism.schedule auto");
  }

  // A worker of unknown memory has no limit, and is as large as any.
  static bool IsSmaller(const WorkerProfile& a, const WorkerProfile& b) {
    return a.memory_bytes != 0 && (b.memory_bytes == 0 || a.memory_bytes < b.memory_bytes);
  }

  bool FitsOn(size_t num_workers) const {
    v1::JobSpec changed = spec_;
    v1::ParallelismSpec& parallelism = *changed.mutable_parallelism();
    parallelism.set_pipeline_parallel_degree(static_cast<uint32_t>(num_workers));
    // A list of blocks is for the number of stages that there are.
    if (parallelism.partition().kind() == v1::PartitionSpec::KIND_LAYERS) {
      parallelism.mutable_partition()->set_kind(v1::PartitionSpec::KIND_AUTO);
    }
    std::vector<WorkerProfile> workers = workers_;
    workers.resize(std::max(num_workers, workers.size()),
                   *std::min_element(workers_.begin(), workers_.end(), IsSmaller));
    return Fits(changed, workers);
  }

  void TryWorkers() {
    if (spec_.parallelism().has_order()) return;  // it is for so many
    const size_t degree = spec_.parallelism().pipeline_parallel_degree();
    size_t too_few = degree == 0 ? workers_.size() : degree;
    const size_t most = std::min<size_t>(kMaxWorkers, spec_.model().config().num_hidden_layers());
    std::optional<size_t> enough;
    for (size_t more = 1; !enough.has_value() && too_few < most; more *= 2) {
      const size_t tried = std::min(most, too_few + more);
      (FitsOn(tried) ? enough.emplace() : too_few) = tried;
    }
    if (!enough.has_value()) return;
    while (*enough - too_few > 1) {
      const size_t middle = (too_few + *enough) / 2;
      (FitsOn(middle) ? *enough : too_few) = middle;
    }
    changes_.push_back(absl::StrCat(*enough, " workers"));
  }

  void TryMicroBatchSizes() {
    if (spec_.parallelism().has_order()) return;  // it is for so many micro-batches
    const uint64_t size = spec_.training().micro_batch_size();
    int num_tried = 0;
    for (uint64_t smaller = size - 1; smaller >= 1 && num_tried < kMaxMicroBatchSizes; --smaller) {
      if (spec_.training().global_batch_size() % smaller != 0) continue;
      ++num_tried;
      v1::JobSpec changed = spec_;
      changed.mutable_training()->set_micro_batch_size(smaller);
      if (!Fits(changed, workers_)) continue;
      changes_.push_back(absl::StrCat("training.micro_batch_size ", smaller));
      return;
    }
  }

  void TryCheckpoints() {
    if (!TakesSnapshots(spec_.checkpoint())) return;
    v1::JobSpec changed = spec_;
    changed.mutable_checkpoint()->set_async(false);
    if (Fits(changed, workers_)) changes_.push_back("checkpoint.async false");
  }

  const v1::JobSpec& spec_;
  const std::vector<WorkerProfile>& workers_;
  const PlanOptions& options_;
  std::vector<std::string> changes_;
};

// Of the first schedule that does not fit. The specification's own cut says by itself what it lacks.
absl::Status Shortfall(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers, const PlanOptions& options,
                       const absl::Status& otherwise) {
  STAGECOACH_ASSIGN_OR_RETURN(const JobRequest request, JobRequestOf(spec, workers, options));
  for (const ScheduleOption& option : request.schedules) {
    const absl::StatusOr<PartitionProblem> problem = ProblemForSchedule(request.cut, option);
    if (!problem.ok()) continue;
    const absl::Status error = PartitionAsAsked(*problem, request.cut.partition).status();
    if (!absl::IsResourceExhausted(error)) continue;
    const auto kind = request.cut.partition.kind();
    const bool is_asked = kind == v1::PartitionSpec::KIND_EVEN || kind == v1::PartitionSpec::KIND_LAYERS;
    return is_asked ? error : ShortfallError(*problem, LeastShortfall(*problem));
  }
  return otherwise;
}

}  // namespace

absl::Status DoesNotFit(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers, const PlanOptions& options,
                        const absl::Status& error) {
  const absl::Status shortfall = Shortfall(spec, workers, options, error);
  return absl::Status(shortfall.code(),
                      absl::StrCat(shortfall.message(), "; ", Adviser(spec, workers, options).Advice()));
}

}  // namespace stagecoach
