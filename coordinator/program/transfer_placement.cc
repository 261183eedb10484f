// The passes that plan communication: which channels there are, what passes over them, when receives are posted.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"
#include "coordinator/program/lowering_passes.h"
#include "coordinator/program/simulator.h"

namespace stagecoach {
namespace {

// Of a channel: while one buffer is under way the next is filled.
constexpr uint32_t kSendSlots = 2;
// Of receives that are posted as early as they can be.
constexpr uint32_t kMaxEarlyPosts = 4;
// Of receives from a stage that has no backward, whose sender would otherwise fill as many buffers as there are
// micro-batches: the partitioner reckons with as many.
constexpr uint32_t kMaxAheadPosts = 4;

v1::ChannelSpec MakeChannel(const LoweringContext& context, v1::ChannelKind kind, uint32_t from, uint32_t to) {
  v1::ChannelSpec channel;
  channel.set_kind(kind);
  channel.set_from_stage(from);
  channel.set_to_stage(to);
  channel.set_from_worker_rank(context.WorkerOf(from));
  channel.set_to_worker_rank(context.WorkerOf(to));
  return channel;
}

// Of the output of a layer. INVALID_ARGUMENT: it cannot be divided among samples.
absl::StatusOr<uint64_t> OutputBytes(const LoweringContext& context, uint32_t layer) {
  const uint64_t bytes = context.graph.layers(static_cast<int>(layer)).cost().output_bytes();
  const uint64_t samples = context.graph.micro_batch_size();
  if (samples > 0 && bytes > 0 && bytes % samples == 0) return bytes;
  return absl::InvalidArgumentError(absl::StrCat("the output of layer ", layer, " has ", bytes,
                                                 " bytes, which is not a multiple of ", samples, " samples"));
}

void SetBytes(const LoweringContext& context, uint64_t bytes, v1::ChannelSpec& channel) {
  channel.set_bytes(bytes);
  channel.set_bytes_per_sample(bytes / context.graph.micro_batch_size());
}

// The tensor that crosses the cut after `lower` goes down as an activation and comes back as its gradient.
absl::StatusOr<v1::ChannelSpec> MakeCutChannel(const LoweringContext& context, v1::ChannelKind kind, uint32_t lower) {
  const bool down = kind == v1::CHANNEL_KIND_ACTIVATION;
  v1::ChannelSpec channel = MakeChannel(context, kind, down ? lower : lower + 1, down ? lower + 1 : lower);
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t bytes, OutputBytes(context, context.StageAt(lower).last_layer()));
  SetBytes(context, bytes, channel);
  return channel;
}

// One tensor for each connection, all of one size.
absl::StatusOr<v1::ChannelSpec> MakeSkipChannel(const LoweringContext& context, const SkipEdge& edge) {
  v1::ChannelSpec channel =
      MakeChannel(context, edge.is_gradient ? v1::CHANNEL_KIND_SKIP_GRADIENT : v1::CHANNEL_KIND_SKIP, edge.from_stage,
                  edge.to_stage);
  uint64_t bytes = 0;
  for (const uint32_t connection : edge.connections) {
    const uint32_t layer = context.graph.skip_connections(static_cast<int>(connection)).from_layer();
    STAGECOACH_ASSIGN_OR_RETURN(const uint64_t output_bytes, OutputBytes(context, layer));
    if (bytes > 0 && output_bytes != bytes) {
      return absl::InvalidArgumentError(absl::StrCat("skip connections ", edge.connections[0], " and ", connection,
                                                     " share an edge, and their tensors have ", bytes, " and ",
                                                     output_bytes, " bytes"));
    }
    bytes = output_bytes;
    channel.add_skip_connections(connection);
  }
  SetBytes(context, edge.connections.size() * bytes, channel);
  return channel;
}

// In the order of the edges, so that those of a stage ascend by the other one.
absl::Status AddSkipChannels(const LoweringContext& context, ChannelPlans& plans) {
  plans.forward_skips.resize(context.num_stages());
  plans.backward_skips.resize(context.num_stages());
  for (const SkipEdge& edge : context.skip_edges) {
    std::vector<SkipEnds>& ends = edge.is_gradient ? plans.backward_skips : plans.forward_skips;
    ends[edge.from_stage].send.push_back(plans.channels.size());
    ends[edge.to_stage].recv.push_back(plans.channels.size());
    STAGECOACH_ASSIGN_OR_RETURN(plans.channels.emplace_back().spec, MakeSkipChannel(context, edge));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChannelPlans> MakeChannels(const LoweringContext& context) {
  ChannelPlans plans;
  plans.num_cuts = context.num_stages() - 1;
  for (const v1::ChannelKind kind : {v1::CHANNEL_KIND_ACTIVATION, v1::CHANNEL_KIND_GRADIENT}) {
    if (context.forward_only && kind == v1::CHANNEL_KIND_GRADIENT) continue;
    for (uint32_t lower = 0; lower < plans.num_cuts; ++lower) {
      if (kind == v1::CHANNEL_KIND_GRADIENT && !context.SendsGradient(lower + 1)) {
        plans.first_gradient = lower + 1;
        continue;
      }
      STAGECOACH_ASSIGN_OR_RETURN(v1::ChannelSpec spec, MakeCutChannel(context, kind, lower));
      plans.channels.emplace_back().spec = std::move(spec);
    }
  }
  STAGECOACH_RETURN_IF_ERROR(AddSkipChannels(context, plans));
  if (context.forward_only || !context.tie.has_value()) return plans;
  const uint32_t lower = context.StageOfLayer(context.tie->owner_layer);
  const uint32_t upper = context.StageOfLayer(context.tie->later_layer);
  if (lower == upper) return plans;
  plans.has_tie = true;
  for (const auto& [from, to] : {std::pair(lower, upper), std::pair(upper, lower)}) {
    v1::ChannelSpec& spec = plans.channels.emplace_back().spec;
    spec = MakeChannel(context, v1::CHANNEL_KIND_TIE, from, to);
    spec.set_num_slots(1);
    spec.set_bytes(context.tie->bytes);
  }
  return plans;
}

void NumberChannels(const LoweringContext& context, ChannelPlans& plans) {
  std::vector<uint32_t> num_channels(static_cast<size_t>(context.table.workers_size()));
  for (ChannelPlan& channel : plans.channels) {
    channel.index_at_sender = num_channels[channel.spec.from_worker_rank()]++;
    channel.index_at_receiver =
        channel.is_local() ? channel.index_at_sender : num_channels[channel.spec.to_worker_rank()]++;
  }
}

void AddSkips(const std::vector<size_t>& skips, ChannelPlans& plans, std::vector<ChannelPlan*>& channels) {
  for (const size_t index : skips) channels.push_back(&plans.channels[index]);
}

// The channels that an action of the table sends and receives on.
std::vector<ChannelPlan*> SendChannels(const LoweringContext& context, const v1::Action& action, ChannelPlans& plans) {
  std::vector<ChannelPlan*> channels;
  const bool is_forward = action.kind() == v1::ACTION_KIND_FORWARD;
  const bool is_input = action.kind() == v1::ACTION_KIND_BACKWARD_INPUT;
  if (is_forward && !context.IsLast(action.stage())) channels.push_back(&plans.Activation(action.stage()));
  if (is_input && context.SendsGradient(action.stage())) channels.push_back(&plans.Gradient(action.stage() - 1));
  AddSkips(plans.SkipsOf(action).send, plans, channels);
  return channels;
}
std::vector<ChannelPlan*> RecvChannels(const LoweringContext& context, const v1::Action& action, ChannelPlans& plans) {
  std::vector<ChannelPlan*> channels;
  const bool is_forward = action.kind() == v1::ACTION_KIND_FORWARD;
  const bool is_input = action.kind() == v1::ACTION_KIND_BACKWARD_INPUT;
  if (is_forward && action.stage() > 0) channels.push_back(&plans.Activation(action.stage() - 1));
  if (is_input && !context.IsLast(action.stage())) channels.push_back(&plans.Gradient(action.stage()));
  AddSkips(plans.SkipsOf(action).recv, plans, channels);
  return channels;
}

absl::Status AddConsumer(const v1::Action& action, uint32_t index, ChannelPlan& channel) {
  const size_t n = channel.consumer.size();
  if (n >= channel.order.size() || channel.order[n] != action.micro_batch()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ActionText(action), " takes transfer ", n, " of its ", IsSkip(channel.spec.kind()) ? "skip " : "",
                     "channel, but stage ", channel.spec.from_stage(), " does not send that micro-batch as number ", n,
                     "; a channel is first in, first out"));
  }
  channel.consumer.push_back(index);
  return absl::OkStatus();
}

ScheduleProblem ProblemOf(const LoweringContext& context) {
  ScheduleProblem problem;
  problem.num_workers = static_cast<uint32_t>(context.table.workers_size());
  problem.num_chunks = context.num_stages() / std::max(1u, problem.num_workers);
  problem.num_micro_batches = context.table.num_micro_batches();
  for (const v1::StagePlan& stage : context.plan.stages()) {
    problem.cost_of_stage.push_back({stage.forward_seconds(), stage.backward_input_seconds(),
                                     stage.backward_weight_seconds(), stage.recompute_seconds()});
    // A plan without times: all stages alike.
    if (stage.forward_seconds() <= 0) return problem.cost_of_stage.clear(), problem;
  }
  return problem;
}

// The last place in the receiver's row at which a receive is posted no later than the sender issues the transfer.
uint32_t PredictedPost(const std::vector<TimedAction>& receiver, double issued, uint32_t consumer) {
  const auto after = std::upper_bound(receiver.begin(), receiver.end(), issued,
                                      [](double time, const TimedAction& timed) { return time < timed.end; });
  return std::min(static_cast<uint32_t>(after - receiver.begin()), consumer);
}

// Posts that have been made, and not yet read, at a time.
uint32_t MostOutstanding(const ChannelPlan& channel) {
  size_t most = 0;
  size_t num_read = 0;
  for (size_t n = 0; n < channel.post_before.size(); ++n) {
    while (channel.consumer[num_read] < channel.post_before[n]) ++num_read;
    most = std::max(most, n + 1 - num_read);
  }
  return static_cast<uint32_t>(most);
}

// A skip edge has none: its sender could be held back by a receiver that waits for the stages between, and these for
// the sender. But one that would run ahead is held to what the stages between work at, and as many as elsewhere.
uint32_t WindowOf(const LoweringContext& context, ReceivePlacement placement, const v1::ChannelSpec& channel) {
  const bool is_held = placement == ReceivePlacement::kPredicted && context.RunsAhead(channel.from_stage());
  if (IsSkip(channel.kind())) {
    return is_held ? kMaxAheadPosts + channel.to_stage() - channel.from_stage() : UINT32_MAX;
  }
  uint32_t most = is_held ? kMaxAheadPosts : UINT32_MAX;
  if (placement == ReceivePlacement::kEarliest) most = kMaxEarlyPosts;
  return std::min(context.options.credit_window, most);
}

// Moves the receives of a worker ahead of their prediction while that needs no more buffers than the worker has anyway:
// workers are never as punctual as predicted, and a transfer cannot begin before its receive is posted.
class ReceiveLead {
 public:
  explicit ReceiveLead(size_t num_actions) : num_held_(num_actions) {}

