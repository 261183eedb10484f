#include "coordinator/spec/virtual_stages.h"

#include <algorithm>
#include <iterator>

namespace stagecoach {
namespace {

// The others put one stage on a worker.
constexpr absl::string_view kSchedulesOfTwoStages[] = {"interleaved", "zb_v", "v_half", "dualpipe_v"};

}  // namespace

uint32_t DefaultVirtualStages(absl::string_view schedule) {
  const auto* const end = std::end(kSchedulesOfTwoStages);
  return std::find(std::begin(kSchedulesOfTwoStages), end, schedule) == end ? 1 : 2;
}

uint32_t VirtualStagesOf(const v1::ParallelismSpec& parallelism) {
  return parallelism.virtual_stages() != 0 ? parallelism.virtual_stages()
                                           : DefaultVirtualStages(parallelism.schedule());
}

}  // namespace stagecoach
