#include "client/commands/schedule_arguments.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/quoted.h"
#include "common/status_macros.h"
#include "coordinator/schedule/auto_schedule.h"
#include "coordinator/schedule/compute_table.h"
#include "coordinator/schedule/recomputing_table.h"

namespace stagecoach {
namespace {

constexpr absl::string_view kAuto = "auto";

// One of `times` for each stage, as a share of a full one.
absl::StatusOr<std::vector<double>> TimesOfStages(absl::string_view option, absl::string_view text,
                                                  const ScheduleProblem& problem) {
  STAGECOACH_ASSIGN_OR_RETURN(std::vector<double> times, ParseTimes(option, text));
  const size_t num_stages = size_t{problem.num_workers} * problem.num_chunks;
  if (times.size() == 1) times.assign(num_stages, times.front());
  if (times.size() != num_stages) {
    return absl::InvalidArgumentError(absl::StrCat(option, " has ", times.size(), " times; give one for all, or ",
                                                   num_stages, ", one for each stage (", problem.num_workers,
                                                   " workers x ", problem.num_chunks, " chunks)"));
  }
  for (double& time : times) time /= problem.num_chunks;
  return times;
}

absl::StatusOr<double> ParseTime(absl::string_view option, absl::string_view text) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<double> times, ParseTimes(option, text));
  if (times.size() == 1) return times.front();
  return absl::InvalidArgumentError(absl::StrCat(option, " takes one number, not ", times.size()));
}

absl::Status AddTimes(const ScheduleArguments& arguments, ScheduleProblem& problem) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<double> forward,
                              TimesOfStages("--forward", arguments.forward, problem));
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<double> backward_input,
                              TimesOfStages("--backward-input", arguments.backward_input, problem));
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<double> backward_weight,
                              TimesOfStages("--backward-weight", arguments.backward_weight, problem));
  std::vector<double> recompute(forward.size());
  if (!arguments.recompute.empty()) {
    STAGECOACH_ASSIGN_OR_RETURN(recompute, TimesOfStages("--recompute", arguments.recompute, problem));
  }
  STAGECOACH_ASSIGN_OR_RETURN(problem.communication_seconds, ParseTime("--communication", arguments.communication));
  for (size_t stage = 0; stage < forward.size(); ++stage) {
    problem.cost_of_stage.push_back({forward[stage], backward_input[stage], backward_weight[stage], recompute[stage]});
  }
  if (arguments.memory_limit.empty()) return absl::OkStatus();
  STAGECOACH_ASSIGN_OR_RETURN(const double limit, ParseTime("--memory-limit", arguments.memory_limit));
  problem.memory_limit.assign(problem.num_workers, limit);
  return absl::OkStatus();
}

absl::Status CheckMemoryLimit(const TimedSchedule& timed) {
  constexpr double kRounding = 1e-9;
  if (timed.problem.memory_limit.empty()) return absl::OkStatus();
  const std::vector<double>& peaks = timed.timeline.peak_activations;
  const auto most = std::max_element(peaks.begin(), peaks.end());
  const double limit = timed.problem.memory_limit.front();
  if (*most <= limit + kRounding) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(timed.table.schedule(), " holds the activations of ", *most,
                                                   " micro-batches on worker ", most - peaks.begin(),
                                                   "; --memory-limit is ", limit));
}

// Numbers that no schedule takes, before sizes are computed with them.
absl::Status CheckSizes(const ScheduleArguments& arguments, uint32_t num_chunks, uint32_t num_micro_batches) {
  if (arguments.num_workers == 0) return absl::InvalidArgumentError("--stages is 0; there is at least one");
  if (num_micro_batches == 0) return absl::InvalidArgumentError("--micro-batches is 0; there is at least one");
  if (num_chunks == 0) return absl::InvalidArgumentError("--chunks is 0; there is at least one");
  if (uint64_t{arguments.num_workers} * num_chunks <= kMaxStages) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--stages ", arguments.num_workers, " x ", num_chunks,
                                                 " chunks is more than ", kMaxStages, " stages"));
}

// What the objective makes small.
double Measure(const TimedSchedule& timed) {
  if (timed.problem.objective == Objective::kSpan) return timed.timeline.makespan;
  double longest = 0;
  for (const std::vector<TimedAction>& row : timed.timeline.workers) {
    if (!row.empty()) longest = std::max(longest, row.back().end - row.front().start);
  }
  return longest;
}

// Searches, and keeps the bound that the search knows: it knows none of orders with R.
absl::Status BuildAuto(TimedSchedule& timed) {
  STAGECOACH_ASSIGN_OR_RETURN(AutoResult result, SearchSchedule(timed.problem));
  timed.table = std::move(result.table);
  timed.lower_bound = result.lower_bound_seconds;
  STAGECOACH_ASSIGN_OR_RETURN(timed.timeline, Simulate(timed.table, timed.problem));
  return absl::OkStatus();
}

absl::Status Build(const Schedule& schedule, bool recompute, TimedSchedule& timed) {
  const std::vector<bool> recomputes(timed.problem.cost_of_stage.size(), recompute);
  STAGECOACH_ASSIGN_OR_RETURN(timed.table, BuildRecomputing(schedule, timed.problem, recomputes));
  STAGECOACH_ASSIGN_OR_RETURN(timed.timeline, Simulate(timed.table, timed.problem));
  timed.lower_bound = timed.timeline.lower_bound;
  return absl::OkStatus();
}

