// schedule list, show, simulate; verify is in schedule_verify.cc.

#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/commands/output_arguments.h"
#include "client/commands/schedule_arguments.h"
#include "client/commands/schedule_report.h"
#include "client/commands/timeline_svg.h"
#include "client/commands/timeline_text.h"
#include "client/commands/timeline_trace.h"
#include "client/output/error_report.h"
#include "common/action_text.h"
#include "coordinator/program/lowered_csv.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/schedule_proof.h"
#include "coordinator/program/table_text.h"
#include "coordinator/program/timed_table.h"
#include "coordinator/schedule/compute_csv.h"

namespace stagecoach {
namespace {

constexpr int kColumns = 160;  // of a picture

// Whatever is wrong with a schedule is wrong with the command line.
int Refuse(const absl::Status& status, const OutputArguments& output) {
  return ReportFailure({.code = kExitUsage, .status = status}, {.json = output.is_json()});
}

// ---- list

int List(const OutputArguments& output) {
  Listing listing{.key = "schedules", .table = Table({"NAME", "CHUNKS", "CONDITIONS, BUBBLE, MEMORY"})};
  const auto add = [&listing](const std::string& name, const std::string& chunks, const std::string& description) {
    listing.names.push_back(name);
    listing.items.push_back({{"name", name}, {"chunks", chunks}, {"description", description}});
    listing.table.AddRow({name, chunks, description});
  };
  for (const Schedule* schedule : AllSchedules()) {
    const uint32_t chunks = schedule->default_chunks();
    const bool has_others = schedule->AcceptsChunks(chunks + 1) || schedule->AcceptsChunks(1) != (chunks == 1);
    add(std::string(schedule->name()),
        schedule->name() == "auto" ? "1 or 2" : absl::StrCat(chunks, has_others ? ", or other" : ""),
        std::string(schedule->description()));
  }
  PrintListing(listing, output);
  return kExitOk;
}

void AddListVerb(CLI::App& schedule, Invocation& invocation) {
  auto output = std::make_shared<OutputArguments>();
  CLI::App* verb = AddVerb(schedule, "list", "every schedule with its conditions, bubble and memory",
                           "  stagecoach schedule list\n  stagecoach schedule list -q");
  AddTableOptions(*verb, *output, {"table", "json", "yaml", "name", "jsonl"});
  verb->callback([&invocation, output] { invocation.run = [output] { return List(*output); }; });
}

// ---- show

struct ShowArguments {
  ScheduleArguments schedule;
  std::string level = "compute";
  OutputArguments output;
};

Json TableJson(const TimedSchedule& timed) {
  Json workers = Json::array();
  for (const v1::WorkerActions& row : timed.table.workers()) {
    Json actions = Json::array();
    for (const v1::Action& action : row.actions()) actions.push_back(ActionText(action));
    workers.push_back(std::move(actions));
  }
  return {{"schedule", timed.table.schedule()},  {"stages", timed.problem.num_workers},
          {"chunks", timed.problem.num_chunks},  {"micro_batches", timed.problem.num_micro_batches},
          {"makespan", timed.timeline.makespan}, {"lower_bound", timed.lower_bound},
          {"workers", std::move(workers)}};
}

int ShowLowered(const ShowArguments& arguments, const TimedSchedule& timed) {
  const absl::StatusOr<ProvenSchedule> proven = ProveTable(timed.table, timed.problem, SendSemantics::kRendezvous);
  if (!proven.ok()) return Refuse(proven.status(), arguments.output);
  if (arguments.output.format == "csv") {
    const absl::StatusOr<std::string> csv = LoweredCsv(proven->programs);
    if (!csv.ok()) return Refuse(csv.status(), arguments.output);
    std::cout << *csv;
    return kExitOk;
  }
  for (const v1::StageProgram& program : proven->programs) std::cout << ProgramText(program) << "\n";
  return kExitOk;
}

void ShowTable(const ShowArguments& arguments, const TimedSchedule& timed) {
  const std::string& format = arguments.output.format;
  if (format == "csv") {
    std::cout << ComputeCsv(timed.table);
  } else if (format == "json") {
    PrintObject(TableJson(timed), "json");
  } else if (format == "svg") {
    std::cout << TimelineSvg(timed.timeline, ScheduleTitle(timed));
  } else if (format == "canonical") {
    const v1::TimedTable timed_table = TimedTableOf(timed.table, timed.timeline);
    std::cout << (arguments.level == "timed" ? TimedTableText(timed_table) : TableText(timed.table));
  } else {
    const bool is_span = timed.problem.objective == Objective::kSpan;
    std::cout << ScheduleTitle(timed) << "\n"
              << (is_span ? "step " : "longest interval ") << BoundText(timed) << "\n"
              << TimelineText(timed.timeline, kColumns);
  }
}

int Show(const ShowArguments& arguments) {
  const std::string& format = arguments.output.format;
  const bool has_level = format == "canonical" || (format == "csv" && arguments.level != "timed");
  if (arguments.level != "compute" && !has_level) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat("--level ", arguments.level, " is not there as ", format,
                                                          "; -o canonical has all levels, csv compute and lowered")),
                  arguments.output);
  }
  const absl::StatusOr<TimedSchedule> timed = TimeSchedule(arguments.schedule);
  if (!timed.ok()) return Refuse(timed.status(), arguments.output);
  if (arguments.level == "lowered") return ShowLowered(arguments, *timed);
  ShowTable(arguments, *timed);
  return kExitOk;
}

