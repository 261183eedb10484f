#include "coordinator/journal/sqlite_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "google/protobuf/message.h"
#include "xxhash.h"

namespace stagecoach {
namespace {

constexpr int64_t kApplicationId = 0x53746743;  // "StgC", for file(1)
constexpr uint64_t kLargestSequence = std::numeric_limits<int64_t>::max();
// Pages (of 4 KiB) in the WAL after which they are moved into the file: a synced append waits for the disk anyway; a
// buffered one does it only to bound the WAL, at 64 MiB.
constexpr int kPagesAtSynced = 1024;
constexpr int kPagesAtBuffered = 16384;

absl::Status NotLocked(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat("the journal ", path, " was not locked before it was used"));
}

int64_t ChecksumOf(absl::string_view bytes) { return static_cast<int64_t>(XXH3_64bits(bytes.data(), bytes.size())); }

// Columns that help people to find an entry.
struct Labels {
  std::string fact = "none";
  std::string job;
  uint64_t epoch = 0;
};

Labels LabelsOf(const v1::JournalEntry& entry) {
  Labels labels;
  const google::protobuf::FieldDescriptor* fact =
      entry.GetReflection()->GetOneofFieldDescriptor(entry, v1::JournalEntry::descriptor()->FindOneofByName("fact"));
  if (fact == nullptr) return labels;
  labels.fact = fact->name();
  const google::protobuf::Message& message = entry.GetReflection()->GetMessage(entry, fact);
  const auto* job = message.GetDescriptor()->FindFieldByName("job");
  if (job != nullptr) labels.job = message.GetReflection()->GetString(message, job);
  const auto* epoch = message.GetDescriptor()->FindFieldByName("epoch");
  if (epoch != nullptr) labels.epoch = message.GetReflection()->GetUInt64(message, epoch);
  if (entry.has_epoch_started()) labels.epoch = entry.epoch_started().placement().epoch();
  return labels;
}

absl::Status CheckSchema(const SqliteDatabase& database) {
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t version, database.QueryInteger("PRAGMA user_version"));
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t application, database.QueryInteger("PRAGMA application_id"));
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t tables, database.QueryInteger("SELECT count(*) FROM sqlite_schema"));
  if (application != kApplicationId && (application != 0 || tables > 0)) {
    return absl::FailedPreconditionError(absl::StrCat(database.path(), " is the database of another program"));
  }
  if (version <= SqliteStore::kSchemaVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      database.path(), " was written by a newer version of Stagecoach (its schema version is ", version,
      ", this one knows ", SqliteStore::kSchemaVersion, "); start that version, or name another state directory"));
}

absl::Status MakeSchema(const SqliteDatabase& database) {
  return database.Execute(absl::StrCat(
      "CREATE TABLE IF NOT EXISTS entries(sequence INTEGER PRIMARY KEY, term INTEGER NOT NULL, fact TEXT NOT NULL, "
      "job TEXT NOT NULL, epoch INTEGER NOT NULL, checksum INTEGER NOT NULL, entry BLOB NOT NULL); PRAGMA "
      "user_version=",
      SqliteStore::kSchemaVersion, "; PRAGMA application_id=", kApplicationId));
}

absl::Status LockAndCheck(const SqliteDatabase& database) {
  // With this locking mode the lock that BEGIN takes is kept when the transaction ends.
  STAGECOACH_RETURN_IF_ERROR(database.Execute("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE"));
  STAGECOACH_RETURN_IF_ERROR(CheckSchema(database));
  STAGECOACH_RETURN_IF_ERROR(MakeSchema(database));
  STAGECOACH_RETURN_IF_ERROR(database.Execute("COMMIT"));
  STAGECOACH_ASSIGN_OR_RETURN(const std::string mode, database.QueryText("PRAGMA journal_mode=WAL"));
  if (mode == "wal") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(database.path(), " cannot have a write-ahead log here (journal mode ", mode, ")"));
}

absl::Status ParseRow(const SqliteDatabase& database, const SqliteStatement& row, v1::JournalEntry& entry) {
  const absl::string_view bytes = row.Bytes(2);
  const bool intact = row.Integer(1) == ChecksumOf(bytes) &&
                      entry.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
                      entry.sequence() == static_cast<uint64_t>(row.Integer(0));
  if (intact) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(database.path(), " is damaged: entry ", row.Integer(0),
                                          " is not what was written; restore the file from a copy"));
}

}  // namespace

SqliteStore::~SqliteStore() = default;

absl::Status SqliteStore::Lock() {
  if (database_ != nullptr) return absl::FailedPreconditionError(absl::StrCat("the journal ", path_, " is locked"));
  STAGECOACH_ASSIGN_OR_RETURN(database_, SqliteDatabase::Open(path_));
  absl::Status status = Prepare();
  if (status.ok()) return status;
  insert_.reset();
  database_.reset();
  return status;
}

