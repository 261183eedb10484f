#ifndef STAGECOACH_TESTS_CONFORMANCE_TRANSPORT_CONFORMANCE_H_
#define STAGECOACH_TESTS_CONFORMANCE_TRANSPORT_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/transport/transport.h"

namespace stagecoach {

// A transport that the suite runs over. `make` gives what one set of workers that can meet needs.
struct TransportUnderTest {
  std::string name;
  std::function<TransportFactory()> make;
};

inline constexpr absl::Duration kLongWait = absl::Seconds(20);  // never reached by a passing test

// What Abort promises; slower under a sanitizer.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr absl::Duration kAbortBound = absl::Seconds(1);
#else
inline constexpr absl::Duration kAbortBound = absl::Milliseconds(100);
#endif

// An event that becomes complete when told, and says when it has been asked.
class FakeEvent final : public Event {
 public:
  absl::StatusOr<bool> IsComplete() const override {
    asked_.store(true);
    asked_.notify_all();
    return complete_.load();
  }
  void Complete() { complete_.store(true); }
  void WaitUntilAsked() const { asked_.wait(false); }

 private:
  std::atomic<bool> complete_{false};
  mutable std::atomic<bool> asked_{false};
};

// The transports of `num_workers` workers of one epoch.
class TransportGroup {
 public:
  TransportGroup(const TransportFactory& factory, uint32_t num_workers);

  static v1::ChannelSpec Spec(uint32_t from_stage, uint32_t to_stage, uint32_t num_slots = 2,
                              v1::ChannelKind kind = v1::CHANNEL_KIND_ACTIVATION);

  void ConnectAll();  // each on its own thread
  std::unique_ptr<Channel> Open(uint32_t worker, const v1::ChannelSpec& spec);
  Transport& at(uint32_t worker) { return *transports_[worker]; }
  void Destroy(uint32_t worker) { transports_[worker].reset(); }
  const std::vector<TransportPeer>& peers() const { return peers_; }

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<TransportPeer> peers_;
};

class TransportConformanceTest : public testing::TestWithParam<TransportUnderTest> {
 protected:
  TransportConformanceTest() : factory_(GetParam().make()) {}

  static TransferTag Tag(uint32_t micro_batch, uint64_t step = 1) {
    return TransferTag::Of(v1::CHANNEL_KIND_ACTIVATION, StageIndex(0), MicroBatchIndex(micro_batch), Step(step));
  }
  static std::vector<std::byte> Pattern(size_t bytes, unsigned seed);

  // Two workers, connected, and both ends of the edge from stage 0 (worker 0) to stage 1 (worker 1).
  void MakePair(uint32_t num_slots = 2);

  TransportFactory factory_;
  std::unique_ptr<TransportGroup> group_;
  std::unique_ptr<Channel> sender_, receiver_;  // before the transports
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_CONFORMANCE_TRANSPORT_CONFORMANCE_H_
