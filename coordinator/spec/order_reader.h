#ifndef STAGECOACH_COORDINATOR_SPEC_ORDER_READER_H_
#define STAGECOACH_COORDINATOR_SPEC_ORDER_READER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/job_spec_parser.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Reads the CSV that parallelism.schedule names. Errors begin with the path.
using OrderReader = std::function<absl::StatusOr<v1::ComputeTable>(const std::string& path)>;

// ParseJobSpec for whoever has the user's files: what `read_order` gives takes the place of the path. Without it, as in
// ParseJobSpec, a path is an error.
absl::StatusOr<v1::JobSpec> ParseJobSpecWith(absl::string_view text, const std::vector<SpecOverride>& overrides,
                                             const OrderReader& read_order, std::vector<SpecError>& errors);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_ORDER_READER_H_
