#include "client/commands/schedule_report.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/commands/timeline_text.h"
#include "client/output/table.h"
#include "common/action_text.h"
#include "coordinator/program/critical_path.h"
#include "coordinator/program/memory_curve.h"

namespace stagecoach {
namespace {

constexpr int kColumns = 160;  // of a picture

std::string Number(double value) { return absl::StrFormat("%.6g", value); }
std::string Percent(double ratio) { return absl::StrFormat("%.1f%%", ratio * 100); }

Json IdleJson(const IdleTime& idle) {
  return {{"warm_up", idle.warm_up},
          {"drain", idle.drain},
          {"imbalance", idle.imbalance},
          {"transfer", idle.transfer},
          {"order", idle.order}};
}

Json PathJson(const Timeline& timeline) {
  Json steps = Json::array();
  for (const PathStep& step : CriticalPath(timeline)) {
    const char* cause = step.start.cause == WaitCause::kInput ? "input" : "order";
    if (step.start.cause == WaitCause::kStart) cause = "start";
    steps.push_back({{"action", ActionText(step.timed.action)},
                     {"worker", step.worker},
                     {"start", step.timed.start},
                     {"end", step.timed.end},
                     {"cause", cause},
                     {"hop", step.start.hop_seconds}});
  }
  return steps;
}

Json MemoryJson(const Timeline& timeline) {
  Json workers = Json::array();
  for (const std::vector<MemoryPoint>& points : MemoryCurves(timeline)) {
    Json curve = Json::array();
    for (const MemoryPoint& point : points) {
      curve.push_back(
          {{"time", point.seconds}, {"activations", point.activations}, {"pending_weight", point.pending_weight}});
    }
    workers.push_back(std::move(curve));
  }
  return workers;
}

double BusySeconds(const std::vector<TimedAction>& row) {
  double seconds = 0;
  for (const TimedAction& timed : row) seconds += timed.end - timed.start;
  return seconds;
}

std::string WorkerTable(const Timeline& timeline) {
  Table table({"WORKER", "STAGES", "BUSY", "IDLE", "WARM-UP", "DRAIN", "IMBALANCE", "TRANSFER", "ORDER", "ACTIVATIONS",
               "PENDING W"});
  const std::vector<IdleTime> idle = IdleByCause(timeline);
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    std::set<uint32_t> stages;
    for (const TimedAction& timed : timeline.workers[worker]) stages.insert(timed.action.stage());
    table.AddRow({absl::StrCat(worker), absl::StrJoin(stages, ","), Number(BusySeconds(timeline.workers[worker])),
                  Number(idle[worker].sum()), Number(idle[worker].warm_up), Number(idle[worker].drain),
                  Number(idle[worker].imbalance), Number(idle[worker].transfer), Number(idle[worker].order),
                  Number(timeline.peak_activations[worker]), Number(timeline.peak_pending_weight[worker])});
  }
  return table.Text({});
}

std::string OneMoreText(const ScheduleReport& report) {
  if (!report.one_more_micro_batch.has_value()) return "there is none";
  const Timeline& now = report.timed.timeline;
  const Timeline& then = report.one_more_micro_batch->timeline;
  return absl::StrCat("step ", Number(then.makespan), " (", then.makespan < now.makespan ? "" : "+",
                      Number(then.makespan - now.makespan), "), bubble ", Percent(then.bubble_ratio_span));
}

std::string ProofText(const ScheduleReport& report) {
  if (!report.proven.has_value()) return "not verified";
  return absl::StrCat("verified under rendezvous and buffered sends, ", report.proven->num_receive_slots,
                      " receive slots, hash ", absl::BytesToHexString(report.proven->program_hash));
}

}  // namespace

std::string ScheduleTitle(const TimedSchedule& timed) {
  return absl::StrCat(timed.table.schedule(), ": ", timed.problem.num_workers, " workers x ", timed.problem.num_chunks,
                      timed.problem.num_chunks == 1 ? " stage, " : " stages, ", timed.problem.num_micro_batches,
                      " micro-batches");
}

