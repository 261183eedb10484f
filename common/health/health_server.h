#ifndef STAGECOACH_COMMON_HEALTH_HEALTH_SERVER_H_
#define STAGECOACH_COMMON_HEALTH_HEALTH_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/health/liveness.h"
#include "common/listen_address.h"
#include "common/loop_beat.h"
#include "common/mutex.h"
#include "common/named_thread.h"

namespace grpc {
class CallbackGenericService;
class Server;
}  // namespace grpc

namespace stagecoach {

// grpc.health.v1 on a port of its own, in plain text, for probes that have no credentials. Service "" says whether the
// process is ready, "live" whether its event loop turns. Looks at both a few times a second. Whether it may listen
// there is the caller's to check.
class HealthServer {
 public:
  struct Options {
    const LoopBeat& loop;            // outlives the server
    std::function<bool()> is_ready;  // by the server's thread; must not block
    const Clock& clock = Clock::Real();
    absl::Duration patience = absl::Seconds(30);  // with a loop that does not turn
    absl::Duration interval = absl::Milliseconds(100);
  };
  // UNAVAILABLE: the address is taken, or not of this machine.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const ListenAddress& address, Options options);
  ~HealthServer();

  const ListenAddress& address() const { return address_; }  // with the port that was chosen

 private:
  HealthServer(ListenAddress address, std::unique_ptr<grpc::CallbackGenericService> others,
               std::unique_ptr<grpc::Server> server, Options options);
  void Loop();

  const ListenAddress address_;
  const Options options_;
  std::unique_ptr<grpc::CallbackGenericService> others_;  // outlives the server
  std::unique_ptr<grpc::Server> server_;

  Mutex mutex_;
  CondVar stopping_changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  NamedThread thread_;  // last: uses all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_HEALTH_HEALTH_SERVER_H_
