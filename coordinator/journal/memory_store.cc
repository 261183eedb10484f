#include "coordinator/journal/memory_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

absl::Status NotLocked() { return absl::FailedPreconditionError("the journal was not locked before it was written"); }

}  // namespace

MemoryStore::~MemoryStore() {
  if (!holds_lock_) return;
  MutexLock lock(journal_->mutex_);
  journal_->locked_ = false;
}

absl::Status MemoryStore::Lock() {
  MutexLock lock(journal_->mutex_);
  if (journal_->locked_) {
    return absl::FailedPreconditionError("another coordinator has locked this journal; stop it first");
  }
  journal_->locked_ = true;
  holds_lock_ = true;
  return absl::OkStatus();
}

absl::Status MemoryStore::Append(const v1::JournalEntry& entry, SyncMode) {
  if (!holds_lock_) return NotLocked();
  MutexLock lock(journal_->mutex_);
  std::vector<v1::JournalEntry>& entries = journal_->entries_;
  if (!entries.empty() && entry.sequence() <= entries.back().sequence()) {
    return absl::InvalidArgumentError(
        absl::StrCat("journal entry ", entry.sequence(), " cannot follow entry ", entries.back().sequence()));
  }
  entries.push_back(entry);
  return absl::OkStatus();
}

absl::Status MemoryStore::ReadAll(const std::function<absl::Status(const v1::JournalEntry&)>& visit) const {
  std::vector<v1::JournalEntry> entries;
  {
    MutexLock lock(journal_->mutex_);
    entries = journal_->entries_;
  }
  for (const v1::JournalEntry& entry : entries) STAGECOACH_RETURN_IF_ERROR(visit(entry));
  return absl::OkStatus();
}

absl::Status MemoryStore::Snapshot(const std::vector<v1::JournalEntry>& entries, uint64_t up_to_sequence) {
  if (!holds_lock_) return NotLocked();
  uint64_t last = 0;
  for (const v1::JournalEntry& entry : entries) {
    if (entry.sequence() <= last || entry.sequence() > up_to_sequence) {
      return absl::InvalidArgumentError(
          absl::StrCat("snapshot entry ", entry.sequence(), " is out of order or above ", up_to_sequence));
    }
    last = entry.sequence();
  }
  MutexLock lock(journal_->mutex_);
  std::vector<v1::JournalEntry> stored = entries;
  for (v1::JournalEntry& entry : journal_->entries_) {
    if (entry.sequence() > up_to_sequence) stored.push_back(std::move(entry));
  }
  journal_->entries_ = std::move(stored);
  return absl::OkStatus();
}

}  // namespace stagecoach
