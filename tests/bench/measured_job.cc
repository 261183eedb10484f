#include "tests/bench/measured_job.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/spec/job_spec_parser.h"
#include "tests/testing/embedded/embedded_run.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

absl::StatusOr<v1::JobSpec> Parse(const std::string& text, const std::vector<std::string>& texts) {
  std::vector<SpecOverride> overrides;
  for (const std::string& override_text : texts) {
    STAGECOACH_ASSIGN_OR_RETURN(overrides.emplace_back(), ParseOverride(override_text));
  }
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text, overrides, errors);
  for (const SpecError& error : errors) std::fprintf(stderr, "%s\n", FormatSpecError("specification", error).c_str());
  return spec;
}

// False when nothing more is wanted.
absl::StatusOr<bool> Handle(const FollowEvent& event, const std::function<bool(const v1::StepEvent&)>& on_step) {
  if (const auto* step = std::get_if<v1::StepEvent>(&event)) return on_step(*step);
  if (const auto* status = std::get_if<v1::JobStatus>(&event)) {
    if (!HasEnded(status->state())) return true;
    return absl::InternalError(absl::StrCat("the job ended too early: ", status->message()));
  }
  return std::get<absl::Status>(event);
}

absl::Status Train(const v1::JobSpec& spec, uint32_t num_workers, const DeviceFactory& device,
                   const std::function<bool(const v1::StepEvent&)>& on_step, const std::function<bool()>& is_done) {
  STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<EmbeddedRun> run,
                              EmbeddedRun::Start(spec, {.num_workers = num_workers, .device = device}));
  while (!is_done()) {
    const absl::StatusOr<FollowEvent> event = run->NextEvent(kPollInterval);
    if (absl::IsDeadlineExceeded(event.status())) continue;
    STAGECOACH_RETURN_IF_ERROR(event.status());
    STAGECOACH_ASSIGN_OR_RETURN(const bool goes_on, Handle(*event, on_step));
    if (!goes_on) break;
  }
  // Workers warn that their sessions end; here it is meant.
  const auto level = spdlog::get_level();
  spdlog::set_level(spdlog::level::err);
  run.reset();
  spdlog::set_level(level);
  return absl::OkStatus();
}

}  // namespace

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

double Median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

v1::JobSpec RequireSpec(const std::string& text, const std::vector<std::string>& overrides) {
  absl::StatusOr<v1::JobSpec> spec = Parse(text, overrides);
  Require(spec.status());
  spec->mutable_resources()->set_threads_per_worker(1);
  return *std::move(spec);
}

void TrainUntil(const v1::JobSpec& spec, uint32_t num_workers, const DeviceFactory& device,
                const std::function<bool(const v1::StepEvent&)>& on_step, const std::function<bool()>& is_done) {
  Require(Train(spec, num_workers, device, on_step, is_done));
}

}  // namespace stagecoach
