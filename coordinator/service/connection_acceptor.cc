#include "coordinator/service/connection_acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr int kBacklog = 1024;
// Until somebody may have left.
constexpr int kShortageMilliseconds = 50;
constexpr int kReservedDescriptors = 32;

absl::Status Problem(const ListenAddress& address, int error) {
  const std::string message = absl::StrCat("cannot listen at ", address.ToString(), ": ", std::strerror(error));
  switch (error) {
    case EADDRINUSE:
      return absl::FailedPreconditionError(absl::StrCat(message, "; stop what listens there, or use another --listen"));
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    default:
      return absl::UnknownError(message);
  }
}

UniqueDescriptor NewSocket(int family) {
  return UniqueDescriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

sockaddr_un UnixName(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  STAGECOACH_CHECK(path.size() < sizeof(name.sun_path));
  std::memcpy(name.sun_path, path.data(), path.size());
  return name;
}

uint16_t PortOf(int listener) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  STAGECOACH_CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size) == 0);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

// Removes a socket at which nobody listens.
absl::Status MakeWayForSocket(const ListenAddress& address) {
  struct stat info;
  if (lstat(address.path.c_str(), &info) != 0) return errno == ENOENT ? absl::OkStatus() : Problem(address, errno);
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen at ", address.ToString(), ": there is something that is not a socket"));
  }
  const sockaddr_un name = UnixName(address.path);
  const UniqueDescriptor probe = NewSocket(AF_UNIX);
  const bool connected = connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
  if (connected || errno == EAGAIN) return Problem(address, EADDRINUSE);  // EAGAIN: its backlog is full
  return unlink(address.path.c_str()) == 0 ? absl::OkStatus() : Problem(address, errno);
}

int DescriptorLimit() {
  rlimit limit{};
  STAGECOACH_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  return limit.rlim_cur > 1'000'000'000 ? 1'000'000'000 : static_cast<int>(limit.rlim_cur);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(const ListenAddress& address) {
  auto acceptor = absl::WrapUnique(new ConnectionAcceptor(address));
  STAGECOACH_RETURN_IF_ERROR(address.is_unix() ? acceptor->ListenUnix() : acceptor->ListenTcp());
  acceptor->stop_ = UniqueDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return acceptor->stop_.is_open() ? absl::StatusOr<std::unique_ptr<ConnectionAcceptor>>(std::move(acceptor))
                                   : Problem(address, errno);
}

ConnectionAcceptor::~ConnectionAcceptor() { Stop(); }

absl::Status ConnectionAcceptor::ListenUnix() {
  STAGECOACH_RETURN_IF_ERROR(MakeWayForSocket(address_));
  const sockaddr_un name = UnixName(address_.path);
  UniqueDescriptor listener = NewSocket(AF_UNIX);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0)
    return Problem(address_, errno);
  // Before anybody can connect.
  const bool listens = chmod(address_.path.c_str(), 0600) == 0 && listen(listener.get(), kBacklog) == 0;
  const absl::Status status = listens ? absl::OkStatus() : Problem(address_, errno);
  listeners_.push_back(std::move(listener));
  return status;
}

// At every address that the name has: of localhost that is one of each protocol.
absl::Status ConnectionAcceptor::ListenTcp() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(address_.host.c_str(), nullptr, &hints, &found);
  if (result != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen at ", address_.ToString(), ": ", gai_strerror(result)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  absl::Status problem;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    UniqueDescriptor listener = NewSocket(each->ai_family);
    const int on = 1;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(listener.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // its connections have it too
    in_port_t& port = each->ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(each->ai_addr)->sin6_port
                                                  : reinterpret_cast<sockaddr_in*>(each->ai_addr)->sin_port;
    port = htons(address_.port);
    if (bind(listener.get(), each->ai_addr, each->ai_addrlen) == 0 && listen(listener.get(), kBacklog) == 0) {
      address_.port = PortOf(listener.get());
      listeners_.push_back(std::move(listener));
    } else if (errno == EADDRINUSE || problem.ok()) {
      problem = Problem(address_, errno);
    }
  }
  // One that this machine does not have, such as that of IPv6, does not matter if there is another.
  return listeners_.empty() || absl::IsFailedPrecondition(problem) ? problem : absl::OkStatus();
}

void ConnectionAcceptor::Start(Take take) {
  thread_ = NamedThread("acceptor", [this, take = std::move(take)] { Loop(take); });
}

void ConnectionAcceptor::Stop() {
  if (listeners_.empty()) return;
  if (stop_.is_open()) eventfd_write(stop_.get(), 1);
  thread_.Join();
  listeners_.clear();
  if (address_.is_unix()) unlink(address_.path.c_str());
}

void ConnectionAcceptor::Loop(const Take& take) {
  std::vector<pollfd> polled = {{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  for (const UniqueDescriptor& listener : listeners_) {
    polled.push_back({.fd = listener.get(), .events = POLLIN, .revents = 0});
  }
  bool shortage = false;
  while (true) {
    // In a shortage only Stop is waited for: the listeners would be ready all the time.
    const int ready = shortage ? poll(polled.data(), 1, kShortageMilliseconds) : poll(polled.data(), polled.size(), -1);
    if (ready > 0 && polled[0].revents != 0) return;
    shortage = false;
    for (const UniqueDescriptor& listener : listeners_) shortage |= !AcceptAll(listener.get(), take);
  }
}

bool ConnectionAcceptor::AcceptAll(int listener, const Take& take) {
  while (true) {
    UniqueDescriptor connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.is_open()) {
      const bool no_more = errno == EAGAIN || errno == EWOULDBLOCK;
      const bool shortage = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (shortage) NoteShortage(true);
      if (no_more || shortage) return !shortage;
      continue;  // of that connection alone
    }
    // The system gives the smallest that is free.
    const bool shortage = connection.get() >= DescriptorLimit() - kReservedDescriptors;
    NoteShortage(shortage);
    if (!shortage) take(std::move(connection));
  }
}

void ConnectionAcceptor::NoteShortage(bool shortage) {
  if (shortage && !short_of_descriptors_) {
    spdlog::warn("connections are refused: the limit of {} open files is reached (ulimit -n)", DescriptorLimit());
  }
  short_of_descriptors_ = shortage;
}

}  // namespace stagecoach