absl::StatusOr<TimedSchedule> TimeWithChunks(const ScheduleArguments& arguments, const Schedule& schedule,
                                             uint32_t num_chunks, uint32_t num_micro_batches) {
  STAGECOACH_RETURN_IF_ERROR(CheckSizes(arguments, num_chunks, num_micro_batches));
  const bool is_auto = schedule.name() == kAuto;
  TimedSchedule timed;
  timed.problem.num_workers = arguments.num_workers;
  timed.problem.num_chunks = num_chunks;
  timed.problem.num_micro_batches = num_micro_batches;
  timed.problem.objective = is_auto && arguments.objective == "device" ? Objective::kDevice : Objective::kSpan;
  STAGECOACH_RETURN_IF_ERROR(AddTimes(arguments, timed.problem));
  const bool recompute = !arguments.recompute.empty();
  STAGECOACH_RETURN_IF_ERROR(is_auto && !recompute ? BuildAuto(timed) : Build(schedule, recompute, timed));
  STAGECOACH_RETURN_IF_ERROR(CheckMemoryLimit(timed));
  timed.seconds = Measure(timed);
  return timed;
}

// The first on a tie, and its error when there is neither. A bound of both is the lower one.
absl::StatusOr<TimedSchedule> BestOf(absl::StatusOr<TimedSchedule> first, absl::StatusOr<TimedSchedule> second) {
  constexpr double kRounding = 1e-12;
  if (!second.ok()) return first;
  if (!first.ok()) return second;
  first->lower_bound = second->lower_bound = std::min(first->lower_bound, second->lower_bound);
  return second->seconds < first->seconds * (1 - kRounding) ? std::move(second) : std::move(first);
}

}  // namespace

void AddScheduleOptions(CLI::App& verb, ScheduleArguments& arguments) {
  std::vector<std::string> names = {std::string(kAuto)};
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->name() != kAuto) names.emplace_back(schedule->name());
  }
  verb.add_option("--schedule", arguments.schedule, "one of `stagecoach schedule list`")
      ->required()
      ->type_name(absl::StrCat("NAME:{", absl::StrJoin(names, ","), "}"));
  verb.add_option("--stages", arguments.num_workers, "workers in the pipeline")->required()->type_name("P");
  verb.add_option("--micro-batches", arguments.num_micro_batches, "of one step")->required()->type_name("M");
  verb.add_option("--chunks", arguments.num_chunks,
                  "stages that each worker holds; default: 2 for interleaved and V-shaped schedules, 1 for the others")
      ->type_name("V");
  verb.add_option("--forward", arguments.forward,
                  "time of F on one full stage (1/P of the model), in any unit; or a list with one for each of the P*V "
                  "stages, as if each were a full one: 1,1,1.2,1")
      ->type_name("T");
  verb.add_option("--backward-input", arguments.backward_input, "likewise, of I")->type_name("T");
  verb.add_option("--backward-weight", arguments.backward_weight, "likewise, of W; B is I and W")->type_name("T");
  verb.add_option(
          "--recompute", arguments.recompute,
          "likewise, of R: every stage runs its forward again before each I or B; without, nothing is recomputed")
      ->type_name("T");
  verb.add_option("--communication", arguments.communication, "from one worker to another, on top; default 0")
      ->type_name("T");
  verb.add_option("--memory-limit", arguments.memory_limit,
                  "most micro-batches on one full stage whose activations a worker may hold")
      ->type_name("N");
  verb.add_option("--objective", arguments.objective,
                  "what auto makes small: span, from first start to last end, or device, the longest interval of one "
                  "worker; default span")
      ->check(CLI::IsMember({"span", "device"}))
      ->type_name("OBJECTIVE");
}

absl::StatusOr<std::vector<double>> ParseTimes(absl::string_view option, absl::string_view text) {
  std::vector<double> times;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    double time = 0;
    if (!absl::SimpleAtod(word, &time) || !std::isfinite(time) || time < 0) {
      return absl::InvalidArgumentError(absl::StrCat(option, ": number ", times.size() + 1, " is ",
                                                     Quoted(absl::StripAsciiWhitespace(word), 40),
                                                     "; it must be a finite number from 0 on"));
    }
    times.push_back(time);
  }
  return times;
}

absl::StatusOr<TimedSchedule> TimeSchedule(const ScheduleArguments& arguments, uint32_t num_micro_batches) {
  STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(arguments.schedule));
  if (schedule->name() == kAuto && !arguments.num_chunks.has_value()) {
    return BestOf(TimeWithChunks(arguments, *schedule, 1, num_micro_batches),
                  TimeWithChunks(arguments, *schedule, 2, num_micro_batches));
  }
  return TimeWithChunks(arguments, *schedule, arguments.num_chunks.value_or(schedule->default_chunks()),
                        num_micro_batches);
}

absl::StatusOr<TimedSchedule> TimeSchedule(const ScheduleArguments& arguments) {
  return TimeSchedule(arguments, arguments.num_micro_batches);
}

}  // namespace stagecoach
