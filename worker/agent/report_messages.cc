#include "worker/agent/report_messages.h"

#include <string>

#include "common/protocol_version.h"
#include "common/valid_utf8.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxMessageBytes = 4096;  // of a failure: for people

void AddLossParts(const RunReport& report, google::protobuf::RepeatedPtrField<v1::LossPart>& parts) {
  for (const RunReport::LossPart& part : report.loss_parts) {
    v1::LossPart& added = *parts.Add();
    added.set_micro_batch(part.micro_batch.value());
    added.set_value(part.value);
  }
}

v1::BusySeconds BusySecondsOf(const RanReply& reply) {
  const RunReport::Seconds& seconds = reply.report->seconds;
  v1::BusySeconds busy;
  busy.set_forward(seconds.forward);
  busy.set_backward_input(seconds.backward_input);
  busy.set_backward_weight(seconds.backward_weight);
  busy.set_recompute(seconds.recompute);
  busy.set_optimizer(reply.update_seconds);
  busy.set_p2p_wait(seconds.p2p_wait);
  busy.set_data_wait(seconds.data_wait);
  busy.set_other(seconds.other);
  busy.set_total(seconds.total);
  return busy;
}

v1::StepPrepared StepPreparedOf(const RanReply& reply) {
  v1::StepPrepared prepared;
  prepared.set_step(reply.step.value());
  for (const NormReport& norm : reply.report->squared_norms) {
    v1::SquaredNorm& added = *prepared.add_squared_norms();
    added.set_name(norm.name);
    added.set_value(norm.squared_norm);
  }
  prepared.set_num_non_finite(reply.report->num_non_finite);
  AddLossParts(*reply.report, *prepared.mutable_loss_parts());
  *prepared.mutable_busy_seconds() = BusySecondsOf(reply);
  return prepared;
}

v1::EvaluationDone EvaluationDoneOf(const RanReply& reply) {
  v1::EvaluationDone done;
  done.set_step(reply.step.value());
  done.set_first_sample(reply.first_sample);
  AddLossParts(*reply.report, *done.mutable_loss_parts());
  return done;
}

}  // namespace

v1::WorkerMessage ToHello(const AgentOptions& options) {
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_worker(options.worker.value());
  hello.set_numerics_class(options.numerics_class);
  hello.set_memory_bytes(options.memory_bytes);
  hello.set_max_threads(options.max_threads);
  hello.set_protocol_version(kProtocolVersion);
  hello.set_build_version(options.build_version);
  hello.set_device(options.device);
  hello.set_host(options.host);
  hello.set_pid(options.pid);
  return message;
}

v1::WorkerMessage ToMessage(const ReleasedReply& /*reply*/) { return {}; }

v1::WorkerMessage ToMessage(const PreparedReply& reply) {
  v1::WorkerMessage message;
  v1::StagesPrepared& prepared = *message.mutable_stages_prepared();
  prepared.set_endpoint(reply.endpoint);
  prepared.set_applied_step(reply.applied_step.value());
  prepared.set_state_bytes(reply.state_bytes);
  prepared.set_arena_bytes(reply.arena_bytes);
  return message;
}

v1::WorkerMessage ToMessage(const ConnectedReply& reply) {
  v1::WorkerMessage message;
  for (const std::string& route : reply.route_of_channel)
    message.mutable_peers_connected()->add_route_of_channel(route);
  message.mutable_peers_connected();
  return message;
}

v1::WorkerMessage ToMessage(const RanReply& reply) {
  v1::WorkerMessage message;
  if (reply.evaluation) {
    *message.mutable_evaluation_done() = EvaluationDoneOf(reply);
  } else {
    *message.mutable_step_prepared() = StepPreparedOf(reply);
  }
  return message;
}

v1::WorkerMessage ToMessage(const AppliedReply& reply) {
  v1::WorkerMessage message;
  v1::StepApplied& applied = *message.mutable_step_applied();
  applied.set_step(reply.step.value());
  applied.set_num_updates(reply.num_updates);
  for (const AppliedReply::Digest& digest : reply.digests) {
    v1::TensorDigestReport& added = *applied.add_digests();
    added.set_name(digest.tensor->name);
    added.set_dtype(digest.tensor->tensor.dtype);
    for (int i = 0; i < digest.tensor->tensor.rank; ++i) {
      added.add_shape(static_cast<uint64_t>(digest.tensor->tensor.dims[static_cast<size_t>(i)]));
    }
    added.set_low(digest.digest.words[0]);
    added.set_high(digest.digest.words[1]);
    added.set_optimizer_state(digest.tensor->optimizer_state);
  }
  return message;
}

v1::WorkerMessage ToMessage(const ShardReply& reply) {
  v1::WorkerMessage message;
  *message.mutable_shard_written() = reply.written;
  return message;
}

v1::WorkerMessage ToMessage(const ShardFailure& failure) {
  v1::WorkerMessage message;
  v1::ShardFailed& failed = *message.mutable_shard_failed();
  failed.set_step(failure.step.value());
  failed.set_file(ValidUtf8(failure.file, kMaxMessageBytes));
  failed.set_code(static_cast<int32_t>(failure.status.code()));
  failed.set_message(ValidUtf8(failure.status.message(), kMaxMessageBytes));
  return message;
}

v1::WorkerMessage ToMessage(const AbortedReply& reply) {
  v1::WorkerMessage message;
  message.mutable_aborted()->set_applied_step(reply.applied_step.value());
  message.mutable_aborted()->set_prepared_step(reply.prepared_step.value());
  return message;
}

v1::WorkerMessage ToMessage(const MeasuredReply& reply) {
  v1::WorkerMessage message;
  *message.mutable_layers_measured() = reply.measured;
  message.mutable_layers_measured()->set_message(ValidUtf8(reply.measured.message(), kMaxMessageBytes));
  return message;
}

v1::WorkerMessage ToMessage(const ExecutorFailure& failure) {
  v1::WorkerMessage message;
  message.mutable_failure()->set_code(static_cast<int32_t>(failure.status.code()));
  message.mutable_failure()->set_message(ValidUtf8(failure.status.message(), kMaxMessageBytes));
  message.mutable_failure()->set_step(failure.step.value());
  message.mutable_failure()->set_action(failure.action);
  return message;
}

}  // namespace stagecoach
