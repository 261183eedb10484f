// What of UCX's own speed a Channel of the ucx transport reaches, between two processes of this machine.
//
//   ucx_bandwidth [--mode tcp|shm|cma] [--rounds 5] [--only latency|bandwidth] [--perftest ucx_perftest]
//
// Measures in turns, within each round and for each size, a Channel and ucx_perftest with the same transports (UCX_TLS,
// UCX_NET_DEVICES), wake-up mode on both ends (-E sleep), and error handling where the mode has it (-e). Bandwidth: a
// sender with four slots, a receiver that posts four ahead, until the receiver says that it has the last; against
// tag_bw. Latency: half a round trip of 64 bytes, receives posted two ahead; against tag_lat and, since a Channel's
// send does not complete before its receive is posted, tag_sync_lat, which keeps the same promise. Prints a line a case
// and round, and then the median of the rounds' ratios. A figure of the Channel over UCX's: 1 is as fast.
//
// Both processes of either side share one buffer among all transfers, as ucx_perftest does.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "tests/testing/transport/child_process.h"
#include "worker/transport/ucx/ucx_transport.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr uint32_t kBandwidthSlots = 4;
constexpr uint32_t kLatencySlots = 2;

struct Arguments {
  std::string mode = "tcp";
  std::string perftest = "ucx_perftest";
  std::string only;  // cases whose name begins so
  int rounds = 5;
  bool is_peer = false;  // this is the other process
};

// What is measured: so many transfers of such a size.
struct Case {
  bool is_latency = false;
  size_t bytes = 0;
  uint32_t count = 0;
};

const std::vector<Case> kCases = {
    {false, size_t{4} << 20, 300}, {false, size_t{3} << 19, 800}, {false, size_t{64} << 10, 10000}, {true, 64, 20000}};

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "ucx_bandwidth: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename Value>
Value Require(absl::StatusOr<Value> value) {
  Require(value.status());
  return *std::move(value);
}

TransferTag TagOf(uint32_t index) {
  return TransferTag::Of(v1::CHANNEL_KIND_ACTIVATION, StageIndex(0), MicroBatchIndex(index & 0xffff),
                         Step(index >> 16));
}

// This process's part of the cases. Rank 0 measures.
class Side {
 public:
  Side(const std::string& mode, uint32_t rank) : rank_(rank) {
    const TransportFactory factory = UcxTransportFactory({.mode = Require(ParseUcxMode(mode))});
    transport_ = Require(factory({JobId("bandwidth"), Epoch(1), Incarnation(rank + 1)}, WorkerRank(rank)));
  }

  std::string endpoint() const { return transport_->endpoint(); }

  void Connect(const std::string& other) {
    std::vector<TransportPeer> peers = {{Incarnation(1), other}, {Incarnation(2), other}};
    peers[rank_].endpoint = endpoint();
    Require(transport_->Connect(peers, kPatience));
  }

  // At rank 0: MiB per second, or microseconds of half a round trip.
  double Run(const Case& measured) {
    ++case_;
    const uint32_t slots = measured.is_latency ? kLatencySlots : kBandwidthSlots;
    out_ = Open(rank_, slots);
    in_ = Open(1 - rank_, slots);
    buffer_.assign(measured.bytes, std::byte{1});
    const double figure = measured.is_latency ? PingPong(measured)
                          : rank_ == 0        ? SendAll(measured)
                                              : ReceiveAll(measured);
    out_.reset();
    in_.reset();
    return figure;
  }

 private:
  std::unique_ptr<Channel> Open(uint32_t from, uint32_t slots) {
    v1::ChannelSpec spec;
    spec.set_from_stage(2 * case_ + from);
    spec.set_to_stage(2 * case_ + 1 - from);
    spec.set_from_worker_rank(from);
    spec.set_to_worker_rank(1 - from);
    spec.set_kind(v1::CHANNEL_KIND_ACTIVATION);
    spec.set_num_slots(slots);
    return Require(transport_->Open(spec));
  }

