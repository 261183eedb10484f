#include "coordinator/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coordinator/schedule/auto_schedule.h"
#include "coordinator/schedule/dualpipe_v.h"
#include "coordinator/schedule/forward_only.h"
#include "coordinator/schedule/gpipe.h"
#include "coordinator/schedule/interleaved.h"
#include "coordinator/schedule/one_f_one_b.h"
#include "coordinator/schedule/v_half.h"
#include "coordinator/schedule/zb_h1.h"
#include "coordinator/schedule/zb_h2.h"
#include "coordinator/schedule/zb_v.h"
#include "coordinator/spec/virtual_stages.h"

namespace stagecoach {
namespace {

// Insertions, deletions and replacements that turn `a` into `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

absl::string_view NearestName(absl::string_view name) {
  absl::string_view nearest = AllSchedules().front()->name();
  for (const Schedule* schedule : AllSchedules()) {
    if (EditDistance(name, schedule->name()) < EditDistance(name, nearest)) nearest = schedule->name();
  }
  return nearest;
}

}  // namespace

uint32_t Schedule::default_chunks() const { return DefaultVirtualStages(name()); }

std::span<const Schedule* const> AllSchedules() {
  static const AutoSchedule automatic;
  static const GpipeSchedule gpipe;
  static const OneForwardOneBackwardSchedule one_f_one_b;
  static const InterleavedSchedule interleaved;
  static const ZbH1Schedule zb_h1;
  static const ZbH2Schedule zb_h2;
  static const ZbVSchedule zb_v;
  static const VHalfSchedule v_half;
  static const DualPipeVSchedule dualpipe_v;
  static const ForwardOnlySchedule forward_only;
  static const auto schedules = std::to_array<const Schedule*>({
      &automatic,
      &gpipe,
      &one_f_one_b,
      &interleaved,
      &zb_h1,
      &zb_h2,
      &zb_v,
      &v_half,
      &dualpipe_v,
      &forward_only,
  });
  return schedules;
}

std::span<const Schedule* const> HandMadeSchedules() { return AllSchedules().subspan(1); }

absl::StatusOr<const Schedule*> FindSchedule(absl::string_view name) {
  constexpr size_t kLongestName = 64;
  const absl::string_view wanted = name.substr(0, kLongestName);
  std::string names;
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->name() == wanted) return schedule;
    absl::StrAppend(&names, names.empty() ? "" : ", ", schedule->name());
  }
  return absl::NotFoundError(
      absl::StrCat("no schedule is named ", wanted, "; did you mean ", NearestName(wanted), "? There are ", names));
}

}  // namespace stagecoach
