#include "client/cluster/supervisor_lock.h"

#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

std::string PidFile(const std::string& state_dir) { return state_dir + "/supervisor.pid"; }

pid_t ReadPid(const std::string& state_dir) {
  const absl::StatusOr<std::string> text = ReadFile(FileSystem::Posix(), PidFile(state_dir), 64);
  pid_t pid = 0;
  return text.ok() && absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &pid) && pid > 1 ? pid : 0;
}

}  // namespace

absl::StatusOr<FileLock> LockStateDir(const std::string& state_dir) {
  absl::StatusOr<FileLock> lock = FileLock::Try(PidFile(state_dir));
  if (absl::IsFailedPrecondition(lock.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat("a cluster runs in ", state_dir, " already (pid ", ReadPid(state_dir), ")"));
  }
  if (!lock.ok()) return lock;
  STAGECOACH_RETURN_IF_ERROR(lock->Write(absl::StrCat(getpid(), "\n")));
  return lock;
}

absl::StatusOr<Supervisor> FindSupervisor(const std::string& state_dir) {
  Supervisor supervisor;
  if (access(PidFile(state_dir).c_str(), F_OK) != 0) return supervisor;
  supervisor.known = true;
  const absl::StatusOr<FileLock> lock = FileLock::Try(PidFile(state_dir));
  if (lock.ok()) return supervisor;
  if (!absl::IsFailedPrecondition(lock.status())) return lock.status();
  supervisor.runs = true;
  supervisor.pid = ReadPid(state_dir);
  return supervisor;
}

}  // namespace stagecoach
