#include "client/output/schedule_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stagecoach {
namespace {

// What it gains on the best that has a name. Candidates are best first, and the chosen one is the first of all.
std::string GainText(const v1::Plan& plan) {
  for (const v1::PlanCandidate& candidate : plan.candidates()) {
    if (candidate.schedule() == plan.schedule() || candidate.step_seconds() <= 0) continue;
    return absl::StrFormat(", a step %.1f%% shorter than that of %s",
                           100 * (1 - plan.step_seconds() / candidate.step_seconds()), candidate.schedule());
  }
  return "";
}

}  // namespace

std::string ScheduleText(const v1::Plan& plan) {
  if (plan.schedule() == "csv") return "csv (the order of the specification)";
  if (plan.schedule() != "auto") return plan.schedule();
  return absl::StrCat(plan.schedule(), " (an order searched for this job", GainText(plan), ")");
}

}  // namespace stagecoach
