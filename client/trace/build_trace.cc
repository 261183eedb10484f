#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/output/table.h"
#include "client/trace/collected_trace.h"
#include "client/trace/span_kind.h"
#include "common/action_text.h"

namespace stagecoach {
namespace {

constexpr double kNanosecond = 1e-9;

TraceTransfer::Kind KindOf(v1::ChannelKind kind) {
  switch (kind) {
    case v1::CHANNEL_KIND_GRADIENT:
      return TraceTransfer::Kind::kGradient;
    case v1::CHANNEL_KIND_TIE:
      return TraceTransfer::Kind::kTie;
    case v1::CHANNEL_KIND_SKIP:
      return TraceTransfer::Kind::kSkip;
    case v1::CHANNEL_KIND_SKIP_GRADIENT:
      return TraceTransfer::Kind::kSkipGradient;
    default:
      return TraceTransfer::Kind::kActivation;
  }
}

v1::ActionKind PostOf(const v1::TransferTrace& transfer) {
  switch (transfer.kind()) {
    case v1::CHANNEL_KIND_GRADIENT:
    case v1::CHANNEL_KIND_SKIP_GRADIENT:
      return transfer.sent() ? v1::ACTION_KIND_SEND_BACKWARD : v1::ACTION_KIND_RECV_BACKWARD;
    case v1::CHANNEL_KIND_TIE:
      return transfer.sent() ? v1::ACTION_KIND_SEND_TIE : v1::ACTION_KIND_RECV_TIE;
    default:
      return transfer.sent() ? v1::ACTION_KIND_SEND_FORWARD : v1::ACTION_KIND_RECV_FORWARD;
  }
}

// Whether an action is of one micro-batch is what its text says.
bool IsOfMicroBatch(v1::ActionKind kind) {
  return kind != v1::ACTION_KIND_TIE_REDUCE && kind != v1::ACTION_KIND_GRADIENT_NORM &&
         kind != v1::ACTION_KIND_SEND_TIE && kind != v1::ACTION_KIND_RECV_TIE;
}

// Puts what workers told on the coordinator's clock; times are nanoseconds of it until Finish takes the first as 0.
class TraceBuilder {
 public:
  TraceBuilder(const CollectedTrace& collected, uint64_t asked_steps)
      : collected_(collected), asked_steps_(asked_steps) {
    trace_.name = Printable(collected.header.job());
  }

  PipelineTrace Build() && {
    AddStages();
    for (size_t rank = 0; rank < collected_.workers.size(); ++rank) AddWorker(rank);
    AddSteps();
    AddNotes();
    Finish();
    return std::move(trace_);
  }

 private:
  void AddStages() {
    for (int rank = 0; rank < collected_.header.members_size(); ++rank) {
      const CollectedTrace::Worker& worker = collected_.workers[static_cast<size_t>(rank)];
      for (const uint32_t stage : collected_.header.members(rank).stages()) {
        if (stage >= trace_.stages.size()) trace_.stages.resize(stage + 1);
        TraceStage& added = trace_.stages[stage];
        added.worker = static_cast<uint32_t>(rank);
        added.worker_name = Printable(collected_.header.members(rank).worker());
        added.missing = Printable(WhyMissing(worker));
        if (worker.clock.has_value()) {
          added.clock_error = static_cast<double>(worker.clock->error_nanoseconds()) * kNanosecond;
        }
      }
    }
  }

  std::string WhyMissing(const CollectedTrace::Worker& worker) const {
    if (!worker.missing.empty()) return worker.missing;
    if (!worker.runs.empty()) return "";
    if (worker.kept_job.empty()) return "it keeps no steps";
    if (worker.kept_job != collected_.header.job()) return absl::StrCat("it has taken job ", worker.kept_job, " since");
    return "it does not keep these steps any more";
  }

  // A step that was run again was committed as it went the last time.
  static std::map<uint64_t, const v1::StepTrace*> LastRuns(const CollectedTrace::Worker& worker) {
    std::map<uint64_t, const v1::StepTrace*> runs;
    for (const v1::StepTrace& run : worker.runs) {
      const v1::StepTrace*& last = runs[run.step()];
      if (last == nullptr || last->failed() || !run.failed()) last = &run;
    }
    return runs;
  }

