#include "worker/transport/ucx/life_line.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

constexpr uint64_t kSource = ~uint64_t{0};  // instead of a rank

// In the abstract namespace: no file stays behind.
socklen_t FillAddress(uint64_t name, sockaddr_un& address) {
  const std::string text = absl::StrCat("stagecoach-ucx-", absl::Hex(name, absl::kZeroPad16));
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

int MakeSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

absl::Status SystemError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LifeLine>> LifeLine::Create(uint64_t name) {
  std::unique_ptr<LifeLine> line(new LifeLine());
  line->epoll_ = epoll_create1(EPOLL_CLOEXEC);
  line->listener_ = MakeSocket();
  sockaddr_un address;
  const socklen_t size = FillAddress(name, address);
  if (line->epoll_ < 0 || line->listener_ < 0 ||
      bind(line->listener_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(line->listener_, SOMAXCONN) != 0) {
    return SystemError("cannot open a Unix socket for peers to watch");
  }
  return line;
}

LifeLine::~LifeLine() {
  for (const int descriptor : watched_) close(descriptor);
  if (listener_ >= 0) close(listener_);
  if (epoll_ >= 0) close(epoll_);
}

absl::Status LifeLine::Watch(uint64_t name, WorkerRank peer) {
  const int descriptor = MakeSocket();
  if (descriptor < 0) return SystemError("cannot open a Unix socket to watch a peer");
  sockaddr_un address;
  const socklen_t size = FillAddress(name, address);
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    const absl::Status gone = absl::UnavailableError(absl::StrCat("its socket to watch: ", std::strerror(errno)));
    close(descriptor);
    return gone;
  }
  watched_.push_back(descriptor);
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT;
  event.data.u64 = peer.value();
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) return SystemError("cannot watch a peer");
  return absl::OkStatus();
}

absl::Status LifeLine::AddSource(int descriptor) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kSource;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) return SystemError("cannot watch UCX's descriptor");
  return absl::OkStatus();
}

std::vector<WorkerRank> LifeLine::TakeGone() {
  std::vector<WorkerRank> gone;
  std::array<epoll_event, 16> events;
  const int found = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < found; ++i) {
    const uint64_t rank = events[static_cast<size_t>(i)].data.u64;
    if (rank != kSource) gone.push_back(WorkerRank(static_cast<uint32_t>(rank)));
  }
  return gone;
}

}  // namespace stagecoach
