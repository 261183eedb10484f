#include "coordinator/journal/sqlite_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

v1::JournalEntry Entry(uint64_t sequence) {
  v1::JournalEntry entry;
  entry.set_sequence(sequence);
  entry.set_coordinator_term(1);
  entry.mutable_step_committed()->set_job("job");
  entry.mutable_step_committed()->set_epoch(3);
  entry.mutable_step_committed()->mutable_record()->set_step(sequence);
  return entry;
}

std::vector<uint64_t> Sequences(const SqliteStore& store) {
  std::vector<uint64_t> sequences;
  const absl::Status status = store.ReadAll([&](const v1::JournalEntry& entry) {
    sequences.push_back(entry.sequence());
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return sequences;
}

std::vector<uint64_t> UpTo(uint64_t last) {
  std::vector<uint64_t> sequences;
  for (uint64_t i = 1; i <= last; ++i) sequences.push_back(i);
  return sequences;
}

absl::Status ReadStatus(const SqliteStore& store) {
  return store.ReadAll([](const v1::JournalEntry&) { return absl::OkStatus(); });
}

// Runs `body` in a process of its own. It ends as that returns, or by a signal; nothing of this process's tests runs
// there.
pid_t Fork(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}

int WaitFor(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

class SqliteStoreTest : public testing::Test {
 protected:
  // As after the death of a coordinator that has appended `count` entries: nothing was closed.
  void AppendAndDie(uint64_t count) {
    const pid_t child = Fork([&] {
      SqliteStore store(path_);
      bool ok = store.Lock().ok();
      for (uint64_t i = 1; ok && i <= count; ++i) ok = store.Append(Entry(i), SyncMode::kBuffered).ok();
      if (ok) raise(SIGKILL);
      return 1;
    });
    ASSERT_TRUE(WIFSIGNALED(WaitFor(child)));
  }
  void Flip(const std::string& path, std::streamoff offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    file.seekg(offset).read(&byte, 1);
    byte = static_cast<char>(byte ^ 0x10);
    file.seekp(offset).write(&byte, 1);
    ASSERT_TRUE(file.good());
  }
  void Sql(const std::string& statements) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(database);
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.Path("journal.sqlite");
};

TEST_F(SqliteStoreTest, KeepsEveryEntryThatWasAppendedWhenItsProcessIsKilled) {
  for (const uint64_t kill_after : {1U, 7U, 150U}) {
    std::filesystem::remove(path_);
    int acknowledged[2];
    ASSERT_EQ(pipe(acknowledged), 0);
    const pid_t child = Fork([&] {
      SqliteStore store(path_);
      if (!store.Lock().ok()) return 1;
      for (uint64_t i = 1;; ++i) {
        if (!store.Append(Entry(i), i % 16 == 0 ? SyncMode::kSynced : SyncMode::kBuffered).ok()) return 1;
        if (write(acknowledged[1], &i, sizeof(i)) != sizeof(i)) return 1;
      }
    });
    close(acknowledged[1]);
    uint64_t last = 0;
    while (read(acknowledged[0], &last, sizeof(last)) == sizeof(last)) {
      if (last == kill_after) kill(child, SIGKILL);
    }
    close(acknowledged[0]);
    EXPECT_TRUE(WIFSIGNALED(WaitFor(child)));

    SqliteStore store(path_);
    ASSERT_TRUE(store.Lock().ok());
    const std::vector<uint64_t> found = Sequences(store);
    // One more may have been written than was acknowledged.
    ASSERT_GE(found.size(), last);
    ASSERT_LE(found.size(), last + 1);
    EXPECT_EQ(found, UpTo(found.size()));
    EXPECT_TRUE(store.Append(Entry(found.size() + 1), SyncMode::kSynced).ok());
  }
}

TEST_F(SqliteStoreTest, DropsOnlyTheTornEndOfItsWriteAheadLog) {
  AppendAndDie(20);
  const std::string wal = path_ + "-wal";
  std::filesystem::resize_file(wal, std::filesystem::file_size(wal) - 100);
  SqliteStore store(path_);
  ASSERT_TRUE(store.Lock().ok());
  EXPECT_EQ(Sequences(store), UpTo(19));
  EXPECT_TRUE(store.Append(Entry(20), SyncMode::kSynced).ok());
  EXPECT_EQ(Sequences(store), UpTo(20));
}

TEST_F(SqliteStoreTest, NamesTheFileToASecondProcess) {
  SqliteStore first(path_);
  ASSERT_TRUE(first.Lock().ok());
  const pid_t child = Fork([&] {
    SqliteStore second(path_);
    const absl::Status status = second.Lock();
    return absl::IsFailedPrecondition(status) && status.message().find(path_) != absl::string_view::npos ? 0 : 1;
  });
  EXPECT_EQ(WaitFor(child), 0);
  EXPECT_TRUE(first.Append(Entry(1), SyncMode::kSynced).ok());
}

TEST_F(SqliteStoreTest, MovesALongWriteAheadLogIntoItsFile) {
  {
    SqliteStore store(path_);
    ASSERT_TRUE(store.Lock().ok());
    for (uint64_t i = 1; i <= 3000; ++i) ASSERT_TRUE(store.Append(Entry(i), SyncMode::kBuffered).ok());
    const auto before = std::filesystem::file_size(path_);
    ASSERT_TRUE(store.Append(Entry(3001), SyncMode::kSynced).ok());
    EXPECT_GT(std::filesystem::file_size(path_), before);
    const auto wal = std::filesystem::file_size(path_ + "-wal");
    for (uint64_t i = 3002; i <= 3900; ++i) ASSERT_TRUE(store.Append(Entry(i), SyncMode::kBuffered).ok());
    EXPECT_EQ(std::filesystem::file_size(path_ + "-wal"), wal);  // written from its start again
  }
  SqliteStore store(path_);
  ASSERT_TRUE(store.Lock().ok());
  EXPECT_EQ(Sequences(store), UpTo(3900));
}

TEST_F(SqliteStoreTest, RefusesANewerSchemaByItsNumber) {
  ASSERT_TRUE(SqliteStore(path_).Lock().ok());
  Sql("PRAGMA user_version=7");
  const absl::Status status = SqliteStore(path_).Lock();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("schema version is 7"));
}

TEST_F(SqliteStoreTest, LeavesTheDatabaseOfAnotherProgramAlone) {
  Sql("CREATE TABLE recipes(name TEXT)");
  const absl::Status status = SqliteStore(path_).Lock();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another program"));
  Sql("INSERT INTO recipes VALUES('soup')");
}

TEST_F(SqliteStoreTest, RefusesAFileThatIsNoDatabase) {
  std::ofstream(path_) << std::string(8192, 'x');
  const absl::Status status = SqliteStore(path_).Lock();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(SqliteStoreTest, NoticesAFlippedBitInAnEntry) {
  {
    SqliteStore store(path_);
    ASSERT_TRUE(store.Lock().ok());
    ASSERT_TRUE(store.Append(Entry(1), SyncMode::kSynced).ok());
  }
  std::ifstream file(path_, std::ios::binary);
  const std::string contents((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string bytes = Entry(1).SerializeAsString();
  const size_t at = contents.find(bytes);
  ASSERT_NE(at, std::string::npos);
  Flip(path_, static_cast<std::streamoff>(at + bytes.size() - 1));  // the step: the entry still parses
  SqliteStore store(path_);
  ASSERT_TRUE(store.Lock().ok());
  const absl::Status status = ReadStatus(store);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("entry 1"));
}

TEST_F(SqliteStoreTest, NoticesAFileThatWasCut) {
  {
    SqliteStore store(path_);
    ASSERT_TRUE(store.Lock().ok());
    for (uint64_t i = 1; i <= 500; ++i) ASSERT_TRUE(store.Append(Entry(i), SyncMode::kBuffered).ok());
  }
  std::filesystem::resize_file(path_, 2 * 4096);
  SqliteStore store(path_);
  const absl::Status locked = store.Lock();
  const absl::Status status = locked.ok() ? ReadStatus(store) : locked;
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

// The system calls that SQLite writes with, as they are on a full disk.
class FullDisk {
 public:
  FullDisk() {
    for (size_t i = 0; i < kCalls.size(); ++i) {
      original_[i] = vfs_->xGetSystemCall(vfs_, kCalls[i]);
      vfs_->xSetSystemCall(vfs_, kCalls[i], reinterpret_cast<sqlite3_syscall_ptr>(&Fail));
    }
  }
  ~FullDisk() {
    for (size_t i = 0; i < kCalls.size(); ++i) vfs_->xSetSystemCall(vfs_, kCalls[i], original_[i]);
  }

 private:
  static constexpr std::array<const char*, 3> kCalls = {"write", "pwrite", "pwrite64"};
  static ssize_t Fail(int, const void*, size_t, off_t) {
    errno = ENOSPC;
    return -1;
  }
  sqlite3_vfs* const vfs_ = sqlite3_vfs_find("unix");
  std::array<sqlite3_syscall_ptr, kCalls.size()> original_ = {};
};

TEST_F(SqliteStoreTest, AFullDiskLosesNothingThatWasAppended) {
  {
    SqliteStore store(path_);
    ASSERT_TRUE(store.Lock().ok());
    ASSERT_TRUE(store.Append(Entry(1), SyncMode::kSynced).ok());
    ASSERT_TRUE(store.Append(Entry(2), SyncMode::kBuffered).ok());
    {
      const FullDisk full;
      for (const SyncMode sync : {SyncMode::kBuffered, SyncMode::kSynced}) {
        const absl::Status status = store.Append(Entry(3), sync);
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
      }
      EXPECT_EQ(store.Snapshot({Entry(2)}, 2).code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(Sequences(store), UpTo(2));
    }
    EXPECT_TRUE(store.Append(Entry(3), SyncMode::kBuffered).ok());  // there is room again
  }
  SqliteStore store(path_);
  ASSERT_TRUE(store.Lock().ok());
  EXPECT_EQ(Sequences(store), UpTo(3));
}

TEST_F(SqliteStoreTest, AFullDiskIsNamedWhenTheFileCannotBeMade) {
  const FullDisk full;
  EXPECT_EQ(SqliteStore(path_).Lock().code(), absl::StatusCode::kResourceExhausted);
}

// As a user who may not write there, since root may everywhere.
TEST_F(SqliteStoreTest, NamesADirectoryThatMayNotBeWritten) {
  ASSERT_TRUE(SqliteStore(path_).Lock().ok());
  ASSERT_EQ(chmod(directory_.path().c_str(), 0555), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
  const auto lock_as_nobody = [&](const std::string& path) {
    return WaitFor(Fork([&] {
      constexpr uid_t kNobody = 65534;
      if (geteuid() == 0 && setuid(kNobody) != 0) return 2;
      const absl::Status status = SqliteStore(path).Lock();
      return absl::IsPermissionDenied(status) && status.message().find(path) != absl::string_view::npos ? 0 : 1;
    }));
  };
  EXPECT_EQ(lock_as_nobody(path_), 0);
  EXPECT_EQ(lock_as_nobody(directory_.Path("other.sqlite")), 0);
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
}

TEST_F(SqliteStoreTest, NamesADirectoryThatDoesNotExist) {
  const absl::Status status = SqliteStore(directory_.Path("nowhere/journal.sqlite")).Lock();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("nowhere/journal.sqlite"));
}

TEST_F(SqliteStoreTest, ItsTableCanBeReadByPeople) {
  {
    SqliteStore store(path_);
    ASSERT_TRUE(store.Lock().ok());
    ASSERT_TRUE(store.Append(Entry(4), SyncMode::kSynced).ok());
  }
  const auto database = SqliteDatabase::Open(path_);
  ASSERT_TRUE(database.ok());
  EXPECT_EQ(*(*database)->QueryText("SELECT sequence || ' ' || fact || ' ' || job || ' ' || epoch FROM entries"),
            "4 step_committed job 3");
}

}  // namespace
}  // namespace stagecoach
