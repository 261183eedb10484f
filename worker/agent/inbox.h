#ifndef STAGECOACH_WORKER_AGENT_INBOX_H_
#define STAGECOACH_WORKER_AGENT_INBOX_H_

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/message_queue.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/agent/executor_messages.h"

namespace stagecoach {

// What the agent's thread is told, in order.
struct ReplyIsThere {};  // of the executor's thread
struct ShardEnded {      // what became of a snapshot's shard
  ExecutorReply reply;
};
struct FromSession {
  uint64_t session = 0;                            // its number
  absl::StatusOr<v1::CoordinatorMessage> message;  // an error: it has ended, and why
};
struct LeaveRequested {
  std::string reason;
};
struct StopRequested {};

using InboxItem = std::variant<ReplyIsThere, ShardEnded, LeaveRequested, StopRequested, FromSession>;
using Inbox = MessageQueue<InboxItem>;

// What answers or ends must arrive even while a flood fills the inbox: the agent's thread empties it.
inline void PushSurely(Inbox& inbox, InboxItem item) {
  while (absl::IsResourceExhausted(inbox.Push(std::move(item)))) std::this_thread::yield();
}

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_INBOX_H_