std::string BoundText(const TimedSchedule& timed) {
  return absl::StrCat(Number(timed.seconds), "; lower bound ", Number(timed.lower_bound), ", gap ",
                      Percent(timed.gap_ratio()));
}

std::string IdleText(const IdleTime& idle) {
  std::vector<std::string> parts;
  for (const auto& [name, seconds] :
       {std::pair("warm-up", idle.warm_up), std::pair("drain", idle.drain), std::pair("imbalance", idle.imbalance),
        std::pair("transfer", idle.transfer), std::pair("order", idle.order)}) {
    if (seconds > 1e-9 * idle.sum()) parts.push_back(absl::StrCat(name, " ", Number(seconds)));
  }
  return parts.empty() ? "0" : absl::StrCat(Number(idle.sum()), ": ", absl::StrJoin(parts, ", "));
}

std::string CriticalStageText(const Timeline& timeline, uint32_t num_stages) {
  const std::vector<PathStep> path = CriticalPath(timeline);
  const PathShares shares = SharesOf(path, num_stages);
  const auto most = std::max_element(shares.seconds_of_stage.begin(), shares.seconds_of_stage.end());
  const auto stage = static_cast<uint32_t>(most - shares.seconds_of_stage.begin());
  size_t worker = 0;
  for (const PathStep& step : path) {
    if (step.timed.action.stage() == stage) worker = step.worker;
  }
  return absl::StrCat("stage ", stage, " on worker ", worker, ": ", Number(*most), " of ", Number(timeline.makespan),
                      " on the critical path, hops ", Number(shares.hop_seconds));
}

Json ReportJson(const ScheduleReport& report, bool detail) {
  const TimedSchedule& timed = report.timed;
  const Timeline& timeline = timed.timeline;
  Json json = {{"schedule", timed.table.schedule()},
               {"stages", timed.problem.num_workers},
               {"chunks", timed.problem.num_chunks},
               {"micro_batches", timed.problem.num_micro_batches},
               {"makespan", timeline.makespan},
               {"lower_bound", timed.lower_bound},
               {"bubble_ratio_span", timeline.bubble_ratio_span},
               {"bubble_ratio_device", timeline.bubble_ratio_device},
               {"peak_activations", timeline.peak_activations},
               {"peak_pending_weight", timeline.peak_pending_weight},
               {"receive_slots", nullptr},
               {"verified", report.proven.has_value()},
               {"program_hash", nullptr}};
  if (report.proven.has_value()) {
    json["receive_slots"] = report.proven->num_receive_slots;
    json["program_hash"] = absl::BytesToHexString(report.proven->program_hash);
  }
  if (!detail) return json;
  const std::vector<IdleTime> idle = IdleByCause(timeline);
  json["idle"] = Json::array();
  for (const IdleTime& worker : idle) json["idle"].push_back(IdleJson(worker));
  json["idle_total"] = IdleJson(Total(idle));
  json["critical_path"] = PathJson(timeline);
  json["memory"] = MemoryJson(timeline);
  return json;
}

std::string ReportText(const ScheduleReport& report) {
  const Timeline& timeline = report.timed.timeline;
  std::string text = absl::StrCat(ScheduleTitle(report.timed), "\n");
  const auto line = [&text](absl::string_view name, absl::string_view value) {
    absl::StrAppendFormat(&text, "  %-22s %s\n", name, value);
  };
  if (report.timed.problem.objective == Objective::kSpan) {
    line("step", BoundText(report.timed));
  } else {
    line("step", Number(timeline.makespan));
    line("longest interval", BoundText(report.timed));
  }
  line("bubble", absl::StrCat(Percent(timeline.bubble_ratio_span), " of the span, ",
                              Percent(timeline.bubble_ratio_device), " of the longest worker's interval (device)"));
  line("critical", CriticalStageText(timeline, report.timed.table.num_stages()));
  line("one more micro-batch", OneMoreText(report));
  line("idle", IdleText(Total(IdleByCause(timeline))));
  line("programs", ProofText(report));
  return absl::StrCat(text, "\n", WorkerTable(timeline), "\n", TimelineText(timeline, kColumns));
}

}  // namespace stagecoach
