#ifndef STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_CSV_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_CSV_H_

#include <string>

#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// PyTorch's compute-only format: a row for each worker, cells like 2F0 and 2B0 in execution order, no header, no cells
// for idle time.
std::string ComputeCsv(const v1::ComputeTable& table);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_CSV_H_
