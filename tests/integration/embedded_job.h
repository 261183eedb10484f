#ifndef STAGECOACH_TESTS_INTEGRATION_EMBEDDED_JOB_H_
#define STAGECOACH_TESTS_INTEGRATION_EMBEDDED_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "worker/device/device_factory.h"

namespace stagecoach {

// A small GPT-2 on a text file made for the purpose, in a directory of its own that the destructor removes.
//
//   EmbeddedJob job;
//   job.spec().mutable_training()->set_steps(3);
//   const EmbeddedJob::Result result = job.Run(/*workers=*/2);
class EmbeddedJob {
 public:
  EmbeddedJob();
  ~EmbeddedJob();

  v1::JobSpec& spec() { return spec_; }
  const std::string& directory() const { return directory_; }

  struct Result {
    std::vector<v1::StepEvent> steps;
    std::vector<v1::JobStatus> statuses;
    v1::Job job;
    std::vector<double> losses() const;
  };
  // Runs to the end, on the cpu unless another device is given. Test failures, and an empty result, for what is not the
  // job's.
  Result Run(uint32_t workers);
  Result Run(uint32_t workers, DeviceFactory device);

 private:
  std::string directory_;
  v1::JobSpec spec_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_INTEGRATION_EMBEDDED_JOB_H_