  void Add(ChannelPlan& channel) {
    for (size_t n = 0; n < channel.post_before.size(); ++n) {
      receives_.push_back({&channel, n});
      for (size_t i = channel.post_before[n]; i <= channel.consumer[n]; ++i)
        most_held_ = std::max(most_held_, ++num_held_[i]);
    }
  }

  void Advance() {
    std::stable_sort(receives_.begin(), receives_.end(),
                     [](const Receive& a, const Receive& b) { return a.post() < b.post(); });
    for (const Receive& receive : receives_) {
      for (int moved = 0; moved < kMaxLead && MayMove(receive); ++moved) ++num_held_[--receive.post()];
    }
  }

 private:
  static constexpr int kMaxLead = 2;  // actions
  struct Receive {
    ChannelPlan* channel;
    size_t n;
    uint32_t& post() const { return channel->post_before[n]; }
  };

  bool MayMove(const Receive& receive) const {
    const ChannelPlan& channel = *receive.channel;
    const size_t n = receive.n;
    if (receive.post() == 0 || num_held_[receive.post() - 1] == most_held_) return false;
    const uint32_t post = receive.post() - 1;
    return (n == 0 || channel.post_before[n - 1] <= post) &&
           (n < channel.window || channel.consumer[n - channel.window] < post);
  }

