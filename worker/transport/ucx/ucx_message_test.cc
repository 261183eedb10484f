#include "worker/transport/ucx/ucx_message.h"

#include <gtest/gtest.h>

#include "worker/transport/ucx/ucx_endpoint.h"

namespace stagecoach {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

UcxEndpoint Endpoint() {
  return {.mode = UcxMode::kShm,
          .token = 7,
          .life_line = 8,
          .process = 9,
          .own_address = 10,
          .host = {1, 2, 3, 4},
          .address = std::string("a\0b", 3)};
}

TEST(UcxMessageTest, MessagesComeBackAsTheyWere) {
  const UcxHello hello{.fence = {JobId("j"), Epoch(3), Incarnation(5)}, .rank = WorkerRank(2), .endpoint = "e"};
  const std::string packed = hello.Pack(9);
  const auto header = ParseHeader(Bytes(packed));
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->to_token, 9u);
  EXPECT_EQ(header->from_rank, 2u);
  EXPECT_EQ(header->type, UcxMessageType::kHello);
  const auto parsed = UcxHello::Parse(Bytes(packed));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->fence.job, JobId("j"));
  EXPECT_EQ(parsed->fence.epoch, Epoch(3));
  EXPECT_EQ(parsed->fence.incarnation, Incarnation(5));
  EXPECT_EQ(parsed->endpoint, "e");

  const UcxEdgeMessage open{
      .key = {true, 4, 5, v1::CHANNEL_KIND_TIE}, .end = 6, .num_slots = 7, .guard_address = 8, .guard_value = 9};
  const auto edge = UcxEdgeMessage::Parse(Bytes(open.Pack(1, WorkerRank(0))));
  ASSERT_TRUE(edge.has_value());
  EXPECT_EQ(edge->key, open.key);
  EXPECT_EQ(edge->end, 6u);
  EXPECT_EQ(edge->num_slots, 7u);
  EXPECT_EQ(edge->guard_address, 8u);
  EXPECT_EQ(edge->guard_value, 9u);
  EXPECT_EQ(edge->key.OfOtherEnd().OfOtherEnd(), open.key);

  for (int kind = v1::ChannelKind_MIN; kind <= v1::ChannelKind_MAX + 1; ++kind) {
    const UcxEdgeMessage of_kind{.key = {true, 4, 5, static_cast<v1::ChannelKind>(kind)}};
    const auto told = UcxEdgeMessage::Parse(Bytes(of_kind.Pack(1, WorkerRank(0))));
    EXPECT_EQ(told.has_value(), kind <= v1::CHANNEL_KIND_SKIP_GRADIENT) << kind;
  }

  const UcxTextMessage text{.type = UcxMessageType::kMismatch, .end = 3, .text = std::string(5000, 'x')};
  const auto cut = UcxTextMessage::Parse(Bytes(text.Pack(1, WorkerRank(0))));
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->text, std::string(1024, 'x'));

  UcxTransferHeader transfer(UcxMessageType::kData, 11, WorkerRank(1));
  transfer.Add({.end = 1, .sequence = 2, .tag = 3, .bytes = 4, .offset = 5});
  transfer.Add({.end = 6});
  transfer.SetNumReady(1);
  EXPECT_EQ(ParseHeader(transfer.bytes())->num_ready, 1);
  EXPECT_EQ(UcxTransferHeader::Record(transfer.bytes(), 0)->offset, 5u);
  EXPECT_EQ(UcxTransferHeader::Record(transfer.bytes(), 1)->end, 6u);
}

// Anyone may send anything: every prefix and every flipped byte is read without harm.
TEST(UcxMessageTest, DamagedMessagesAreRefusedOrHarmless) {
  const UcxHello hello{
      .fence = {JobId("job"), Epoch(3), Incarnation(5)}, .rank = WorkerRank(2), .endpoint = "endpoint"};
  const UcxEdgeMessage edge{.key = {true, 4, 5, v1::CHANNEL_KIND_TIE}, .end = 6, .num_slots = 7};
  const UcxTextMessage text{.type = UcxMessageType::kGoodbye, .end = 0, .text = "text"};
  const std::string messages[] = {hello.Pack(9), edge.Pack(1, WorkerRank(0)), text.Pack(1, WorkerRank(0))};
  for (const std::string& message : messages) {
    for (size_t size = 0; size < message.size(); ++size) {
      const std::string cut = message.substr(0, size);
      EXPECT_FALSE(UcxTransferHeader::Record(Bytes(cut), 1000).has_value());
      EXPECT_FALSE(UcxHello::Parse(Bytes(cut)).has_value() && message == messages[0]);
      EXPECT_FALSE(UcxEdgeMessage::Parse(Bytes(cut)).has_value() && message == messages[1]);
      EXPECT_FALSE(UcxTextMessage::Parse(Bytes(cut)).has_value() && message == messages[2]);
      std::string flipped = message;
      flipped[size] = static_cast<char>(~flipped[size]);
      UcxHello::Parse(Bytes(flipped));
      UcxEdgeMessage::Parse(Bytes(flipped));
      UcxTextMessage::Parse(Bytes(flipped));
    }
  }
  EXPECT_FALSE(ParseHeader({}).has_value());
}

TEST(UcxEndpointTest, ComesBackAsItWasAndNoDamageGoesUnnoticed) {
  const std::string packed = Endpoint().Pack();
  const auto parsed = UcxEndpoint::Parse(packed);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->Pack(), packed);
  EXPECT_EQ(parsed->address, Endpoint().address);
  for (size_t i = 0; i < packed.size(); ++i) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_EQ(UcxEndpoint::Parse(damaged).status().code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(UcxEndpoint::Parse(packed.substr(0, i)).status().code(), absl::StatusCode::kInvalidArgument) << i;
  }
  EXPECT_FALSE(UcxEndpoint::Parse(packed + "x").ok());
  EXPECT_FALSE(UcxEndpoint::Parse("in_process/1").ok());
}

TEST(UcxEndpointTest, SharedMemoryNeedsOneHostAndModesMustAgree) {
  UcxEndpoint other = Endpoint();
  EXPECT_EQ(CheckReachable(Endpoint(), other), absl::OkStatus());
  other.host.ipc_namespace = 99;
  EXPECT_EQ(CheckReachable(Endpoint(), other).code(), absl::StatusCode::kFailedPrecondition);
  other = Endpoint();
  other.mode = UcxMode::kTcp;
  EXPECT_EQ(CheckReachable(Endpoint(), other).code(), absl::StatusCode::kFailedPrecondition);
  UcxEndpoint reader = Endpoint();
  other = Endpoint();
  other.host.pid_namespace = 99;
  EXPECT_EQ(CheckReachable(reader, other), absl::OkStatus());
  reader.mode = other.mode = UcxMode::kCma;
  EXPECT_EQ(CheckReachable(reader, other).code(), absl::StatusCode::kFailedPrecondition);
  other.mode = UcxMode::kTcp;
  UcxEndpoint tcp = other;
  tcp.host.boot = 99;
  EXPECT_EQ(CheckReachable(tcp, other), absl::OkStatus());
}

TEST(UcxModeTest, NamesComeBack) {
  for (const UcxMode mode : {UcxMode::kTcp, UcxMode::kShm, UcxMode::kCma}) {
    EXPECT_EQ(*ParseUcxMode(UcxModeText(mode)), mode);
  }
  EXPECT_EQ(*ParseUcxMode("cma"), UcxMode::kCma);
  EXPECT_EQ(ParseUcxMode("ib").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach
