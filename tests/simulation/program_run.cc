#include "tests/simulation/program_run.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"

namespace stagecoach::simulation {
namespace {

constexpr absl::Duration kLongestInterrupt = absl::Milliseconds(20);

bool IsSend(v1::ActionKind kind) {
  return kind == v1::ACTION_KIND_SEND_FORWARD || kind == v1::ACTION_KIND_SEND_BACKWARD;
}
bool IsRecv(v1::ActionKind kind) {
  return kind == v1::ACTION_KIND_RECV_FORWARD || kind == v1::ACTION_KIND_RECV_BACKWARD;
}
bool TakesTime(v1::ActionKind kind) {
  return kind == v1::ACTION_KIND_FORWARD || kind == v1::ACTION_KIND_BACKWARD_INPUT ||
         kind == v1::ACTION_KIND_BACKWARD_WEIGHT;
}

}  // namespace

ProgramRun::ProgramRun(Context context, const v1::RunStep& order)
    : context_(std::move(context)),
      order_(order),
      is_first_(context_.state.first_layer() == LayerIndex(0)),
      is_last_(context_.program.stages(0).last_layer() + 1 == static_cast<uint32_t>(context_.graph.layers_size())) {
  // Without a device nothing has to be waited for.
  if (!order_.evaluation()) context_.state.gradients.assign(context_.state.values.size(), 0);
}

const v1::Instruction& ProgramRun::instruction() const { return context_.program.instructions(next_); }

Tag ProgramRun::TagOf(uint32_t micro_batch) const {
  return {order_.step(), order_.evaluation(), order_.first_sample(), micro_batch};
}

void ProgramRun::Wake() {
  if (!computing_ && !ended_) Advance();
}

void ProgramRun::Interrupt(const absl::Status& reason) {
  if (ended_ || (computing_ && context_.trouble.wedged)) return;
  ended_ = true;
  context_.process.After(context_.world.random.Between(absl::ZeroDuration(), kLongestInterrupt),
                         [on_end = context_.on_end, reason] { on_end(reason); });
}

void ProgramRun::End(const absl::Status& status) {
  if (std::exchange(ended_, true)) return;
  context_.on_end(status);
}

void ProgramRun::Advance() {
  while (!ended_) {
    waits_on_.reset();
    if (has_ended()) {
      if (!WaitsForAny()) End(absl::OkStatus());
      return;
    }
    if (WaitsForSlots()) return;
    const v1::ActionKind kind = instruction().action().kind();
    if (TakesTime(kind)) return Execute();
    if (IsSend(kind) || IsRecv(kind)) Post(instruction(), IsSend(kind));
    ++next_;
  }
}

bool ProgramRun::WaitsForSlots() {
  const v1::Instruction& here = instruction();
  if (!TakesTime(here.action().kind())) return false;
  if (here.recv_slot() >= 0 && WaitsFor({here.recv_channel(), here.recv_slot()})) return true;
  for (const v1::SkipSlot& skip : here.skip_recv()) {
    if (WaitsFor({skip.channel(), skip.slot()})) return true;
  }
  if (here.send_slot() >= 0 && WaitsFor({here.send_channel(), here.send_slot()})) return true;
  return std::any_of(here.skip_send().begin(), here.skip_send().end(), [this](const v1::SkipSlot& skip) {
    return WaitsFor({skip.channel(), skip.slot()});
  });
}

bool ProgramRun::WaitsFor(const Slot& slot) {
  const auto posted = posted_.find(slot);
  if (posted == posted_.end()) return false;
  const absl::StatusOr<std::optional<Payload>> arrived = context_.data.Check(posted->second);
  if (!arrived.ok()) {
    End(arrived.status());
    return true;
  }
  if (!arrived->has_value()) {
    waits_on_ = slot.first;
    return true;
  }
  if (!posted->second.is_send) contents_[slot] = **arrived;
  posted_.erase(posted);
  return false;
}

bool ProgramRun::WaitsForAny() {
  while (!posted_.empty()) {
    if (WaitsFor(posted_.begin()->first)) return true;
  }
  return false;
}

void ProgramRun::Execute() {
  DeviceTrouble& trouble = context_.trouble;
  computing_ = true;
  if (trouble.fails) {
    trouble.fails = false;
    return End(absl::InternalError("the device has failed"));
  }
  if (trouble.hangs) return;
  const absl::Duration seconds =
      context_.world.random.Between(absl::Milliseconds(1), absl::Milliseconds(8)) + trouble.slowness;
  context_.process.After(seconds, [self = shared_from_this()] {
    if (self->ended_) return;
    self->computing_ = false;
    self->Compute(self->instruction());
    ++self->next_;
    self->Advance();
  });
}

void ProgramRun::Compute(const v1::Instruction& here) {
  switch (here.action().kind()) {
    case v1::ACTION_KIND_FORWARD:
      return Forward(here);
    case v1::ACTION_KIND_BACKWARD_INPUT:
      return BackwardInput(here);
    default:
      return BackwardWeight(here);
  }
}

void ProgramRun::Forward(const v1::Instruction& here) {
  const uint32_t index = here.action().micro_batch();
  MicroBatch& micro_batch = micro_batches_[index];
  const auto samples = order_.micro_batch_samples(static_cast<int>(index));
  const uint64_t input = is_first_ ? LoadedSamples(order_.first_sample(), index, samples)
                                   : contents_.at({here.recv_channel(), here.recv_slot()}).front();
  Skips skips = ReadSkips(here);
  micro_batch.activations =
      ForwardLayers(context_.graph, context_.program.stages(0).first_layer(), context_.state.values, input, skips);
  WriteSkips(here, skips);
  if (!is_last_) {
    contents_[{here.send_channel(), here.send_slot()}] = {micro_batch.activations.back()};
    return;
  }
  v1::LossPart& part = loss_parts_.emplace_back();
  part.set_micro_batch(index);
  part.set_value(order_.loss_weight(static_cast<int>(index)) * LossOf(micro_batch.activations.back()));
}

void ProgramRun::BackwardInput(const v1::Instruction& here) {
  const uint32_t index = here.action().micro_batch();
  MicroBatch& micro_batch = micro_batches_.at(index);
  const uint64_t gradient =
      is_last_ ? LossGradient(micro_batch.activations.back(), order_.loss_weight(static_cast<int>(index)))
               : contents_.at({here.recv_channel(), here.recv_slot()}).front();
  Skips skips = ReadSkips(here);
  micro_batch.gradients =
      BackwardLayers(context_.graph, context_.program.stages(0).first_layer(), context_.state.values, gradient, skips);
  WriteSkips(here, skips);
  if (!is_first_) contents_[{here.send_channel(), here.send_slot()}] = {micro_batch.gradients.front()};
}

Skips ProgramRun::ReadSkips(const v1::Instruction& here) const {
  Skips skips;
  for (const v1::SkipSlot& skip : here.skip_recv()) {
    const v1::ChannelSpec& channel = context_.program.channels(static_cast<int>(skip.channel()));
    const Payload& arrived = contents_.at({skip.channel(), skip.slot()});
    for (size_t i = 0; i < arrived.size(); ++i) skips[channel.skip_connections(static_cast<int>(i))] = arrived[i];
  }
  return skips;
}

void ProgramRun::WriteSkips(const v1::Instruction& here, const Skips& skips) {
  for (const v1::SkipSlot& skip : here.skip_send()) {
    const v1::ChannelSpec& channel = context_.program.channels(static_cast<int>(skip.channel()));
    Payload& sent = contents_[{skip.channel(), skip.slot()}];
    sent.clear();
    for (const uint32_t connection : channel.skip_connections()) sent.push_back(skips.at(connection));
  }
}

void ProgramRun::BackwardWeight(const v1::Instruction& here) {
  const MicroBatch& micro_batch = micro_batches_.at(here.action().micro_batch());
  std::vector<uint64_t>& accumulators = context_.state.gradients;
  for (size_t layer = 0; layer < accumulators.size(); ++layer) {
    accumulators[layer] =
        AddWeightGradient(accumulators[layer], micro_batch.activations[layer], micro_batch.gradients[layer + 1]);
  }
}

void ProgramRun::Post(const v1::Instruction& here, bool is_send) {
  const v1::ChannelSpec& spec = context_.program.channels(static_cast<int>(here.channel()));
  const Tag tag = TagOf(here.action().micro_batch());
  const Slot slot{here.channel(), is_send ? here.send_slot() : here.recv_slot()};
  posted_[slot] = is_send ? context_.data.PostSend(context_.transport, spec, tag, contents_.at(slot))
                          : context_.data.PostRecv(context_.transport, spec, tag);
}

v1::RunState ProgramRun::state() const {
  v1::RunState state;
  state.set_step(order_.step());
  const int here = has_ended() ? next_ - 1 : next_;
  state.set_instruction(static_cast<uint64_t>(here));
  state.set_action(ActionText(context_.program.instructions(here).action()));
  state.set_waiting(waits_on_.has_value());
  state.set_channel(waits_on_.value_or(0));
  return state;
}

v1::StepPrepared ProgramRun::Vote() const {
  v1::StepPrepared vote;
  vote.set_step(order_.step());
  for (size_t layer = 0; layer < context_.state.gradients.size(); ++layer) {
    const uint64_t gradient = context_.state.gradients[layer];
    const auto index = static_cast<int>(context_.state.first_layer().value() + layer);
    for (v1::SquaredNorm& norm : NormsOf(context_.graph.layers(index), gradient)) {
      *vote.add_squared_norms() = std::move(norm);
    }
    vote.set_num_non_finite(vote.num_non_finite() + (IsNonFinite(gradient) ? 1 : 0));
  }
  vote.mutable_loss_parts()->Add(loss_parts_.begin(), loss_parts_.end());
  vote.mutable_busy_seconds()->set_forward(0.01);
  vote.mutable_busy_seconds()->set_total(0.02);
  return vote;
}

}  // namespace stagecoach::simulation
