// The other worker of the tests with processes: does what it is told, a line a command, and answers in lines.
//
//   transport_peer MODE RANK EPOCH
//
// Its first line is its endpoint in hex. Then, until the end of its input:
//   connect HEX...        endpoints by worker rank            -> ok | error ...
//   open FROM TO          the channel between these stages, which are the ranks, four slots     -> ok | error ...
//   send BYTES | recv BYTES    posts the next transfer of that channel, of Pattern(sequence)    -> ok | error ...
//   begun                 when the last receive's first byte has come                           -> ok
//   wait                  for the oldest transfer that was not waited for; checks what came     -> ok | error ...
//   send_and_wait BYTES | recv_and_wait BYTES                                                    -> ok | error ...
//   destroy               the channels and the transport                                        -> ok
#include <atomic>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <queue>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "tests/conformance/transport_pattern.h"
#include "tests/testing/transport/child_process.h"
#include "worker/transport/ucx/ucx_transport.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

class Peer {
 public:
  Peer(UcxMode mode, uint32_t rank, uint64_t epoch) : rank_(rank) {
    auto transport = UcxTransportFactory({.mode = mode})(ProcessFence(rank, epoch), WorkerRank(rank));
    if (!transport.ok()) std::cerr << transport.status() << std::endl;
    transport_ = *std::move(transport);
  }

  std::string endpoint() const { return transport_->endpoint(); }

  absl::Status Do(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "connect") return Connect(words);
    if (command == "open") return Open(words);
    if (command == "send" || command == "recv") return Post(command == "send", words);
    if (command == "send_and_wait" || command == "recv_and_wait") {
      const absl::Status posted = Post(command == "send_and_wait", words);
      return posted.ok() ? Wait() : posted;
    }
    if (command == "begun") return WaitUntilBegun();
    if (command == "wait") return Wait();
    if (command == "destroy") {
      channel_.reset();
      transport_.reset();
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(line);
  }

 private:
  struct Posted {
    Transfer* transfer;
    bool is_send;
    uint32_t sequence;
    std::unique_ptr<std::vector<std::byte>> buffer;
  };

  absl::Status Connect(std::istringstream& words) {
    std::vector<TransportPeer> peers;
    std::string hex;
    while (words >> hex) {
      const auto rank = static_cast<uint32_t>(peers.size());
      peers.push_back({ProcessFence(rank, 0).incarnation, FromHex(hex)});
    }
    return transport_->Connect(peers, kPatience);
  }

  absl::Status Open(std::istringstream& words) {
    uint32_t from = 0, to = 0;
    words >> from >> to;
    auto channel = transport_->Open(ProcessChannel(from, to));
    if (channel.ok()) channel_ = *std::move(channel);
    return channel.status();
  }

  absl::Status Post(bool is_send, std::istringstream& words) {
    size_t bytes = 0;
    words >> bytes;
    auto buffer = std::make_unique<std::vector<std::byte>>(is_send ? TransferPattern(bytes, sequence_)
                                                                   : std::vector<std::byte>(bytes));
    auto posted = is_send ? channel_->Send(ProcessTag(sequence_), *buffer, nullptr)
                          : channel_->Recv(ProcessTag(sequence_), *buffer, nullptr);
    if (posted.ok()) posted_.push({*posted, is_send, sequence_++, std::move(buffer)});
    return posted.status();
  }

  absl::Status WaitUntilBegun() {
    WaitForFirstByte(*posted_.back().buffer);
    return absl::OkStatus();
  }

  absl::Status Wait() {
    const Posted posted = std::move(posted_.front());
    posted_.pop();
    const absl::Status waited = posted.transfer->Wait(kPatience);
    if (!waited.ok() || posted.is_send) return waited;
    const bool equal = *posted.buffer == TransferPattern(posted.buffer->size(), posted.sequence);
    return equal ? absl::OkStatus() : absl::DataLossError("other bytes than were sent");
  }

  const uint32_t rank_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Channel> channel_;
  uint32_t sequence_ = 0;
  std::queue<Posted> posted_;
};

int Main(int argc, char** argv) {
  ChildProcess::EndWithParent();
  StartLog("transport_peer");
  if (argc != 4) return 2;
  Peer peer(*ParseUcxMode(argv[1]), static_cast<uint32_t>(std::stoul(argv[2])), std::stoull(argv[3]));
  std::cout << ToHex(peer.endpoint()) << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    const absl::Status done = peer.Do(line);
    if (done.ok()) {
      std::cout << "ok" << std::endl;
    } else {
      std::cout << "error " << done << std::endl;
    }
  }
  return 0;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Main(argc, argv); }
