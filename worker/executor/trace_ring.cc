#include "worker/executor/trace_ring.h"

#include <algorithm>

namespace stagecoach {
namespace {

// What is left of [first, end) in a ring of `capacity`.
uint64_t FirstKept(uint64_t first, uint64_t end, size_t capacity) {
  return std::max(first, end - std::min<uint64_t>(end, capacity));
}

// Those with the numbers [first, end).
template <typename Record>
std::vector<Record> CopyOf(const Record* ring, size_t capacity, uint64_t first, uint64_t end) {
  std::vector<Record> copy;
  copy.reserve(end - first);
  for (uint64_t i = first; i < end; ++i) copy.push_back(ring[i % capacity]);
  return copy;
}

}  // namespace

TraceRing::TraceRing(const Limits& limits)
    : limits_(limits),
      // Not filled: memory that is never used is never there.
      instructions_(std::make_unique_for_overwrite<InstructionRecord[]>(limits.instructions)),
      transfers_(std::make_unique_for_overwrite<TransferRecord[]>(limits.transfers)),
      entries_(limits.runs) {}

void TraceRing::BeginJob(const JobId& job) {
  update_begin_ = update_end_ = 0;
  MutexLock lock(mutex_);
  if (job_ == job) return;
  job_ = job;
  first_run_ = end_run_;
}

void TraceRing::BeginRun(const RunStart& start) {
  current_ = Entry();
  RunRecord& run = current_.run;
  run.step = start.step;
  run.epoch = start.epoch;
  std::copy_n(start.program_hash.begin(), std::min(run.program_hash.size(), start.program_hash.size()),
              run.program_hash.begin());
  run.begin = start.begin;
  run.update_begin = update_begin_;
  run.update_end = update_end_;
  update_begin_ = update_end_ = 0;
  current_.first_instruction = num_instructions_;
  current_.first_transfer = num_transfers_;
  is_recording_ = true;
  MutexLock lock(mutex_);
  DropBefore(FirstKept(0, num_instructions_ + start.most_instructions, limits_.instructions),
             FirstKept(0, num_transfers_ + start.most_transfers, limits_.transfers));
}

void TraceRing::DropBefore(uint64_t instructions, uint64_t transfers) {
  while (first_run_ < end_run_) {
    const Entry& oldest = entries_[first_run_ % limits_.runs];
    if (oldest.first_instruction >= instructions && oldest.first_transfer >= transfers) return;
    ++first_run_;
  }
}

uint64_t TraceRing::Add(const TransferRecord& record) {
  transfers_[num_transfers_ % limits_.transfers] = record;
  return num_transfers_++;
}

void TraceRing::Complete(uint64_t transfer, int64_t at) {
  if (transfer + limits_.transfers >= num_transfers_) transfers_[transfer % limits_.transfers].completed = at;
}

void TraceRing::EndRun(int64_t last_wait_end, int64_t end, bool failed) {
  if (!is_recording_) return;
  is_recording_ = false;
  current_.run.last_wait_end = last_wait_end;
  current_.run.end = end;
  current_.run.failed = failed;
  const uint64_t first = FirstKept(current_.first_instruction, num_instructions_, limits_.instructions);
  current_.run.num_lost = first - current_.first_instruction;
  current_.first_instruction = first;
  current_.end_instruction = num_instructions_;
  current_.first_transfer = FirstKept(current_.first_transfer, num_transfers_, limits_.transfers);
  current_.end_transfer = num_transfers_;
  MutexLock lock(mutex_);
  if (end_run_ - first_run_ == limits_.runs) ++first_run_;
  entries_[end_run_++ % limits_.runs] = current_;
}

TraceRing::Runs TraceRing::runs() const {
  MutexLock lock(mutex_);
  return {.job = job_, .first = first_run_, .end = end_run_};
}

std::optional<RecordedRun> TraceRing::Copy(uint64_t run) const {
  MutexLock lock(mutex_);
  if (run < first_run_ || run >= end_run_) return std::nullopt;
  const Entry& entry = entries_[run % limits_.runs];
  return RecordedRun{
      .run = entry.run,
      .instructions = CopyOf(instructions_.get(), limits_.instructions, entry.first_instruction, entry.end_instruction),
      .transfers = CopyOf(transfers_.get(), limits_.transfers, entry.first_transfer, entry.end_transfer)};
}

}  // namespace stagecoach
