#ifndef STAGECOACH_COORDINATOR_RESUME_SPEC_CHANGES_H_
#define STAGECOACH_COORDINATOR_RESUME_SPEC_CHANGES_H_

#include <string>
#include <vector>

#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// What a job that resumes has otherwise than the one that wrote its checkpoint, each as "training.steps: 20 -> 40".
struct SpecChanges {
  // The state would not fit, or not mean the same: the model's shape, the tokenizer, which samples a step has, the
  // optimizer's kind, the precision.
  std::vector<std::string> forbidden;
  // Training goes on otherwise from here: learning rate, steps, regularisation, anything else that the bits depend on.
  std::vector<std::string> allowed;
};

// Of two resolved specifications. What the bits do not depend on is not compared: names, where and when checkpoints are
// written, how layers are cut and scheduled; nor where the training data is. Pure.
SpecChanges CompareSpecs(const v1::JobSpec& written_by, const v1::JobSpec& resumed_by);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_RESUME_SPEC_CHANGES_H_
