#include "worker/device/cpu/instruction_set.h"

#include "absl/strings/str_cat.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/instruction_set.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {

const char* TargetOfThisCode() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace stagecoach {

HWY_EXPORT(TargetOfThisCode);

std::string InstructionSetName() { return HWY_DYNAMIC_DISPATCH(TargetOfThisCode)(); }

absl::Status CheckInstructionSet() {
  if ((hwy::SupportedTargets() & HWY_TARGETS) != 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("device cpu: this processor lacks the instruction set ", hwy::TargetName(HWY_STATIC_TARGET),
                   ", the least that the kernels are compiled for; run the worker on a newer one"));
}

}  // namespace stagecoach

#endif  // HWY_ONCE
