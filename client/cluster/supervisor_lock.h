#ifndef STAGECOACH_CLIENT_CLUSTER_SUPERVISOR_LOCK_H_
#define STAGECOACH_CLIENT_CLUSTER_SUPERVISOR_LOCK_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "client/contexts/private_file.h"

namespace stagecoach {

// Of a state directory: who runs its cluster holds a lock on DIR/supervisor.pid, which has its pid. The lock, not the
// pid, says whether anybody does: the system takes it away with the process.
//
// ALREADY_EXISTS: a cluster runs there; with the pid.
absl::StatusOr<FileLock> LockStateDir(const std::string& state_dir);

struct Supervisor {
  bool known = false;  // there has been one
  bool runs = false;
  pid_t pid = 0;  // when it runs; 0: it has just begun
};
absl::StatusOr<Supervisor> FindSupervisor(const std::string& state_dir);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CLUSTER_SUPERVISOR_LOCK_H_