  std::vector<Receive> receives_;
  std::vector<uint32_t> num_held_;  // by action of the row: receives that are posted and not read while it runs
  uint32_t most_held_ = 0;
};

void AdvanceReceives(const LoweringContext& context, ChannelPlans& plans) {
  std::vector<ReceiveLead> leads;
  for (const v1::WorkerActions& row : context.table.workers()) {
    leads.emplace_back(static_cast<size_t>(row.actions_size()));
  }
  for (ChannelPlan& channel : plans.channels) {
    if (!channel.is_local()) leads[channel.spec.to_worker_rank()].Add(channel);
  }
  for (ReceiveLead& lead : leads) lead.Advance();
}

}  // namespace

absl::StatusOr<ChannelPlans> PlanChannels(const LoweringContext& context) {
  STAGECOACH_ASSIGN_OR_RETURN(ChannelPlans plans, MakeChannels(context));
  NumberChannels(context, plans);
  for (const v1::WorkerActions& row : context.table.workers()) {
    for (int i = 0; i < row.actions_size(); ++i) {
      for (ChannelPlan* channel : SendChannels(context, row.actions(i), plans)) {
        if (channel->is_local()) continue;
        channel->order.push_back(row.actions(i).micro_batch());
        channel->producer.push_back(static_cast<uint32_t>(i));
      }
    }
  }
  for (const v1::WorkerActions& row : context.table.workers()) {
    for (int i = 0; i < row.actions_size(); ++i) {
      for (ChannelPlan* channel : RecvChannels(context, row.actions(i), plans)) {
        if (channel->is_local()) continue;
        STAGECOACH_RETURN_IF_ERROR(AddConsumer(row.actions(i), static_cast<uint32_t>(i), *channel));
      }
    }
  }
  return plans;
}

