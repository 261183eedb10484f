#include "coordinator/program/testing/symbolic_run.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/memory_layout.h"

namespace stagecoach::testing {
namespace {

constexpr uint64_t kGranuleBytes = 64;

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 32);
}

struct Memory {
  std::vector<uint64_t> granules;

  void Write(const v1::Slot& slot, uint64_t value) {
    for (uint64_t i = 0; i < slot.bytes() / kGranuleBytes; ++i) {
      granules[slot.offset() / kGranuleBytes + i] = Mix(value, i);
    }
  }
  uint64_t Read(const v1::Slot& slot) const {
    uint64_t value = slot.bytes();
    for (uint64_t i = 0; i < slot.bytes() / kGranuleBytes; ++i) {
      value = Mix(value, granules[slot.offset() / kGranuleBytes + i]);
    }
    return value;
  }
};

struct Post {
  size_t worker;
  v1::Slot slot;
  uint32_t micro_batch;
  bool is_copied = false;
};
struct Edge {
  std::vector<Post> sends, recvs;  // number n of one is matched with number n of the other
  uint32_t num_slots = 0;
  uint64_t bytes = 0;  // that travel
};

struct Worker {
  const v1::StageProgram* program = nullptr;
  Memory memory;
  int next = 0;
  std::vector<Edge*> edges;                                         // by channel
  std::map<std::tuple<uint32_t, int32_t, bool>, size_t> last_post;  // (channel, slot, is_send) -> number
  std::map<uint32_t, uint64_t> accumulator;                         // by stage
  std::map<uint32_t, uint64_t> loss;                                // by stage: what the head left
};

class Run {
 public:
  Run(std::span<const v1::StageProgram> programs, const SymbolicRunOptions& options)
      : options_(options), workers_(programs.size()) {
    for (size_t i = 0; i < programs.size(); ++i) {
      Worker& worker = workers_[i];
      worker.program = &programs[i];
      worker.memory.granules.assign(programs[i].arena_bytes() / kGranuleBytes, 1);
      for (const v1::ChannelSpec& spec : programs[i].channels()) {
        Edge& edge = edges_[{static_cast<int>(spec.kind()), spec.from_stage(), spec.to_stage()}];
        edge.num_slots = spec.num_slots();
        edge.bytes = AlignUp(spec.bytes());
        worker.edges.push_back(&edge);
      }
      for (const v1::StageSlots& stage : programs[i].stages()) {
        num_stages_ = std::max(num_stages_, stage.stage() + 1);
      }
    }
  }

  SymbolicOutcome Finish() {
    while (outcome_.problem.empty() && (options_.seed.has_value() ? RunAtRandom() : RunInOrder())) continue;
    for (const Worker& worker : workers_) {
      if (worker.next < worker.program->instructions_size()) Problem(worker, "waits for ever");
    }
    for (auto& [key, edge] : edges_) {
      if (edge.sends.size() != edge.recvs.size() && outcome_.problem.empty()) outcome_.problem = "a post is left over";
    }
    std::sort(outcome_.losses.begin(), outcome_.losses.end());
    std::sort(outcome_.norms.begin(), outcome_.norms.end());
    return outcome_;
  }

 private:
  void Problem(const Worker& worker, absl::string_view what) {
    if (!outcome_.problem.empty()) return;
    outcome_.problem =
        absl::StrCat("worker ", worker.program->worker_rank(), " at instruction ", worker.next, ": ", what);
  }

  bool RunInOrder() {
    bool progress = false;
    for (size_t i = 0; i < workers_.size(); ++i) {
      progress |= Advance(options_.first_worker_last ? workers_.size() - 1 - i : i, INT_MAX);
    }
    return progress;
  }

