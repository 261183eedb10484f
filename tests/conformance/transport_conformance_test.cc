// What every transport must do: order, rendezvous, sizes, mismatches, slots, fences. Abort is in
// transport_abort_test.cc.
#include "tests/conformance/transport_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/named_thread.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

TEST_P(TransportConformanceTest, CarriesBytesOfEverySize) {
  MakePair();
  uint32_t micro_batch = 0;
  for (const size_t bytes : std::initializer_list<size_t>{0, 1, 63, 64, 4096, 65537, 262144, 262145, 8 << 20}) {
    const std::vector<std::byte> sent = Pattern(bytes, micro_batch);
    std::vector<std::byte> received(bytes);
    auto send = sender_->Send(Tag(micro_batch), sent, nullptr);
    auto recv = receiver_->Recv(Tag(micro_batch), received, nullptr);
    ASSERT_TRUE(send.ok() && recv.ok());
    ASSERT_TRUE((*send)->Wait(kLongWait).ok());
    ASSERT_TRUE((*recv)->Wait(kLongWait).ok());
    EXPECT_EQ(sent, received) << bytes;
    ++micro_batch;
  }
}

TEST_P(TransportConformanceTest, NeitherEndCompletesBeforeBothArePosted) {
  MakePair();
  std::vector<std::byte> buffer(64), received(64);
  Transfer* send = *sender_->Send(Tag(0), buffer, nullptr);
  EXPECT_FALSE(send->complete());
  EXPECT_EQ(send->Wait(absl::Milliseconds(5)).code(), absl::StatusCode::kDeadlineExceeded);
  Transfer* recv = *receiver_->Recv(Tag(0), received, nullptr);
  EXPECT_TRUE(send->Wait(kLongWait).ok());
  EXPECT_TRUE(recv->Wait(kLongWait).ok());
  EXPECT_TRUE(send->complete());

  recv = *receiver_->Recv(Tag(1), received, nullptr);
  EXPECT_FALSE(recv->complete());
  EXPECT_EQ(recv->Wait(absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
  send = *sender_->Send(Tag(1), buffer, nullptr);
  EXPECT_TRUE(recv->Wait(kLongWait).ok());
  EXPECT_TRUE(send->Wait(kLongWait).ok());
}

TEST_P(TransportConformanceTest, EmptyTransferStillMeets) {
  MakePair();
  Transfer* send = *sender_->Send(Tag(0), {}, nullptr);
  EXPECT_FALSE(send->complete());
  Transfer* recv = *receiver_->Recv(Tag(0), {}, nullptr);
  EXPECT_TRUE(recv->Wait(kLongWait).ok());
  EXPECT_TRUE(send->Wait(kLongWait).ok());
}

TEST_P(TransportConformanceTest, IsFirstInFirstOut) {
  MakePair(/*num_slots=*/4);
  std::vector<std::vector<std::byte>> sent, received(4, std::vector<std::byte>(1024));
  std::vector<Transfer*> transfers;
  for (uint32_t i = 0; i < 4; ++i) sent.push_back(Pattern(1024, i));
  for (uint32_t i = 0; i < 4; ++i) transfers.push_back(*sender_->Send(Tag(i), sent[i], nullptr));
  for (uint32_t i = 0; i < 4; ++i) transfers.push_back(*receiver_->Recv(Tag(i), received[i], nullptr));
  for (Transfer* transfer : transfers) EXPECT_TRUE(transfer->Wait(kLongWait).ok());
  EXPECT_EQ(sent, received);
}

TEST_P(TransportConformanceTest, WrongTagIsDataLossAtBothEndsNamingBoth) {
  MakePair();
  std::vector<std::byte> buffer(64), received(64);
  Transfer* send = *sender_->Send(Tag(3, 7), buffer, nullptr);
  auto recv = receiver_->Recv(Tag(4, 7), received, nullptr);
  const absl::Status at_sender = send->Wait(kLongWait);
  const absl::Status at_receiver = recv.ok() ? (*recv)->Wait(kLongWait) : recv.status();
  for (const absl::Status& status : {at_sender, at_receiver}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("micro-batch 3, step 7"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("micro-batch 4, step 7"));
  }
  EXPECT_EQ(sender_->Send(Tag(5), buffer, nullptr).status().code(), absl::StatusCode::kDataLoss);
}

TEST_P(TransportConformanceTest, WrongSizeIsDataLossAtBothEnds) {
  MakePair();
  std::vector<std::byte> buffer(64), received(128);
  Transfer* recv = *receiver_->Recv(Tag(0), received, nullptr);
  auto send = sender_->Send(Tag(0), buffer, nullptr);
  EXPECT_EQ(recv->Wait(kLongWait).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ((send.ok() ? (*send)->Wait(kLongWait) : send.status()).code(), absl::StatusCode::kDataLoss);
}

TEST_P(TransportConformanceTest, MorePostsThanSlotsAreInternal) {
  MakePair(/*num_slots=*/2);
  std::vector<std::byte> buffer(64), received(64);
  Transfer* send = *sender_->Send(Tag(0), buffer, nullptr);
  ASSERT_TRUE(sender_->Send(Tag(1), buffer, nullptr).ok());
  EXPECT_EQ(sender_->Send(Tag(2), buffer, nullptr).status().code(), absl::StatusCode::kInternal);
  Transfer* recv = *receiver_->Recv(Tag(0), received, nullptr);
  ASSERT_TRUE(recv->Wait(kLongWait).ok());
  ASSERT_TRUE(send->Wait(kLongWait).ok());
  EXPECT_TRUE(sender_->Send(Tag(2), buffer, nullptr).ok());  // one slot is free again
}

TEST_P(TransportConformanceTest, WaitsForReadyEventsOfBothEnds) {
  MakePair();
  const std::vector<std::byte> sent = Pattern(4096, 1);
  std::vector<std::byte> received(4096);
  auto readable = std::make_shared<FakeEvent>();
  auto writable = std::make_shared<FakeEvent>();
  Transfer* send = nullptr;
  NamedThread sending("send", [&] {
    send = *sender_->Send(Tag(0), sent, readable);
    EXPECT_TRUE(send->Wait(kLongWait).ok());
  });
  NamedThread receiving("recv",
                        [&] { EXPECT_TRUE((*receiver_->Recv(Tag(0), received, writable))->Wait(kLongWait).ok()); });
  readable->WaitUntilAsked();
  EXPECT_EQ(received, std::vector<std::byte>(4096));
  readable->Complete();
  writable->WaitUntilAsked();
  EXPECT_EQ(received, std::vector<std::byte>(4096));
  writable->Complete();
  sending.Join();
  receiving.Join();
  EXPECT_EQ(sent, received);
}

TEST_P(TransportConformanceTest, ManyChannelsInBothDirectionsAtOnce) {
  constexpr uint32_t kWorkers = 4;
  constexpr uint32_t kTransfers = 200;
  group_ = std::make_unique<TransportGroup>(factory_, kWorkers);
  group_->ConnectAll();
  const auto work = [&](uint32_t worker, uint32_t peer) {
    const std::unique_ptr<Channel> out = group_->Open(worker, TransportGroup::Spec(worker, peer));
    const std::unique_ptr<Channel> in = group_->Open(worker, TransportGroup::Spec(peer, worker));
    std::vector<std::byte> received(3000);
    for (uint32_t i = 0; i < kTransfers; ++i) {
      const std::vector<std::byte> sent = Pattern(3000, i + 1000 * worker);
      Transfer* recv = *in->Recv(Tag(i), received, nullptr);
      Transfer* send = *out->Send(Tag(i), sent, nullptr);
      ASSERT_EQ(recv->Wait(kLongWait), absl::OkStatus());
      ASSERT_EQ(send->Wait(kLongWait), absl::OkStatus());
      ASSERT_EQ(received, Pattern(3000, i + 1000 * peer));
    }
  };
  std::vector<NamedThread> threads;
  for (uint32_t a = 0; a < kWorkers; ++a) {
    for (uint32_t b = 0; b < kWorkers; ++b) {
      if (a != b) threads.emplace_back("pair", [&work, a, b] { work(a, b); });
    }
  }
}

// Stages 0 and 3 on worker 0, 1 and 2 on worker 1: channels that stages, tags or kinds alone do not tell apart.
TEST_P(TransportConformanceTest, EveryEdgeAndKindIsAChannelOfItsOwn) {
  group_ = std::make_unique<TransportGroup>(factory_, 2);
  group_->ConnectAll();
  struct Way {
    v1::ChannelSpec spec;
    std::unique_ptr<Channel> sender, receiver;
    std::vector<std::byte> sent, received;
    Transfer* recv = nullptr;
    Transfer* send = nullptr;
  };
  std::vector<Way> ways;
  const auto add = [&](uint32_t from, uint32_t to, v1::ChannelKind kind) {
    v1::ChannelSpec spec = TransportGroup::Spec(from, to, 2, kind);
    spec.set_from_worker_rank(from == 0 || from == 3 ? 0 : 1);
    spec.set_to_worker_rank(to == 0 || to == 3 ? 0 : 1);
    Way& way = ways.emplace_back();
    way.spec = spec;
    way.sender = group_->Open(spec.from_worker_rank(), spec);
    way.receiver = group_->Open(spec.to_worker_rank(), spec);
    way.sent = Pattern(500, static_cast<unsigned>(ways.size()));
    way.received.resize(500);
  };
  for (const uint32_t to : {1u, 2u}) {
    add(0, to, v1::CHANNEL_KIND_ACTIVATION);
    add(0, to, v1::CHANNEL_KIND_SKIP);
    add(to, 0, v1::CHANNEL_KIND_GRADIENT);
    add(to, 0, v1::CHANNEL_KIND_SKIP_GRADIENT);
    add(to, 3, v1::CHANNEL_KIND_SKIP);
    add(3, to, v1::CHANNEL_KIND_SKIP_GRADIENT);
  }
  for (Way& way : ways) {
    const TransferTag tag =
        TransferTag::Of(way.spec.kind(), StageIndex(way.spec.from_stage()), MicroBatchIndex(0), Step(1));
    way.send = *way.sender->Send(tag, way.sent, nullptr);
  }
  for (auto way = ways.rbegin(); way != ways.rend(); ++way) {
    const TransferTag tag =
        TransferTag::Of(way->spec.kind(), StageIndex(way->spec.from_stage()), MicroBatchIndex(0), Step(1));
    way->recv = *way->receiver->Recv(tag, way->received, nullptr);
  }
  for (Way& way : ways) {
    EXPECT_EQ(way.recv->Wait(kLongWait), absl::OkStatus());
    EXPECT_EQ(way.send->Wait(kLongWait), absl::OkStatus());
    EXPECT_EQ(way.received, way.sent);
  }
  ways.clear();  // before the transports
}

TEST_P(TransportConformanceTest, SkipTransfersAreNamedInErrors) {
  group_ = std::make_unique<TransportGroup>(factory_, 2);
  group_->ConnectAll();
  const v1::ChannelSpec spec = TransportGroup::Spec(0, 1, 2, v1::CHANNEL_KIND_SKIP);
  sender_ = group_->Open(0, spec);
  receiver_ = group_->Open(1, spec);
  const auto tag = [](v1::ChannelKind kind) {
    return TransferTag::Of(kind, StageIndex(0), MicroBatchIndex(3), Step(7));
  };
  std::vector<std::byte> buffer(8), other(8);
  Transfer* recv = *receiver_->Recv(tag(v1::CHANNEL_KIND_SKIP_GRADIENT), buffer, nullptr);
  ASSERT_TRUE(sender_->Send(tag(v1::CHANNEL_KIND_SKIP), other, nullptr).ok());
  const absl::Status status = recv->Wait(kLongWait);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.ToString(), testing::AllOf(testing::HasSubstr("skip channel from stage 0"),
                                                testing::HasSubstr("sent skip of stage 0, micro-batch 3, step 7"),
                                                testing::HasSubstr("posted skip_gradient of stage 0, micro-batch 3")));
}

TEST_P(TransportConformanceTest, OneChannelServesBothEndsOfAnEdgeWithinAWorker) {
  group_ = std::make_unique<TransportGroup>(factory_, 1);
  group_->ConnectAll();
  v1::ChannelSpec spec = TransportGroup::Spec(0, 1);
  spec.set_to_worker_rank(0);
  const std::unique_ptr<Channel> channel = group_->Open(0, spec);
  const std::vector<std::byte> sent = Pattern(100, 1);
  std::vector<std::byte> received(100);
  Transfer* recv = *channel->Recv(Tag(0), received, nullptr);
  Transfer* send = *channel->Send(Tag(0), sent, nullptr);
  EXPECT_TRUE(recv->Wait(kLongWait).ok());
  EXPECT_TRUE(send->Wait(kLongWait).ok());
  EXPECT_EQ(sent, received);
}

TEST_P(TransportConformanceTest, OpensOnlyWhatIsHereAndOnce) {
  group_ = std::make_unique<TransportGroup>(factory_, 3);
  EXPECT_EQ(group_->at(0).Open(TransportGroup::Spec(0, 1)).status().code(), absl::StatusCode::kFailedPrecondition);
  group_->ConnectAll();
  EXPECT_EQ(group_->at(0).Open(TransportGroup::Spec(1, 2)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(group_->at(0).Open(TransportGroup::Spec(0, 9)).status().code(), absl::StatusCode::kInvalidArgument);
  const std::unique_ptr<Channel> channel = group_->Open(0, TransportGroup::Spec(0, 1));
  EXPECT_EQ(group_->at(0).Open(TransportGroup::Spec(0, 1)).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(channel->route().empty());
}

TEST_P(TransportConformanceTest, RefusesPeersOfAnotherFence) {
  const auto make = [&](const char* job, uint64_t epoch, uint64_t incarnation, uint32_t rank) {
    return *factory_(TransportFence{JobId(job), Epoch(epoch), Incarnation(incarnation)}, WorkerRank(rank));
  };
  const std::unique_ptr<Transport> peers[] = {make("other", 3, 101, 1), make("job", 2, 101, 1), make("job", 4, 101, 1),
                                              make("job", 3, 999, 1)};
  for (const auto& peer : peers) {
    const std::unique_ptr<Transport> self = make("job", 3, 100, 0);
    const std::vector<TransportPeer> list = {{Incarnation(100), self->endpoint()},
                                             {Incarnation(101), peer->endpoint()}};
    absl::Status at_peer;
    NamedThread connecting("peer", [&] { at_peer = peer->Connect(list, kLongWait); });
    const absl::Status refused = self->Connect(list, kLongWait);
    EXPECT_EQ(refused.code(), absl::StatusCode::kAborted) << refused;
    self->Abort(refused);
    connecting.Join();
    EXPECT_FALSE(at_peer.ok());
  }
}

TEST_P(TransportConformanceTest, ConnectWaitsForLatePeersUntilTheDeadline) {
  TransportGroup group(factory_, 2);
  const absl::Status late = group.at(0).Connect(group.peers(), absl::Milliseconds(10));
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.message()), HasSubstr("ranks 1"));

  group_ = std::make_unique<TransportGroup>(factory_, 2);
  std::atomic<bool> started{false};
  NamedThread early("early", [&] {
    started.store(true);
    started.notify_all();
    EXPECT_TRUE(group_->at(0).Connect(group_->peers(), kLongWait).ok());
  });
  started.wait(false);
  EXPECT_TRUE(group_->at(1).Connect(group_->peers(), kLongWait).ok());
}

}  // namespace
}  // namespace stagecoach
