#ifndef STAGECOACH_TESTS_INTEGRATION_EMBEDDED_JOB_H_
#define STAGECOACH_TESTS_INTEGRATION_EMBEDDED_JOB_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "tests/integration/small_job.h"
#include "worker/device/device_factory.h"

namespace stagecoach {

// A small job that runs.
//
//   EmbeddedJob job;
//   job.spec().mutable_training()->set_steps(3);
//   const EmbeddedJob::Result result = job.Run(/*workers=*/2);
class EmbeddedJob : public SmallJob {
 public:
  struct Result {
    std::vector<v1::StepEvent> steps;
    std::vector<v1::JobStatus> statuses;
    v1::Job job;
    std::vector<double> losses() const;
    std::vector<double> validation_losses() const;
  };
  // Runs to the end, on the cpu unless another device is given. Test failures, and an empty result, for what is not the
  // job's.
  Result Run(uint32_t workers);
  Result Run(uint32_t workers, DeviceFactory device);

  uint64_t worker_memory_bytes = 0;  // that each worker says it has; 0: its share of the device's
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_INTEGRATION_EMBEDDED_JOB_H_
