#include "coordinator/program/wait_causes.h"

#include <algorithm>

namespace stagecoach {
namespace {

// Where the results that other workers wait for are made.
class Makers {
 public:
  explicit Makers(const Timeline& timeline) {
    for (const std::vector<TimedAction>& row : timeline.workers) {
      for (const TimedAction& timed : row) {
        num_stages_ = std::max(num_stages_, timed.action.stage() + 1);
        num_micro_batches_ = std::max(num_micro_batches_, timed.action.micro_batch() + 1);
      }
    }
    forward_.resize(size_t{num_stages_} * num_micro_batches_);
    input_gradient_.resize(forward_.size());
    for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
      for (size_t index = 0; index < timeline.workers[worker].size(); ++index) {
        const v1::Action& action = timeline.workers[worker][index].action;
        // What these make stays on their worker.
        if (action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT || action.kind() == v1::ACTION_KIND_RECOMPUTE) continue;
        auto& makers = action.kind() == v1::ACTION_KIND_FORWARD ? forward_ : input_gradient_;
        makers[Index(action.stage(), action.micro_batch())] = ActionPlace{worker, index};
      }
    }
  }

  // What makes the last of the tensors that cross cuts into this action; nothing: none does.
  std::optional<ActionPlace> InputOf(const TimedAction& timed) const {
    const v1::Action& action = timed.action;
    if (timed.input_stage == action.stage()) return std::nullopt;
    const auto& makers = action.kind() == v1::ACTION_KIND_FORWARD ? forward_ : input_gradient_;
    return makers[Index(timed.input_stage, action.micro_batch())];
  }

 private:
  size_t Index(uint32_t stage, uint32_t micro_batch) const { return size_t{stage} * num_micro_batches_ + micro_batch; }

  uint32_t num_stages_ = 0;
  uint32_t num_micro_batches_ = 0;
  std::vector<std::optional<ActionPlace>> forward_;
  std::vector<std::optional<ActionPlace>> input_gradient_;
};

const TimedAction& At(const Timeline& timeline, ActionPlace place) {
  return timeline.workers[place.worker][place.index];
}

}  // namespace

std::vector<std::vector<StartCause>> StartCauses(const Timeline& timeline) {
  const Makers makers(timeline);
  std::vector<std::vector<StartCause>> causes(timeline.workers.size());
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    const std::vector<TimedAction>& row = timeline.workers[worker];
    for (size_t index = 0; index < row.size(); ++index) {
      StartCause cause;
      if (index > 0) cause = {.cause = WaitCause::kOrder, .after = ActionPlace{worker, index - 1}};
      const std::optional<ActionPlace> input = makers.InputOf(row[index]);
      if (input.has_value() && input->worker != worker && (index == 0 || row[index].start > row[index - 1].end)) {
        const double hop_seconds = row[index].start - At(timeline, *input).end;
        cause = {.cause = WaitCause::kInput, .after = input, .hop_seconds = hop_seconds};
      }
      causes[worker].push_back(cause);
    }
  }
  return causes;
}

std::vector<ChainPiece> ChainBefore(const Timeline& timeline, const std::vector<std::vector<StartCause>>& causes,
                                    ActionPlace action, double from_seconds) {
  std::vector<ChainPiece> pieces;
  double until = At(timeline, action).start;
  const auto add = [&](ActionPlace place, bool is_hop, double start) {
    const double clipped = std::max(start, from_seconds);
    if (clipped < until) pieces.push_back({place, is_hop, clipped, until});
    until = std::min(until, clipped);
  };
  while (until > from_seconds) {
    const StartCause& cause = causes[action.worker][action.index];
    if (!cause.after.has_value()) break;
    const TimedAction& before = At(timeline, *cause.after);
    if (cause.cause == WaitCause::kInput) add(*cause.after, true, before.end);
    add(*cause.after, false, before.start);
    action = *cause.after;
  }
  return pieces;
}

}  // namespace stagecoach
