#ifndef STAGECOACH_WORKER_AGENT_CLOCK_OFFSET_H_
#define STAGECOACH_WORKER_AGENT_CLOCK_OFFSET_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace stagecoach {

// How far the coordinator's steady clock is ahead of the worker's, from messages that it answers with its time. As NTP
// does (RFC 5905, section 8): the answer left the other clock at some moment of the round trip, the best guess is its
// middle, and the guess is off by half the round trip at most. Of all samples the one with the smallest round trip is
// kept, but the clocks' rates differ: what a sample is worth gets less by kDrift of its age, until a later one is
// better.
//
//   sent at s, answer t by the other clock, received at r:   offset = t - (s + r) / 2,   error = (r - s) / 2
//
// For timelines only: no decision compares clocks. Time is an argument. Pure; not thread-safe.
class ClockOffsetEstimator {
 public:
  // Two oscillators that are off by 100 ppm each.
  static constexpr double kDrift = 200e-6;
  struct Estimate {
    absl::Duration offset;  // coordinator's clock minus worker's
    absl::Duration error;   // at most, either way
  };

  // Of another coordinator, or of one that dials no more, nothing is known.
  void Reset();
  // Sequence numbers are not used twice between two resets. Those of the newest kMostSent messages are remembered.
  void OnSent(uint64_t sequence, absl::Duration at);
  void OnAnswer(uint64_t sequence, absl::Duration remote, absl::Duration at);
  // nullopt: no answer yet.
  std::optional<Estimate> At(absl::Duration now) const;

 private:
  static constexpr size_t kMostSent = 64;
  absl::Duration ErrorAt(absl::Duration now) const { return error_ + kDrift * (now - measured_at_); }

  std::deque<std::pair<uint64_t, absl::Duration>> sent_;
  bool is_known_ = false;
  absl::Duration offset_, error_, measured_at_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_CLOCK_OFFSET_H_
