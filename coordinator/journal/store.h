#ifndef STAGECOACH_COORDINATOR_JOURNAL_STORE_H_
#define STAGECOACH_COORDINATOR_JOURNAL_STORE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

enum class SyncMode {
  kSynced,    // on disk when Append returns
  kBuffered,  // survives the process, not a loss of power
};

// Durable entries in one total order. One writer at a time, which holds the lock. Used by one thread.
class Store {
 public:
  virtual ~Store() = default;

  // Before anything else. FAILED_PRECONDITION: another writer holds the lock. Given up by the destructor.
  virtual absl::Status Lock() = 0;
  // `entry.sequence` must be larger than that of every entry before it: INVALID_ARGUMENT. A synced entry takes the
  // buffered ones before it along. FAILED_PRECONDITION: not locked. RESOURCE_EXHAUSTED: the disk is full.
  virtual absl::Status Append(const v1::JournalEntry& entry, SyncMode sync) = 0;
  // In order. Returns what `visit` returns as soon as that is an error. DATA_LOSS: a stored entry does not parse.
  virtual absl::Status ReadAll(const std::function<absl::Status(const v1::JournalEntry&)>& visit) const = 0;
  // Compaction: `entries`, whose sequences are at most `up_to_sequence`, take the place of all stored entries up to
  // there, at once or not at all. INVALID_ARGUMENT: they are out of order or above it.
  virtual absl::Status Snapshot(const std::vector<v1::JournalEntry>& entries, uint64_t up_to_sequence) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOURNAL_STORE_H_
