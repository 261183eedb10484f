#include "coordinator/schedule/auto_schedule.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/schedule/auto_bound.h"
#include "coordinator/schedule/auto_graph.h"
#include "coordinator/schedule/auto_key_search.h"
#include "coordinator/schedule/auto_row_search.h"
#include "coordinator/schedule/auto_timing.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

// At effort 1. Large problems are bounded by work, counted in actions looked at, small ones by tries.
constexpr double kMostLists = 4000;
constexpr double kListWork = 16e6;
constexpr double kMostMoves = 200e3;
constexpr double kMoveWork = 32e6;
constexpr double kFewestLists = 8;
constexpr double kMostEffort = 1000;
// The first leaves what it starts from, which pays where memory is scarce; the second mends the best so far.
constexpr AutoCooling kCoolings[] = {{0.2, 0.002}, {0.012, 0.0004}};
// Bounds and costs are sums in different orders.
constexpr double kRounding = 1e-12;

absl::Status CheckMemory(const ScheduleProblem& problem, absl::string_view schedule) {
  for (size_t worker = 0; worker < problem.memory_limit.size(); ++worker) {
    if (problem.memory_limit[worker] >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(schedule, ": worker ", worker, " may hold ",
                                                   problem.memory_limit[worker],
                                                   " micro-batches; every schedule holds at least 1"));
  }
  return absl::OkStatus();
}

struct Found {
  AutoRows rows;
  AutoCost cost = {.worst = std::numeric_limits<double>::infinity(), .mean = 0};
  std::string hand_made;  // whose rows they are
};

// The best hand-made table with the placement.
absl::StatusOr<Found> BestHandMade(const ScheduleProblem& problem, const AutoGraph& graph) {
  Found best;
  AutoTiming timing(graph);
  for (const Schedule* schedule : HandMadeSchedules()) {
    if (schedule->forward_only() || !schedule->AcceptsChunks(problem.num_chunks)) continue;
    if (problem.num_chunks > 1 && schedule->placement() != graph.placement()) continue;
    STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable table, schedule->Build(problem));
    AutoRows rows = graph.RowsOf(table);
    if (!graph.Accepts(rows) || !timing.Run(rows) || timing.cost().worst >= best.cost.worst) continue;
    best = {std::move(rows), timing.cost(), std::string(schedule->name())};
  }
  return best;
}

void Search(const AutoGraph& graph, double target, const AutoOptions& options, Found& best) {
  const double effort = std::min(kMostEffort, std::max(0.0, options.effort));
  const double num_lists = effort * std::min(kMostLists, kListWork / graph.size());
  AutoKeySearch keys(graph, target, options.seed);
  keys.Run(static_cast<uint32_t>(std::max(kFewestLists, num_lists)));
  if (keys.best_cost().worst < best.cost.worst) best = {keys.best_rows(), keys.best_cost(), ""};
  // A hand-made table may need more room than a search grants.
  const bool has_room = AutoTiming(graph).RunWithRooms(best.rows);
  Found start = has_room ? best : Found{keys.best_rows(), keys.best_cost(), ""};
  for (const AutoCooling& cooling : kCoolings) {
    AutoRowSearch rows(graph, start.rows, target, options.seed);
    rows.Run(cooling, static_cast<uint64_t>(effort * kMostMoves / std::size(kCoolings)),
             static_cast<uint64_t>(effort * kMoveWork / std::size(kCoolings)));
    start = {rows.best_rows(), rows.best_cost(), ""};
  }
  if (start.cost.worst < best.cost.worst) best = std::move(start);
}

struct BoundedGraph {
  AutoGraph graph;
  double bound;
};

// The least bound first: what is found there often shows that the other placement need not be searched.
std::vector<BoundedGraph> Graphs(const ScheduleProblem& problem, std::optional<StagePlacement> only) {
  std::vector<BoundedGraph> graphs;
  for (const StagePlacement placement : {StagePlacement::kV, StagePlacement::kLoop}) {
    if (placement == StagePlacement::kV && problem.num_chunks != 2) continue;
    if (only.value_or(placement) != placement) continue;
    AutoGraph graph(problem, placement);
    const double bound = AutoBound(graph).seconds();
    graphs.push_back({std::move(graph), bound});
  }
  std::stable_sort(graphs.begin(), graphs.end(),
                   [](const BoundedGraph& a, const BoundedGraph& b) { return a.bound < b.bound; });
  return graphs;
}

}  // namespace

absl::StatusOr<AutoResult> SearchSchedule(const ScheduleProblem& problem, const AutoOptions& options) {
  const AutoSchedule schedule;
  STAGECOACH_RETURN_IF_ERROR(CheckProblem(problem, schedule));
  STAGECOACH_RETURN_IF_ERROR(CheckMemory(problem, schedule.name()));
  if (options.placement == StagePlacement::kV && problem.num_chunks != 2) {
    return absl::InvalidArgumentError(absl::StrCat(schedule.name(), ": a V of ", problem.num_chunks, " chunks"));
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  AutoResult result;
  result.seconds = result.lower_bound_seconds = result.best_hand_made_seconds = kInfinity;
  for (const auto& [graph, bound] : Graphs(problem, options.placement)) {
    STAGECOACH_ASSIGN_OR_RETURN(Found best, BestHandMade(problem, graph));
    if (best.cost.worst < result.best_hand_made_seconds) {
      result.best_hand_made = best.hand_made;
      result.best_hand_made_seconds = best.cost.worst;
    }
    result.lower_bound_seconds = std::min(result.lower_bound_seconds, bound);
    if (bound < result.seconds && bound * (1 + kRounding) < best.cost.worst) {
      Search(graph, bound * (1 + kRounding), options, best);
    }
    if (best.cost.worst >= result.seconds) continue;
    result.seconds = best.cost.worst;
    result.placement = graph.placement();
    result.table = graph.TableOf(best.rows, std::string(schedule.name()));
  }
  if (result.best_hand_made.empty()) result.best_hand_made_seconds = 0;
  result.lower_bound_seconds = std::min(result.lower_bound_seconds, result.seconds);
  return result;
}

absl::StatusOr<v1::ComputeTable> AutoSchedule::Build(const ScheduleProblem& problem) const {
  STAGECOACH_ASSIGN_OR_RETURN(AutoResult result, SearchSchedule(problem, options_));
  return std::move(result.table);
}

}  // namespace stagecoach
