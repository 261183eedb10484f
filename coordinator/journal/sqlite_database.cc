#include "coordinator/journal/sqlite_database.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// A second coordinator that starts at the same moment holds a read lock while it is being refused.
constexpr int kBusyMilliseconds = 200;

absl::StatusCode CodeOf(int result) {
  switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kFailedPrecondition;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return absl::StatusCode::kPermissionDenied;
    default:
      return absl::StatusCode::kUnknown;
  }
}

absl::StatusCode CodeOfSystem(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    default:
      return absl::StatusCode::kUnknown;
  }
}

// What keeps a file from being made. SQLite's own account is of its second try, for reading.
absl::Status CheckDirectory(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path();
  if (access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  const int error = errno;
  return absl::Status(CodeOfSystem(error),
                      absl::StrCat(path, " cannot be opened: its directory: ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path) {
  sqlite3* handle = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int result = sqlite3_open_v2(path.c_str(), &handle, kFlags, nullptr);
  auto database = absl::WrapUnique(new SqliteDatabase(path, handle));
  if ((result & 0xff) == SQLITE_CANTOPEN) STAGECOACH_RETURN_IF_ERROR(CheckDirectory(path));
  STAGECOACH_RETURN_IF_ERROR(database->StatusOf(result, "cannot be opened"));
  // SQLite opens what it may not write for reading.
  if (sqlite3_db_readonly(handle, "main") == 1) {
    return absl::PermissionDeniedError(absl::StrCat(path, " cannot be opened: it may not be written"));
  }
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  return database;
}

absl::Status SqliteDatabase::StatusOf(int result, absl::string_view action) const {
  if (result == SQLITE_OK || result == SQLITE_ROW || result == SQLITE_DONE) return absl::OkStatus();
  const int kind = result & 0xff;
  // Of the last call that failed, which need not be this one.
  const bool from_system = kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_FULL;
  const int system_error = from_system ? sqlite3_system_errno(handle_.get()) : 0;
  std::string message = absl::StrCat(path_, " ", action, ": ", sqlite3_errstr(result));
  if (system_error != 0) absl::StrAppend(&message, " (", std::strerror(system_error), ")");
  const absl::StatusCode code = CodeOf(result);
  return absl::Status(code == absl::StatusCode::kUnknown ? CodeOfSystem(system_error) : code, message);
}

absl::Status SqliteDatabase::Execute(const std::string& sql) const {
  return StatusOf(sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr), "cannot be used");
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(absl::string_view sql) const {
  sqlite3_stmt* handle = nullptr;
  const int result = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  SqliteStatement statement(*this, handle);
  STAGECOACH_RETURN_IF_ERROR(StatusOf(result, "cannot be used"));
  return statement;
}

absl::StatusOr<int64_t> SqliteDatabase::QueryInteger(absl::string_view sql) const {
  STAGECOACH_ASSIGN_OR_RETURN(const SqliteStatement statement, Prepare(sql));
  STAGECOACH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Integer(0) : 0;
}

absl::StatusOr<std::string> SqliteDatabase::QueryText(absl::string_view sql) const {
  STAGECOACH_ASSIGN_OR_RETURN(const SqliteStatement statement, Prepare(sql));
  STAGECOACH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? std::string(statement.Bytes(0)) : "";
}

void SqliteStatement::BindText(int parameter, absl::string_view text) const {
  sqlite3_bind_text(handle_.get(), parameter, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
}

void SqliteStatement::BindBlob(int parameter, absl::string_view bytes) const {
  sqlite3_bind_blob64(handle_.get(), parameter, bytes.data(), bytes.size(), SQLITE_STATIC);
}

absl::StatusOr<bool> SqliteStatement::Step() const {
  const int result = sqlite3_step(handle_.get());
  if (result == SQLITE_ROW) return true;
  // The status first: a reset clears the system's error.
  const absl::Status status = database_->StatusOf(result, "cannot be read or written");
  sqlite3_reset(handle_.get());
  if (!status.ok()) return status;
  return false;
}

absl::string_view SqliteStatement::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(handle_.get(), column);
  return absl::string_view(static_cast<const char*>(bytes),
                           static_cast<size_t>(sqlite3_column_bytes(handle_.get(), column)));
}

}  // namespace stagecoach