  double SendAll(const Case& measured) {
    Require(Require(in_->Recv(TagOf(0), {}, nullptr))->Wait(kPatience));  // the receiver is there
    std::vector<Transfer*> sends;
    const absl::Duration start = Clock::Real().Now();
    for (uint32_t i = 0; i < measured.count; ++i) {
      if (i >= kBandwidthSlots) Require(sends[i - kBandwidthSlots]->Wait(kPatience));
      sends.push_back(Require(out_->Send(TagOf(i), buffer_, nullptr)));
    }
    Require(Require(in_->Recv(TagOf(1), {}, nullptr))->Wait(kPatience));
    const double seconds = absl::ToDoubleSeconds(Clock::Real().Now() - start);
    return static_cast<double>(measured.bytes) * measured.count / seconds / (1 << 20);
  }

  double ReceiveAll(const Case& measured) {
    std::vector<Transfer*> receives;
    const auto post = [&] {
      const auto index = static_cast<uint32_t>(receives.size());
      if (index < measured.count) receives.push_back(Require(in_->Recv(TagOf(index), buffer_, nullptr)));
    };
    for (uint32_t i = 0; i < kBandwidthSlots; ++i) post();
    Require(Require(out_->Send(TagOf(0), {}, nullptr))->Wait(kPatience));
    for (uint32_t i = 0; i < measured.count; ++i) {
      Require(receives[i]->Wait(kPatience));
      post();
    }
    Require(Require(out_->Send(TagOf(1), {}, nullptr))->Wait(kPatience));
    return 0;
  }

  double PingPong(const Case& measured) {
    std::vector<std::byte> received(measured.bytes);
    std::vector<double> halves;
    std::vector<Transfer*> receives;
    const auto post = [&] {
      const auto index = static_cast<uint32_t>(receives.size());
      if (index < measured.count) receives.push_back(Require(in_->Recv(TagOf(index), received, nullptr)));
    };
    for (uint32_t i = 0; i < kLatencySlots; ++i) post();
    absl::Duration start = Clock::Real().Now();
    for (uint32_t i = 0; i < measured.count; ++i) {
      if (rank_ == 1) {
        Require(receives[i]->Wait(kPatience));
        post();
      }
      Transfer* send = Require(out_->Send(TagOf(i), buffer_, nullptr));
      if (rank_ == 0) {
        Require(receives[i]->Wait(kPatience));
        post();
        const absl::Duration now = Clock::Real().Now();
        halves.push_back(absl::ToDoubleMicroseconds(now - start) / 2);
        start = now;
      }
      Require(send->Wait(kPatience));
    }
    if (halves.empty()) return 0;
    std::nth_element(halves.begin(), halves.begin() + halves.size() / 2, halves.end());
    return halves[halves.size() / 2];
  }

  const uint32_t rank_;
  std::unique_ptr<Transport> transport_;
  uint32_t case_ = 0;
  std::unique_ptr<Channel> out_, in_;
  std::vector<std::byte> buffer_;
};

// The other process: does its part of each case that it is told.
void RunPeer(const Arguments& arguments) {
  ChildProcess::EndWithParent();
  Side side(arguments.mode, 1);
  std::printf("%s\n", ToHex(side.endpoint()).c_str());
  std::fflush(stdout);
  std::string line(1 << 16, '\0');
  if (std::fgets(line.data(), static_cast<int>(line.size()), stdin) == nullptr) return;
  side.Connect(FromHex(line.substr(0, line.find('\n'))));
  int index = 0;
  while (std::scanf("%d", &index) == 1) side.Run(kCases.at(static_cast<size_t>(index)));
}

std::string PerftestTransports(const std::string& mode) {
  if (mode == "tcp") return "tcp,self";
  return mode == "cma" ? "sysv,cma,self" : "sysv,self";
}

