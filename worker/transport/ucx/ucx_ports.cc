#include "worker/transport/ucx/ucx_ports.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <limits>

namespace stagecoach {
namespace {

struct ListeningSocket {
  int descriptor = -1;
  ino_t inode = 0;
  in_port_t port = 0;  // in network order
};

// Of the process, whoever's they are.
std::vector<ListeningSocket> ListeningSockets() {
  std::vector<ListeningSocket> sockets;
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return sockets;
  while (const dirent* entry = readdir(directory)) {
    const int descriptor = std::atoi(entry->d_name);
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_storage address = {};
    size = sizeof(address);
    struct stat found = {};
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    if (fstat(descriptor, &found) != 0) continue;
    ListeningSocket socket{.descriptor = descriptor, .inode = found.st_ino, .port = 0};
    if (address.ss_family == AF_INET) socket.port = reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
    if (address.ss_family == AF_INET6) socket.port = reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port;
    if (socket.port != 0) sockets.push_back(socket);
  }
  closedir(directory);
  return sockets;
}

// A socket that stops listening would have UCX ask it for connections for ever. One that gets no packets is quiet:
// these are two ways, of which the first needs a privilege on some kernels, and the second a kernel since 5.7.
bool DropPackets(int descriptor) {
  sock_filter drop_all = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program = {1, &drop_all};
  return setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

// Listens at an interface that there is not.
bool LeaveAllInterfaces(int descriptor) {
  const int no_interface = std::numeric_limits<int>::max();
  return setsockopt(descriptor, SOL_SOCKET, SO_BINDTOIFINDEX, &no_interface, sizeof(no_interface)) == 0;
}

}  // namespace

UcxPorts::UcxPorts() {
  for (const ListeningSocket& socket : ListeningSockets()) foreign_.insert(socket.inode);
}

void UcxPorts::Find(const std::string& address) {
  for (const ListeningSocket& socket : ListeningSockets()) {
    const std::string in_address(reinterpret_cast<const char*>(&socket.port), sizeof(socket.port));
    if (foreign_.contains(socket.inode) || address.find(in_address) == std::string::npos) continue;
    descriptors_.push_back(socket.descriptor);
    numbers_.push_back(ntohs(socket.port));
  }
}

absl::Status UcxPorts::Close() const {
  for (const int descriptor : descriptors_) {
    if (!DropPackets(descriptor) && !LeaveAllInterfaces(descriptor)) {
      return absl::ErrnoToStatus(errno, "cannot close a port of UCX");
    }
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
