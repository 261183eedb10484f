#ifndef STAGECOACH_WORKER_AGENT_REPORT_MESSAGES_H_
#define STAGECOACH_WORKER_AGENT_REPORT_MESSAGES_H_

#include "stagecoach/v1/worker.pb.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/executor_messages.h"

namespace stagecoach {

// Who the worker is; not what it holds.
v1::WorkerMessage ToHello(const AgentOptions& options);

// The executor's answers as messages of the session. Made on the agent's thread: the executor's has better things to
// do.
v1::WorkerMessage ToMessage(const ReleasedReply& reply);  // says nothing
v1::WorkerMessage ToMessage(const PreparedReply& reply);
v1::WorkerMessage ToMessage(const ConnectedReply& reply);
v1::WorkerMessage ToMessage(const RanReply& reply);  // StepPrepared or EvaluationDone
v1::WorkerMessage ToMessage(const AppliedReply& reply);
v1::WorkerMessage ToMessage(const ShardReply& reply);
v1::WorkerMessage ToMessage(const ShardFailure& failure);
v1::WorkerMessage ToMessage(const AbortedReply& reply);
v1::WorkerMessage ToMessage(const MeasuredReply& reply);
v1::WorkerMessage ToMessage(const ExecutorFailure& failure);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_REPORT_MESSAGES_H_
