#ifndef STAGECOACH_COORDINATOR_SERVICE_TRACE_STREAM_H_
#define STAGECOACH_COORDINATOR_SERVICE_TRACE_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/service/membership.h"
#include "coordinator/service/service_options.h"
#include "coordinator/service/stream_registry.h"
#include "coordinator/service/stream_writer.h"
#include "coordinator/task_thread.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// One reader of a job's timeline. What the workers answer waits here until it is read, up to a limit at which the call
// ends: workers are not asked twice.
class TraceStream final : public grpc::ServerWriteReactor<v1::TraceChunk>,
                          public ServiceStream,
                          public std::enable_shared_from_this<TraceStream> {
 public:
  // All outlive the stream.
  struct Collaborators {
    Coordinator& coordinator;
    StreamRegistry& streams;
    TaskThread& ask_thread;
    const Clock& clock;
    const ServiceOptions& options;
  };
  TraceStream(const Collaborators& to, grpc::CallbackServerContext& context, const v1::ReadTraceRequest& request)
      : to_(to), context_(context), request_(request), writer_(*this, to.clock, to.options.trace) {}

  void Begin() {
    const absl::Status queued = to_.ask_thread.Run([self = shared_from_this()] { self->Read(); });
    if (!queued.ok()) writer_.Abandon(queued);
  }

  void OnWriteDone(bool ok) override { writer_.OnWriteDone(ok); }
  void OnCancel() override { Leave(absl::CancelledError("the call was cancelled")); }
  void OnDone() override {
    Leave(absl::OkStatus());
    to_.streams.Remove(this);
  }
  void Check() override {
    writer_.CancelIfStalled(to_.options.stall_timeout, [this] { context_.TryCancel(); });
  }
  void End(const absl::Status& status) override { writer_.End(status); }

 private:
  void Read() {
    const std::weak_ptr<TraceStream> weak = weak_from_this();
    const absl::StatusOr<uint64_t> reading =
        to_.coordinator.ReadTrace(request_, {.on_chunk =
                                                 [weak](v1::TraceChunk chunk) {
                                                   const auto stream = weak.lock();
                                                   if (stream == nullptr)
                                                     return absl::UnavailableError("the stream has ended");
                                                   return stream->writer_.Push(std::move(chunk));
                                                 },
                                             .on_end =
                                                 [weak](const absl::Status& status) {
                                                   if (const auto stream = weak.lock()) stream->writer_.End(status);
                                                 }});
    if (!reading.ok()) return writer_.End(reading.status());
    if (!membership_.Join(*reading)) to_.coordinator.StopReading(*reading);
  }

  void Leave(const absl::Status& status) {
    const Membership<uint64_t>::Leaving leaving = membership_.Leave();
    if (!leaving.is_first) return;
    if (leaving.id.has_value()) to_.coordinator.StopReading(*leaving.id);
    writer_.Abandon(status);
  }

  const Collaborators to_;
  grpc::CallbackServerContext& context_;  // until Finish
  const v1::ReadTraceRequest request_;
  StreamWriter<TraceStream, v1::TraceChunk> writer_;
  Membership<uint64_t> membership_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_TRACE_STREAM_H_
