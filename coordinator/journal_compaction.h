#ifndef STAGECOACH_COORDINATOR_JOURNAL_COMPACTION_H_
#define STAGECOACH_COORDINATOR_JOURNAL_COMPACTION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "common/ids.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

// Which entries of a journal are still needed, so that it does not grow for ever: of the steps of a job the newest, of
// a job that has ended only few, and of its states only the changes from one to another; of its epochs the orders that
// were searched only while they are run; of a job that was forgotten, and of a worker that has left, nothing; measured
// costs all stay. What is left replays to the same jobs, with the same numbers; the oldest step that is left has lost
// its event, which marks that others came before.
//
//   first pass:   Count each entry, in order
//   second pass:  Keep each entry, in order
//
// Pure but for its own memory; used by one thread.
class JournalCompaction {
 public:
  struct Limits {
    uint64_t steps_of_active_job = 65'536;  // as many events as are kept in memory
    uint64_t steps_of_ended_job = 64;
    uint64_t least_dropped = 10'000;  // a smaller gain is not worth writing the journal again
  };
  JournalCompaction() : JournalCompaction(Limits{}) {}
  explicit JournalCompaction(Limits limits) : limits_(limits) {}

  void Count(const v1::JournalEntry& entry);
  bool IsWorthwhile() const;
  // The entry, or what is left of it. nullopt: nothing.
  std::optional<v1::JournalEntry> Keep(const v1::JournalEntry& entry);

 private:
  struct Job {
    uint64_t num_entries = 0;
    uint64_t num_steps = 0;
    std::set<uint64_t> checkpoint_steps;
    bool has_ended = false;
    uint64_t last_epoch = 0;  // sequence of its entry
    // Of the second pass.
    uint64_t num_steps_seen = 0;
    uint64_t last_kept_step = 0;
    v1::JobState last_state = v1::JOB_STATE_UNSPECIFIED;
  };
  void CountForgotten(const v1::JournalEntry& entry);
  bool IsOfForgottenJob(const v1::JournalEntry& entry) const;
  bool IsOfFleet(const v1::JournalEntry& entry) const;
  uint64_t NumDropped(const Job& job) const;
  static v1::JournalEntry KeepEpoch(const v1::JournalEntry& entry, const Job& job);
  std::optional<v1::JournalEntry> KeepStep(const v1::JournalEntry& entry, Job& job) const;

  const Limits limits_;
  std::map<JobId, Job> jobs_;
  std::map<JobId, uint64_t> forgotten_;  // sequence of the newest entry that says so
  uint64_t last_forgotten_ = 0;          // of any
  std::map<WorkerId, uint64_t> joined_;  // sequence of the newest entry that says so, of those that have not left
  uint64_t num_unneeded_ = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOURNAL_COMPACTION_H_
