#include "worker/agent/trace_messages.h"

#include <algorithm>
#include <string>
#include <utility>

namespace stagecoach {
namespace {

// At most 60 bytes each.
constexpr size_t kRecordsPerPart = 4096;

uint64_t Between(int64_t from, int64_t to) { return static_cast<uint64_t>(std::max<int64_t>(to - from, 0)); }

v1::StepTrace DescribeRun(const RunRecord& run) {
  v1::StepTrace step;
  step.set_step(run.step.value());
  step.set_epoch(run.epoch.value());
  step.set_program_hash(std::string(run.program_hash.data(), run.program_hash.size()));
  step.set_failed(run.failed);
  step.set_begin(run.begin);
  step.set_update_begin(run.update_begin);
  step.set_update_end(run.update_end);
  step.set_last_wait_end(Between(run.begin, run.last_wait_end));
  step.set_end(Between(run.begin, run.end));
  step.set_num_lost(run.num_lost);
  return step;
}

void AddInstruction(const InstructionRecord& record, int64_t run_begin, v1::StepTrace& step) {
  v1::InstructionTrace& added = *step.add_instructions();
  added.mutable_action()->set_kind(static_cast<v1::ActionKind>(record.kind));
  added.mutable_action()->set_stage(record.stage);
  added.mutable_action()->set_micro_batch(record.micro_batch);
  added.set_begin(Between(run_begin, record.begin));
  added.set_wait(Between(record.begin, record.wait_end));
  added.set_work(Between(record.wait_end, record.end));
}

void AddTransfer(const TransferRecord& record, int64_t run_begin, v1::StepTrace& step) {
  v1::TransferTrace& added = *step.add_transfers();
  added.set_kind(static_cast<v1::ChannelKind>(record.kind));
  added.set_from_stage(record.from_stage);
  added.set_to_stage(record.to_stage);
  added.set_micro_batch(record.micro_batch);
  added.set_sent(record.sent);
  added.set_bytes(record.bytes);
  added.set_post(Between(run_begin, record.post));
  added.set_complete(record.completed != 0);
  if (added.complete()) added.set_duration(Between(record.post, record.completed));
}

// One run, in as many parts as it takes.
void AddRun(const RecordedRun& recorded, std::vector<v1::TracePart>& parts) {
  const v1::StepTrace description = DescribeRun(recorded.run);
  const size_t num_instructions = recorded.instructions.size();
  const size_t num_records = num_instructions + recorded.transfers.size();
  size_t next = 0;
  do {
    v1::StepTrace& step = *parts.emplace_back().mutable_step();
    step = description;
    for (const size_t end = std::min(next + kRecordsPerPart, num_records); next < end; ++next) {
      if (next < num_instructions) {
        AddInstruction(recorded.instructions[next], recorded.run.begin, step);
      } else {
        AddTransfer(recorded.transfers[next - num_instructions], recorded.run.begin, step);
      }
    }
  } while (next < num_records);
}

bool IsAskedFor(const RunRecord& run, const v1::ReadTrace& order) {
  const uint64_t step = run.step.value();
  return step >= order.first_step() && (step <= order.last_step() || run.failed);
}

}  // namespace

std::vector<v1::TracePart> AnswerReadTrace(const v1::ReadTrace& order, const TraceRing& ring,
                                           const std::optional<ClockOffsetEstimator::Estimate>& clock) {
  std::vector<v1::TracePart> parts;
  const TraceRing::Runs runs = ring.runs();
  if (runs.job.value() == order.job()) {
    for (uint64_t number = runs.first; number < runs.end; ++number) {
      const std::optional<RecordedRun> run = ring.Copy(number);
      if (run.has_value() && IsAskedFor(run->run, order)) AddRun(*run, parts);
    }
  }
  v1::TracePart& last = parts.emplace_back();
  last.set_last(true);
  last.set_most_steps(static_cast<uint32_t>(ring.most_runs()));
  last.set_kept_job(runs.job.value());
  if (clock.has_value()) {
    last.mutable_clock()->set_offset_nanoseconds(absl::ToInt64Nanoseconds(clock->offset));
    last.mutable_clock()->set_error_nanoseconds(static_cast<uint64_t>(absl::ToInt64Nanoseconds(clock->error)));
  }
  for (v1::TracePart& part : parts) part.set_request(order.request());
  return parts;
}

}  // namespace stagecoach
