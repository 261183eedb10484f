#include "coordinator/schedule/forward_only.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

// Runs the forwards, each of which takes one tick.
class ForwardRun {
 public:
  ForwardRun(std::span<const uint32_t> worker_of_stage, uint32_t num_micro_batches, v1::ComputeTable& table)
      : num_micro_batches_(num_micro_batches),
        num_done_(worker_of_stage.size()),
        stages_(static_cast<size_t>(table.workers_size())),
        table_(table) {
    for (uint32_t stage = 0; stage < worker_of_stage.size(); ++stage) stages_[worker_of_stage[stage]].push_back(stage);
  }

  void Run() {
    std::vector<uint32_t> ran;
    do {
      ran.clear();
      for (size_t worker = 0; worker < stages_.size(); ++worker) RunOne(worker, ran);
      // What a tick has made is there at the next one.
      for (const uint32_t stage : ran) ++num_done_[stage];
    } while (!ran.empty());
  }

 private:
  void RunOne(size_t worker, std::vector<uint32_t>& ran) {
    const auto is_ready = [this](uint32_t stage) {
      return num_done_[stage] < (stage == 0 ? num_micro_batches_ : num_done_[stage - 1]);
    };
    const auto highest = std::find_if(stages_[worker].rbegin(), stages_[worker].rend(), is_ready);
    if (highest == stages_[worker].rend()) return;
    Append(*table_.mutable_workers(static_cast<int>(worker)), v1::ACTION_KIND_FORWARD, *highest, num_done_[*highest]);
    ran.push_back(*highest);
  }

  const uint32_t num_micro_batches_;
  std::vector<uint32_t> num_done_;             // by stage: micro-batches, in order
  std::vector<std::vector<uint32_t>> stages_;  // by worker, ascending
  v1::ComputeTable& table_;
};

}  // namespace

v1::ComputeTable ForwardTable(std::span<const uint32_t> worker_of_stage, uint32_t num_micro_batches) {
  v1::ComputeTable table;
  table.set_schedule("forward_only");
  table.set_num_stages(static_cast<uint32_t>(worker_of_stage.size()));
  table.set_num_micro_batches(num_micro_batches);
  const uint32_t num_workers = *std::max_element(worker_of_stage.begin(), worker_of_stage.end()) + 1;
  for (uint32_t worker = 0; worker < num_workers; ++worker) table.add_workers();
  ForwardRun(worker_of_stage, num_micro_batches, table).Run();
  return table;
}

absl::StatusOr<v1::ComputeTable> ForwardOnlySchedule::Build(const ScheduleProblem& problem) const {
  STAGECOACH_RETURN_IF_ERROR(CheckProblem(problem, *this));
  std::vector<uint32_t> worker_of_stage;
  for (uint32_t stage = 0; stage < problem.num_workers * problem.num_chunks; ++stage) {
    worker_of_stage.push_back(WorkerOfStage(placement(), problem.num_workers, stage));
  }
  return ForwardTable(worker_of_stage, problem.num_micro_batches);
}

}  // namespace stagecoach
