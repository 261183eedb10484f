#ifndef STAGECOACH_CLIENT_COMMANDS_SCHEDULE_ARGUMENTS_H_
#define STAGECOACH_CLIENT_COMMANDS_SCHEDULE_ARGUMENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// A schedule and the costs to time it with, as `schedule show` and `schedule simulate` take them.
struct ScheduleArguments {
  std::string schedule;
  uint32_t num_workers = 0;
  uint32_t num_micro_batches = 0;
  std::optional<uint32_t> num_chunks = std::nullopt;  // without: the schedule's own
  // Times of one full stage, or a list with one for each stage.
  std::string forward = "1";
  std::string backward_input = "1";
  std::string backward_weight = "1";
  std::string recompute = "";  // likewise; empty: nothing is recomputed
  std::string communication = "0";
  std::string memory_limit = "";  // in micro-batches on one full stage; empty: none
  std::string objective = "span";
};
void AddScheduleOptions(CLI::App& verb, ScheduleArguments& arguments);

// A schedule that has been made and timed.
struct TimedSchedule {
  ScheduleProblem problem;  // its objective is the span but for `auto`
  v1::ComputeTable table;
  Timeline timeline;
  double seconds = 0;  // what the objective makes small: the step, or the longest interval of one worker
  // No order of these stages takes less; of `auto` none within the memory limit, whatever the placement and, where the
  // number of chunks was left to it, with either of those that it tried.
  double lower_bound = 0;

  double gap_ratio() const { return lower_bound > 0 ? seconds / lower_bound - 1 : 0; }
};
// INVALID_ARGUMENT names the option and the value that is wrong; NOT_FOUND: no schedule has the name, with the nearest;
// RESOURCE_EXHAUSTED: the schedule needs more than --memory-limit.
absl::StatusOr<TimedSchedule> TimeSchedule(const ScheduleArguments& arguments);

// The same for another number of micro-batches.
absl::StatusOr<TimedSchedule> TimeSchedule(const ScheduleArguments& arguments, uint32_t num_micro_batches);

// The numbers of "1" or "1.5,2,1.5,2". INVALID_ARGUMENT: one of them is no finite number from 0 on.
absl::StatusOr<std::vector<double>> ParseTimes(absl::string_view option, absl::string_view text);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_SCHEDULE_ARGUMENTS_H_
