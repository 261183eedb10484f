#ifndef STAGECOACH_COORDINATOR_SERVICE_CONNECTION_ACCEPTOR_H_
#define STAGECOACH_COORDINATOR_SERVICE_CONNECTION_ACCEPTOR_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/listen_address.h"
#include "common/named_thread.h"
#include "common/unique_descriptor.h"

namespace stagecoach {

// Listens, and hands on each connection as a descriptor. Not left to gRPC (1.51), which stops to accept for good when
// it once has no descriptor left, shares a port silently, takes a Unix socket from who listens there, and does not say
// why it cannot listen. Some descriptors are kept for the journal and for files: connections that would need them are
// closed.
class ConnectionAcceptor {
 public:
  using Take = std::function<void(UniqueDescriptor connection)>;

  // Connections wait until Start. A Unix socket is this user's alone; one that a dead process has left is replaced.
  //   FAILED_PRECONDITION  another process listens there, or the socket's path is that of something else
  //   PERMISSION_DENIED, INVALID_ARGUMENT (the host's name is not known), NOT_FOUND, UNKNOWN
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(const ListenAddress& address);
  ~ConnectionAcceptor();

  // With the port that was chosen.
  const ListenAddress& address() const { return address_; }
  // `take` is called by a thread of the acceptor, until Stop has returned. Once.
  void Start(Take take);
  // Nobody can connect any more. Idempotent.
  void Stop();

 private:
  explicit ConnectionAcceptor(const ListenAddress& address) : address_(address) {}

  absl::Status ListenTcp();
  absl::Status ListenUnix();
  void Loop(const Take& take);
  // False: there are no descriptors.
  bool AcceptAll(int listener, const Take& take);
  // Of descriptors, for whoever is refused for the first time.
  void NoteShortage(bool shortage);

  ListenAddress address_;
  std::vector<UniqueDescriptor> listeners_;
  UniqueDescriptor stop_;  // becomes readable
  bool short_of_descriptors_ = false;
  NamedThread thread_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_CONNECTION_ACCEPTOR_H_