  void AddWorker(size_t rank) {
    const CollectedTrace::Worker& worker = collected_.workers[rank];
    const auto& stages = collected_.header.members(static_cast<int>(rank)).stages();
    if (stages.empty()) return;
    const int64_t offset = worker.clock.has_value() ? worker.clock->offset_nanoseconds() : 0;
    for (const auto& [step, run] : LastRuns(worker)) {
      lost_ += run->num_lost();
      most_kept_ = std::max(most_kept_, worker.most_steps);
      AddRun(*run, offset, *std::min_element(stages.begin(), stages.end()));
    }
  }

  void AddRun(const v1::StepTrace& run, int64_t offset, uint32_t first_stage) {
    step_ = run.step();
    run_begin_ = run.begin() + offset;
    if (run.update_end() > run.update_begin()) {
      AddSpanAt(SpanKind::kUpdate, "update", first_stage, run.update_begin() + offset, run.update_end() + offset);
    }
    uint64_t end = 0;
    if (!run.instructions().empty()) {
      if (run.num_lost() == 0) AddSpan(SpanKind::kOther, "begin", first_stage, 0, run.instructions(0).begin());
      for (const v1::InstructionTrace& instruction : run.instructions()) AddInstruction(instruction);
      const v1::InstructionTrace& last = *run.instructions().rbegin();
      end = last.begin() + last.wait() + last.work();
    }
    AddSpan(SpanKind::kWait, "wait end", first_stage, end, run.last_wait_end());
    AddSpan(SpanKind::kOther, run.failed() ? "cut off" : "end", first_stage, std::max(end, run.last_wait_end()),
            run.end());
    for (const v1::TransferTrace& transfer : run.transfers()) AddTransfer(transfer, run.end());
  }

  void AddInstruction(const v1::InstructionTrace& instruction) {
    const v1::Action& action = instruction.action();
    const std::string text = ActionText(action);
    const std::optional<uint32_t> micro_batch =
        IsOfMicroBatch(action.kind()) ? std::optional(action.micro_batch()) : std::nullopt;
    const uint64_t work_begin = instruction.begin() + instruction.wait();
    AddSpan(SpanKind::kWait, absl::StrCat("wait ", text), action.stage(), instruction.begin(), work_begin, micro_batch);
    AddSpan(SpanKindOf(action.kind()), text, action.stage(), work_begin, work_begin + instruction.work(), micro_batch,
            /*even_if_empty=*/true);
  }

  // Relative to the run's begin.
  void AddSpan(SpanKind kind, std::string name, uint32_t stage, uint64_t begin, uint64_t end,
               std::optional<uint32_t> micro_batch = std::nullopt, bool even_if_empty = false) {
    if (end <= begin && !even_if_empty) return;
    AddSpanAt(kind, std::move(name), stage, run_begin_ + static_cast<int64_t>(begin),
              run_begin_ + static_cast<int64_t>(end), micro_batch);
  }

  void AddSpanAt(SpanKind kind, std::string name, uint32_t stage, int64_t begin, int64_t end,
                 std::optional<uint32_t> micro_batch = std::nullopt) {
    if (stage >= trace_.stages.size()) return;  // of an epoch with more stages
    trace_.spans.push_back(
        {.kind = kind, .name = std::move(name), .stage = stage, .micro_batch = micro_batch, .step = step_});
    span_times_.emplace_back(begin, end);
    Note(begin, end);
  }

  void AddTransfer(const v1::TransferTrace& transfer, uint64_t run_end) {
    v1::Action post;
    post.set_kind(PostOf(transfer));
    post.set_stage(transfer.sent() ? transfer.from_stage() : transfer.to_stage());
    post.set_micro_batch(transfer.micro_batch());
    if (post.stage() >= trace_.stages.size()) return;
    trace_.transfers.push_back({.kind = KindOf(transfer.kind()),
                                .name = ActionText(post),
                                .stage = post.stage(),
                                .peer_stage = transfer.sent() ? transfer.to_stage() : transfer.from_stage(),
                                .sent = transfer.sent(),
                                .micro_batch = transfer.micro_batch(),
                                .step = step_,
                                .bytes = transfer.bytes(),
                                .complete = transfer.complete()});
    const int64_t begin = run_begin_ + static_cast<int64_t>(transfer.post());
    const int64_t end = transfer.complete() ? begin + static_cast<int64_t>(transfer.duration())
                                            : run_begin_ + static_cast<int64_t>(std::max(run_end, transfer.post()));
    transfer_times_.emplace_back(begin, end);
  }

