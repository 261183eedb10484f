#include "worker/executor/run_recorder.h"

#include <algorithm>

namespace stagecoach {
namespace {

bool PostsTransfer(v1::ActionKind kind) {
  switch (kind) {
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

}  // namespace

RunRecorder::RunRecorder(TraceRing* ring, Epoch epoch, const v1::StageProgram& program)
    : ring_(ring), epoch_(epoch), program_hash_(program.content_hash()) {
  for (const v1::Instruction& instruction : program.instructions()) {
    ++num_instructions_;
    if (PostsTransfer(instruction.action().kind())) ++num_transfers_;
  }
}

void RunRecorder::Begin(Step step, absl::Duration now) {
  if (ring_ == nullptr) return;
  instructions_end_ = wait_end_ = absl::ToInt64Nanoseconds(now);
  ring_->BeginRun({.step = step,
                   .epoch = epoch_,
                   .program_hash = program_hash_,
                   .begin = instructions_end_,
                   .most_instructions = num_instructions_,
                   .most_transfers = num_transfers_});
}

void RunRecorder::AddInstruction(const v1::Action& action, absl::Duration begin, absl::Duration end) {
  if (ring_ == nullptr) return;
  const int64_t begin_nanoseconds = absl::ToInt64Nanoseconds(begin);
  instructions_end_ = absl::ToInt64Nanoseconds(end);
  ring_->Add({.begin = begin_nanoseconds,
              .wait_end = std::max(begin_nanoseconds, wait_end_),
              .end = instructions_end_,
              .micro_batch = action.micro_batch(),
              .stage = static_cast<uint16_t>(action.stage()),
              .kind = static_cast<uint8_t>(action.kind())});
}

void RunRecorder::End(absl::Duration now, bool failed) {
  if (ring_ == nullptr) return;
  ring_->EndRun(std::max(instructions_end_, wait_end_), absl::ToInt64Nanoseconds(now), failed);
}

}  // namespace stagecoach