  // Each worker has its turn once, so that no progress means that all wait.
  bool RunAtRandom() {
    std::vector<size_t> order(workers_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    bool progress = false;
    for (const size_t index : order) {
      for (auto& [key, edge] : edges_) {
        const size_t num_ready = std::min(edge.sends.size(), edge.recvs.size());
        if (num_ready > 0 && random_() % 2 == 0) Complete(edge, random_() % num_ready);
      }
      progress |= Advance(index, 1 + static_cast<int>(random_() % 4));
    }
    return progress;
  }

  bool Advance(size_t index, int most) {
    Worker& worker = workers_[index];
    const int before = worker.next;
    while (outcome_.problem.empty() && worker.next < worker.program->instructions_size() &&
           worker.next - before < most) {
      const v1::Instruction& instruction = worker.program->instructions(worker.next);
      if (!HasValidIndices(worker, instruction)) {
        Problem(worker, "names what does not exist");
        break;
      }
      if (!InputsAreThere(worker, instruction)) break;
      Execute(index, instruction);
      ++worker.next;
    }
    return worker.next > before;
  }

  const v1::StageSlots* SlotsOf(const Worker& worker, uint32_t stage) const {
    for (const v1::StageSlots& slots : worker.program->stages()) {
      if (slots.stage() == stage) return &slots;
    }
    return nullptr;
  }

  bool IsPost(v1::ActionKind kind) const {
    return kind == v1::ACTION_KIND_SEND_FORWARD || kind == v1::ACTION_KIND_SEND_BACKWARD ||
           kind == v1::ACTION_KIND_SEND_TIE || kind == v1::ACTION_KIND_RECV_FORWARD ||
           kind == v1::ACTION_KIND_RECV_BACKWARD || kind == v1::ACTION_KIND_RECV_TIE;
  }
  uint32_t RecvChannel(const v1::Instruction& instruction) const {
    return IsPost(instruction.action().kind()) ? instruction.channel() : instruction.recv_channel();
  }
  uint32_t SendChannel(const v1::Instruction& instruction) const {
    return IsPost(instruction.action().kind()) ? instruction.channel() : instruction.send_channel();
  }

  bool HasValidIndices(const Worker& worker, const v1::Instruction& instruction) const {
    const v1::StageSlots* slots = SlotsOf(worker, instruction.action().stage());
    if (slots == nullptr || instruction.action().micro_batch() >= worker.program->num_micro_batches()) return false;
    const auto in_transfer = [&worker](int32_t slot, uint32_t channel) {
      return slot < 0 || (channel < worker.edges.size() &&
                          slot < worker.program->channel_slots(static_cast<int>(channel)).slots_size());
    };
    return instruction.load_slot() < slots->load_size() && instruction.saved_slot() < slots->saved_size() &&
           instruction.shared_slot() < slots->shared_size() && instruction.pending_slot() < slots->pending_size() &&
           instruction.recomputed_slot() < slots->recomputed_size() &&
           in_transfer(instruction.recv_slot(), RecvChannel(instruction)) &&
           in_transfer(instruction.send_slot(), SendChannel(instruction)) &&
           AreValid(worker, instruction.skip_recv()) && AreValid(worker, instruction.skip_send());
  }
  using SkipSlots = google::protobuf::RepeatedPtrField<v1::SkipSlot>;
  bool AreValid(const Worker& worker, const SkipSlots& skips) const {
    return std::all_of(skips.begin(), skips.end(), [&worker](const v1::SkipSlot& skip) {
      return skip.channel() < worker.edges.size() && skip.slot() >= 0 &&
             skip.slot() < worker.program->channel_slots(static_cast<int>(skip.channel())).slots_size();
    });
  }

  bool IsLocal(const Worker& worker, uint32_t channel) const {
    const v1::ChannelSpec& spec = worker.program->channels(static_cast<int>(channel));
    return spec.from_worker_rank() == spec.to_worker_rank();
  }

  // Number of the last post in a slot of a channel of this worker.
  std::optional<size_t> LastPost(const Worker& worker, uint32_t channel, int32_t slot, bool is_send) const {
    const auto found = worker.last_post.find({channel, slot, is_send});
    return found == worker.last_post.end() ? std::nullopt : std::optional<size_t>(found->second);
  }

  bool InputsAreThere(Worker& worker, const v1::Instruction& instruction) {
    if (IsPost(instruction.action().kind())) return true;
    if (instruction.recv_slot() >= 0 && !HasArrived(worker, instruction.recv_channel(), instruction.recv_slot())) {
      return false;
    }
    for (const v1::SkipSlot& skip : instruction.skip_recv()) {
      if (!HasArrived(worker, skip.channel(), skip.slot())) return false;
    }
    if (instruction.send_slot() >= 0 && !IsSent(worker, instruction.send_channel(), instruction.send_slot())) {
      return false;
    }
    return std::all_of(instruction.skip_send().begin(), instruction.skip_send().end(),
                       [&](const v1::SkipSlot& skip) { return IsSent(worker, skip.channel(), skip.slot()); });
  }

  bool HasArrived(Worker& worker, uint32_t channel, int32_t slot) {
    if (IsLocal(worker, channel)) return true;
    const std::optional<size_t> n = LastPost(worker, channel, slot, false);
    if (n.has_value()) return Complete(*worker.edges[channel], *n);
    Problem(worker, "waits for a receive that was not posted");
    return false;
  }
  // Whatever was sent from the slot last.
  bool IsSent(Worker& worker, uint32_t channel, int32_t slot) {
    if (IsLocal(worker, channel)) return true;
    const std::optional<size_t> n = LastPost(worker, channel, slot, true);
    return !n.has_value() || Complete(*worker.edges[channel], *n);
  }

  bool Complete(Edge& edge, size_t n) {
    if (n >= edge.sends.size() || n >= edge.recvs.size()) return false;
    Copy(edge, n);
    return true;
  }

  void Copy(Edge& edge, size_t n) {
    Post& send = edge.sends[n];
    Post& recv = edge.recvs[n];
    if (recv.is_copied) return;
    send.is_copied = recv.is_copied = true;
    if (send.micro_batch != recv.micro_batch) Problem(workers_[recv.worker], "receives what it did not expect");
    Memory& from = workers_[send.worker].memory;
    Memory& to = workers_[recv.worker].memory;
    for (uint64_t i = 0; i < edge.bytes / kGranuleBytes; ++i) {
      to.granules[recv.slot.offset() / kGranuleBytes + i] = from.granules[send.slot.offset() / kGranuleBytes + i];
    }
  }

  bool IsPrompt() const { return options_.copies_early && !options_.seed.has_value(); }

  // Of a slot's bytes those that the channel's tensors fill.
  v1::Slot ChannelSlot(const Worker& worker, uint32_t channel, int32_t index) const {
    v1::Slot slot = worker.program->channel_slots(static_cast<int>(channel)).slots(index);
    slot.set_bytes(std::min(slot.bytes(), worker.edges[channel]->bytes));
    return slot;
  }

  // Of a skip edge, by the tensors that this end takes to be in its slots.
  static uint64_t SaltOf(const v1::ChannelSpec& spec) {
    uint64_t salt = Mix(static_cast<uint64_t>(spec.kind()), Mix(spec.from_stage(), spec.to_stage()));
    for (const uint32_t connection : spec.skip_connections()) salt = Mix(salt, connection);
    return salt;
  }

  void PostTransfer(size_t index, const v1::Instruction& instruction, bool is_send) {
    Worker& worker = workers_[index];
    const int32_t slot = is_send ? instruction.send_slot() : instruction.recv_slot();
    if (slot < 0) return Problem(worker, "posts without a buffer");
    if (IsLocal(worker, instruction.channel())) return Problem(worker, "posts to itself");
    Edge& edge = *worker.edges[instruction.channel()];
    std::vector<Post>& posts = is_send ? edge.sends : edge.recvs;
    const auto outstanding =
        std::count_if(posts.begin(), posts.end(), [](const Post& post) { return !post.is_copied; });
    if (IsPrompt() && outstanding >= static_cast<int64_t>(edge.num_slots)) {
      return Problem(worker, "has more posts outstanding than the channel has slots");
    }
    worker.last_post[{instruction.channel(), slot, is_send}] = posts.size();
    posts.push_back({index, ChannelSlot(worker, instruction.channel(), slot), instruction.action().micro_batch()});
    if (IsPrompt()) Complete(edge, posts.size() - 1);
  }

  void Execute(size_t index, const v1::Instruction& instruction);
  uint64_t ReadInputs(const Worker& worker, const v1::Instruction& instruction) const;
  void Compute(Worker& worker, const v1::Instruction& instruction);

  const SymbolicRunOptions options_;
  std::minstd_rand random_{options_.seed.value_or(1)};
  std::vector<Worker> workers_;
  std::map<std::tuple<int, uint32_t, uint32_t>, Edge> edges_;
  uint32_t num_stages_ = 0;
  SymbolicOutcome outcome_;
};

void Run::Execute(size_t index, const v1::Instruction& instruction) {
  Worker& worker = workers_[index];
  const v1::Action& action = instruction.action();
  switch (action.kind()) {
    case v1::ACTION_KIND_LOAD:
      if (instruction.load_slot() < 0) return Problem(worker, "loads nowhere");
      worker.memory.Write(SlotsOf(worker, action.stage())->load(instruction.load_slot()),
                          Mix(17, action.micro_batch()));
      return;
    case v1::ACTION_KIND_FORWARD:
    case v1::ACTION_KIND_RECOMPUTE:
    case v1::ACTION_KIND_BACKWARD_INPUT:
    case v1::ACTION_KIND_BACKWARD_WEIGHT:
      return Compute(worker, instruction);
    case v1::ACTION_KIND_SEND_TIE:
      if (instruction.send_slot() < 0) return Problem(worker, "posts without a buffer");
      worker.memory.Write(ChannelSlot(worker, instruction.channel(), instruction.send_slot()),
                          worker.accumulator[action.stage()]);
      return IsLocal(worker, instruction.channel()) ? void() : PostTransfer(index, instruction, true);
    case v1::ACTION_KIND_SEND_FORWARD:
    case v1::ACTION_KIND_SEND_BACKWARD:
      return PostTransfer(index, instruction, true);
    case v1::ACTION_KIND_RECV_FORWARD:
    case v1::ACTION_KIND_RECV_BACKWARD:
    case v1::ACTION_KIND_RECV_TIE:
      return PostTransfer(index, instruction, false);
    case v1::ACTION_KIND_LOSS:
      outcome_.losses.emplace_back(action.micro_batch(), worker.loss[action.stage()]);
      return;
    case v1::ACTION_KIND_TIE_REDUCE:
      worker.accumulator[action.stage()] = Mix(worker.accumulator[action.stage()], ReadInputs(worker, instruction));
      return;
    case v1::ACTION_KIND_GRADIENT_NORM:
      outcome_.norms.emplace_back(action.stage(), worker.accumulator[action.stage()]);
      return;
    default:
      return Problem(worker, "is no instruction");
  }
}

uint64_t Run::ReadInputs(const Worker& worker, const v1::Instruction& instruction) const {
  const v1::StageSlots& slots = *SlotsOf(worker, instruction.action().stage());
  uint64_t value = 3;
  const auto read = [&](int32_t index, const google::protobuf::RepeatedPtrField<v1::Slot>& list) {
    if (index >= 0) value = Mix(value, worker.memory.Read(list.Get(index)));
  };
  const v1::ActionKind kind = instruction.action().kind();
  read(instruction.load_slot(), slots.load());
  if (instruction.recv_slot() >= 0) {
    value = Mix(value, worker.memory.Read(ChannelSlot(worker, instruction.recv_channel(), instruction.recv_slot())));
  }
  for (const v1::SkipSlot& skip : instruction.skip_recv()) {
    const uint64_t salt = SaltOf(worker.program->channels(static_cast<int>(skip.channel())));
    value = Mix(value, Mix(salt, worker.memory.Read(ChannelSlot(worker, skip.channel(), skip.slot()))));
  }
  if (kind == v1::ACTION_KIND_BACKWARD_INPUT) {
    read(instruction.saved_slot(), slots.saved());
    read(instruction.recomputed_slot(), slots.recomputed());
    // Its front, which R made.
    if (!slots.recomputed_layers().empty()) read(instruction.pending_slot(), slots.pending());
  }
  if (kind != v1::ACTION_KIND_FORWARD) read(instruction.shared_slot(), slots.shared());
  if (kind == v1::ACTION_KIND_BACKWARD_WEIGHT) read(instruction.pending_slot(), slots.pending());
  return value;
}

void Run::Compute(Worker& worker, const v1::Instruction& instruction) {
  const v1::Action& action = instruction.action();
  const v1::StageSlots& slots = *SlotsOf(worker, action.stage());
  worker.memory.Write(worker.program->scratch(), Mix(99, static_cast<uint64_t>(worker.next)));
  const uint64_t key = Mix(Mix(static_cast<uint64_t>(action.kind()), action.stage()), action.micro_batch());
  const uint64_t result = Mix(key, ReadInputs(worker, instruction));
  const auto write = [&](int32_t index, const google::protobuf::RepeatedPtrField<v1::Slot>& list, uint64_t salt) {
    if (index >= 0) worker.memory.Write(list.Get(index), Mix(result, salt));
  };
  if (action.kind() == v1::ACTION_KIND_FORWARD) {
    write(instruction.saved_slot(), slots.saved(), 1);
    write(instruction.shared_slot(), slots.shared(), 2);
    if (action.stage() + 1 == num_stages_) worker.loss[action.stage()] = Mix(result, 5);
  }
  if (action.kind() == v1::ACTION_KIND_FORWARD || action.kind() == v1::ACTION_KIND_RECOMPUTE) {
    write(instruction.recomputed_slot(), slots.recomputed(), 6);
    if (!slots.recomputed_layers().empty()) write(instruction.pending_slot(), slots.pending(), 7);
  }
  if (action.kind() == v1::ACTION_KIND_BACKWARD_INPUT) write(instruction.pending_slot(), slots.pending(), 3);
  if (instruction.send_slot() >= 0) {
    worker.memory.Write(ChannelSlot(worker, instruction.send_channel(), instruction.send_slot()), Mix(result, 4));
  }
  for (const v1::SkipSlot& skip : instruction.skip_send()) {
    const uint64_t salt = SaltOf(worker.program->channels(static_cast<int>(skip.channel())));
    worker.memory.Write(ChannelSlot(worker, skip.channel(), skip.slot()), Mix(result, salt));
  }
  if (action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT) {
    worker.accumulator[action.stage()] = Mix(worker.accumulator[action.stage()], result);
  }
}

}  // namespace

std::vector<SymbolicOutcome> RunInManyOrders(std::span<const v1::StageProgram> programs) {
  constexpr uint32_t kNumRandom = 4;
  std::vector<SymbolicOutcome> outcomes;
  for (const bool copies_early : {true, false}) {
    for (const bool first_worker_last : {true, false}) {
      outcomes.push_back(
          RunSymbolically(programs, {.copies_early = copies_early, .first_worker_last = first_worker_last}));
    }
  }
  for (uint32_t seed = 1; seed <= kNumRandom; ++seed) outcomes.push_back(RunSymbolically(programs, {.seed = seed}));
  return outcomes;
}

SymbolicOutcome RunSymbolically(std::span<const v1::StageProgram> programs, const SymbolicRunOptions& options) {
  return Run(programs, options).Finish();
}

}  // namespace stagecoach::testing
