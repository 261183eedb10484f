#include "coordinator/service/listen_problem.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

class Socket {
 public:
  Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

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

// gRPC would remove a socket that another process listens at, and take its place.
absl::Status FindUnixProblem(const ListenAddress& address) {
  struct stat info;
  if (lstat(address.path.c_str(), &info) != 0) {
    if (errno != ENOENT) return Problem(address, errno);
    const std::string directory = std::filesystem::path(address.path).parent_path();
    return access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus()
                                                                                 : Problem(address, errno);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen at ", address.ToString(), ": there is something that is not a socket"));
  }
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.path.data(), address.path.size());
  const Socket probe(AF_UNIX);
  const int connected = connect(probe.fd(), reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  return connected == 0 ? Problem(address, EADDRINUSE) : absl::OkStatus();
}

absl::Status FindTcpProblem(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (result != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen at ", address.ToString(), ": ", gai_strerror(result)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  absl::Status problem;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const Socket probe(each->ai_family);
    const int on = 1;
    setsockopt(probe.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(probe.fd(), each->ai_addr, each->ai_addrlen) == 0) return absl::OkStatus();
    problem = Problem(address, errno);
  }
  return problem;
}

}  // namespace

absl::Status FindListenProblem(const ListenAddress& address) {
  return address.is_unix() ? FindUnixProblem(address) : FindTcpProblem(address);
}

}  // namespace stagecoach
