#include "coordinator/job_planning.h"

#include <memory>
#include <optional>
#include <utility>

#include "common/status_macros.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/replanning.h"
#include "coordinator/plan/micro_batch_sizes.h"
#include "coordinator/resume/resume_point.h"
#include "formats/corpus_identity.h"
#include "formats/text_corpus.h"

namespace stagecoach {
namespace {

absl::StatusOr<PlannedJob> Plan(const StartPlanning& order, const ResumePoint& point, const Planner& planner) {
  if (order.same_cut_as == nullptr) {
    const bool keeps_size = ChoosesMicroBatchSize(order.spec) && point.micro_batch_size != 0;
    return planner(keeps_size ? WithMicroBatchSize(order.spec, point.micro_batch_size) : order.spec, order.workers);
  }
  if (order.order != nullptr) return LowerAgain(order.spec, *order.same_cut_as, *order.order, order.workers);
  STAGECOACH_ASSIGN_OR_RETURN(const v1::JobSpec spec, SpecOfSameCut(order.spec, *order.same_cut_as));
  return planner(spec, order.workers);
}

// Why a job cannot be resumed: see FindResumePoint.
const char* ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:  // of IdentifyCorpus
      return kReasonInvalidData;
    case absl::StatusCode::kNotFound:
      return kReasonCheckpointNotFound;
    case absl::StatusCode::kDataLoss:
      return kReasonCorruptCheckpoint;
    case absl::StatusCode::kFailedPrecondition:
      return kReasonSpecChanged;
    default:
      return kReasonCheckpointUnreadable;
  }
}

}  // namespace

PlanReady PlanJobOfSpec(const StartPlanning& order, const Planner& planner, FileSystem& files) {
  PlanReady result{order.job, order.attempt, nullptr, kReasonInvalidData};
  absl::StatusOr<TextCorpus> corpus = OpenTextCorpus(order.spec.data(), order.spec.training().seq_len(), files);
  if (!corpus.ok()) {
    result.plan = corpus.status();
    return result;
  }
  // Read once, and not before somebody asks.
  std::optional<absl::StatusOr<CorpusIdentities>> data;
  const auto identify = [&]() -> const absl::StatusOr<CorpusIdentities>& {
    if (!data) data = IdentifyCorpus(*corpus, files);
    return *data;
  };
  ResumePoint point;
  // A job that is planned again goes on from what its workers hold.
  if (order.same_cut_as == nullptr) {
    const auto training_data = [&]() -> absl::StatusOr<CorpusIdentity> {
      STAGECOACH_RETURN_IF_ERROR(identify().status());
      return identify()->training;
    };
    absl::StatusOr<ResumePoint> found = FindResumePoint(files, order.spec, training_data);
    if (!found.ok()) {
      result.plan = found.status();
      result.failure_reason = ReasonOf(found.status());
      return result;
    }
    point = *std::move(found);
    result.resumed = point.resumed;
  }
  absl::StatusOr<PlannedJob> planned = Plan(order, point, planner);
  if (!planned.ok()) {
    result.plan = planned.status();
    result.failure_reason = kReasonPlanningFailed;
    return result;
  }
  if (!identify().ok()) {
    result.plan = identify().status();
    return result;
  }
  result.plan = std::make_shared<const JobPlan>(JobPlan{.planned = *std::move(planned),
                                                        .num_train_samples = corpus->num_train_samples,
                                                        .num_validation_samples = corpus->num_validation_samples,
                                                        .data = identify()->all,
                                                        .training_data = identify()->training});
  return result;
}

}  // namespace stagecoach
