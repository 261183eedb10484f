#include "coordinator/jobs/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// Keeps the quotient finite for a norm of zero; small enough not to matter for any other.
constexpr double kNormEpsilon = 1e-6;

// Of the gradients as they are, loss scale included.
absl::StatusOr<double> SumSquaredNorms(const std::vector<std::shared_ptr<const v1::StepPrepared>>& votes) {
  std::map<std::string, double> by_name;  // std::string compares bytewise
  for (const auto& vote : votes) {
    for (const v1::SquaredNorm& norm : vote->squared_norms()) {
      if (!by_name.emplace(norm.name(), norm.value()).second) {
        return absl::InternalError(absl::StrCat("two stages reported the gradient norm of ", norm.name()));
      }
    }
  }
  double sum = 0;
  for (const auto& [name, value] : by_name) sum += value;
  return sum;
}

}  // namespace

absl::StatusOr<double> SumLossParts(const std::vector<v1::LossPart>& parts, const std::vector<uint32_t>& samples) {
  std::vector<const v1::LossPart*> by_micro_batch(samples.size(), nullptr);
  for (const v1::LossPart& part : parts) {
    if (part.micro_batch() >= samples.size() || by_micro_batch[part.micro_batch()] != nullptr) {
      return absl::InternalError(
          absl::StrCat("the loss of micro-batch ", part.micro_batch(), " of ", samples.size(), " was not expected"));
    }
    by_micro_batch[part.micro_batch()] = &part;
  }
  double loss = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] == 0) continue;
    if (by_micro_batch[i] == nullptr) {
      return absl::InternalError(absl::StrCat("no stage reported the loss of micro-batch ", i));
    }
    loss += by_micro_batch[i]->value();
  }
  return loss;
}

absl::StatusOr<v1::CommitRecord> DecideVerdict(const VerdictInput& input) {
  std::vector<v1::LossPart> parts;
  uint64_t num_non_finite = 0;
  for (const auto& vote : input.votes) {
    parts.insert(parts.end(), vote->loss_parts().begin(), vote->loss_parts().end());
    num_non_finite += vote->num_non_finite();
  }
  STAGECOACH_ASSIGN_OR_RETURN(const double loss, SumLossParts(parts, input.samples));
  STAGECOACH_ASSIGN_OR_RETURN(const double squared_norm, SumSquaredNorms(input.votes));
  const double grad_norm = std::sqrt(squared_norm) / input.loss_scale;
  const bool apply = num_non_finite == 0 && std::isfinite(grad_norm);

  v1::CommitRecord record;
  record.set_step(input.step);
  record.set_verdict(apply ? v1::VERDICT_APPLY : v1::VERDICT_SKIP);
  record.set_clip_factor(
      apply && input.max_grad_norm > 0 ? std::min(1.0, input.max_grad_norm / (grad_norm + kNormEpsilon)) : 1.0);
  record.set_learning_rate(input.learning_rate);
  record.set_num_updates(input.num_updates_before + (apply ? 1 : 0));
  record.set_loss_scale(input.loss_scale);
  record.set_next_loss_scale(input.loss_scale);
  record.set_loss(loss);
  record.set_grad_norm(grad_norm);
  return record;
}

}  // namespace stagecoach
