// Any trouble in any pipeline: a whole run under rendezvous in simulated time, and the verdict at each instant.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/fleet/hang_verdict.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::MakeSmallPipeline;
using testing::SmallPipeline;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSilentAfter = 1;
constexpr double kInterval = 0.25;  // of heartbeats

std::vector<uint32_t> Ranks(const std::vector<HangBlame>& blames) {
  std::vector<uint32_t> ranks;
  for (const HangBlame& blame : blames) ranks.push_back(blame.rank.value());
  return ranks;
}

// What goes wrong in a run.
struct Trouble {
  std::optional<uint32_t> hangs;      // computes for ever at `at`
  std::optional<uint32_t> freezes;    // as if it were not there from `at` on: it says nothing either
  std::optional<uint32_t> pauses;     // computes at `at` for longer than usual
  double pause = 0;                   // so many seconds
  std::optional<uint32_t> lost_edge;  // `at`-th transfer on this channel of `of_worker` never ends
  uint32_t of_worker = 0;
  int at = 0;
};

// One run of programs under rendezvous, in simulated time: who is where from when on.
class SimulatedRun {
 public:
  struct Moment {
    double time;
    uint64_t instruction;
    std::optional<uint32_t> waits_on;
  };

  SimulatedRun(const SmallPipeline& pipeline, Trouble trouble, std::mt19937_64& random)
      : programs_(pipeline.programs), trouble_(trouble), moments_(programs_.size()), clocks_(programs_.size(), 0) {
    std::uniform_real_distribution<double> seconds(0.01, 0.3);
    for (const v1::StageProgram& program : programs_) {
      phases_.push_back(std::uniform_real_distribution<double>(0, kInterval)(random));
      for (int i = 0; i < program.instructions_size(); ++i) seconds_[{program.worker_rank(), i}] = seconds(random);
    }
    next_.assign(programs_.size(), 0);
    while (StepAny()) {
    }
  }

  double end() const { return *std::max_element(clocks_.begin(), clocks_.end()); }

  // What the coordinator knows at `now`, by heartbeats and votes.
  HangInput At(double now) const {
    HangInput input;
    input.now = absl::Seconds(now);
    input.silent_after = absl::Seconds(kSilentAfter);
    input.step_seconds = 0.1;
    for (uint32_t rank = 0; rank < programs_.size(); ++rank) input.members.push_back(ActivityAt(now, rank));
    return input;
  }

 private:
  using Edge = std::tuple<uint32_t, uint32_t, int, uint64_t>;  // from, to, kind, sequence

  // The last of the rank's heartbeats before `time`, and the first after it.
  double BeatBefore(uint32_t rank, double time) const {
    return std::max(0.0, std::floor((time - phases_[rank]) / kInterval) * kInterval + phases_[rank]);
  }
  double BeatAfter(uint32_t rank, double time) const {
    return std::ceil((time - phases_[rank]) / kInterval) * kInterval + phases_[rank];
  }

  MemberActivity ActivityAt(double now, uint32_t rank) const {
    MemberActivity member;
    const double heard = BeatBefore(rank, trouble_.freezes == rank ? std::min(now, frozen_at_) : now);
    member.program = &programs_[rank];
    member.heard_at = absl::Seconds(heard);
    const auto done = done_.find(rank);
    if (done != done_.end() && done->second <= now) member.answered_at = absl::Seconds(done->second);
    const auto moment = std::find_if(moments_[rank].rbegin(), moments_[rank].rend(),
                                     [&](const Moment& one) { return one.time <= heard; });
    if (moment == moments_[rank].rend()) return member;
    member.unmoved_since = absl::Seconds(BeatAfter(rank, moment->time));
    if (done != done_.end() && done->second <= heard) {
      member.unmoved_since = absl::Seconds(BeatAfter(rank, done->second));
      return member;
    }
    v1::RunState& run = member.run.emplace();
    run.set_run(1);
    run.set_step(7);
    run.set_instruction(moment->instruction);
    run.set_action(ActionText(programs_[rank].instructions(static_cast<int>(moment->instruction)).action()));
    run.set_waiting(moment->waits_on.has_value());
    run.set_channel(moment->waits_on.value_or(0));
    return member;
  }

  static Edge EdgeOf(const v1::StageProgram& program, uint32_t channel, uint64_t sequence) {
    const v1::ChannelSpec& spec = program.channels(static_cast<int>(channel));
    return {spec.from_stage(), spec.to_stage(), static_cast<int>(spec.kind()), sequence};
  }
  // When a transfer is complete; infinity: it is not, as things stand.
  double CompleteAt(const Edge& edge) const {
    const auto ends = posts_.find(edge);
    if (ends == posts_.end() || ends->second.size() < 2 || lost_ == edge) return kNever;
    return std::max(ends->second[0], ends->second[1]) + 0.01;
  }
  // Posted last into a slot of a channel.
  std::optional<Edge> InSlot(uint32_t rank, uint32_t channel, int32_t slot) const {
    const auto found = slots_.find({rank, channel, slot});
    return found == slots_.end() ? std::nullopt : std::optional(found->second);
  }

