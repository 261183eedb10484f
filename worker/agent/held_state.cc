#include "worker/agent/held_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// A device that has not finished an update by then is lost.
constexpr absl::Duration kUpdateTimeout = absl::Minutes(10);

}  // namespace

absl::Status HeldState::Prepare(std::shared_ptr<const v1::AssignStages> assignment, Interrupts& interrupts,
                                uint64_t generation) {
  STAGECOACH_RETURN_IF_ERROR(ApplyIfPrepared(assignment->last_commit()));
  STAGECOACH_RETURN_IF_ERROR(CheckAssignment(*assignment));
  STAGECOACH_RETURN_IF_ERROR(interrupts.Check(generation));
  const Step last_commit(assignment->last_commit().step());
  const bool can_keep = CanKeep(*assignment);
  if (!can_keep && last_commit != Step(0) && !assignment->has_restore()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the stages' state at step ", last_commit.value(), " is not here (",
        states_.empty() ? std::string("none is") : absl::StrCat("that of step ", applied_step().value(), " is"),
        "), and there is no checkpoint to read it from: start the job again"));
  }
  prepared_step_ = Step(0);
  return can_keep ? absl::OkStatus() : Build(std::move(assignment), interrupts, generation);
}

absl::Status HeldState::CheckAssignment(const v1::AssignStages& assignment) const {
  if (assignment.threads() == 0 || assignment.threads() > options_.max_threads) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job wants ", assignment.threads(), " threads, this worker has ", options_.max_threads));
  }
  const auto num_layers = static_cast<uint32_t>(assignment.graph().layers_size());
  if (assignment.program().stages().empty()) return absl::InvalidArgumentError("the program has no stage");
  for (const v1::StageSlots& stage : assignment.program().stages()) {
    if (stage.first_layer() > stage.last_layer() || stage.last_layer() >= num_layers) {
      return absl::InvalidArgumentError(absl::StrCat("stage ", stage.stage(), " has layers ", stage.first_layer(),
                                                     " to ", stage.last_layer(), " of a model of ", num_layers));
    }
  }
  return absl::OkStatus();
}

bool HeldState::CanKeep(const v1::AssignStages& assignment) const {
  const Step last_commit(assignment.last_commit().step());
  return threads_ == assignment.threads() && HasSameLayers(assignment.program()) &&
         std::all_of(states_.begin(), states_.end(),
                     [&](const auto& state) { return state->applied_step() == last_commit; });
}

bool HeldState::HasSameLayers(const v1::StageProgram& program) const {
  if (built_from_ == nullptr || built_from_->program().stages_size() != program.stages_size()) return false;
  for (int i = 0; i < program.stages_size(); ++i) {
    const v1::StageSlots& held = built_from_->program().stages(i);
    if (held.first_layer() != program.stages(i).first_layer() || held.last_layer() != program.stages(i).last_layer()) {
      return false;
    }
  }
  return true;
}

absl::Status HeldState::UseThreads(uint32_t threads) {
  if (threads_ == threads) return absl::OkStatus();
  threads_ = 0;
  stream_.reset();
  device_.reset();
  STAGECOACH_ASSIGN_OR_RETURN(device_, options_.device_factory(DeviceOptions{.threads = static_cast<int>(threads)}));
  STAGECOACH_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
  threads_ = threads;
  return absl::OkStatus();
}