  void Note(int64_t begin, int64_t end) {
    auto [extent, is_new] = extents_.try_emplace(step_, begin, end);
    if (is_new) return;
    extent->second.first = std::min(extent->second.first, begin);
    extent->second.second = std::max(extent->second.second, end);
  }

  // As the coordinator has measured them, or, where it has not, from the first thing that was done to the last.
  void AddSteps() {
    std::map<uint64_t, std::pair<int64_t, int64_t>> windows = extents_;
    for (const v1::StepWindow& window : collected_.header.steps()) {
      const auto step = windows.find(window.step());
      if (step != windows.end()) step->second = {window.begin(), window.end()};
    }
    for (const auto& [step, window] : windows) {
      trace_.steps.push_back({.step = step});
      step_times_.push_back(window);
    }
  }

  void AddNotes() {
    const uint64_t committed = collected_.header.last_step() + 1 - collected_.header.first_step();
    uint64_t shown = 0;
    for (const TraceStep& step : trace_.steps) shown += step.step <= collected_.header.last_step() ? 1 : 0;
    if (asked_steps_ > committed) {
      trace_.notes.push_back(absl::StrCat("asked for ", asked_steps_, " steps; the job has completed ", committed));
    }
    if (shown > 0 && shown < committed) {
      trace_.notes.push_back(absl::StrCat("of ", committed, " steps there are ", shown, ": a worker keeps the last ",
                                          most_kept_, " at most"));
    }
    std::set<uint32_t> said;
    for (const TraceStage& stage : trace_.stages) {
      if (stage.missing.empty() || !said.insert(stage.worker).second) continue;
      trace_.notes.push_back(
          absl::StrCat("no trace of worker ", stage.worker_name, " (", StagesText(stage.worker), "): ", stage.missing));
    }
    if (lost_ > 0) {
      trace_.notes.push_back(absl::StrCat(lost_, " instructions are not there: a step has more than a worker keeps"));
    }
  }

  std::string StagesText(uint32_t worker) const {
    std::string text;
    for (size_t stage = 0; stage < trace_.stages.size(); ++stage) {
      if (trace_.stages[stage].worker == worker) absl::StrAppend(&text, text.empty() ? "stage " : ", ", stage);
    }
    return text;
  }

  void Finish() {
    int64_t origin = std::numeric_limits<int64_t>::max();
    for (const auto* times : {&span_times_, &transfer_times_, &step_times_}) {
      for (const auto& [begin, end] : *times) origin = std::min(origin, begin);
    }
    const auto set = [&](auto& item, const std::pair<int64_t, int64_t>& times) {
      item.begin = static_cast<double>(times.first - origin) * kNanosecond;
      item.end = static_cast<double>(times.second - origin) * kNanosecond;
    };
    for (size_t i = 0; i < trace_.spans.size(); ++i) set(trace_.spans[i], span_times_[i]);
    for (size_t i = 0; i < trace_.transfers.size(); ++i) set(trace_.transfers[i], transfer_times_[i]);
    for (size_t i = 0; i < trace_.steps.size(); ++i) set(trace_.steps[i], step_times_[i]);
  }

  using Times = std::vector<std::pair<int64_t, int64_t>>;

  const CollectedTrace& collected_;
  const uint64_t asked_steps_;
  PipelineTrace trace_;
  Times span_times_, transfer_times_, step_times_;  // parallel to those of trace_
  std::map<uint64_t, std::pair<int64_t, int64_t>> extents_;
  uint64_t lost_ = 0;
  uint32_t most_kept_ = 0;
  // Of the run that is being added.
  uint64_t step_ = 0;
  int64_t run_begin_ = 0;
};

}  // namespace

PipelineTrace BuildTrace(const CollectedTrace& collected, uint64_t asked_steps) {
  return TraceBuilder(collected, asked_steps).Build();
}

}  // namespace stagecoach
