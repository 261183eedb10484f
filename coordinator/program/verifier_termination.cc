// The checks over all programs together: both ends of a channel agree, and nothing waits for ever.

#include <algorithm>
#include <cstddef>
#include <deque>

#include "common/skip_connections.h"
#include "common/status_macros.h"
#include "coordinator/program/verifier_checks.h"

namespace stagecoach {
namespace {

bool IsSend(v1::ActionKind kind) {
  return kind == v1::ACTION_KIND_SEND_FORWARD || kind == v1::ACTION_KIND_SEND_BACKWARD ||
         kind == v1::ACTION_KIND_SEND_TIE;
}
bool IsRecv(v1::ActionKind kind) {
  return kind == v1::ACTION_KIND_RECV_FORWARD || kind == v1::ACTION_KIND_RECV_BACKWARD ||
         kind == v1::ACTION_KIND_RECV_TIE;
}

absl::string_view SemanticsName(SendSemantics sends) {
  if (sends == SendSemantics::kBuffered) return "buffered";
  return sends == SendSemantics::kBlocking ? "blocking rendezvous" : "rendezvous";
}

// A post that has not been made.
struct Wait {
  size_t worker = 0;  // who makes it
  size_t channel = 0;
  bool is_send = false;
  uint64_t sequence = 0;
};

// Runs all programs until they end or all that are left wait. Posts never block and nothing is ever taken back, so any
// order of running them ends in the same state: if this run ends, every run does.
class JointRun {
 public:
  explicit JointRun(const VerifierInput& input) : input_(input), workers_(input.programs.size()) {
    for (size_t worker = 0; worker < workers_.size(); ++worker) {
      const v1::StageProgram& program = input.programs[worker];
      for (int i = 0; i < program.channels_size(); ++i) {
        const v1::ChannelSpec& spec = program.channels(i);
        const auto [found, is_new] = index_.try_emplace(KeyOf(spec), channels_.size());
        if (is_new) channels_.push_back({&spec, 0, 0});
        workers_[worker].channels.push_back(found->second);
        workers_[worker].posted.emplace_back(program.channel_slots(i).slots_size());
      }
    }
  }