absl::Status SqliteStore::Prepare() {
  const absl::Status locked = LockAndCheck(*database_);
  if (!locked.ok() && (sqlite3_errcode(database_->handle()) & 0xff) == SQLITE_BUSY) {
    return absl::FailedPreconditionError(absl::StrCat("another coordinator has the journal ", path_,
                                                      "; stop it first, or name another state directory"));
  }
  STAGECOACH_RETURN_IF_ERROR(locked);
  sqlite3_wal_hook(
      database_->handle(),
      [](void* pages, sqlite3*, const char*, int num_pages) {
        *static_cast<int*>(pages) = num_pages;
        return SQLITE_OK;
      },
      &wal_pages_);
  STAGECOACH_ASSIGN_OR_RETURN(
      insert_, database_->Prepare("INSERT INTO entries(sequence, term, fact, job, epoch, checksum, entry) "
                                  "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
  return ReadLastSequence();
}

absl::Status SqliteStore::ReadLastSequence() {
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t last, database_->QueryInteger("SELECT max(sequence) FROM entries"));
  last_sequence_ = static_cast<uint64_t>(last);
  return absl::OkStatus();
}

absl::Status SqliteStore::SetSync(SyncMode sync) {
  if (sync_ == sync) return absl::OkStatus();
  // NORMAL syncs only when the WAL is moved into the file. A FULL commit syncs all of the WAL.
  STAGECOACH_RETURN_IF_ERROR(
      database_->Execute(sync == SyncMode::kSynced ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL"));
  sync_ = sync;
  return absl::OkStatus();
}

absl::Status SqliteStore::Append(const v1::JournalEntry& entry, SyncMode sync) {
  if (database_ == nullptr) return NotLocked(path_);
  if (entry.sequence() <= last_sequence_ || entry.sequence() > kLargestSequence) {
    return absl::InvalidArgumentError(
        absl::StrCat("journal entry ", entry.sequence(), " cannot follow entry ", last_sequence_));
  }
  STAGECOACH_RETURN_IF_ERROR(SetSync(sync));
  STAGECOACH_RETURN_IF_ERROR(Insert(entry));
  last_sequence_ = entry.sequence();
  MoveIntoFileWhenLong(sync);
  return absl::OkStatus();
}

absl::Status SqliteStore::Insert(const v1::JournalEntry& entry) {
  if (!entry.SerializeToString(&bytes_)) {
    return absl::InvalidArgumentError(absl::StrCat("journal entry ", entry.sequence(), " is too large"));
  }
  const Labels labels = LabelsOf(entry);
  insert_->BindInteger(1, static_cast<int64_t>(entry.sequence()));
  insert_->BindInteger(2, static_cast<int64_t>(entry.coordinator_term()));
  insert_->BindText(3, labels.fact);
  insert_->BindText(4, labels.job);
  insert_->BindInteger(5, static_cast<int64_t>(labels.epoch));
  insert_->BindInteger(6, ChecksumOf(bytes_));
  insert_->BindBlob(7, bytes_);
  return insert_->Run();
}

// A failure is not the entry's, which is in the WAL: it is tried again when the WAL has grown by as much once more.
void SqliteStore::MoveIntoFileWhenLong(SyncMode sync) {
  const int limit = sync == SyncMode::kSynced ? kPagesAtSynced : kPagesAtBuffered;
  if (wal_pages_ < wal_pages_at_failure_ + limit) return;
  const int result =
      sqlite3_wal_checkpoint_v2(database_->handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  const absl::Status status = database_->StatusOf(result, "cannot take in its write-ahead log");
  if (!status.ok()) spdlog::warn("journal: {}", status.ToString());
  wal_pages_at_failure_ = status.ok() ? 0 : wal_pages_;
  wal_pages_ = status.ok() ? 0 : wal_pages_;
}

absl::Status SqliteStore::ReadAll(const std::function<absl::Status(const v1::JournalEntry&)>& visit) const {
  if (database_ == nullptr) return NotLocked(path_);
  STAGECOACH_ASSIGN_OR_RETURN(const SqliteStatement rows,
                              database_->Prepare("SELECT sequence, checksum, entry FROM entries ORDER BY sequence"));
  v1::JournalEntry entry;
  while (true) {
    STAGECOACH_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return absl::OkStatus();
    STAGECOACH_RETURN_IF_ERROR(ParseRow(*database_, rows, entry));
    STAGECOACH_RETURN_IF_ERROR(visit(entry));
  }
}

absl::Status SqliteStore::Snapshot(const std::vector<v1::JournalEntry>& entries, uint64_t up_to_sequence) {
  if (database_ == nullptr) return NotLocked(path_);
  uint64_t last = 0;
  for (const v1::JournalEntry& entry : entries) {
    if (entry.sequence() <= last || entry.sequence() > std::min(up_to_sequence, kLargestSequence)) {
      return absl::InvalidArgumentError(
          absl::StrCat("snapshot entry ", entry.sequence(), " is out of order or above ", up_to_sequence));
    }
    last = entry.sequence();
  }
  STAGECOACH_RETURN_IF_ERROR(SetSync(SyncMode::kSynced));
  STAGECOACH_RETURN_IF_ERROR(database_->Execute("BEGIN IMMEDIATE"));
  absl::Status status = ReplaceUpTo(entries, static_cast<int64_t>(std::min(up_to_sequence, kLargestSequence)));
  if (status.ok()) status = database_->Execute("COMMIT");
  if (!status.ok()) {
    // A full disk has ended the transaction already, and ROLLBACK says so.
    database_->Execute("ROLLBACK").IgnoreError();
    return status;
  }
  MoveIntoFileWhenLong(SyncMode::kSynced);
  return ReadLastSequence();
}

absl::Status SqliteStore::ReplaceUpTo(const std::vector<v1::JournalEntry>& entries, int64_t up_to_sequence) {
  STAGECOACH_ASSIGN_OR_RETURN(const SqliteStatement remove,
                              database_->Prepare("DELETE FROM entries WHERE sequence <= ?1"));
  remove.BindInteger(1, up_to_sequence);
  STAGECOACH_RETURN_IF_ERROR(remove.Run());
  for (const v1::JournalEntry& entry : entries) STAGECOACH_RETURN_IF_ERROR(Insert(entry));
  return absl::OkStatus();
}

}  // namespace stagecoach
