#ifndef STAGECOACH_COORDINATOR_JOURNAL_MEMORY_STORE_H_
#define STAGECOACH_COORDINATOR_JOURNAL_MEMORY_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "coordinator/journal/store.h"

namespace stagecoach {

// What a MemoryStore stores in: outlives it, as a disk outlives a process. Thread-safe.
class MemoryJournal {
 private:
  friend class MemoryStore;
  Mutex mutex_;
  bool locked_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<v1::JournalEntry> entries_ ABSL_GUARDED_BY(mutex_);
};

// A Store that lives as long as its MemoryJournal: for runs whose coordinator ends with the process, and for tests.
class MemoryStore : public Store {
 public:
  MemoryStore() : MemoryStore(std::make_shared<MemoryJournal>()) {}
  explicit MemoryStore(std::shared_ptr<MemoryJournal> journal) : journal_(std::move(journal)) {}
  ~MemoryStore() override;

  absl::Status Lock() override;
  absl::Status Append(const v1::JournalEntry& entry, SyncMode sync) override;
  absl::Status ReadAll(const std::function<absl::Status(const v1::JournalEntry&)>& visit) const override;
  absl::Status Snapshot(const std::vector<v1::JournalEntry>& entries, uint64_t up_to_sequence) override;

 private:
  const std::shared_ptr<MemoryJournal> journal_;
  bool holds_lock_ = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOURNAL_MEMORY_STORE_H_
