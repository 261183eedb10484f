#include "coordinator/fleet/hang_verdict.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kLeastDeadline = absl::Seconds(2);
constexpr double kUsualFactor = 4;
constexpr double kPlanFactor = 20;
constexpr int kSilentIntervals = 4;

bool IsPost(const v1::Instruction& instruction) {
  switch (instruction.action().kind()) {
    case v1::ACTION_KIND_SEND_FORWARD:
    case v1::ACTION_KIND_RECV_FORWARD:
    case v1::ACTION_KIND_SEND_BACKWARD:
    case v1::ACTION_KIND_RECV_BACKWARD:
    case v1::ACTION_KIND_SEND_TIE:
    case v1::ACTION_KIND_RECV_TIE:
      return true;
    default:
      return false;
  }
}

bool IsSameEdge(const v1::ChannelSpec& a, const v1::ChannelSpec& b) {
  return a.from_stage() == b.from_stage() && a.to_stage() == b.to_stage() && a.kind() == b.kind();
}

// The slot of `channel` that an instruction other than a post reads, or, with `is_sender`, writes.
std::optional<int32_t> SlotOf(const v1::Instruction& waiting, uint32_t channel, bool is_sender) {
  const int32_t slot = is_sender ? waiting.send_slot() : waiting.recv_slot();
  if (slot >= 0 && (is_sender ? waiting.send_channel() : waiting.recv_channel()) == channel) return slot;
  for (const v1::SkipSlot& skip : is_sender ? waiting.skip_send() : waiting.skip_recv()) {
    if (skip.channel() == channel) return skip.slot();
  }
  return std::nullopt;
}

// The position on `channel` of the transfer that the instruction at `index` waits for: the newest post before it into
// the slot that it names, or, at the end of the run, where it names none, the newest of all.
std::optional<uint64_t> AwaitedSequence(const v1::StageProgram& program, uint64_t index, uint32_t channel,
                                        bool is_sender) {
  const auto num_instructions = static_cast<uint64_t>(program.instructions_size());
  if (index >= num_instructions) return std::nullopt;
  const auto slot = SlotOf(program.instructions(static_cast<int>(index)), channel, is_sender);
  for (auto i = static_cast<int>(index) - 1; i >= 0; --i) {
    const v1::Instruction& post = program.instructions(i);
    if (!IsPost(post) || post.channel() != channel) continue;
    if (!slot.has_value() || *slot == (is_sender ? post.send_slot() : post.recv_slot())) return post.sequence();
  }
  return std::nullopt;
}

// Where a program posts its end of a transfer.
std::optional<uint64_t> IndexOfPost(const v1::StageProgram& program, const v1::ChannelSpec& edge, uint64_t sequence) {
  for (int i = 0; i < program.instructions_size(); ++i) {
    const v1::Instruction& post = program.instructions(i);
    if (!IsPost(post) || post.sequence() != sequence) continue;
    if (post.channel() >= static_cast<uint32_t>(program.channels_size())) continue;
    if (IsSameEdge(program.channels(static_cast<int>(post.channel())), edge)) return static_cast<uint64_t>(i);
  }
  return std::nullopt;
}

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
}

// What one member does, as far as blame goes.
struct Standing {
  bool stuck = false;
  bool silent = false;   // what it last said may be over
  absl::Duration since;  // when it is stuck
  // The peer that it waits for; nullopt: it waits for nobody.
  std::optional<uint32_t> peer;
  const v1::ChannelSpec* edge = nullptr;  // to or from `peer`
  bool edge_is_stuck = false;             // both ends have posted
};

// One call of FindHang.
class HangFinder {
 public:
  explicit HangFinder(const HangInput& input) : input_(input) {}

  std::vector<HangBlame> Find() {
    for (const MemberActivity& member : input_.members) standings_.push_back(StandingOf(member));
    // That nobody is heard says more about the coordinator than about them: leases decide.
    if (std::all_of(standings_.begin(), standings_.end(), [](const Standing& one) { return one.silent; })) return {};
    for (uint32_t rank = 0; rank < standings_.size(); ++rank) {
      if (!standings_[rank].stuck) continue;
      BlameRoot(rank);
      BlameCircle(rank);
    }
    std::sort(blamed_.begin(), blamed_.end(), [&](const Blamed& a, const Blamed& b) {
      return std::pair(standings_[a.rank].since, a.rank) < std::pair(standings_[b.rank].since, b.rank);
    });
    std::vector<HangBlame> blames;
    for (const Blamed& blamed : blamed_) blames.push_back(Describe(blamed));
    return blames;
  }

 private:
  struct Blamed {
    uint32_t rank;
    std::string does;  // for too long
  };

  Standing StandingOf(const MemberActivity& member) const {
    Standing standing;
    standing.since = std::max(member.unmoved_since, input_.ordered_at);
    standing.silent = input_.now - member.heard_at > input_.silent_after;
    standing.stuck = !member.answered_at.has_value() && IsOver(member, standing.since);
    if (!standing.stuck || !member.run.has_value() || !member.run->waiting()) return standing;
    const v1::StageProgram& program = *member.program;
    // A channel that is not there: the member computes, as far as anybody can tell.
    if (member.run->channel() >= static_cast<uint32_t>(program.channels_size())) return standing;
    const v1::ChannelSpec& edge = program.channels(static_cast<int>(member.run->channel()));
    const bool is_sender = edge.from_worker_rank() == program.worker_rank();
    const uint32_t peer = is_sender ? edge.to_worker_rank() : edge.from_worker_rank();
    if (peer >= input_.members.size()) return standing;
    standing.peer = peer;
    standing.edge = &edge;
    const auto sequence = AwaitedSequence(program, member.run->instruction(), member.run->channel(), is_sender);
    standing.edge_is_stuck = sequence.has_value() && HasPosted(peer, edge, *sequence, member.run->run());
    return standing;
  }

