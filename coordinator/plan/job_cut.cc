#include "coordinator/plan/job_cut.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/given_order.h"
#include "coordinator/spec/model_graph.h"

namespace stagecoach {
namespace {

absl::StatusOr<size_t> NumWorkers(const v1::ParallelismSpec& parallelism, size_t num_workers) {
  if (num_workers == 0) return absl::InvalidArgumentError("there is no worker to plan for; start at least one");
  const size_t degree = parallelism.pipeline_parallel_degree();
  if (degree == 0) return num_workers;
  if (degree <= num_workers) return degree;
  if (parallelism.has_order()) {
    return absl::InvalidArgumentError(absl::StrCat("the order of parallelism.schedule is for ", degree, " workers and ",
                                                   num_workers, " are free; start ", degree - num_workers,
                                                   " more or name another schedule"));
  }
  return absl::InvalidArgumentError(absl::StrCat("parallelism.pipeline_parallel_degree is ", degree, " and ",
                                                 num_workers, " workers are free; start ", degree - num_workers,
                                                 " more or lower the degree"));
}

absl::StatusOr<uint32_t> NumMicroBatches(const v1::JobSpec& spec) {
  const uint64_t replicas = std::max<uint64_t>(1, spec.parallelism().data_parallel_degree());
  const uint64_t global = spec.training().global_batch_size();
  const uint64_t micro = spec.training().micro_batch_size();
  if (micro == 0 || global == 0 || global % micro != 0 || global / micro % replicas != 0) {
    return absl::InvalidArgumentError(absl::StrCat("training.global_batch_size ", global,
                                                   " is not a multiple of micro_batch_size ", micro,
                                                   " x data_parallel_degree ", replicas));
  }
  const uint64_t m = global / micro / replicas;
  if (m > UINT32_MAX) return absl::InvalidArgumentError(absl::StrCat(m, " micro-batches are too many"));
  return static_cast<uint32_t>(m);
}

absl::StatusOr<const Schedule*> TrainingSchedule(const std::string& name) {
  STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(name));
  if (!schedule->forward_only()) return schedule;
  return absl::InvalidArgumentError(absl::StrCat("parallelism.schedule ", name, " does not train"));
}

// What `auto` chooses from, for a job as its specification says.
class CandidateList {
 public:
  CandidateList(const v1::ParallelismSpec& parallelism, size_t num_workers, uint32_t num_micro_batches)
      : parallelism_(parallelism), num_workers_(num_workers), num_micro_batches_(num_micro_batches) {}

  absl::StatusOr<std::vector<ScheduleOption>> Of(const PlanOptions& options) {
    for (const NamedSchedule& candidate : options.candidates) {
      STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, TrainingSchedule(candidate.name));
      Add({schedule, parallelism_.virtual_stages() == 0 ? candidate.num_chunks : parallelism_.virtual_stages()});
    }
    if (!added_.empty()) return added_;
    const uint64_t num_stages = num_workers_ * std::max<uint64_t>(parallelism_.virtual_stages(), 1);
    if (!CanBeLowered(num_stages)) {
      return absl::InvalidArgumentError(absl::StrCat(num_stages, " stages x ", num_micro_batches_,
                                                     " micro-batches is more than ", kMaxLoweredForwards,
                                                     "; use larger micro-batches or fewer stages"));
    }
    return absl::InvalidArgumentError(absl::StrCat("parallelism.virtual_stages is ", parallelism_.virtual_stages(),
                                                   ", with which no schedule runs that auto chooses from; name one"));
  }

 private:
  void Add(const ScheduleOption& option) {
    const bool is_there = std::any_of(added_.begin(), added_.end(), [&](const ScheduleOption& other) {
      return other.schedule == option.schedule && other.num_chunks == option.num_chunks;
    });
    if (!is_there && option.schedule->AcceptsChunks(option.num_chunks) && IsSensible(option)) added_.push_back(option);
  }

  bool CanBeLowered(uint64_t num_stages) const { return num_stages * num_micro_batches_ <= kMaxLoweredForwards; }

  bool IsSensible(const ScheduleOption& option) const {
    if (!CanBeLowered(num_workers_ * option.num_chunks)) return false;
    // One stage per worker is what other schedules are made for.
    if (option.num_chunks == 1 && option.schedule->default_chunks() > 1) return false;
    // Its pairs of F and B need two micro-batches for each worker to begin with.
    if (option.schedule->name() == "dualpipe_v" && num_micro_batches_ < 2 * num_workers_) return false;
    if (parallelism_.virtual_stages() != 0 || option.num_chunks == 1) return true;
    if (parallelism_.partition().kind() == v1::PartitionSpec::KIND_LAYERS) {
      return num_workers_ * option.num_chunks == static_cast<size_t>(parallelism_.partition().num_blocks_size());
    }
    return num_workers_ > 1;
  }

