#include "worker/optimizer/optimizer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/optimizer/adamw_optimizer.h"
#include "worker/optimizer/sgd_optimizer.h"

namespace stagecoach {
namespace {

absl::Status CheckRange(const char* key, double value, double first, double last) {
  if (value >= first && value < last) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", key, " is ", value, ", must be at least ", first, " and less than ", last));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(const v1::OptimizerSpec& spec) {
  STAGECOACH_RETURN_IF_ERROR(CheckRange("weight_decay", spec.weight_decay(), 0, HUGE_VAL));
  if (spec.name() == "adamw") {
    STAGECOACH_RETURN_IF_ERROR(CheckRange("beta1", spec.beta1(), 0, 1));
    STAGECOACH_RETURN_IF_ERROR(CheckRange("beta2", spec.beta2(), 0, 1));
    STAGECOACH_RETURN_IF_ERROR(CheckRange("eps", spec.eps(), 0, HUGE_VAL));
    return std::make_unique<AdamWOptimizer>(spec);
  }
  if (spec.name() == "sgd") {
    STAGECOACH_RETURN_IF_ERROR(CheckRange("momentum", spec.momentum(), 0, 1));
    return std::make_unique<SgdOptimizer>(spec);
  }
  return absl::InvalidArgumentError(absl::StrCat("optimizer.name is \"", spec.name(), "\", must be adamw or sgd"));
}

absl::StatusOr<double> GradientFactor(const v1::CommitRecord& record) {
  if (!(record.loss_scale() > 0) || record.num_updates() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("commit record of step ", record.step(), " has loss scale ",
                                                   record.loss_scale(), " and ", record.num_updates(),
                                                   " updates; an applied step has at least one update and a positive "
                                                   "loss scale"));
  }
  return record.clip_factor() / record.loss_scale();
}

}  // namespace stagecoach
