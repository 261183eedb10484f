#include "client/output/job_view.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/coordinator_client/enum_text.h"
#include "client/coordinator_client/job_states.h"
#include "client/output/schedule_text.h"
#include "client/output/times.h"

namespace stagecoach {
namespace {

Json TimeJson(bool known, const google::protobuf::Timestamp& time) {
  return known ? Json(Rfc3339(FromProto(time))) : Json(nullptr);
}

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// The worker that holds a stage; empty while there is none.
std::string WorkerOf(const v1::Job& job, const v1::StagePlan& stage) {
  if (stage.worker_rank() >= static_cast<uint32_t>(job.placement().members_size())) return "";
  return job.placement().members(static_cast<int>(stage.worker_rank())).worker();
}

Json StagesJson(const v1::Job& job) {
  Json stages = Json::array();
  for (int i = 0; i < job.plan().stages_size(); ++i) {
    const v1::StagePlan& stage = job.plan().stages(i);
    const auto& utilization = job.last_step().stage_utilization();
    stages.push_back({{"stage", i},
                      {"worker", WorkerOf(job, stage)},
                      {"worker_rank", stage.worker_rank()},
                      {"first_layer", stage.first_layer()},
                      {"last_layer", stage.last_layer()},
                      {"parameters", stage.parameters()},
                      {"memory_bytes", stage.memory_bytes().total()},
                      {"utilization", i < utilization.size() ? Number(utilization[i]) : Json(nullptr)}});
  }
  return stages;
}

std::string LossText(const v1::Job& job) {
  return job.has_last_step() ? absl::StrFormat("%.4f", job.last_step().loss()) : "";
}

std::string StageNumbers(const google::protobuf::RepeatedField<uint32_t>& stages) {
  return absl::StrCat(stages.size() == 1 ? "stage " : "stages ", absl::StrJoin(stages, ", "));
}

// Lines of "Name:   value", without those that have none.
class Fields {
 public:
  void Add(absl::string_view name, const Cell& value, bool colour = false) {
    if (value.text.empty()) return;
    absl::StrAppend(&text_, absl::StrFormat("%-14s", absl::StrCat(name, ":")),
                    Coloured({Printable(value.text), value.tone}, colour), "\n");
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string TimeText(bool known, const google::protobuf::Timestamp& time, absl::Time now) {
  if (!known) return "";
  return absl::StrCat(LocalTime(FromProto(time)), " (", ShortDuration(now - FromProto(time)), " ago)");
}

std::string StageTable(const v1::Job& job) {
  Table table({"STAGE", "WORKER", "LAYERS", "PARAMETERS", "MEMORY", "UTILIZATION"});
  for (int i = 0; i < job.plan().stages_size(); ++i) {
    const v1::StagePlan& stage = job.plan().stages(i);
    const auto& utilization = job.last_step().stage_utilization();
    table.AddRow({absl::StrCat(i), WorkerOf(job, stage), absl::StrCat(stage.first_layer(), "-", stage.last_layer()),
                  absl::StrCat(stage.parameters()),
                  absl::StrFormat("%.1fMiB", static_cast<double>(stage.memory_bytes().total()) / (1 << 20)),
                  i < utilization.size() ? absl::StrFormat("%.1f%%", utilization[i] * 100) : ""});
  }
  return table.Text({});
}

}  // namespace

Json StepJson(const v1::StepEvent& step) {
  Json json = ToJson(step);
  json.erase("validation_follows");
  return json;
}

Json JobJson(const v1::Job& job) {
  const v1::JobStatus& status = job.status();
  Json json = {
      {"name", status.job()},      {"state", EnumText(status.state())},
      {"reason", status.reason()}, {"message", status.message()},
      {"step", status.step()},     {"loss", job.has_last_step() ? Number(job.last_step().loss()) : Json(nullptr)},
      {"epoch", status.epoch()},   {"recoveries", job.recoveries()}};
  if (status.has_root_cause()) json["root_cause"] = ToJson(status.root_cause());
  if (job.has_last_step()) json["last_step"] = StepJson(job.last_step());
  json["checkpoint"] = job.checkpoint_directory();
  json["checkpoint_step"] = job.checkpoint_step();
  json["digest"] = job.digest();
  json["state_digest"] = job.state_digest();
  json["submission_id"] = job.submission_id();
  json["submitted"] = TimeJson(job.has_submitted(), job.submitted());
  json["started"] = TimeJson(job.has_started(), job.started());
  json["ended"] = TimeJson(job.has_ended(), job.ended());
  if (job.has_spec()) {
    json["steps"] = job.spec().training().steps();
    json["stages"] = StagesJson(job);
    if (job.has_plan()) json["plan"] = ToJson(job.plan());
    json["spec"] = ToJson(job.spec());
  }
  return json;
}

Cell StateCell(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_RUNNING:
    case v1::JOB_STATE_SUCCEEDED:
      return {EnumText(state), Tone::kGood};
    case v1::JOB_STATE_FAILED:
      return {EnumText(state), Tone::kBad};
    case v1::JOB_STATE_RECOVERING:
    case v1::JOB_STATE_PAUSED:
    case v1::JOB_STATE_CANCELLING:
    case v1::JOB_STATE_CANCELLED:
      return {EnumText(state), Tone::kWarning};
    default:
      return EnumText(state);
  }
}

std::vector<std::string> JobHeaders(bool wide) {
  std::vector<std::string> headers = {"NAME", "STATE", "REASON", "STEP", "LOSS", "AGE"};
  if (wide) headers.insert(headers.end(), {"EPOCH", "RECOVERIES", "CHECKPOINT", "MESSAGE"});
  return headers;
}

std::vector<Cell> JobRow(const v1::Job& job, absl::Time now, bool wide) {
  const v1::JobStatus& status = job.status();
  std::vector<Cell> row = {status.job(),    StateCell(status.state()),
                           status.reason(), absl::StrCat(status.step()),
                           LossText(job),   job.has_submitted() ? ShortDuration(now - FromProto(job.submitted())) : ""};
  if (wide) {
    row.insert(row.end(), {absl::StrCat(status.epoch()), absl::StrCat(job.recoveries()), job.checkpoint_directory(),
                           status.message()});
  }
  return row;
}

std::string RootCauseText(const v1::JobStatus& status) {
  if (!status.has_root_cause()) return "";
  const v1::RootCause& cause = status.root_cause();
  std::string text = cause.worker();
  if (!cause.stages().empty()) absl::StrAppend(&text, " (", StageNumbers(cause.stages()), ")");
  if (cause.step() > 0) absl::StrAppend(&text, " at step ", cause.step());
  if (!cause.action().empty()) absl::StrAppend(&text, ", ", cause.action());
  return absl::StrCat(text, ": ", cause.message());
}

std::string JobText(const v1::Job& job, absl::Time now, bool colour) {
  const v1::JobStatus& status = job.status();
  Fields fields;
  fields.Add("Name", status.job());
  fields.Add("State", StateCell(status.state()), colour);
  fields.Add("Reason", status.reason());
  fields.Add("Message", status.message());
  fields.Add("Root cause", RootCauseText(status));
  fields.Add("Step", absl::StrCat(status.step(), " of ", job.spec().training().steps()));
  fields.Add("Loss", LossText(job));
  fields.Add("Epoch", absl::StrCat(status.epoch()));
  fields.Add("Recoveries", absl::StrCat(job.recoveries()));
  fields.Add("Submitted", TimeText(job.has_submitted(), job.submitted(), now));
  fields.Add("Started", TimeText(job.has_started(), job.started(), now));
  fields.Add("Ended", TimeText(job.has_ended(), job.ended(), now));
  fields.Add("Submission", job.submission_id());
  fields.Add("Checkpoint", job.checkpoint_directory());
  fields.Add("Digest", job.digest());
  fields.Add("State digest", job.state_digest());
  fields.Add("Schedule", ScheduleText(job.plan()));
  if (job.has_plan() && job.spec().training().micro_batch_size() != 0) {
    fields.Add("Micro-batches", absl::StrCat(job.plan().num_micro_batches(), " of ",
                                             job.spec().training().micro_batch_size(), " samples"));
  }
  if (job.has_plan()) {
    fields.Add("Costs", job.plan().measured_costs() ? "measured on a worker" : "by FLOPs");
    fields.Add("Predicted", absl::StrFormat("%.3f s a step, bubble %.1f%%", job.plan().step_seconds(),
                                            100 * job.plan().bubble_ratio()));
  }
  std::string text = fields.Take();
  if (job.plan().stages_size() > 0) absl::StrAppend(&text, "\n", StageTable(job));
  return text;
}

}  // namespace stagecoach
