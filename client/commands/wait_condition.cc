#include "client/commands/wait_condition.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/coordinator_client/job_states.h"
#include "common/quoted.h"

namespace stagecoach {
namespace {

bool IsMet(const WaitCondition& condition, const v1::Job& job) {
  const v1::JobStatus& status = job.status();
  switch (condition.kind) {
    case WaitCondition::Kind::kRunning:
      return status.state() == v1::JOB_STATE_RUNNING || status.state() == v1::JOB_STATE_SUCCEEDED;
    case WaitCondition::Kind::kStep:
      return status.step() >= condition.step;
    case WaitCondition::Kind::kCheckpoint:
      return !job.checkpoint_directory().empty();
    case WaitCondition::Kind::kTerminal:
      break;
  }
  return IsTerminal(status.state());
}

}  // namespace

absl::StatusOr<WaitCondition> ParseWaitCondition(absl::string_view text) {
  using Kind = WaitCondition::Kind;
  if (text == "running") return WaitCondition{.kind = Kind::kRunning};
  if (text == "checkpoint") return WaitCondition{.kind = Kind::kCheckpoint};
  if (text == "terminal") return WaitCondition{.kind = Kind::kTerminal};
  absl::string_view number = text;
  WaitCondition condition{.kind = Kind::kStep};
  if (absl::ConsumePrefix(&number, "step=") && std::all_of(number.begin(), number.end(), absl::ascii_isdigit) &&
      absl::SimpleAtoi(number, &condition.step)) {
    return condition;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " cannot be waited for; there is running, step=N, checkpoint, terminal"));
}

WaitProgress Evaluate(const WaitCondition& condition, const v1::Job& job) {
  if (IsMet(condition, job)) return WaitProgress::kMet;
  return IsTerminal(job.status().state()) ? WaitProgress::kNever : WaitProgress::kNotYet;
}

}  // namespace stagecoach
