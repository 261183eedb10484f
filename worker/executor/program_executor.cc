#include "worker/executor/program_executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// How long a wait for the device goes on before it looks whether the run was aborted.
constexpr absl::Duration kDeviceWaitSlice = absl::Milliseconds(20);

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const v1::StageProgram& program,
                                                           Collaborators collaborators) {
  STAGECOACH_ASSIGN_OR_RETURN(PreparedProgram prepared, PrepareProgram(program, collaborators));
  const size_t loss_bytes = sizeof(double) * program.num_micro_batches();
  // Results for the host: on a device that shares its memory they are the host's, and the plan's bytes stay exact.
  const bool shares_memory = collaborators.device.capabilities().host_addressable;
  STAGECOACH_ASSIGN_OR_RETURN(
      std::unique_ptr<Memory> losses,
      collaborators.device.Allocate(loss_bytes, shares_memory ? MemoryKind::kPinnedHost : MemoryKind::kDevice));
  std::unique_ptr<Memory> host_losses;
  if (!shares_memory) {
    STAGECOACH_ASSIGN_OR_RETURN(host_losses, collaborators.device.Allocate(loss_bytes, MemoryKind::kPinnedHost));
  }
  return std::make_unique<ProgramExecutor>(program, std::move(prepared), std::move(collaborators), std::move(losses),
                                           std::move(host_losses));
}

ProgramExecutor::ProgramExecutor(const v1::StageProgram& program, PreparedProgram prepared, Collaborators collaborators,
                                 std::unique_ptr<Memory> losses, std::unique_ptr<Memory> host_losses)
    : forward_only_(program.forward_only()),
      collaborators_(std::move(collaborators)),
      compute_dtype_(collaborators_.device.capabilities().compute_dtype),
      completes_at_enqueue_(collaborators_.device.capabilities().completes_at_enqueue),
      losses_(std::move(losses)),
      host_losses_(std::move(host_losses)),
      program_(std::move(prepared)),
      micro_batches_(program.num_micro_batches()),
      times_(program_.instructions.size()),
      recorder_(collaborators_.trace, collaborators_.epoch, program) {
  report_.loss_parts.reserve(micro_batches_.size());
  ForEachEnd([this](const TransferSlots& slots, bool sends) {
    report_.traffic.push_back({.channel = slots.index(), .sent = sends});
  });
}

template <typename Visit>
void ProgramExecutor::ForEachEnd(Visit visit) {
  for (const auto& [ends, sends] : {std::pair(&program_.senders, true), std::pair(&program_.receivers, false)}) {
    for (const std::unique_ptr<TransferSlots>& slots : *ends) {
      if (slots != nullptr && !slots->is_local()) visit(*slots, sends);
    }
  }
}

absl::StatusOr<const RunReport*> ProgramExecutor::Run(const v1::RunStep& order) {
  STAGECOACH_RETURN_IF_ERROR(CheckOrder(order));
  if (failed_) return absl::FailedPreconditionError("an earlier run of this executor failed; a new epoch is needed");
  const absl::Status run = RunInstructions(order);
  recorder_.End(run.ok() ? last_charge_ : collaborators_.clock.Now(), /*failed=*/!run.ok());
  if (run.ok()) return &report_;
  failed_ = true;
  // Whatever an aborted wait returned, the abort is why.
  return aborted_.load() ? absl::Status(absl::StatusCode::kAborted, run.message()) : run;
}

void ProgramExecutor::Abort() {
  aborted_.store(true);
  collaborators_.stream.Cancel();
}

ExecutorProgress ProgramExecutor::progress() const {
  return {.step = step_in_progress_.load(std::memory_order_relaxed),
          .instruction = instruction_.load(std::memory_order_relaxed),
          .waiting = waiting_.load(std::memory_order_relaxed),
          .channel = waiting_channel_.load(std::memory_order_relaxed),
          .usual_seconds = usual_seconds_.load(std::memory_order_relaxed)};
}

absl::Status ProgramExecutor::RunInstructions(const v1::RunStep& order) {
  STAGECOACH_RETURN_IF_ERROR(Begin(order));
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    PreparedInstruction& instruction = program_.instructions[i];
    instruction_.store(i, std::memory_order_relaxed);
    usual_seconds_.store(times_.UsualSeconds(i), std::memory_order_relaxed);
    const absl::Duration start = last_charge_;
    absl::Status executed = CheckNotAborted();
    if (executed.ok()) executed = Execute(instruction);
    if (!executed.ok()) return WithContext(executed, ActionText(instruction.action));
    times_.Record(i, last_charge_ - start);
    recorder_.AddInstruction(instruction.action, start, last_charge_);
  }
  return WithContext(End(), "end of the run");
}

