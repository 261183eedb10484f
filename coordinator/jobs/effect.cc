#include "coordinator/jobs/effect.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach {

void Extend(Decision& decision, Decision more) {
  std::move(more.effects.begin(), more.effects.end(), std::back_inserter(decision.effects));
  absl::StrAppend(&decision.reason, decision.reason.empty() ? "" : "; ", more.reason);
}

}  // namespace stagecoach
