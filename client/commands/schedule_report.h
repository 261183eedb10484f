#ifndef STAGECOACH_CLIENT_COMMANDS_SCHEDULE_REPORT_H_
#define STAGECOACH_CLIENT_COMMANDS_SCHEDULE_REPORT_H_

#include <optional>
#include <string>

#include "client/commands/schedule_arguments.h"
#include "client/output/json.h"
#include "coordinator/program/idle_time.h"
#include "coordinator/program/schedule_proof.h"

namespace stagecoach {

// A simulated schedule, and what more there is to say of it.
struct ScheduleReport {
  TimedSchedule timed;
  std::optional<ProvenSchedule> proven = std::nullopt;               // nothing: its programs are not shown to run
  std::optional<TimedSchedule> one_more_micro_batch = std::nullopt;  // nothing: there is none
};

// The published fields of `schedule simulate -o json` (docs/cli.md); with `detail` also idle times, critical path and
// memory curves.
Json ReportJson(const ScheduleReport& report, bool detail);

// For people: step and lower bound, bubbles, which stage is critical, what one more micro-batch would change, idle time
// by cause, a row for each worker, a picture.
std::string ReportText(const ScheduleReport& report);

// "1f1b: 4 workers x 1 stages, 8 micro-batches"
std::string ScheduleTitle(const TimedSchedule& timed);

// "33; lower bound 30, gap 10.0%": of the step, or of what else the objective is.
std::string BoundText(const TimedSchedule& timed);

// "36: warm-up 18, drain 18"; causes without time are left out.
std::string IdleText(const IdleTime& idle);
// "stage 3 on worker 3: 24 of 33 on the critical path, hops 2"
std::string CriticalStageText(const Timeline& timeline, uint32_t num_stages);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_SCHEDULE_REPORT_H_