void AddShowVerb(CLI::App& schedule, Invocation& invocation) {
  auto arguments = std::make_shared<ShowArguments>();
  CLI::App* verb =
      AddVerb(schedule, "show", "draw a schedule, or print its actions",
              "  stagecoach schedule show --schedule 1f1b --stages 4 --micro-batches 8\n"
              "  stagecoach schedule show --schedule 1f1b --stages 4 --micro-batches 8 -o csv > 1f1b.csv\n"
              "  stagecoach schedule show --schedule gpipe --stages 4 --micro-batches 8 -o svg > gpipe.svg");
  AddScheduleOptions(*verb, arguments->schedule);
  verb->add_option("--level", arguments->level,
                   "what csv and canonical print: compute, lowered (with transfers and slots, for a model of equal "
                   "stages), timed; default compute")
      ->check(CLI::IsMember({"compute", "lowered", "timed"}))
      ->type_name("LEVEL");
  AddFormatOption(*verb, arguments->output, {"text", "csv", "json", "svg", "canonical"});
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return Show(*arguments); }; });
}

// ---- simulate

struct SimulateArguments {
  ScheduleArguments schedule;
  bool detail = false;
  OutputArguments output;
};

// Shown to run whatever sends a transport has.
absl::StatusOr<ProvenSchedule> ProveUnderBoth(const TimedSchedule& timed) {
  const absl::StatusOr<ProvenSchedule> buffered = ProveTable(timed.table, timed.problem, SendSemantics::kBuffered);
  if (!buffered.ok()) return buffered.status();
  return ProveTable(timed.table, timed.problem, SendSemantics::kRendezvous);
}

int PrintReport(const SimulateArguments& arguments, ScheduleReport report) {
  absl::StatusOr<ProvenSchedule> proven = ProveUnderBoth(report.timed);
  const absl::Status proof = proven.status();
  if (proven.ok()) report.proven = *std::move(proven);
  if (arguments.output.is_json()) {
    PrintObject(ReportJson(report, arguments.detail), "json");
  } else {
    absl::StatusOr<TimedSchedule> more = TimeSchedule(arguments.schedule, arguments.schedule.num_micro_batches + 1);
    if (more.ok()) report.one_more_micro_batch = *std::move(more);
    std::cout << ReportText(report);
  }
  if (proof.ok()) return kExitOk;
  std::cerr << "stagecoach: not verified: " << proof.message() << "\n";
  return kExitError;
}

int SimulateVerb(const SimulateArguments& arguments) {
  absl::StatusOr<TimedSchedule> timed = TimeSchedule(arguments.schedule);
  if (!timed.ok()) return Refuse(timed.status(), arguments.output);
  if (arguments.output.format == "trace") {
    WriteTimelineTrace(timed->timeline, ScheduleTitle(*timed), std::cout);
  } else if (arguments.output.format == "svg") {
    std::cout << TimelineSvg(timed->timeline, ScheduleTitle(*timed));
  } else {
    return PrintReport(arguments, {.timed = *std::move(timed)});
  }
  return kExitOk;
}

void AddSimulateVerb(CLI::App& schedule, Invocation& invocation) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* verb = AddVerb(
      schedule, "simulate", "time a schedule: step, bubbles, memory, critical path, idle time by cause",
      "  stagecoach schedule simulate --schedule 1f1b --stages 4 --micro-batches 8 --forward 1 --backward-input 1 "
      "--backward-weight 1\n"
      "  stagecoach schedule simulate --schedule 1f1b --stages 4 --micro-batches 8 --forward 1,1,1,1.5 "
      "--communication 0.1 -o json");
  AddScheduleOptions(*verb, arguments->schedule);
  verb->add_flag("--detail", arguments->detail, "JSON: also idle times, critical path and memory over time");
  AddFormatOption(*verb, arguments->output, {"text", "json", "trace", "svg"});
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return SimulateVerb(*arguments); }; });
}

}  // namespace

void AddSchedule(CLI::App& root, Invocation& invocation) {
  CLI::App* schedule =
      AddVerb(root, "schedule", "list, draw, time and verify schedules, without a job or a coordinator",
              "  stagecoach schedule list\n"
              "  stagecoach schedule simulate --schedule 1f1b --stages 4 --micro-batches 8\n"
              "  stagecoach schedule verify program.csv");
  schedule->require_subcommand(1);
  AddListVerb(*schedule, invocation);
  AddShowVerb(*schedule, invocation);
  AddSimulateVerb(*schedule, invocation);
  AddScheduleVerify(*schedule, invocation);
}

}  // namespace stagecoach
