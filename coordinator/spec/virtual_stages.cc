#include "coordinator/spec/virtual_stages.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/string_view.h"

namespace stagecoach {
namespace {

// The others put one stage on a worker. The planner's test compares this with the schedules themselves.
constexpr absl::string_view kSchedulesOfTwoStages[] = {"interleaved", "zb_v", "v_half", "dualpipe_v"};

}  // namespace

uint32_t VirtualStagesOf(const v1::ParallelismSpec& parallelism) {
  if (parallelism.virtual_stages() != 0) return parallelism.virtual_stages();
  const auto* const end = std::end(kSchedulesOfTwoStages);
  return std::find(std::begin(kSchedulesOfTwoStages), end, parallelism.schedule()) == end ? 1 : 2;
}

}  // namespace stagecoach
