#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_PORTS_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_PORTS_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace stagecoach {

// The TCP ports that a UCX worker listens on. Whoever speaks UCX's protocol to them is trusted by UCX, to the point
// that it may write this process's memory, and UCX has no way to close them: so they are found from outside.
class UcxPorts {
 public:
  // Before the UCX worker is created.
  UcxPorts();
  // After: those that are new and whose number is in `address`, the worker's.
  void Find(const std::string& address);
  // No connection is made to them any more. Those that exist stay. While the UCX worker exists.
  absl::Status Close() const;
  const std::vector<uint16_t>& numbers() const { return numbers_; }

 private:
  std::set<ino_t> foreign_;  // sockets that listened before
  std::vector<int> descriptors_;
  std::vector<uint16_t> numbers_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_PORTS_H_
