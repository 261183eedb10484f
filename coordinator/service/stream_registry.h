#ifndef STAGECOACH_COORDINATOR_SERVICE_STREAM_REGISTRY_H_
#define STAGECOACH_COORDINATOR_SERVICE_STREAM_REGISTRY_H_

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/named_thread.h"

namespace stagecoach {

// A stream as the registry sees it. Thread-safe.
class ServiceStream {
 public:
  virtual ~ServiceStream() = default;
  // Called now and then: the place for timeouts.
  virtual void Check() = 0;
  // The service ends it.
  virtual void End(const absl::Status& status) = 0;
};

// Keeps the streams of a server alive while gRPC uses them, and calls their Check from a thread of its own.
// Thread-safe.
class StreamRegistry {
 public:
  StreamRegistry(size_t max_streams, absl::Duration check_interval);
  ~StreamRegistry();

  // RESOURCE_EXHAUSTED: too many. UNAVAILABLE: EndAll was called. It is kept all the same: gRPC has it.
  absl::Status Add(std::shared_ptr<ServiceStream> stream);
  // gRPC is through with it. May destroy it.
  void Remove(const ServiceStream* stream);
  size_t size() const {
    MutexLock lock(mutex_);
    return streams_.size();
  }
  // Those that are there, and those that come.
  void EndAll(const absl::Status& status);
  // False: some are still there after `timeout`.
  bool WaitUntilEmpty(absl::Duration timeout);

 private:
  void Loop();
  std::vector<std::shared_ptr<ServiceStream>> Streams() const;

  const size_t max_streams_;
  const absl::Duration check_interval_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<const ServiceStream*, std::shared_ptr<ServiceStream>> streams_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);  // OK: open
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  NamedThread thread_;  // last: uses the members above
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_STREAM_REGISTRY_H_