absl::Status ProgramExecutor::CheckOrder(const v1::RunStep& order) const {
  const int num_micro_batches = static_cast<int>(micro_batches_.size());
  if (order.micro_batch_samples_size() != num_micro_batches || order.loss_weight_size() != num_micro_batches ||
      order.evaluation() != forward_only_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the order has ", order.micro_batch_samples_size(), " micro-batches, ", order.loss_weight_size(),
        " loss weights and is ", order.evaluation() ? "an evaluation" : "a training step", "; the program has ",
        num_micro_batches, " micro-batches and is ", forward_only_ ? "forward-only" : "for training"));
  }
  for (const uint32_t samples : order.micro_batch_samples()) {
    if (samples > collaborators_.micro_batch_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("a micro-batch of ", samples, " samples; the program is for ", collaborators_.micro_batch_size));
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutor::Begin(const v1::RunStep& order) {
  report_.loss_parts.clear();
  report_.num_non_finite = 0;
  report_.seconds = {};
  ForEachEnd([](TransferSlots& slots, bool) { slots.ClearTraffic(); });
  num_norms_ = 0;
  step_ = Step(order.step());
  step_in_progress_.store(order.step(), std::memory_order_relaxed);
  last_charge_ = collaborators_.clock.Now();
  recorder_.Begin(step_, last_charge_);
  uint64_t first_sample = order.first_sample();
  for (size_t i = 0; i < micro_batches_.size(); ++i) {
    const uint32_t samples = order.micro_batch_samples(static_cast<int>(i));
    micro_batches_[i] = {.step = step_,
                         .index = MicroBatchIndex(static_cast<uint32_t>(i)),
                         .first_sample = first_sample,
                         .samples = samples,
                         .training = !forward_only_,
                         .loss_weight = order.loss_weight(static_cast<int>(i)),
                         .loss_scale = order.loss_scale(),
                         .stream = &collaborators_.stream};
    first_sample += samples;
  }
  STAGECOACH_RETURN_IF_ERROR(CheckNotAborted());
  if (!forward_only_) {
    for (StageState* state : collaborators_.states) {
      STAGECOACH_RETURN_IF_ERROR(state->EnqueueZeroGradients(collaborators_.stream));
    }
  }
  Charge(&RunReport::Seconds::other);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::End() {
  // Another program over the same channels and memory may run next.
  for (const auto* ends : {&program_.senders, &program_.receivers}) {
    for (const std::unique_ptr<TransferSlots>& slots : *ends) {
      if (slots == nullptr) continue;
      for (TransferSlots::Slot& slot : slots->slots()) STAGECOACH_RETURN_IF_ERROR(WaitTransfer(*slots, slot));
    }
  }
  if (!completes_at_enqueue_) {
    STAGECOACH_ASSIGN_OR_RETURN(const EventRef all, collaborators_.device.Record(collaborators_.stream));
    STAGECOACH_RETURN_IF_ERROR(WaitDevice(all));
  }
  const auto* values = reinterpret_cast<const double*>((host_losses_ ? host_losses_ : losses_)->data());
  for (RunReport::LossPart& part : report_.loss_parts) {
    const uint32_t micro_batch = part.micro_batch.value();
    part.value = micro_batches_[micro_batch].samples == 0 ? 0 : values[micro_batch];
  }
  report_.squared_norms.resize(num_norms_);
  size_t next_end = 0;
  ForEachEnd([&](const TransferSlots& slots, bool) {
    Traffic& traffic = report_.traffic[next_end++];
    traffic.bytes = slots.posted_bytes();
    traffic.wait_seconds = absl::ToDoubleSeconds(slots.waited());
  });
  Charge(&RunReport::Seconds::other);
  const RunReport::Seconds& s = report_.seconds;
  report_.seconds.total =
      s.forward + s.recompute + s.backward_input + s.backward_weight + s.p2p_wait + s.data_wait + s.other;
  return absl::OkStatus();
}

absl::Status ProgramExecutor::Execute(PreparedInstruction& instruction) {
  switch (instruction.action.kind()) {
    case v1::ACTION_KIND_LOAD:
      return Load(instruction);
    case v1::ACTION_KIND_FORWARD:
      return Forward(instruction);
    case v1::ACTION_KIND_RECOMPUTE:
      return Recompute(instruction);
    case v1::ACTION_KIND_BACKWARD_INPUT:
      return BackwardInput(instruction);
    case v1::ACTION_KIND_BACKWARD_WEIGHT:
      return BackwardWeight(instruction);
    case v1::ACTION_KIND_SEND_FORWARD:
    case v1::ACTION_KIND_SEND_BACKWARD:
      return Send(instruction);
    case v1::ACTION_KIND_RECV_FORWARD:
    case v1::ACTION_KIND_RECV_BACKWARD:
      return Recv(instruction);
    case v1::ACTION_KIND_LOSS:
      return Loss(instruction);
    case v1::ACTION_KIND_SEND_TIE:
      return SendTie(instruction);
    case v1::ACTION_KIND_RECV_TIE:
      return RecvTie(instruction);
    case v1::ACTION_KIND_TIE_REDUCE:
      return ReduceTie(instruction);
    case v1::ACTION_KIND_GRADIENT_NORM:
      return GradientNorm(instruction);
    default:
      return absl::InvalidArgumentError("this kind of instruction is not for an executor");
  }
}

absl::Status ProgramExecutor::Load(PreparedInstruction& instruction) {
  const MicroBatch& micro_batch = micro_batches_[instruction.micro_batch];
  LoadSlot& load = *instruction.load;
  if (micro_batch.samples == 0) return MarkUsed(instruction);
  Tensor tokens = Tokens(load.tokens, micro_batch.samples);
  Tensor labels = Tokens(load.labels, micro_batch.samples);
  const Tensor device_tokens = tokens, device_labels = labels;
  if (load.staging != nullptr) {
    if (load.staging_ready != nullptr) STAGECOACH_RETURN_IF_ERROR(WaitDevice(load.staging_ready));
    if (!tokens.empty()) tokens.data = load.staging->data();
    if (!labels.empty()) labels.data = load.staging->data() + load.tokens.size();
  }
  const DataSplit split = forward_only_ ? DataSplit::kValidation : DataSplit::kTrain;
  STAGECOACH_RETURN_IF_ERROR(collaborators_.data.Load(split, micro_batch.first_sample, tokens, labels));
  if (load.staging != nullptr) {
    for (const auto& [to, from] : {std::pair(&device_tokens, &tokens), std::pair(&device_labels, &labels)}) {
      if (to->empty()) continue;
      STAGECOACH_RETURN_IF_ERROR(
          collaborators_.device.EnqueueCopy(collaborators_.stream, to->data, from->data, from->bytes()));
    }
    STAGECOACH_ASSIGN_OR_RETURN(load.staging_ready, collaborators_.device.Record(collaborators_.stream));
  }
  STAGECOACH_RETURN_IF_ERROR(MarkUsed(instruction));
  Charge(&RunReport::Seconds::data_wait);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::Forward(PreparedInstruction& instruction) {
  STAGECOACH_RETURN_IF_ERROR(WaitForSlots(instruction));
  const MicroBatch& micro_batch = micro_batches_[instruction.micro_batch];
  const LoadSlot* load = instruction.load;
  const Tensor input = instruction.recv != nullptr
                           ? Activation(instruction.recv, instruction.recv_slot, micro_batch.samples)
                           : Tokens(load != nullptr ? load->tokens : std::span<std::byte>(), micro_batch.samples);
  const Tensor labels = Tokens(load != nullptr ? load->labels : std::span<std::byte>(), micro_batch.samples);
  const Tensor output =
      instruction.send != nullptr
          ? Activation(instruction.send, instruction.send_slot, micro_batch.samples)
          : Tensor::Of(losses_->data() + sizeof(double) * instruction.micro_batch, v1::DTYPE_F64, {1});
  STAGECOACH_RETURN_IF_ERROR(
      instruction.stage->Forward(micro_batch, input, labels, output, MemoryOf(instruction, micro_batch.samples)));
  STAGECOACH_RETURN_IF_ERROR(MarkUsed(instruction));
  Charge(&RunReport::Seconds::forward);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::Recompute(PreparedInstruction& instruction) {
  const MicroBatch& micro_batch = micro_batches_[instruction.micro_batch];
  STAGECOACH_RETURN_IF_ERROR(instruction.stage->Recompute(micro_batch, instruction.memory));
  STAGECOACH_RETURN_IF_ERROR(MarkUsed(instruction));
  Charge(&RunReport::Seconds::recompute);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::BackwardInput(PreparedInstruction& instruction) {
  STAGECOACH_RETURN_IF_ERROR(WaitForSlots(instruction));
  const MicroBatch& micro_batch = micro_batches_[instruction.micro_batch];
  STAGECOACH_RETURN_IF_ERROR(instruction.stage->BackwardInput(
      micro_batch, Activation(instruction.recv, instruction.recv_slot, micro_batch.samples),
      Activation(instruction.send, instruction.send_slot, micro_batch.samples),
      MemoryOf(instruction, micro_batch.samples)));
  STAGECOACH_RETURN_IF_ERROR(MarkUsed(instruction));
  Charge(&RunReport::Seconds::backward_input);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::BackwardWeight(PreparedInstruction& instruction) {
  const MicroBatch& micro_batch = micro_batches_[instruction.micro_batch];
  const LoadSlot* load = instruction.load;
  const Tensor labels = Tokens(load != nullptr ? load->labels : std::span<std::byte>(), micro_batch.samples);
  STAGECOACH_RETURN_IF_ERROR(instruction.stage->BackwardWeight(micro_batch, labels, instruction.memory));
  STAGECOACH_RETURN_IF_ERROR(MarkUsed(instruction));
  Charge(&RunReport::Seconds::backward_weight);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::Send(PreparedInstruction& instruction) {
  const MicroBatch& micro_batch = micro_batches_[instruction.micro_batch];
  TransferSlots& slots = *instruction.send;
  STAGECOACH_RETURN_IF_ERROR(slots.PostSend(instruction.send_slot, micro_batch.index, step_,
                                            slots.TransferBytes(micro_batch.samples), ReadyOf(instruction)));
  Charge(&RunReport::Seconds::other);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::Recv(PreparedInstruction& instruction) {
  const MicroBatch& micro_batch = micro_batches_[instruction.micro_batch];
  TransferSlots& slots = *instruction.recv;
  STAGECOACH_RETURN_IF_ERROR(slots.PostRecv(instruction.recv_slot, micro_batch.index, step_,
                                            slots.TransferBytes(micro_batch.samples), ReadyOf(instruction)));
  Charge(&RunReport::Seconds::other);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::Loss(PreparedInstruction& instruction) {
  if (host_losses_ != nullptr) {
    const size_t offset = sizeof(double) * instruction.micro_batch;
    STAGECOACH_RETURN_IF_ERROR(collaborators_.device.EnqueueCopy(collaborators_.stream, host_losses_->data() + offset,
                                                                 losses_->data() + offset, sizeof(double)));
  }
  // The value is read at the end of the run, when the device has it.
  report_.loss_parts.push_back({.micro_batch = MicroBatchIndex(instruction.micro_batch), .value = 0});
  Charge(&RunReport::Seconds::other);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::SendTie(PreparedInstruction& instruction) {
  STAGECOACH_RETURN_IF_ERROR(WaitForSlots(instruction));
  const Tensor gradient = instruction.state->tied_gradient();
  TransferSlots& slots = *instruction.send;
  STAGECOACH_RETURN_IF_ERROR(collaborators_.device.EnqueueCopy(
      collaborators_.stream, slots.slot(instruction.send_slot).buffer.data(), gradient.data, gradient.bytes()));
  if (!slots.is_local()) {
    EventRef copied;
    if (!completes_at_enqueue_) {
      STAGECOACH_ASSIGN_OR_RETURN(copied, collaborators_.device.Record(collaborators_.stream));
    }
    STAGECOACH_RETURN_IF_ERROR(
        slots.PostSend(instruction.send_slot, MicroBatchIndex(0), step_, gradient.bytes(), copied));
  }
  STAGECOACH_RETURN_IF_ERROR(MarkUsed(instruction));
  Charge(&RunReport::Seconds::other);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::RecvTie(PreparedInstruction& instruction) {
  TransferSlots& slots = *instruction.recv;
  STAGECOACH_RETURN_IF_ERROR(
      slots.PostRecv(instruction.recv_slot, MicroBatchIndex(0), step_, slots.spec().bytes(), ReadyOf(instruction)));
  Charge(&RunReport::Seconds::other);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::ReduceTie(PreparedInstruction& instruction) {
  STAGECOACH_RETURN_IF_ERROR(WaitForSlots(instruction));
  Tensor other;
  if (instruction.recv != nullptr) {
    other = instruction.state->tied_gradient();
    other.data = instruction.recv->slot(instruction.recv_slot).buffer.data();
  }
  STAGECOACH_RETURN_IF_ERROR(instruction.state->EnqueueReduceTie(collaborators_.stream, other));
  STAGECOACH_RETURN_IF_ERROR(MarkUsed(instruction));
  Charge(&RunReport::Seconds::other);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::GradientNorm(PreparedInstruction& instruction) {
  STAGECOACH_ASSIGN_OR_RETURN(const StageState::GradientReport gradients,
                              instruction.state->ReportGradients(collaborators_.stream));
  for (const NormReport& norm : gradients.norms) {
    // Assigned over what the last run left there, so that the name's storage is used again.
    if (num_norms_ == report_.squared_norms.size()) report_.squared_norms.emplace_back();
    report_.squared_norms[num_norms_++] = norm;
  }
  report_.num_non_finite += gradients.num_non_finite;
  Charge(&RunReport::Seconds::other);
  return absl::OkStatus();
}

absl::Status ProgramExecutor::WaitForSlots(PreparedInstruction& instruction) {
  if (instruction.recv != nullptr) {
    STAGECOACH_RETURN_IF_ERROR(WaitTransfer(*instruction.recv, instruction.recv->slot(instruction.recv_slot)));
  }
  if (instruction.send != nullptr) {
    STAGECOACH_RETURN_IF_ERROR(WaitTransfer(*instruction.send, instruction.send->slot(instruction.send_slot)));
  }
  for (const auto* ends : {&instruction.skip_recv, &instruction.skip_send}) {
    for (const SkipEnd& end : *ends) {
      STAGECOACH_RETURN_IF_ERROR(WaitTransfer(*end.slots, end.slots->slot(end.slot)));
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutor::WaitTransfer(TransferSlots& slots, TransferSlots::Slot& slot) {
  if (slot.pending == nullptr) return absl::OkStatus();
  Charge(&RunReport::Seconds::other);
  waiting_channel_.store(slots.index(), std::memory_order_relaxed);
  waiting_.store(true, std::memory_order_relaxed);
  const absl::Status waited = slots.Wait(slot, collaborators_.transfer_timeout);
  waiting_.store(false, std::memory_order_relaxed);
  const absl::Duration began = last_charge_;
  Charge(&RunReport::Seconds::p2p_wait);
  slots.AddWait(last_charge_ - began);
  recorder_.NoteWait(last_charge_);
  return waited;
}

absl::Status ProgramExecutor::MarkUsed(PreparedInstruction& instruction) {
  if (instruction.used == nullptr) return absl::OkStatus();
  STAGECOACH_ASSIGN_OR_RETURN(*instruction.used, collaborators_.device.Record(collaborators_.stream));
  return absl::OkStatus();
}

EventRef ProgramExecutor::ReadyOf(const PreparedInstruction& instruction) {
  return instruction.ready == nullptr ? EventRef() : *instruction.ready;
}

absl::Status ProgramExecutor::WaitDevice(const EventRef& event) {
  while (true) {
    const absl::Status waited = collaborators_.device.WaitComplete(event, kDeviceWaitSlice);
    if (waited.code() != absl::StatusCode::kDeadlineExceeded) return waited;
    STAGECOACH_RETURN_IF_ERROR(CheckNotAborted());
  }
}

Tensor ProgramExecutor::Activation(TransferSlots* slots, size_t slot, int64_t samples) const {
  if (slots == nullptr) return {};
  const auto seq_len = static_cast<int64_t>(collaborators_.seq_len);
  const auto columns = static_cast<int64_t>(slots->spec().bytes_per_sample() / BytesOf(compute_dtype_)) / seq_len;
  return Tensor::Of(slots->slot(slot).buffer.data(), compute_dtype_, {samples, seq_len, columns});
}

const StageMemoryView& ProgramExecutor::MemoryOf(PreparedInstruction& instruction, int64_t samples) {
  const auto show = [samples](const std::vector<SkipEnd>& ends, std::vector<SkipTensors>& tensors) {
    for (size_t i = 0; i < ends.size(); ++i) {
      const std::span<std::byte> buffer = ends[i].slots->slot(ends[i].slot).buffer;
      tensors[i].data = buffer.first(ends[i].slots->TransferBytes(samples));
    }
    return std::span<const SkipTensors>(tensors);
  };
  instruction.memory.skips_read = show(instruction.skip_recv, instruction.skips_read);
  instruction.memory.skips_written = show(instruction.skip_send, instruction.skips_written);
  return instruction.memory;
}

Tensor ProgramExecutor::Tokens(std::span<std::byte> region, int64_t samples) const {
  if (region.empty()) return {};
  return Tensor::Of(region.data(), v1::DTYPE_I32, {samples, static_cast<int64_t>(collaborators_.seq_len)});
}

void ProgramExecutor::Charge(double RunReport::Seconds::*sum) {
  const absl::Duration now = collaborators_.clock.Now();
  report_.seconds.*sum += absl::ToDoubleSeconds(now - last_charge_);
  last_charge_ = now;
}

absl::Status ProgramExecutor::CheckNotAborted() const {
  return aborted_.load(std::memory_order_relaxed) ? absl::AbortedError("the run was aborted") : absl::OkStatus();
}

}  // namespace stagecoach
