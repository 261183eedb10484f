#ifndef STAGECOACH_TESTS_CONFORMANCE_SESSION_CONFORMANCE_H_
#define STAGECOACH_TESTS_CONFORMANCE_SESSION_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/session.h"

namespace stagecoach {

// The coordinator's end of a session, as a test drives it.
class OtherEnd {
 public:
  virtual ~OtherEnd() = default;
  virtual absl::Status Send(v1::CoordinatorMessage message) = 0;
  virtual absl::StatusOr<v1::WorkerMessage> Receive(absl::Duration timeout) = 0;  // UNAVAILABLE: it has ended
  virtual void End(const absl::Status& status) = 0;
  virtual void Vanish() = 0;       // as a process that dies
  virtual void StopReading() = 0;  // what comes from now on is left where it is
};

// One way to have sessions.
class SessionWorld {
 public:
  virtual ~SessionWorld() = default;
  virtual std::unique_ptr<Session> Dial() = 0;
  virtual std::shared_ptr<OtherEnd> Accept() = 0;  // of the session dialled first
};

struct SessionKind {
  std::string name;
  std::function<std::unique_ptr<SessionWorld>()> make;
};
std::vector<SessionKind> SessionsUnderTest();

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_CONFORMANCE_SESSION_CONFORMANCE_H_
