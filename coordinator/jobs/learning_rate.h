#ifndef STAGECOACH_COORDINATOR_JOBS_LEARNING_RATE_H_
#define STAGECOACH_COORDINATOR_JOBS_LEARNING_RATE_H_

#include <cstdint>

#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// The learning rate of a step (1-based). Warm-up: lr x step / warmup_steps, up to lr at warmup_steps. Then constant
// stays at lr; linear and cosine fall from lr at warmup_steps to min_lr at decay_steps and stay there. A function of
// the step alone, so a skipped step uses up its rate. Pure.
double LearningRateOfStep(const v1::LearningRateSpec& schedule, double lr, uint64_t step);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_LEARNING_RATE_H_
