#include "worker/transport/ucx/life_line.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

// In the abstract namespace: no file stays behind.
socklen_t FillAddress(uint64_t name, sockaddr_un& address) {
  const std::string text = absl::StrCat("stagecoach-ucx-", absl::Hex(name, absl::kZeroPad16));
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

int MakeSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

}  // namespace

absl::StatusOr<std::unique_ptr<LifeLine>> LifeLine::Create(uint64_t name) {
  const int listener = MakeSocket();
  if (listener < 0) return absl::ErrnoToStatus(errno, "a Unix socket for peers to watch");
  std::unique_ptr<LifeLine> line(new LifeLine(listener));
  sockaddr_un address;
  const socklen_t size = FillAddress(name, address);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), size) != 0 || listen(listener, SOMAXCONN) != 0) {
    return absl::ErrnoToStatus(errno, "a Unix socket for peers to watch");
  }
  return line;
}

LifeLine::~LifeLine() {
  for (const pollfd& watched : watched_) close(watched.fd);
  close(listener_);
}

absl::StatusOr<int> LifeLine::Watch(uint64_t name, WorkerRank peer) {
  const int descriptor = MakeSocket();
  if (descriptor < 0) return absl::ErrnoToStatus(errno, "a Unix socket to watch a peer");
  sockaddr_un address;
  const socklen_t size = FillAddress(name, address);
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    const absl::Status gone = absl::UnavailableError(absl::StrCat("its socket to watch: ", std::strerror(errno)));
    close(descriptor);
    return gone;
  }
  watched_.push_back({descriptor, POLLIN, 0});
  peers_.push_back(peer);
  return descriptor;
}

std::vector<WorkerRank> LifeLine::TakeGone() {
  std::vector<WorkerRank> gone;
  if (poll(watched_.data(), watched_.size(), 0) <= 0) return gone;
  for (size_t i = watched_.size(); i-- > 0;) {
    if (watched_[i].revents == 0) continue;
    gone.push_back(peers_[i]);
    close(watched_[i].fd);
    watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(i));
    peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return gone;
}

}  // namespace stagecoach