absl::Status PlaceReceives(const LoweringContext& context, ReceivePlacement placement, ChannelPlans& plans) {
  const bool is_predicted = placement != ReceivePlacement::kEarliest;
  Timeline timeline;
  if (is_predicted) {
    STAGECOACH_ASSIGN_OR_RETURN(timeline, Simulate(context.table, ProblemOf(context)));
  }
  // Sums of the same times in another order differ in their last bits, and such a difference is no lateness.
  const double tolerance = 1e-9 * timeline.makespan;
  for (ChannelPlan& channel : plans.channels) {
    if (channel.is_local() || channel.spec.kind() == v1::CHANNEL_KIND_TIE) continue;
    channel.post_before.clear();
    channel.window = WindowOf(context, placement, channel.spec);
    for (size_t n = 0; n < channel.consumer.size(); ++n) {
      uint32_t post = n < channel.window ? 0 : channel.consumer[n - channel.window] + 1;
      if (is_predicted) {
        const double issued = timeline.workers[channel.spec.from_worker_rank()][channel.producer[n]].end;
        const std::vector<TimedAction>& receiver = timeline.workers[channel.spec.to_worker_rank()];
        post = std::max(post, PredictedPost(receiver, issued + tolerance, channel.consumer[n]));
      }
      channel.post_before.push_back(post);
    }
  }
  if (is_predicted) AdvanceReceives(context, plans);
  for (ChannelPlan& channel : plans.channels) {
    if (channel.is_local() || channel.spec.kind() == v1::CHANNEL_KIND_TIE) continue;
    const auto num_transfers = std::max(1u, static_cast<uint32_t>(channel.order.size()));
    channel.num_send_slots = std::min({is_predicted ? kSendSlots : kMaxEarlyPosts, channel.window, num_transfers});
    channel.spec.set_num_slots(std::max(channel.num_send_slots, MostOutstanding(channel)));
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
