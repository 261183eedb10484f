#include "client/output/worker_view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/coordinator_client/enum_text.h"
#include "client/output/times.h"

namespace stagecoach {
namespace {

Cell StateCell(v1::WorkerState state) {
  switch (state) {
    case v1::WORKER_STATE_BUSY:
      return {EnumText(state), Tone::kGood};
    case v1::WORKER_STATE_SUSPECT:
    case v1::WORKER_STATE_LEAVING:
      return {EnumText(state), Tone::kWarning};
    case v1::WORKER_STATE_LOST:
      return {EnumText(state), Tone::kBad};
    default:
      return EnumText(state);
  }
}

std::string Gibibytes(uint64_t bytes) {
  return absl::StrFormat("%.1fGiB", static_cast<double>(bytes) / (uint64_t{1} << 30));
}

std::string LastSeen(const v1::WorkerDescription& worker) {
  return absl::StrFormat("%.1fs", worker.last_seen_seconds());
}

}  // namespace

Json WorkerJson(const v1::WorkerDescription& worker) { return ToJson(worker); }

std::vector<std::string> WorkerHeaders(bool wide) {
  std::vector<std::string> headers = {"NAME", "STATE", "JOB", "STAGES", "DEVICE", "PID", "LAST-SEEN"};
  if (wide) headers.insert(headers.end(), {"HOST", "INCARNATION", "THREADS", "MEMORY", "NUMERICS-CLASS", "MESSAGE"});
  return headers;
}

std::vector<Cell> WorkerRow(const v1::WorkerDescription& worker, bool wide) {
  std::vector<Cell> row = {
      worker.name(),   StateCell(worker.state()),  worker.job(),    absl::StrJoin(worker.stages(), ","),
      worker.device(), absl::StrCat(worker.pid()), LastSeen(worker)};
  if (wide) {
    row.insert(row.end(), {worker.host(), absl::StrCat(worker.incarnation()), absl::StrCat(worker.max_threads()),
                           Gibibytes(worker.memory_bytes()), worker.numerics_class(), worker.message()});
  }
  return row;
}

std::string WorkerText(const v1::WorkerDescription& worker, bool colour) {
  std::string text;
  const auto add = [&](absl::string_view name, const Cell& value) {
    if (value.text.empty()) return;
    absl::StrAppend(&text, absl::StrFormat("%-16s", absl::StrCat(name, ":")),
                    Coloured({Printable(value.text), value.tone}, colour), "\n");
  };
  add("Name", worker.name());
  add("State", StateCell(worker.state()));
  add("Message", worker.message());
  add("Job", worker.job());
  add("Stages", absl::StrJoin(worker.stages(), ", "));
  add("Device", worker.device());
  add("Numerics class", worker.numerics_class());
  add("Threads", absl::StrCat(worker.max_threads()));
  add("Memory", Gibibytes(worker.memory_bytes()));
  add("Host", worker.host());
  add("Pid", absl::StrCat(worker.pid()));
  add("Incarnation", absl::StrCat(worker.incarnation()));
  add("Last seen", absl::StrCat(LastSeen(worker), " ago"));
  return text;
}

}  // namespace stagecoach