  // The next wait of an instruction: the channel and when it ends.
  std::optional<std::pair<uint32_t, double>> WaitOf(uint32_t rank, const v1::Instruction& instruction) const {
    const v1::ActionKind kind = instruction.action().kind();
    const bool computes =
        kind == v1::ACTION_KIND_FORWARD || kind == v1::ACTION_KIND_BACKWARD_INPUT || kind == v1::ACTION_KIND_TIE_REDUCE;
    if (!computes) return std::nullopt;
    for (const auto& [channel, slot] : SlotsOf(instruction)) {
      const auto edge = InSlot(rank, channel, slot);
      if (!edge.has_value()) continue;
      if (const double end = CompleteAt(*edge); end > clocks_[rank]) return std::pair(channel, end);
    }
    return std::nullopt;
  }

  // That it waits for, in order.
  static std::vector<std::pair<uint32_t, int32_t>> SlotsOf(const v1::Instruction& instruction) {
    std::vector<std::pair<uint32_t, int32_t>> slots;
    if (instruction.recv_slot() >= 0) slots.emplace_back(instruction.recv_channel(), instruction.recv_slot());
    for (const v1::SkipSlot& skip : instruction.skip_recv()) slots.emplace_back(skip.channel(), skip.slot());
    if (instruction.send_slot() >= 0) slots.emplace_back(instruction.send_channel(), instruction.send_slot());
    for (const v1::SkipSlot& skip : instruction.skip_send()) slots.emplace_back(skip.channel(), skip.slot());
    return slots;
  }

  bool IsTroubled(const std::optional<uint32_t>& who, uint32_t rank) const {
    return who == rank && next_[rank] == std::min(trouble_.at, programs_[rank].instructions_size() - 1);
  }

  void Note(uint32_t rank, std::optional<uint32_t> waits_on) {
    const auto last = static_cast<uint64_t>(programs_[rank].instructions_size() - 1);
    const Moment moment{clocks_[rank], std::min(static_cast<uint64_t>(next_[rank]), last), waits_on};
    auto& moments = moments_[rank];
    if (!moments.empty() && moments.back().instruction == moment.instruction && moments.back().waits_on == waits_on) {
      return;
    }
    moments.push_back(moment);
  }

  // Lets the worker whose clock is behind do what it can. False: nobody can.
  bool StepAny() {
    std::vector<uint32_t> order(programs_.size());
    for (uint32_t rank = 0; rank < order.size(); ++rank) order[rank] = rank;
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return std::pair(clocks_[a], a) < std::pair(clocks_[b], b); });
    return std::any_of(order.begin(), order.end(), [&](uint32_t rank) { return Step(rank); });
  }

  bool Step(uint32_t rank) {
    if (done_.contains(rank)) return false;
    const v1::StageProgram& program = programs_[rank];
    if (next_[rank] == program.instructions_size()) return Drain(rank);
    if (IsTroubled(trouble_.freezes, rank) || IsTroubled(trouble_.hangs, rank)) {
      if (trouble_.freezes == rank) {
        frozen_at_ = clocks_[rank];
      } else {
        Note(rank, std::nullopt);
      }
      return false;
    }
    const v1::Instruction& instruction = program.instructions(next_[rank]);
    if (const auto wait = WaitOf(rank, instruction); wait.has_value()) {
      Note(rank, wait->first);
      if (wait->second == kNever) return false;
      clocks_[rank] = wait->second;
      return true;
    }
    Note(rank, std::nullopt);
    clocks_[rank] += seconds_.at({rank, next_[rank]}) + (IsTroubled(trouble_.pauses, rank) ? trouble_.pause : 0);
    Post(rank, instruction);
    ++next_[rank];
    return true;
  }

  void Post(uint32_t rank, const v1::Instruction& instruction) {
    const v1::ActionKind kind = instruction.action().kind();
    const bool sends = kind == v1::ACTION_KIND_SEND_FORWARD || kind == v1::ACTION_KIND_SEND_BACKWARD ||
                       kind == v1::ACTION_KIND_SEND_TIE;
    const bool receives = kind == v1::ACTION_KIND_RECV_FORWARD || kind == v1::ACTION_KIND_RECV_BACKWARD ||
                          kind == v1::ACTION_KIND_RECV_TIE;
    if (!sends && !receives) return;
    const Edge edge = EdgeOf(programs_[rank], instruction.channel(), instruction.sequence());
    posts_[edge].push_back(clocks_[rank]);
    slots_[{rank, instruction.channel(), sends ? instruction.send_slot() : instruction.recv_slot()}] = edge;
    if (trouble_.lost_edge.has_value() && trouble_.of_worker == rank && !lost_.has_value() &&
        instruction.channel() == *trouble_.lost_edge && instruction.sequence() >= static_cast<uint64_t>(trouble_.at)) {
      lost_ = edge;
    }
  }

  // At the end of the run all transfers are waited for.
  bool Drain(uint32_t rank) {
    for (const auto& [key, edge] : slots_) {
      if (std::get<0>(key) != rank) continue;
      const double end = CompleteAt(edge);
      if (end <= clocks_[rank]) continue;
      Note(rank, std::get<1>(key));
      if (end == kNever) return false;
      clocks_[rank] = end;
      return true;
    }
    done_[rank] = clocks_[rank];
    return true;
  }

 public:
  const std::optional<Edge>& lost() const { return lost_; }

 private:
  const std::vector<v1::StageProgram> programs_;
  const Trouble trouble_;
  std::vector<std::vector<Moment>> moments_;  // [num_workers], in time
  std::vector<double> clocks_;
  std::vector<double> phases_;  // of heartbeats
  std::vector<int> next_;
  std::map<std::pair<uint32_t, int>, double> seconds_;
  std::map<Edge, std::vector<double>> posts_;  // by both ends
  std::map<std::tuple<uint32_t, uint32_t, int32_t>, Edge> slots_;
  std::map<uint32_t, double> done_;
  std::optional<Edge> lost_;
  double frozen_at_ = kNever;
};

