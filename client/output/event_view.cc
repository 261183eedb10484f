#include "client/output/event_view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/coordinator_client/enum_text.h"
#include "client/output/job_view.h"
#include "client/output/times.h"

namespace stagecoach {
namespace {

// What all kinds have, in words.
struct EventText {
  Cell kind;
  std::string reason;
  std::string message;
};

EventText Describe(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kStatus: {
      const std::string cause = RootCauseText(event.status());
      return {StateCell(event.status().state()), event.status().reason(),
              cause.empty() ? event.status().message() : absl::StrCat(event.status().message(), " [", cause, "]")};
    }
    case v1::JobEvent::kStep:
      return {"STEP", "", absl::StrFormat("step %d, loss %.4f", event.step().step(), event.step().loss())};
    case v1::JobEvent::kValidation:
      return {"VALIDATION", "",
              absl::StrFormat("step %d, loss %.4f", event.validation().step(), event.validation().loss())};
    case v1::JobEvent::kNote:
      return {"NOTE", event.note().reason(), event.note().message()};
    case v1::JobEvent::EVENT_NOT_SET:
      break;
  }
  return {"UNKNOWN", "", "an event of a newer coordinator"};
}

}  // namespace

Json EventJson(const std::string& job, const v1::JobEvent& event) {
  const EventText text = Describe(event);
  Json json = {{"sequence", event.sequence()},
               {"time", event.has_time() ? Json(Rfc3339(FromProto(event.time()))) : Json(nullptr)},
               {"job", job},
               {"reason", text.reason},
               {"message", text.message}};
  if (event.has_status()) json["status"] = ToJson(event.status());
  if (event.has_step()) json["step"] = StepJson(event.step());
  if (event.has_validation()) json["validation"] = ToJson(event.validation());
  if (event.num_missing() > 0) json["num_missing"] = event.num_missing();
  return json;
}

std::vector<std::string> EventHeaders(bool wide) {
  std::vector<std::string> headers = {"TIME", "JOB", "EVENT", "REASON", "MESSAGE"};
  if (wide) headers.insert(headers.begin(), "SEQUENCE");
  return headers;
}

std::vector<Cell> EventRow(const std::string& job, const v1::JobEvent& event, bool wide) {
  const EventText text = Describe(event);
  std::vector<Cell> row = {event.has_time() ? LocalTime(FromProto(event.time())) : "", job, text.kind, text.reason,
                           text.message};
  if (wide) row.insert(row.begin(), absl::StrCat(event.sequence()));
  return row;
}

Json LogJson(const std::string& job, const v1::LogRecord& record) {
  const v1::LogLine& line = record.line();
  return {{"time", line.has_time() ? Json(Rfc3339(FromProto(line.time()))) : Json(nullptr)},
          {"job", job},
          {"worker", record.worker()},
          {"stages", line.stages()},
          {"severity", EnumText(line.severity())},
          {"text", line.text()}};
}

std::string LogText(const v1::LogRecord& record, bool times, bool colour) {
  const v1::LogLine& line = record.line();
  Tone tone = Tone::kPlain;
  if (line.severity() == v1::LOG_SEVERITY_WARNING) tone = Tone::kWarning;
  if (line.severity() == v1::LOG_SEVERITY_ERROR) tone = Tone::kBad;
  const std::string time = times && line.has_time() ? absl::StrCat(LocalTime(FromProto(line.time())), " ") : "";
  return absl::StrCat(time, record.worker(), " | ", Coloured({Printable(line.text()), tone}, colour));
}

}  // namespace stagecoach