absl::Status HeldState::Build(std::shared_ptr<const v1::AssignStages> assignment, Interrupts& interrupts,
                              uint64_t generation) {
  Release();
  STAGECOACH_RETURN_IF_ERROR(UseThreads(assignment->threads()));
  // Of its own, since the other one is never cancelled.
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device_->CreateStream());
  const Interrupts::Registration interrupt(interrupts, generation, [&](const absl::Status&) { stream->Cancel(); });
  std::vector<std::unique_ptr<StageState>> states;
  for (const v1::StageSlots& stage : assignment->program().stages()) {
    STAGECOACH_RETURN_IF_ERROR(interrupts.Check(generation));
    STAGECOACH_ASSIGN_OR_RETURN(
        std::unique_ptr<StageState> state,
        options_.stage_state_factory(*device_, *stream, assignment->spec(), assignment->graph(),
                                     LayerIndex(stage.first_layer()), LayerIndex(stage.last_layer())));
    states.push_back(std::move(state));
  }
  if (assignment->has_restore()) {
    std::vector<StageState*> to_restore;
    for (const auto& state : states) to_restore.push_back(state.get());
    const std::function<absl::Status()> may_go_on = [&] { return interrupts.Check(generation); };
    STAGECOACH_RETURN_IF_ERROR(WithContext(options_.state_restorer({.files = options_.files,
                                                                    .device = *device_,
                                                                    .stream = *stream,
                                                                    .states = to_restore,
                                                                    .assignment = *assignment,
                                                                    .may_go_on = may_go_on}),
                                           "restoring the stages' state"));
  }
  states_ = std::move(states);
  built_from_ = std::move(assignment);
  return absl::OkStatus();
}

absl::Status HeldState::ApplyIfPrepared(const v1::CommitRecord& record) {
  if (record.step() == 0 || record.step() != prepared_step_.value()) return absl::OkStatus();
  return Apply(record);
}

absl::Status HeldState::Commit(const v1::CommitRecord& record) {
  const Step step(record.step());
  if (states_.empty() || step == Step(0) || (step != prepared_step_ && step != applied_step())) {
    return absl::FailedPreconditionError(absl::StrCat("asked to commit step ", step.value(), "; prepared is ",
                                                      prepared_step_.value(), ", applied is ", applied_step().value(),
                                                      states_.empty() ? ", and no state is held" : ""));
  }
  return Apply(record);
}

absl::Status HeldState::Apply(const v1::CommitRecord& record) {
  const absl::Duration start = Clock::Real().Now();
  for (const auto& state : states_) STAGECOACH_RETURN_IF_ERROR(state->Update(*stream_, record));
  if (!device_->capabilities().completes_at_enqueue) {
    STAGECOACH_ASSIGN_OR_RETURN(const EventRef updated, device_->Record(*stream_));
    STAGECOACH_RETURN_IF_ERROR(device_->WaitComplete(updated, kUpdateTimeout));
  }
  if (prepared_step_.value() == record.step()) prepared_step_ = Step(0);
  last_update_ = {.begin = start, .end = Clock::Real().Now()};
  update_seconds_ += absl::ToDoubleSeconds(last_update_.end - last_update_.begin);
  return absl::OkStatus();
}

void HeldState::Release() {
  states_.clear();
  built_from_.reset();
  prepared_step_ = Step(0);
  TakeUpdateSeconds();
}

absl::Status HeldState::CheckMayRun(Step step) const {
  if (prepared_step_ != Step(0)) {
    return absl::FailedPreconditionError(absl::StrCat("asked to run step ", step.value(), ", but the verdict of step ",
                                                      prepared_step_.value(), " is not known"));
  }
  if (states_.empty() || step.value() != applied_step().value() + 1) {
    return absl::FailedPreconditionError(absl::StrCat("asked to run step ", step.value(), ", but step ",
                                                      applied_step().value(), " is the last one applied"));
  }
  return absl::OkStatus();
}

absl::Status HeldState::CheckMayEvaluate(Step step) const {
  if (has_state() && step == applied_step()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("asked to evaluate after step ", step.value(), ", but step ",
                                                    applied_step().value(), " is the last one applied"));
}

std::vector<StageState*> HeldState::states() const {
  std::vector<StageState*> states;
  for (const auto& state : states_) states.push_back(state.get());
  return states;
}

Step HeldState::applied_step() const {
  if (states_.empty()) return Step(0);
  Step applied = states_.front()->applied_step();
  for (const auto& state : states_) applied = std::min(applied, state->applied_step());
  return applied;
}

uint64_t HeldState::state_bytes() const {
  uint64_t bytes = 0;
  for (const auto& state : states_) {
    bytes += state->bytes().parameters + state->bytes().gradients + state->bytes().optimizer;
  }
  return bytes;
}

double HeldState::TakeUpdateSeconds() {
  last_update_ = {};
  return std::exchange(update_seconds_, 0);
}

}  // namespace stagecoach
