#ifndef STAGECOACH_COORDINATOR_SPEC_SCHEDULE_VALUE_H_
#define STAGECOACH_COORDINATOR_SPEC_SCHEDULE_VALUE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/spec/spec_node.h"
#include "coordinator/spec/spec_problems.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// What parallelism.schedule is when the order of execution is the user's own. In the file: the path of a CSV, or the
// rows of one as a list. Resolved: this word, with ParallelismSpec.order.
inline constexpr absl::string_view kOwnOrder = "csv";

inline constexpr absl::string_view kScheduleNames = "auto|gpipe|1f1b|interleaved|zb_h1|zb_h2|zb_v|v_half|dualpipe_v";
inline constexpr absl::string_view kLaterSchedules = "looped_bfs|v_min";

// Larger ones leave no room in a specification of kMaxSpecBytes, in which they are stored and sent.
inline constexpr size_t kMaxOrderBytes = kMaxSpecBytes / 4 * 3;  // as rows

// A reader and a printer of the key; see SchemaField. A path is left as it is, for ReadScheduleFile. That actions are
// there once and in an order that ends is not looked at: see GivenOrder (coordinator/schedule).
void ParseSchedule(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintSchedule(const v1::JobSpec& spec);

// Whether it is the path of a file that has not been read.
bool NamesScheduleFile(const v1::ParallelismSpec& parallelism);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_SCHEDULE_VALUE_H_
