#ifndef STAGECOACH_WORKER_EXECUTOR_TRACE_RING_H_
#define STAGECOACH_WORKER_EXECUTOR_TRACE_RING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "common/trace/trace_limits.h"

namespace stagecoach {

// Times are nanoseconds of the executor's clock. These two have no initializers, so that an array of them is no memory
// before it is written.
struct InstructionRecord {
  int64_t begin;
  int64_t wait_end;  // of waiting for transfers, before the work; `begin`: it did not wait
  int64_t end;
  uint32_t micro_batch;
  uint16_t stage;
  uint8_t kind;  // v1::ActionKind
};
// One end of a transfer.
struct TransferRecord {
  int64_t post;
  int64_t completed;  // 0: not when the run ended
  uint64_t bytes;
  uint32_t from_stage;
  uint32_t to_stage;
  uint32_t micro_batch;
  uint8_t kind;  // v1::ChannelKind
  bool sent;
};
// One run of a training program.
struct RunRecord {
  Step step;
  Epoch epoch;
  std::array<char, 16> program_hash{};
  bool failed = false;
  int64_t begin = 0;
  int64_t update_begin = 0, update_end = 0;  // of the update that the run came after; both 0: none
  int64_t last_wait_end = 0;                 // after the last instruction, for transfers under way
  int64_t end = 0;
  uint64_t num_lost = 0;  // instructions, the first ones: there was no room
};
struct RecordedRun {
  RunRecord run;
  std::vector<InstructionRecord> instructions;
  std::vector<TransferRecord> transfers;
};

// What a worker did in its newest runs, for whoever asks later. All memory is allocated at once, and touched as it is
// filled: 3.3 MiB at most with the default limits. The executor's thread records, which takes no lock but at the
// beginning and at the end of a run, and allocates nothing; any other thread may read meanwhile, one run at a time:
// what is copied under the lock is at most a run.
class TraceRing {
 public:
  // Records are kept in two rings; a run is kept as long as all its records are and it is among the newest `runs`. A
  // run that has more than there is room for loses its first ones.
  struct Limits {
    size_t runs = kMostTracedSteps;
    size_t instructions = size_t{1} << 16;  // 100 micro-batches of 20 instructions: 32 steps
    size_t transfers = size_t{1} << 15;
  };
  TraceRing() : TraceRing(Limits{}) {}
  explicit TraceRing(const Limits& limits);

  // Of the executor's thread.
  // Runs from now on are of this job: those of another are dropped.
  void BeginJob(const JobId& job);
  // The next run comes after this update.
  void NoteUpdate(int64_t begin, int64_t end) { update_begin_ = begin, update_end_ = end; }
  struct RunStart {
    Step step = {};
    Epoch epoch = {};
    absl::string_view program_hash = {};  // cut to 16 bytes
    int64_t begin = 0;
    size_t most_instructions = 0, most_transfers = 0;  // that may be added
  };
  void BeginRun(const RunStart& start);
  // Between BeginRun and EndRun.
  void Add(const InstructionRecord& record) { instructions_[num_instructions_++ % limits_.instructions] = record; }
  uint64_t Add(const TransferRecord& record);  // its number
  void Complete(uint64_t transfer, int64_t at);
  void EndRun(int64_t last_wait_end, int64_t end, bool failed);

  // Any thread.
  struct Runs {
    JobId job;
    uint64_t first = 0, end = 0;  // numbers of those that are there: [first, end)
  };
  Runs runs() const;
  // nullopt: it has been overwritten.
  std::optional<RecordedRun> Copy(uint64_t run) const;
  size_t most_runs() const { return limits_.runs; }

 private:
  struct Entry {
    RunRecord run;
    uint64_t first_instruction = 0, end_instruction = 0;
    uint64_t first_transfer = 0, end_transfer = 0;
  };

  void DropBefore(uint64_t instructions, uint64_t transfers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;

  // Of the executor's thread, but for the records of the runs that are there, which it does not write.
  const std::unique_ptr<InstructionRecord[]> instructions_;
  const std::unique_ptr<TransferRecord[]> transfers_;
  uint64_t num_instructions_ = 0, num_transfers_ = 0;  // ever added
  int64_t update_begin_ = 0, update_end_ = 0;
  Entry current_;
  bool is_recording_ = false;

  mutable Mutex mutex_;
  JobId job_ ABSL_GUARDED_BY(mutex_);
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // [limits_.runs]; run k is in place k % limits_.runs
  uint64_t first_run_ ABSL_GUARDED_BY(mutex_) = 0, end_run_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_EXECUTOR_TRACE_RING_H_
