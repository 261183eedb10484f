#include "coordinator/server.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "coordinator/plan/planner.h"

namespace stagecoach {
namespace {

// For clients and workers to read that the coordinator stops.
constexpr absl::Duration kStopGrace = absl::Seconds(1);

// The directory itself is for this user alone: whoever may write the journal decides what jobs do.
absl::Status MakeStateDirectory(const std::string& directory) {
  const std::string parent = std::filesystem::path(directory).parent_path();
  if (!parent.empty()) STAGECOACH_RETURN_IF_ERROR(FileSystem::Posix().CreateDirectories(parent));
  if (mkdir(directory.c_str(), 0700) == 0) return absl::OkStatus();
  const int error = errno;
  std::error_code ignored;
  if (error == EEXIST && std::filesystem::is_directory(directory, ignored)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot make the state directory ", directory, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Options& options) {
  STAGECOACH_RETURN_IF_ERROR(MakeStateDirectory(options.state_directory));
  auto server = absl::WrapUnique(new Server(options.state_directory + "/journal.sqlite"));
  // Before the journal is replayed, which may take long.
  if (options.health.has_value()) STAGECOACH_RETURN_IF_ERROR(server->StartHealth(*options.health));
  if (options.metrics.has_value()) STAGECOACH_RETURN_IF_ERROR(server->StartMetrics(*options.metrics));
  STAGECOACH_ASSIGN_OR_RETURN(server->coordinator_, Coordinator::Create({.store = server->store_,
                                                                         .clock = Clock::Real(),
                                                                         .files = FileSystem::Posix(),
                                                                         .planner = PlanJob,
                                                                         .fleet = options.fleet,
                                                                         .observer = server->metrics_.get(),
                                                                         .beat = &server->beat_,
                                                                         .on_halt = options.on_halt}));
  STAGECOACH_ASSIGN_OR_RETURN(server->grpc_, GrpcServer::Start(*server->coordinator_, options.listen, Clock::Real(),
                                                               {.metrics = server->registry_.get()}));
  server->is_ready_ = true;
  const std::string address = server->grpc_->address().ToString();
  spdlog::info("serving at {}, term {}, state in {}", address, server->coordinator_->term().value(),
               options.state_directory);
  if (!options.address_file.empty()) {
    STAGECOACH_RETURN_IF_ERROR(WriteFileAtomically(FileSystem::Posix(), options.address_file, address + "\n"));
  }
  return server;
}

absl::Status Server::StartHealth(const ListenAddress& address) {
  STAGECOACH_ASSIGN_OR_RETURN(
      health_, HealthServer::Start(address, {.loop = beat_, .is_ready = [this] { return is_ready_.load(); }}));
  spdlog::info("health at {}", health_->address().ToString());
  return absl::OkStatus();
}

absl::Status Server::StartMetrics(const ListenAddress& address) {
  STAGECOACH_ASSIGN_OR_RETURN(registry_, MetricRegistry::Create(MetricSource::kCoordinator));
  metrics_ = std::make_unique<CoordinatorMetrics>(*registry_, Clock::Real());
  STAGECOACH_ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start(*registry_, address));
  spdlog::info("metrics at {}", metrics_server_->address().ToString());
  return absl::OkStatus();
}

void Server::Stop() {
  is_ready_ = false;
  if (grpc_ == nullptr) return;
  // Sessions end with the coordinator, which must not take their ends for those of its workers.
  grpc_->Close();
  coordinator_->Stop();
  grpc_->Stop(kStopGrace);
  grpc_.reset();
}

}  // namespace stagecoach
