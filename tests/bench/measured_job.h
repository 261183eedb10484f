#ifndef STAGECOACH_TESTS_BENCH_MEASURED_JOB_H_
#define STAGECOACH_TESTS_BENCH_MEASURED_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "stagecoach/v1/job.pb.h"
#include "worker/device/device_factory.h"

namespace stagecoach {

// Ends the program with the message when the status is not OK.
void Require(const absl::Status& status);
double Median(std::vector<double> values);

// A specification for workers of one thread; the overrides are as the command line's --set. Ends the program when it is
// wrong.
v1::JobSpec RequireSpec(const std::string& text, const std::vector<std::string>& overrides);

// Trains in this process and calls `on_step` after each step, until it returns false or `is_done`, asked every now and
// then, returns true: the job is given up there, between two operations, and writes no checkpoint. Ends the program
// when the job fails or ends before.
void TrainUntil(const v1::JobSpec& spec, uint32_t num_workers, const DeviceFactory& device,
                const std::function<bool(const v1::StepEvent&)>& on_step, const std::function<bool()>& is_done);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_BENCH_MEASURED_JOB_H_
