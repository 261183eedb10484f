#ifndef STAGECOACH_COORDINATOR_JOURNAL_SQLITE_DATABASE_H_
#define STAGECOACH_COORDINATOR_JOURNAL_SQLITE_DATABASE_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach {

class SqliteStatement;

// One connection to an SQLite file. Used by one thread at a time; closed on destruction. Errors name the file:
// FAILED_PRECONDITION (another connection has the lock), RESOURCE_EXHAUSTED (disk or memory full), DATA_LOSS (damaged,
// or no SQLite file), PERMISSION_DENIED, NOT_FOUND (no such directory), UNKNOWN.
class SqliteDatabase {
 public:
  // For reading and writing; made when it does not exist.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_.get(); }

  // Statements without parameters; their rows are dropped.
  absl::Status Execute(const std::string& sql) const;
  // The statement must not outlive the database.
  absl::StatusOr<SqliteStatement> Prepare(absl::string_view sql) const;
  // The first column of the first row.
  absl::StatusOr<int64_t> QueryInteger(absl::string_view sql) const;
  absl::StatusOr<std::string> QueryText(absl::string_view sql) const;
  // The one place where SQLite's result codes become a Status. OK for SQLITE_OK, _ROW and _DONE.
  absl::Status StatusOf(int result, absl::string_view action) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  SqliteDatabase(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}

  const std::string path_;
  const std::unique_ptr<sqlite3, Close> handle_;
};

// A prepared statement. As SqliteDatabase.
class SqliteStatement {
 public:
  SqliteStatement(const SqliteDatabase& database, sqlite3_stmt* handle) : database_(&database), handle_(handle) {}

  // Parameters count from 1. Bytes are not copied: they stay where they are until the statement has run.
  void BindInteger(int parameter, int64_t value) const { sqlite3_bind_int64(handle_.get(), parameter, value); }
  void BindText(int parameter, absl::string_view text) const;
  void BindBlob(int parameter, absl::string_view bytes) const;
  // True: a row is there to be read. False: there are no more, and the statement can run again.
  absl::StatusOr<bool> Step() const;
  // For a statement without rows.
  absl::Status Run() const { return Step().status(); }
  // Columns of the current row count from 0. The bytes are valid until the next step.
  int64_t Integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  absl::string_view Bytes(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
  };
  const SqliteDatabase* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOURNAL_SQLITE_DATABASE_H_
