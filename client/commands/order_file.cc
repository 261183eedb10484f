#include "client/commands/order_file.h"

#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "common/status_macros.h"
#include "coordinator/schedule/action_sheet.h"
#include "coordinator/schedule/given_order.h"
#include "coordinator/schedule/sheet_checks.h"
#include "coordinator/spec/schedule_value.h"

namespace stagecoach {
namespace {

// Files have spaces and empty cells that orders have not.
constexpr uint64_t kMaxFileBytes = 8 * kMaxOrderBytes;

absl::StatusOr<v1::ComputeTable> ReadOrder(const std::string& text) {
  STAGECOACH_ASSIGN_OR_RETURN(const ActionSheet sheet, ReadActionCsv(text));
  if (LevelOf(sheet) == SheetLevel::kLowered) {
    const absl::Status error = TableOfSheet(sheet, kOwnOrder).status();
    return absl::InvalidArgumentError(
        absl::StrCat(error.message(), "; this is a lowered file, and a job lowers its order itself"));
  }
  STAGECOACH_ASSIGN_OR_RETURN(v1::ComputeTable table, TableOfSheet(sheet, kOwnOrder));
  STAGECOACH_RETURN_IF_ERROR(GivenOrder::Create(table).status());
  return table;
}

}  // namespace

absl::StatusOr<v1::ComputeTable> ReadOrderFile(const std::string& path) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::string text, ReadFile(FileSystem::Posix(), path, kMaxFileBytes));
  absl::StatusOr<v1::ComputeTable> order = ReadOrder(text);
  if (!order.ok()) return WithContext(order.status(), path);
  return order;
}

}  // namespace stagecoach