  absl::Status Run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t worker = 0; worker < workers_.size(); ++worker) progress |= Advance(worker);
    }
    for (size_t worker = 0; worker < workers_.size(); ++worker) {
      if (workers_[worker].next < input_.programs[worker].instructions_size()) return Deadlock();
    }
    return absl::OkStatus();
  }

 private:
  struct ChannelState {
    const v1::ChannelSpec* spec;
    uint64_t num_sends;
    uint64_t num_recvs;
  };
  struct WorkerState {
    int next = 0;
    std::vector<size_t> channels;                              // by channel index of the program
    std::vector<std::vector<std::optional<uint64_t>>> posted;  // by channel index, slot: sequence of the last post
  };

  const v1::Instruction& Next(size_t worker) const {
    return input_.programs[worker].instructions(workers_[worker].next);
  }

  bool IsLocal(size_t worker, uint32_t channel) const {
    return IsWithinWorker(*channels_[workers_[worker].channels[channel]].spec);
  }

  // Posts that the next instruction of a worker still waits for.
  std::vector<Wait> WaitsOf(size_t worker) const {
    const v1::Instruction& instruction = Next(worker);
    std::vector<Wait> waits;
    if (IsSend(instruction.action().kind())) return WaitsOfSend(worker);
    if (IsRecv(instruction.action().kind())) return waits;
    if (instruction.recv_slot() >= 0) AddRecvWait(worker, instruction.recv_channel(), instruction.recv_slot(), waits);
    for (const v1::SkipSlot& skip : instruction.skip_recv()) AddRecvWait(worker, skip.channel(), skip.slot(), waits);
    if (instruction.send_slot() >= 0) AddSendWait(worker, instruction.send_channel(), instruction.send_slot(), waits);
    for (const v1::SkipSlot& skip : instruction.skip_send()) AddSendWait(worker, skip.channel(), skip.slot(), waits);
    return waits;
  }

  // For the send that fills a receive slot.
  void AddRecvWait(size_t worker, uint32_t index, int32_t slot, std::vector<Wait>& waits) const {
    if (IsLocal(worker, index)) return;
    const uint64_t sequence = *workers_[worker].posted[index][static_cast<size_t>(slot)];
    const size_t channel = workers_[worker].channels[index];
    const ChannelState& ends = channels_[channel];
    if (ends.num_sends <= sequence) waits.push_back({ends.spec->from_worker_rank(), channel, true, sequence});
  }

  // For the receive of what a send slot held before.
  void AddSendWait(size_t worker, uint32_t index, int32_t slot, std::vector<Wait>& waits) const {
    if (input_.sends == SendSemantics::kBuffered || IsLocal(worker, index)) return;
    const std::optional<uint64_t> sequence = workers_[worker].posted[index][static_cast<size_t>(slot)];
    const size_t channel = workers_[worker].channels[index];
    const ChannelState& ends = channels_[channel];
    if (!sequence.has_value() || ends.num_recvs > *sequence) return;
    waits.push_back({ends.spec->to_worker_rank(), channel, false, *sequence});
  }

  std::vector<Wait> WaitsOfSend(size_t worker) const {
    if (input_.sends != SendSemantics::kBlocking) return {};
    const v1::Instruction& send = Next(worker);
    const size_t channel = workers_[worker].channels[send.channel()];
    const ChannelState& ends = channels_[channel];
    if (IsWithinWorker(*ends.spec) || ends.num_recvs > send.sequence()) return {};
    return {{ends.spec->to_worker_rank(), channel, false, send.sequence()}};
  }

  bool Advance(size_t worker) {
    WorkerState& state = workers_[worker];
    const int before = state.next;
    while (state.next < input_.programs[worker].instructions_size() && WaitsOf(worker).empty()) {
      const v1::Instruction& instruction = Next(worker);
      const v1::ActionKind kind = instruction.action().kind();
      if (IsSend(kind) || IsRecv(kind)) {
        ChannelState& ends = channels_[state.channels[instruction.channel()]];
        const int32_t slot = IsSend(kind) ? instruction.send_slot() : instruction.recv_slot();
        state.posted[instruction.channel()][static_cast<size_t>(slot)] = instruction.sequence();
        ++(IsSend(kind) ? ends.num_sends : ends.num_recvs);
      }
      ++state.next;
    }
    return state.next > before;
  }

  std::string AwaitedAction(const Wait& wait) const {
    const v1::StageProgram& program = input_.programs[wait.worker];
    for (const v1::Instruction& instruction : program.instructions()) {
      const v1::ActionKind kind = instruction.action().kind();
      if ((wait.is_send ? IsSend(kind) : IsRecv(kind)) && instruction.sequence() == wait.sequence &&
          workers_[wait.worker].channels[instruction.channel()] == wait.channel) {
        const v1::ChannelSpec& spec = *channels_[wait.channel].spec;
        return absl::StrCat(ActionText(instruction.action()), IsSkip(spec.kind()) ? " on the " : "",
                            IsSkip(spec.kind()) ? ChannelName(spec) : "");
      }
    }
    return "a post that it never makes";
  }

  // Waits that lead from `start` back to it, the shortest such; empty: none.
  std::vector<Wait> ShortestCycle(size_t start) const {
    std::vector<std::optional<Wait>> reached_by(workers_.size());
    std::vector<size_t> reached_from(workers_.size());
    std::deque<size_t> queue = {start};
    while (!queue.empty()) {
      const size_t worker = queue.front();
      queue.pop_front();
      if (workers_[worker].next == input_.programs[worker].instructions_size()) continue;
      for (const Wait& wait : WaitsOf(worker)) {
        if (reached_by[wait.worker].has_value()) continue;
        reached_by[wait.worker] = wait;
        reached_from[wait.worker] = worker;
        queue.push_back(wait.worker);
      }
    }
    std::vector<Wait> cycle;
    if (!reached_by[start].has_value()) return cycle;
    size_t worker = start;
    do {
      cycle.push_back(*reached_by[worker]);
      worker = reached_from[worker];
    } while (worker != start);
    std::reverse(cycle.begin(), cycle.end());
    return cycle;
  }

  absl::Status Deadlock() const {
    size_t start = 0;
    std::vector<Wait> shortest;
    for (size_t worker = 0; worker < workers_.size(); ++worker) {
      std::vector<Wait> cycle = ShortestCycle(worker);
      if (cycle.empty() || (!shortest.empty() && shortest.size() <= cycle.size())) continue;
      shortest = cycle;
      start = worker;
    }
    std::string text = absl::StrCat("deadlock under ", SemanticsName(input_.sends), " sends: ");
    size_t worker = start;
    for (size_t i = 0; i < shortest.size(); ++i) {
      absl::StrAppend(&text, i > 0 ? ", " : "", "worker ", worker, " at ", ActionText(Next(worker).action()),
                      " waits for ", AwaitedAction(shortest[i]), " of worker ", shortest[i].worker);
      worker = shortest[i].worker;
    }
    return absl::InvalidArgumentError(text);
  }

  const VerifierInput& input_;
  std::map<ChannelKey, size_t> index_;
  std::vector<ChannelState> channels_;
  std::vector<WorkerState> workers_;
};

}  // namespace

absl::Status VerifyTransfers(const VerifierInput& input, const std::vector<Posts>& posts_of_worker) {
  std::map<ChannelKey, const std::vector<uint32_t>*> other_ends;
  for (size_t worker = 0; worker < posts_of_worker.size(); ++worker) {
    for (int i = 0; i < input.programs[worker].channels_size(); ++i) {
      const v1::ChannelSpec& spec = input.programs[worker].channels(i);
      const std::vector<uint32_t>& posts = posts_of_worker[worker][static_cast<size_t>(i)];
      const std::vector<uint32_t>& other = *other_ends.try_emplace(KeyOf(spec), &posts).first->second;
      if (posts == other) continue;
      const size_t n = static_cast<size_t>(std::mismatch(posts.begin(), posts.end(), other.begin(), other.end()).first -
                                           posts.begin());
      return Refuse("the two ends of the ", ChannelName(spec), " post different things: ", other.size(), " and ",
                    posts.size(), " transfers, and number ", n, " is the first that differs");
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyTermination(const VerifierInput& input) { return JointRun(input).Run(); }

}  // namespace stagecoach
