#include "coordinator/plan/testing/tiny_job.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/statusor.h"
#include "common/check.h"

namespace stagecoach::testing {

v1::JobSpec TinySpec(const std::vector<SpecOverride>& overrides) {
  std::ifstream file(STAGECOACH_SOURCE_DIR "/examples/tiny.yaml");
  std::stringstream text;
  text << file.rdbuf();
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text.str(), overrides, errors);
  STAGECOACH_CHECK(spec.ok());
  return *std::move(spec);
}

uint64_t MostNeeded(const PlannedJob& job) {
  std::vector<uint64_t> needed(job.programs.size());
  for (const v1::StagePlan& stage : job.plan.stages()) needed[stage.worker_rank()] += stage.memory_bytes().total();
  return *std::max_element(needed.begin(), needed.end());
}

}  // namespace stagecoach::testing