  const v1::ParallelismSpec& parallelism_;
  const size_t num_workers_;
  const uint32_t num_micro_batches_;
  std::vector<ScheduleOption> added_;
};

absl::StatusOr<ScheduleOption> NamedOption(const v1::ParallelismSpec& parallelism) {
  ScheduleOption option;
  STAGECOACH_ASSIGN_OR_RETURN(option.schedule, TrainingSchedule(parallelism.schedule()));
  const uint32_t virtual_stages = parallelism.virtual_stages();
  option.num_chunks = virtual_stages == 0 ? option.schedule->default_chunks() : virtual_stages;
  if (option.schedule->AcceptsChunks(option.num_chunks)) return option;
  return absl::InvalidArgumentError(absl::StrCat("parallelism.virtual_stages is ", virtual_stages,
                                                 ", with which schedule ", option.schedule->name(),
                                                 " does not run; it is made for ", option.schedule->default_chunks()));
}

bool IsChosenByPlanner(const v1::ParallelismSpec& parallelism) {
  return !parallelism.has_order() && (parallelism.schedule().empty() || parallelism.schedule() == "auto");
}

absl::Status AddGivenOrder(const v1::ParallelismSpec& parallelism, JobRequest& request) {
  constexpr absl::string_view kOrder = "the order of parallelism.schedule";
  absl::StatusOr<std::unique_ptr<const GivenOrder>> order = GivenOrder::Create(parallelism.order());
  STAGECOACH_RETURN_IF_ERROR(WithContext(order.status(), kOrder));
  const ScheduleProblem own = {.num_workers = (*order)->num_workers(),
                               .num_chunks = (*order)->num_chunks(),
                               .num_micro_batches = parallelism.order().num_micro_batches()};
  // Whether it comes to an end: what waits for itself cannot be cut for either.
  STAGECOACH_RETURN_IF_ERROR(WithContext(Simulate(parallelism.order(), own).status(), kOrder));
  request.schedules.push_back({order->get(), (*order)->num_chunks()});
  request.given_order = *std::move(order);
  return absl::OkStatus();
}

absl::Status AddSchedules(const v1::ParallelismSpec& parallelism, const PlanOptions& options, JobRequest& request) {
  if (parallelism.has_order()) return AddGivenOrder(parallelism, request);
  if (IsChosenByPlanner(parallelism)) {
    CandidateList candidates(parallelism, request.cut.workers.size(), request.cut.num_micro_batches);
    STAGECOACH_ASSIGN_OR_RETURN(request.schedules, candidates.Of(options));
    return absl::OkStatus();
  }
  STAGECOACH_ASSIGN_OR_RETURN(const ScheduleOption option, NamedOption(parallelism));
  request.schedules.push_back(option);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobRequest> JobRequestOf(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                                        const PlanOptions& options) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  JobRequest request;
  STAGECOACH_ASSIGN_OR_RETURN(const size_t num_workers, NumWorkers(parallelism, workers.size()));
  STAGECOACH_ASSIGN_OR_RETURN(request.cut.num_micro_batches, NumMicroBatches(spec));
  STAGECOACH_ASSIGN_OR_RETURN(request.cut.graph, BuildModelGraph(spec));
  ModelSeconds seconds = KnownSeconds(request.cut.graph, workers.front());
  request.cut.seconds = std::move(seconds.layers);
  request.measured_costs = seconds.all_measured;
  request.cut.state = StateOptionsOf(spec);
  STAGECOACH_ASSIGN_OR_RETURN(request.cut.recomputation, RecomputationOf(parallelism));
  request.cut.partition = parallelism.partition();
  request.cut.workers.assign(workers.begin(), workers.begin() + static_cast<std::ptrdiff_t>(num_workers));
  request.cut.searches_order = options.searches_order && IsChosenByPlanner(parallelism);
  STAGECOACH_RETURN_IF_ERROR(AddSchedules(parallelism, options, request));
  return request;
}

absl::StatusOr<JobCut> CutJob(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                              const PlanOptions& options) {
  STAGECOACH_ASSIGN_OR_RETURN(JobRequest request, JobRequestOf(spec, workers, options));
  JobCut cut;
  STAGECOACH_ASSIGN_OR_RETURN(cut.choice, ChooseSchedule(request.cut, request.schedules));
  cut.graph = std::move(request.cut.graph);
  cut.measured_costs = request.measured_costs;
  return cut;
}

}  // namespace stagecoach
