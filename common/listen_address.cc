#include "common/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/quoted.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
constexpr size_t kMaxHostBytes = 253;
constexpr size_t kMaxSocketPathBytes = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the address ", Quoted(text), " ", why, "; expected HOST:PORT, [IPV6]:PORT or unix:PATH"));
}

bool IsV6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

absl::StatusOr<ListenAddress> ParseUnix(absl::string_view text) {
  absl::string_view path = text.substr(kUnixPrefix.size());
  if (absl::StartsWith(path, "///")) path.remove_prefix(2);  // a URI's way to write it
  if (path.empty()) return Bad(text, "has no path");
  if (path.size() > kMaxSocketPathBytes) {
    return Bad(text,
               absl::StrCat("has a path of ", path.size(), " bytes; a socket's has at most ", kMaxSocketPathBytes));
  }
  if (std::any_of(path.begin(), path.end(), absl::ascii_iscntrl)) return Bad(text, "has control characters");
  return ListenAddress{.host = "", .port = 0, .path = std::string(path)};
}

absl::StatusOr<uint16_t> ParsePort(absl::string_view text, absl::string_view port) {
  uint32_t number = 0;
  const bool digits = !port.empty() && std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(port, &number) || number > 65535) return Bad(text, "has no port from 0 to 65535");
  return static_cast<uint16_t>(number);
}

bool IsHostCharacter(unsigned char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; }

}  // namespace

std::string ListenAddress::ToString() const {
  if (is_unix()) return absl::StrCat(kUnixPrefix, path);
  return IsV6(host) ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

bool ListenAddress::IsLocal() const {
  if (is_unix() || absl::EqualsIgnoreCase(host, "localhost")) return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  if (absl::StartsWith(text, kUnixPrefix)) return ParseUnix(text);
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return Bad(text, "has no port");
  absl::string_view host = text.substr(0, colon);
  ListenAddress address;
  STAGECOACH_ASSIGN_OR_RETURN(address.port, ParsePort(text, text.substr(colon + 1)));
  if (host.empty()) return Bad(text, "has no host (0.0.0.0 is every address of this machine)");
  if (host.front() == '[') {
    if (host.back() != ']') return Bad(text, "has no closing bracket");
    address.host = std::string(host.substr(1, host.size() - 2));
    if (!IsV6(address.host)) return Bad(text, "has no IPv6 address in its brackets");
    return address;
  }
  address.host = std::string(host);
  if (host.find(':') != absl::string_view::npos) return Bad(text, "has an IPv6 address without brackets");
  if (host.size() > kMaxHostBytes || !std::all_of(host.begin(), host.end(), IsHostCharacter)) {
    return Bad(text, "has no valid host name");
  }
  return address;
}

absl::Status CheckListenIsAllowed(const ListenAddress& address, bool insecure) {
  if (insecure || address.IsLocal()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "refusing to listen at ", address.ToString(),
      ": there is no authentication, so whoever reaches that port can run jobs and read and write files as this user. "
      "Listen at a loopback address or unix:PATH, or, when the network lets in only who may do that, add --insecure"));
}

absl::StatusOr<std::optional<ListenAddress>> ParseReadersAddress(absl::string_view text, bool insecure,
                                                                 absl::string_view what) {
  if (text.empty()) return std::nullopt;
  const std::string option = absl::StrCat("--", what, "-listen");
  absl::StatusOr<ListenAddress> address = ParseListenAddress(text);
  if (!address.ok()) return WithContext(address.status(), option);
  if (insecure || address->IsLocal()) return *std::move(address);
  return absl::FailedPreconditionError(absl::StrCat(
      option, ": refusing to serve ", what, " at ", address->ToString(), ": there is no authentication, so whoever ",
      "reaches that port can read them. Listen at a loopback address, or, when the network lets in only who may do ",
      "that, add --insecure"));
}

absl::Status CheckDialIsAllowed(const ListenAddress& address, bool insecure) {
  if (insecure || address.IsLocal()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "refusing to dial ", address.ToString(),
      ": there is no authentication, so whoever answers there can read and write files as this user. Dial a loopback "
      "address or unix:PATH, or, when nobody else can answer there, add --insecure"));
}

}  // namespace stagecoach