  // Whether the member has had its deadline's time since then, as far as is known: what it did after its last heartbeat
  // is not, unless it has fallen silent.
  bool IsOver(const MemberActivity& member, absl::Duration since) const {
    const bool silent = input_.now - member.heard_at > input_.silent_after;
    return (silent ? input_.now : member.heard_at) - since >= HangDeadline(member, input_.step_seconds);
  }

  // Whether the peer's end of a transfer of `run` is posted. What a silent one has said may be old, but it was true.
  bool HasPosted(uint32_t peer, const v1::ChannelSpec& edge, uint64_t sequence, uint64_t run) const {
    const MemberActivity& member = input_.members[peer];
    if (member.answered_at.has_value()) return true;
    if (!member.run.has_value() || member.run->run() < run) return false;
    if (member.run->run() > run) return true;
    const auto index = IndexOfPost(*member.program, edge, sequence);
    return index.has_value() && member.run->instruction() > *index;
  }

  void Blame(uint32_t rank, std::string does) {
    for (const Blamed& blamed : blamed_) {
      if (blamed.rank == rank) return;
    }
    blamed_.push_back({rank, std::move(does)});
  }

  void BlameRoot(uint32_t rank) {
    const Standing& standing = standings_[rank];
    if (standing.silent) {
      if (!WaitsForAnother(rank)) Blame(rank, "has said nothing");
      return;
    }
    if (!standing.peer.has_value()) {
      return Blame(rank, input_.members[rank].run.has_value() ? "computes" : "has not begun the program");
    }
    if (!standing.edge_is_stuck) return;
    const std::optional<absl::Duration> answered_at = input_.members[*standing.peer].answered_at;
    const Standing& peer = standings_[*standing.peer];
    // A peer that moves comes to its own wait for this transfer; one that is stuck and waits for nobody, or is silent,
    // is to blame itself.
    if (!answered_at.has_value() && (!peer.stuck || peer.silent || !peer.peer.has_value())) return;
    if (!IsOver(input_.members[rank], std::max(standing.since, answered_at.value_or(peer.since)))) return;
    const uint32_t receiver = standing.edge->to_worker_rank();
    Blame(answered_at.has_value() ? rank : receiver,
          absl::StrCat("does not complete a transfer that both ends have posted, from rank ",
                       standing.edge->from_worker_rank(), " to rank ", receiver, ","));
  }

  // Whether a silent member, if it still does what it last said, waits in the end for some other than itself.
  bool WaitsForAnother(uint32_t rank) const {
    uint32_t current = rank;
    for (size_t i = 0; i < standings_.size(); ++i) {
      const Standing& standing = standings_[current];
      if (!standing.stuck && !input_.members[current].answered_at.has_value()) return true;
      if (!standing.peer.has_value()) return current != rank && standing.stuck;
      if (standing.edge_is_stuck) return current != rank && *standing.peer != rank;
      current = *standing.peer;
      if (current == rank) return false;
    }
    return true;  // for a circle that it is no part of
  }

  // Members that wait for each other, none of whose transfers is posted at both ends, as far as is known.
  void BlameCircle(uint32_t start) {
    uint32_t longest = start;
    uint32_t rank = start;
    for (size_t i = 0; i < standings_.size(); ++i) {
      const Standing& standing = standings_[rank];
      // Each circle is found once: from its smallest rank.
      if (rank < start || !standing.stuck || standing.silent) return;
      if (!standing.peer.has_value() || standing.edge_is_stuck) return;
      if (HasWaitedLonger(rank, longest)) longest = rank;
      rank = *standing.peer;
      if (rank == start) return Blame(longest, "is one of a circle of members that wait for each other, and waits");
    }
  }

  // Receivers before senders.
  bool HasWaitedLonger(uint32_t a, uint32_t b) const {
    const auto key = [this](uint32_t rank) {
      return std::pair(standings_[rank].edge->to_worker_rank() != rank, standings_[rank].since);
    };
    return key(a) < key(b);
  }

  HangBlame Describe(const Blamed& blamed) const {
    const MemberActivity& member = input_.members[blamed.rank];
    HangBlame blame{WorkerRank(blamed.rank), 0, "", blamed.does};
    if (member.run.has_value()) {
      blame.step = member.run->step();
      blame.action = member.run->action();
      absl::StrAppend(&blame.message, " in ", blame.action, " of step ", blame.step);
    }
    absl::StrAppend(&blame.message, " for ", Seconds(input_.now - standings_[blamed.rank].since), "; the deadline is ",
                    Seconds(HangDeadline(member, input_.step_seconds)));
    return blame;
  }

  const HangInput& input_;
  std::vector<Standing> standings_;  // by worker rank
  std::vector<Blamed> blamed_;
};

}  // namespace

absl::Duration SilentAfter(absl::Duration heartbeat_interval) { return kSilentIntervals * heartbeat_interval; }

absl::Duration HangDeadline(const MemberActivity& member, double step_seconds) {
  const double usual = member.run.has_value() ? member.run->usual_seconds() : 0;
  const double seconds = usual > 0 ? kUsualFactor * usual : kPlanFactor * step_seconds;
  return std::max(kLeastDeadline, absl::Seconds(seconds));
}

std::vector<HangBlame> FindHang(const HangInput& input) { return HangFinder(input).Find(); }

}  // namespace stagecoach
