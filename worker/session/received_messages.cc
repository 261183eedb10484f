#include "worker/session/received_messages.h"

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

absl::Status SessionEnd(const absl::Status& why) {
  if (why.ok()) return absl::UnavailableError("the coordinator has ended the session");
  if (absl::IsAborted(why) || absl::IsFailedPrecondition(why) || absl::IsInvalidArgument(why) ||
      absl::IsUnavailable(why)) {
    return why;
  }
  return absl::UnavailableError(absl::StrCat(why.message(), " (", absl::StatusCodeToString(why.code()), ")"));
}

}  // namespace

void ReceivedMessages::End(const absl::Status& why) {
  {
    MutexLock lock(mutex_);
    if (end_.ok()) end_ = SessionEnd(why);
  }
  messages_.Close();
}

absl::StatusOr<v1::CoordinatorMessage> ReceivedMessages::Pop(absl::Duration timeout) {
  absl::StatusOr<v1::CoordinatorMessage> message = messages_.Pop(timeout);
  if (!absl::IsUnavailable(message.status())) return message;
  MutexLock lock(mutex_);
  return end_;
}

bool ReceivedMessages::has_ended() const {
  MutexLock lock(mutex_);
  return !end_.ok();
}

}  // namespace stagecoach
