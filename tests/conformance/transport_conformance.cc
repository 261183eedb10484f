#include "tests/conformance/transport_conformance.h"

#include "common/named_thread.h"

namespace stagecoach {

TransportGroup::TransportGroup(const TransportFactory& factory, uint32_t num_workers) {
  for (uint32_t rank = 0; rank < num_workers; ++rank) {
    const TransportFence fence{JobId("job"), Epoch(3), Incarnation(100 + rank)};
    auto transport = factory(fence, WorkerRank(rank));
    EXPECT_TRUE(transport.ok()) << transport.status();
    peers_.push_back({fence.incarnation, (*transport)->endpoint()});
    transports_.push_back(*std::move(transport));
  }
}

v1::ChannelSpec TransportGroup::Spec(uint32_t from_stage, uint32_t to_stage, uint32_t num_slots, v1::ChannelKind kind) {
  v1::ChannelSpec spec;
  spec.set_from_stage(from_stage);
  spec.set_to_stage(to_stage);
  spec.set_from_worker_rank(from_stage);
  spec.set_to_worker_rank(to_stage);
  spec.set_num_slots(num_slots);
  spec.set_kind(kind);
  return spec;
}

void TransportGroup::ConnectAll() {
  std::vector<NamedThread> threads;
  for (const auto& transport : transports_) {
    threads.emplace_back("connect", [this, &transport] {
      const absl::Status connected = transport->Connect(peers_, kLongWait);
      EXPECT_TRUE(connected.ok()) << connected;
    });
  }
}

std::unique_ptr<Channel> TransportGroup::Open(uint32_t worker, const v1::ChannelSpec& spec) {
  auto channel = transports_[worker]->Open(spec);
  EXPECT_TRUE(channel.ok()) << channel.status();
  return channel.ok() ? *std::move(channel) : nullptr;
}

std::vector<std::byte> TransportConformanceTest::Pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> pattern(bytes);
  uint64_t state = seed + 1;
  for (std::byte& b : pattern) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    b = static_cast<std::byte>(state >> 56);
  }
  return pattern;
}

void TransportConformanceTest::MakePair(uint32_t num_slots) {
  group_ = std::make_unique<TransportGroup>(factory_, 2);
  group_->ConnectAll();
  sender_ = group_->Open(0, TransportGroup::Spec(0, 1, num_slots));
  receiver_ = group_->Open(1, TransportGroup::Spec(0, 1, num_slots));
}

}  // namespace stagecoach