Trouble DrawTrouble(const SmallPipeline& pipeline, std::mt19937_64& random) {
  const auto below = [&](uint64_t bound) { return static_cast<uint32_t>(random() % bound); };
  const uint32_t culprit = below(pipeline.programs.size());
  const v1::StageProgram& program = pipeline.programs[culprit];
  Trouble trouble;
  trouble.of_worker = culprit;
  trouble.at = static_cast<int>(below(static_cast<uint64_t>(program.instructions_size())));
  switch (below(5)) {
    case 0:
      trouble.hangs = culprit;
      break;
    case 1:
      trouble.freezes = culprit;
      break;
    case 2:
      trouble.pauses = culprit;
      trouble.pause = std::uniform_real_distribution<double>(0.5, 4)(random);
      break;
    case 3:
      trouble.lost_edge = below(static_cast<uint64_t>(program.channels_size()));
      trouble.at = static_cast<int>(below(6));
      break;
    default:
      break;  // nothing goes wrong
  }
  return trouble;
}

// With `connects`, connections from both ends towards the middle, as many as there is room for.
SmallPipeline DrawPipeline(std::mt19937_64& random, bool connects) {
  const std::string schedule = random() % 2 == 0 ? "1f1b" : "gpipe";
  testing::SmallPipelineOptions options;
  options.num_stages = 2 + static_cast<uint32_t>(random() % 5);
  options.num_micro_batches = 1 + static_cast<uint32_t>(random() % 6);
  options.credit_window = 1 + static_cast<uint32_t>(random() % 4);
  const uint32_t last_layer = options.num_stages + 2;
  for (uint32_t from = 0; connects && from + 2 <= last_layer - from; ++from) {
    options.skip_connections.emplace_back(from, last_layer - from);
  }
  return MakeSmallPipeline(schedule, options);
}

// Whatever happens in whatever pipeline: at no time is anybody blamed but the culprit, and it is in the end.
class HangVerdictPropertyTest : public ::testing::TestWithParam<bool> {};

TEST_P(HangVerdictPropertyTest, OnlyThePlantedCulpritIsBlamed) {
  int found = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const SmallPipeline pipeline = DrawPipeline(random, GetParam());
    const Trouble trouble = DrawTrouble(pipeline, random);
    const SimulatedRun run(pipeline, trouble, random);
    std::set<uint32_t> guilty;
    if (trouble.hangs || trouble.freezes) guilty.insert(trouble.of_worker);
    if (run.lost().has_value()) guilty.insert(std::get<1>(*run.lost()));  // one stage a worker
    std::set<uint32_t> suspects = guilty;
    if (trouble.pauses && trouble.pause > 1.5) suspects.insert(trouble.of_worker);
    for (double now = 0; now < run.end() + 6; now += 0.07) {
      for (const HangBlame& blame : FindHang(run.At(now))) {
        ASSERT_TRUE(suspects.contains(blame.rank.value()))
            << "seed " << seed << " at " << now << ": rank " << blame.rank << " " << blame.message;
      }
    }
    const std::vector<uint32_t> blamed = Ranks(FindHang(run.At(run.end() + 6)));
    ASSERT_EQ(std::set<uint32_t>(blamed.begin(), blamed.end()), guilty) << "seed " << seed;
    found += static_cast<int>(guilty.size());
  }
  EXPECT_GT(found, 400);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, HangVerdictPropertyTest, ::testing::Bool(),
                         [](const auto& connects) { return connects.param ? "SkipEdges" : "NoSkipEdges"; });

}  // namespace
}  // namespace stagecoach
