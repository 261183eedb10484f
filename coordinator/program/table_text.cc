#include "coordinator/program/table_text.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"
#include "coordinator/program/text_line.h"
#include "coordinator/schedule/action_sheet.h"
#include "coordinator/schedule/compute_table.h"
#include "coordinator/schedule/sheet_checks.h"
#include "xxhash.h"

namespace stagecoach {
namespace {

template <typename Message>
std::string FirstLine(absl::string_view level, const Message& message) {
  return absl::StrCat(level, " ", message.schedule(), " stages ", message.num_stages(), " micro_batches ",
                      message.num_micro_batches(), "\n");
}

std::string HashOfText(absl::string_view text) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(text.data(), text.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest));
}

struct Head {
  std::string schedule;
  uint32_t num_stages = 0;
  uint32_t num_micro_batches = 0;
};

absl::StatusOr<Head> ParseHead(absl::string_view level, std::vector<TextLine>& lines) {
  if (lines.empty()) return absl::InvalidArgumentError("the text is empty");
  TextLine& line = lines.front();
  Head head;
  STAGECOACH_RETURN_IF_ERROR(line.Expect(level));
  STAGECOACH_ASSIGN_OR_RETURN(const absl::string_view schedule, line.Word("schedule's name"));
  head.schedule = std::string(schedule);
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t num_stages, line.Labelled("stages", kMaxStages));
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t num_micro_batches, line.Labelled("micro_batches", kMaxMicroBatches));
  head.num_stages = static_cast<uint32_t>(num_stages);
  head.num_micro_batches = static_cast<uint32_t>(num_micro_batches);
  STAGECOACH_RETURN_IF_ERROR(line.ExpectEnd());
  return head;
}

absl::Status ParseWorker(TextLine& line, size_t number) {
  STAGECOACH_RETURN_IF_ERROR(line.Expect("worker"));
  return line.Expect(absl::StrCat(number));
}

absl::Status AddCell(TextLine& line, ActionSheet& sheet) {
  const CellPlace place = line.place();
  STAGECOACH_ASSIGN_OR_RETURN(v1::Action action, line.Action());
  sheet.rows.back().push_back({.action = std::move(action), .sharding = ShardingKind::kNone, .place = place});
  return absl::OkStatus();
}

// The sheet is the table that the first line announces.
absl::StatusOr<v1::ComputeTable> FinishTable(const Head& head, const ActionSheet& sheet) {
  STAGECOACH_ASSIGN_OR_RETURN(v1::ComputeTable table, TableOfSheet(sheet, head.schedule));
  if (table.num_stages() == head.num_stages && table.num_micro_batches() == head.num_micro_batches) return table;
  return absl::InvalidArgumentError(absl::StrCat("the first line says ", head.num_stages, " stages and ",
                                                 head.num_micro_batches, " micro-batches; the actions are those of ",
                                                 table.num_stages(), " and ", table.num_micro_batches()));
}

absl::Status ParseTimedLine(TextLine& line, ActionSheet& sheet, v1::TimedWorker& worker) {
  if (line.TakeIf("holds")) {
    v1::MemoryPoint& point = *worker.add_memory();
    STAGECOACH_ASSIGN_OR_RETURN(const double seconds, line.Real("time"));
    STAGECOACH_ASSIGN_OR_RETURN(const double activations, line.Real("number of activations"));
    STAGECOACH_ASSIGN_OR_RETURN(const double pending, line.Real("number of pending weights"));
    point.set_seconds(seconds);
    point.set_activations(activations);
    point.set_pending_weight(pending);
    return line.ExpectEnd();
  }
  const double free_from = worker.actions().empty() ? 0 : worker.actions().rbegin()->end_seconds();
  STAGECOACH_RETURN_IF_ERROR(AddCell(line, sheet));
  STAGECOACH_ASSIGN_OR_RETURN(const double start, line.Real("start"));
  if (start < free_from) return line.Error("the action starts at ", start, ", before ", free_from);
  STAGECOACH_ASSIGN_OR_RETURN(const double end, line.Real("end"));
  if (end < start) return line.Error("the action ends at ", end, ", before it starts");
  v1::TimedAction& timed = *worker.add_actions();
  *timed.mutable_action() = sheet.rows.back().back().action;
  timed.set_start_seconds(start);
  timed.set_end_seconds(end);
  return line.ExpectEnd();
}

}  // namespace

std::string TableText(const v1::ComputeTable& table) {
  std::string text = FirstLine("table", table);
  for (int worker = 0; worker < table.workers_size(); ++worker) {
    absl::StrAppend(&text, "worker ", worker);
    for (const v1::Action& action : table.workers(worker).actions()) absl::StrAppend(&text, " ", ActionText(action));
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string TimedTableText(const v1::TimedTable& timeline) {
  std::string text = FirstLine("timeline", timeline);
  for (int worker = 0; worker < timeline.workers_size(); ++worker) {
    absl::StrAppend(&text, "worker ", worker, "\n");
    for (const v1::TimedAction& timed : timeline.workers(worker).actions()) {
      absl::StrAppend(&text, ActionText(timed.action()), " ", RealText(timed.start_seconds()), " ",
                      RealText(timed.end_seconds()), "\n");
    }
    for (const v1::MemoryPoint& point : timeline.workers(worker).memory()) {
      absl::StrAppend(&text, "holds ", RealText(point.seconds()), " ", RealText(point.activations()), " ",
                      RealText(point.pending_weight()), "\n");
    }
  }
  return text;
}

absl::StatusOr<v1::ComputeTable> ParseTableText(absl::string_view text) {
  std::vector<TextLine> lines = TextLines(text);
  STAGECOACH_ASSIGN_OR_RETURN(const Head head, ParseHead("table", lines));
  ActionSheet sheet;
  for (size_t i = 1; i < lines.size(); ++i) {
    STAGECOACH_RETURN_IF_ERROR(ParseWorker(lines[i], sheet.rows.size()));
    sheet.rows.emplace_back();
    while (!lines[i].at_end()) STAGECOACH_RETURN_IF_ERROR(AddCell(lines[i], sheet));
  }
  return FinishTable(head, sheet);
}

absl::StatusOr<v1::TimedTable> ParseTimedTableText(absl::string_view text) {
  std::vector<TextLine> lines = TextLines(text);
  STAGECOACH_ASSIGN_OR_RETURN(const Head head, ParseHead("timeline", lines));
  v1::TimedTable timeline;
  timeline.set_schedule(head.schedule);
  timeline.set_num_stages(head.num_stages);
  timeline.set_num_micro_batches(head.num_micro_batches);
  ActionSheet sheet;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].TakeIf("worker")) {
      STAGECOACH_RETURN_IF_ERROR(lines[i].Expect(absl::StrCat(sheet.rows.size())));
      STAGECOACH_RETURN_IF_ERROR(lines[i].ExpectEnd());
      sheet.rows.emplace_back();
      timeline.add_workers();
      continue;
    }
    if (sheet.rows.empty()) return lines[i].Error("expected worker 0");
    v1::TimedWorker& worker = *timeline.mutable_workers(timeline.workers_size() - 1);
    STAGECOACH_RETURN_IF_ERROR(ParseTimedLine(lines[i], sheet, worker));
  }
  STAGECOACH_RETURN_IF_ERROR(FinishTable(head, sheet).status());
  return timeline;
}

std::string ContentHash(const v1::ComputeTable& table) { return HashOfText(TableText(table)); }
std::string ContentHash(const v1::TimedTable& timeline) { return HashOfText(TimedTableText(timeline)); }

}  // namespace stagecoach
