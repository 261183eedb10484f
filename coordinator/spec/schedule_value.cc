#include "coordinator/spec/schedule_value.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/action_parser.h"
#include "common/action_text.h"
#include "common/quoted.h"
#include "coordinator/spec/job_spec_schema.h"
#include "coordinator/spec/spec_values.h"

namespace stagecoach {
namespace {

// As the tags of transfers allow. What is larger would fill the memory of whoever counts stages.
constexpr uint32_t kMaxStages = 4096;
constexpr uint32_t kMaxMicroBatches = 65535;

bool IsPath(absl::string_view text) { return absl::StrContains(text, '/') || absl::EndsWith(text, ".csv"); }

absl::StatusOr<v1::Action> ReadCell(absl::string_view cell) {
  absl::StatusOr<v1::Action> action = ParseActionText(cell);
  if (!action.ok()) return action;
  if (action->kind() < v1::ACTION_KIND_FORWARD || action->kind() > v1::ACTION_KIND_BACKWARD_WEIGHT) {
    return absl::InvalidArgumentError("an order has F, B, I and W alone");
  }
  if (action->stage() >= kMaxStages || action->micro_batch() >= kMaxMicroBatches) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are at most ", kMaxStages, " stages and ", kMaxMicroBatches, " micro-batches"));
  }
  return action;
}

// One worker's row; false: a problem was added.
bool ReadRow(const SpecNode& node, const std::string& path, v1::ComputeTable& order, SpecProblems& problems) {
  const std::optional<std::string> text = ReadText(node, path, problems);
  if (!text.has_value()) return false;
  v1::WorkerActions& row = *order.add_workers();
  size_t number = 0;
  for (const absl::string_view part : absl::StrSplit(*text, ',')) {
    ++number;
    const absl::string_view cell = absl::StripAsciiWhitespace(part);
    absl::StatusOr<v1::Action> action = ReadCell(cell);
    if (!action.ok()) {
      problems.Add(node, path, absl::StrCat("cell ", number, ": ", Quoted(cell, 40), ": ", action.status().message()));
      return false;
    }
    order.set_num_stages(std::max(order.num_stages(), action->stage() + 1));
    order.set_num_micro_batches(std::max(order.num_micro_batches(), action->micro_batch() + 1));
    *row.add_actions() = *std::move(action);
  }
  return true;
}

void ParseRows(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  v1::ComputeTable order;
  order.set_schedule(std::string(kOwnOrder));
  if (node.children.empty()) {
    problems.Add(node, path, "the list is empty", "an order has a row for each worker: [\"0F0,0B0\", \"1F0,1B0\"]");
    return;
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (!ReadRow(node.children[i], absl::StrCat(path, "[", i, "]"), order, problems)) return;
  }
  spec.mutable_parallelism()->set_schedule(std::string(kOwnOrder));
  *spec.mutable_parallelism()->mutable_order() = std::move(order);
}

void ParsePath(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  const absl::StatusOr<std::string> checked = CheckPath(node.scalar);
  if (!checked.ok()) {
    problems.Add(node, path, checked.status().message());
    return;
  }
  spec.mutable_parallelism()->set_schedule(*checked);
}

}  // namespace

void ParseSchedule(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  if (node.kind == SpecNode::Kind::kSequence) return ParseRows(node, path, spec, problems);
  if (node.kind == SpecNode::Kind::kScalar && IsPath(node.scalar)) return ParsePath(node, path, spec, problems);
  const std::optional<std::string> word = ReadChoice(node, path, kScheduleNames, kLaterSchedules, problems);
  if (word.has_value()) spec.mutable_parallelism()->set_schedule(*word);
}

std::string PrintSchedule(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  if (parallelism.schedule() != kOwnOrder) {
    // A word of the table needs no quotes, though it may begin with a digit.
    const std::vector<absl::string_view> names = absl::StrSplit(kScheduleNames, '|');
    const bool is_name = std::find(names.begin(), names.end(), parallelism.schedule()) != names.end();
    return is_name ? parallelism.schedule() : PrintText(parallelism.schedule());
  }
  if (parallelism.order().workers().empty()) return "[]";
  std::string text;
  for (const v1::WorkerActions& row : parallelism.order().workers()) {
    const auto append = [](std::string* out, const v1::Action& action) { out->append(ActionText(action)); };
    absl::StrAppend(&text, "\n    - ", PrintText(absl::StrJoin(row.actions(), ",", append)));
  }
  return text;
}

bool NamesScheduleFile(const v1::ParallelismSpec& parallelism) { return IsPath(parallelism.schedule()); }

}  // namespace stagecoach
