#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/file_system.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/spec/job_spec_parser.h"
#include "tests/testing/embedded/embedded_run.h"
#include "worker/registry/device/device_registry.h"

namespace stagecoach {
namespace {

absl::StatusOr<v1::JobSpec> ReadSpec(const std::string& path) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::string text, ReadFile(FileSystem::Posix(), path, 1 << 20));
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text, {}, errors);
  for (const SpecError& error : errors) std::cerr << FormatSpecError(path, error) << "\n";
  return spec;
}

absl::StatusOr<v1::Job> RunToEnd(const v1::JobSpec& spec) {
  STAGECOACH_ASSIGN_OR_RETURN(const DeviceFactory device, FindDevice("cpu"));
  EmbeddedRun::Options options{.num_workers = spec.parallelism().pipeline_parallel_degree(), .device = device};
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedRun> run, EmbeddedRun::Start(spec, options));
  for (;;) {
    STAGECOACH_ASSIGN_OR_RETURN(const FollowEvent event, run->NextEvent(absl::Minutes(2)));
    if (const auto* end = std::get_if<absl::Status>(&event)) return *end;
    const auto* status = std::get_if<v1::JobStatus>(&event);
    if (status != nullptr && HasEnded(status->state())) return run->Describe();
  }
}

// Trains the specification in this process, with as many workers as its pipeline_parallel_degree says, and prints the
// two digests: what the run by processes is compared with.
int Main(const std::string& path) {
  const absl::StatusOr<v1::JobSpec> spec = ReadSpec(path);
  const absl::StatusOr<v1::Job> job = spec.ok() ? RunToEnd(*spec) : spec.status();
  if (!job.ok() || job->status().state() != v1::JOB_STATE_SUCCEEDED) {
    std::cerr << (job.ok() ? job->status().message() : job.status().ToString()) << "\n";
    return EXIT_FAILURE;
  }
  std::cout << job->digest() << " " << job->state_digest() << "\n";
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: embedded_run SPEC\n";
    return 2;
  }
  stagecoach::StartLog("embedded_run");
  return stagecoach::Main(argv[1]);
}