// One figure of ucx_perftest: its median latency in microseconds, or its bandwidth in MiB per second.
double RunPerftest(const Arguments& arguments, const std::string& test, const Case& measured, int port) {
  std::vector<std::string> server = {"env",
                                     absl::StrCat("UCX_TLS=", PerftestTransports(arguments.mode)),
                                     "UCX_NET_DEVICES=lo",
                                     "UCX_WARN_UNUSED_ENV_VARS=n",
                                     arguments.perftest,
                                     "-p",
                                     absl::StrCat(port),
                                     "-E",
                                     "sleep"};
  if (arguments.mode == "tcp") server.push_back("-e");
  std::vector<std::string> client = server;
  client.insert(client.begin() + 5, "127.0.0.1");
  for (const std::string& more :
       {std::string("-f"), std::string("-t"), test, std::string("-s"), absl::StrCat(measured.bytes), std::string("-n"),
        absl::StrCat(measured.count), std::string("-w"), std::string("100")}) {
    client.push_back(more);
  }
  const std::unique_ptr<ChildProcess> serving = Require(ChildProcess::Start(server));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it does not say when it listens
  const std::unique_ptr<ChildProcess> measuring = Require(ChildProcess::Start(client));
  std::vector<std::string> columns;
  while (true) {
    const absl::StatusOr<std::string> line = measuring->ReadLine(kPatience);
    if (!line.ok()) break;
    columns = absl::StrSplit(*line, ' ', absl::SkipEmpty());
  }
  double figure = 0;
  const size_t column = measured.is_latency ? 1 : 5;
  if (columns.size() <= column || !absl::SimpleAtod(columns[column], &figure)) {
    Require(absl::InternalError(absl::StrCat(arguments.perftest, " did not print what was expected")));
  }
  return figure;
}

struct Comparison {
  std::string name;
  size_t case_index = 0;
  std::string test;
  std::vector<double> ratios;
};

std::vector<Comparison> Comparisons(const std::string& only) {
  std::vector<Comparison> comparisons;
  for (size_t i = 0; i < kCases.size(); ++i) {
    const Case& measured = kCases[i];
    const std::string name = absl::StrCat(measured.is_latency ? "latency " : "bandwidth ", measured.bytes);
    for (const char* test : {"tag_bw", "tag_lat", "tag_sync_lat"}) {
      if (measured.is_latency == (std::string(test) != "tag_bw") && name.starts_with(only)) {
        comparisons.push_back({.name = name, .case_index = i, .test = test, .ratios = {}});
      }
    }
  }
  return comparisons;
}

void Compare(const Arguments& arguments) {
  const std::unique_ptr<ChildProcess> peer =
      Require(ChildProcess::Start({"/proc/self/exe", "--peer", "--mode", arguments.mode}));
  Side side(arguments.mode, 0);
  const std::string other = Require(peer->ReadLine(kPatience));
  Require(peer->WriteLine(ToHex(side.endpoint())));
  side.Connect(FromHex(other));
  std::vector<Comparison> comparisons = Comparisons(arguments.only);
  int port = 20000 + getpid() % 10000;
  for (int round = 0; round < arguments.rounds; ++round) {
    for (Comparison& comparison : comparisons) {
      const Case& measured = kCases[comparison.case_index];
      Require(peer->WriteLine(absl::StrCat(comparison.case_index)));
      const double ours = side.Run(measured);
      const double theirs = RunPerftest(arguments, comparison.test, measured, port++);
      const double ratio = measured.is_latency ? theirs / ours : ours / theirs;
      std::printf("%-18s channel %8.1f, %-12s %8.1f %s: %.3f\n", comparison.name.c_str(), ours, comparison.test.c_str(),
                  theirs, measured.is_latency ? "us" : "MiB/s", ratio);
      std::fflush(stdout);
      comparison.ratios.push_back(ratio);
    }
  }
  for (Comparison& comparison : comparisons) {
    std::sort(comparison.ratios.begin(), comparison.ratios.end());
    std::printf("median: %-18s over %-12s %.3f (from %.3f to %.3f)\n", comparison.name.c_str(), comparison.test.c_str(),
                comparison.ratios[comparison.ratios.size() / 2], comparison.ratios.front(), comparison.ratios.back());
  }
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Bandwidth and latency of a ucx channel against ucx_perftest");
  app.add_option("--mode", arguments.mode, "tcp, shm or cma");
  app.add_option("--rounds", arguments.rounds);
  app.add_option("--only", arguments.only, "latency or bandwidth");
  app.add_option("--perftest", arguments.perftest, "program to compare with");
  app.add_flag("--peer", arguments.is_peer)->group("");
  CLI11_PARSE(app, argc, argv);
  StartLog("ucx_bandwidth");
  if (arguments.is_peer) {
    RunPeer(arguments);
  } else {
    Compare(arguments);
  }
  return 0;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Main(argc, argv); }
