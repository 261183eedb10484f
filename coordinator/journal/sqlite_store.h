#ifndef STAGECOACH_COORDINATOR_JOURNAL_SQLITE_STORE_H_
#define STAGECOACH_COORDINATOR_JOURNAL_SQLITE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/journal/sqlite_database.h"
#include "coordinator/journal/store.h"

namespace stagecoach {

// The journal in one SQLite file, in WAL mode, locked for as long as the store lives (no other process can read it
// meanwhile). Buffered appends are written and not synced, so that they survive the process; what is written to the WAL
// is moved into the file at synced appends, so that steps do not wait for the disk.
//
//   entries(sequence, term, fact, job, epoch, checksum, entry)   entry: a serialized JournalEntry; checksum: XXH3-64 of
//                                                               it; the others are for people with `sqlite3`
//
// Lock() also fails with FAILED_PRECONDITION for a file that is another program's or a newer version's, NOT_FOUND and
// PERMISSION_DENIED for its directory, and DATA_LOSS for a damaged file. A network file system will not do: SQLite's
// locks and WAL do not work there.
class SqliteStore : public Store {
 public:
  static constexpr int64_t kSchemaVersion = 1;

  explicit SqliteStore(std::string path) : path_(std::move(path)) {}
  ~SqliteStore() override;

  absl::Status Lock() override;
  absl::Status Append(const v1::JournalEntry& entry, SyncMode sync) override;
  absl::Status ReadAll(const std::function<absl::Status(const v1::JournalEntry&)>& visit) const override;
  absl::Status Snapshot(const std::vector<v1::JournalEntry>& entries, uint64_t up_to_sequence) override;

 private:
  absl::Status Prepare();
  absl::Status SetSync(SyncMode sync);
  absl::Status Insert(const v1::JournalEntry& entry);
  absl::Status ReplaceUpTo(const std::vector<v1::JournalEntry>& entries, int64_t up_to_sequence);
  absl::Status ReadLastSequence();
  void MoveIntoFileWhenLong(SyncMode sync);

  const std::string path_;
  std::unique_ptr<SqliteDatabase> database_;  // null: not locked
  std::optional<SqliteStatement> insert_;     // before its database
  std::optional<SyncMode> sync_;              // that the connection is set to
  uint64_t last_sequence_ = 0;
  int wal_pages_ = 0;
  int wal_pages_at_failure_ = 0;  // of the last attempt to move them
  std::string bytes_;             // of the entry being written
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOURNAL_SQLITE_STORE_H_
