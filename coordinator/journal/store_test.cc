#include "coordinator/journal/store.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/journal/memory_store.h"
#include "coordinator/journal/sqlite_store.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

// Opens stores over one medium, as one process after another would.
using OpenStore = std::function<std::unique_ptr<Store>()>;
struct Implementation {
  std::string name;
  std::function<OpenStore()> new_medium;
};

v1::JournalEntry Entry(uint64_t sequence, const std::string& job) {
  v1::JournalEntry entry;
  entry.set_sequence(sequence);
  entry.set_coordinator_term(1);
  entry.mutable_job_submitted()->set_job(job);
  return entry;
}

std::vector<std::string> Contents(const Store& store) {
  std::vector<std::string> contents;
  const absl::Status status = store.ReadAll([&](const v1::JournalEntry& entry) {
    contents.push_back(std::to_string(entry.sequence()) + entry.job_submitted().job());
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return contents;
}

class StoreTest : public testing::TestWithParam<Implementation> {
 protected:
  StoreTest() : open_(GetParam().new_medium()) {}
  std::unique_ptr<Store> OpenAndLock() {
    std::unique_ptr<Store> store = open_();
    EXPECT_TRUE(store->Lock().ok());
    return store;
  }
  OpenStore open_;
};

TEST_P(StoreTest, IsEmptyAtFirst) { EXPECT_TRUE(Contents(*OpenAndLock()).empty()); }

TEST_P(StoreTest, ReadsBackInOrderWhatAnEarlierWriterAppended) {
  {
    const auto store = OpenAndLock();
    EXPECT_TRUE(store->Append(Entry(1, "a"), SyncMode::kSynced).ok());
    EXPECT_TRUE(store->Append(Entry(2, "b"), SyncMode::kBuffered).ok());
    EXPECT_TRUE(store->Append(Entry(7, "c"), SyncMode::kSynced).ok());
  }
  EXPECT_EQ(Contents(*OpenAndLock()), (std::vector<std::string>{"1a", "2b", "7c"}));
}

TEST_P(StoreTest, RefusesASequenceThatDoesNotGrow) {
  const auto store = OpenAndLock();
  ASSERT_TRUE(store->Append(Entry(2, "a"), SyncMode::kSynced).ok());
  EXPECT_EQ(store->Append(Entry(2, "b"), SyncMode::kSynced).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Append(Entry(1, "b"), SyncMode::kBuffered).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Contents(*store), (std::vector<std::string>{"2a"}));
}

TEST_P(StoreTest, HasOneWriterAtATime) {
  auto first = OpenAndLock();
  const auto second = open_();
  EXPECT_EQ(second->Lock().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second->Append(Entry(1, "a"), SyncMode::kSynced).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second->Snapshot({}, 1).code(), absl::StatusCode::kFailedPrecondition);
  first.reset();
  EXPECT_TRUE(second->Lock().ok());
  EXPECT_TRUE(second->Append(Entry(1, "a"), SyncMode::kSynced).ok());
}

TEST_P(StoreTest, ASnapshotTakesThePlaceOfWhatItCovers) {
  {
    const auto store = OpenAndLock();
    for (uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(store->Append(Entry(i, "x"), SyncMode::kSynced).ok());
    ASSERT_TRUE(store->Snapshot({Entry(1, "s"), Entry(3, "t")}, 3).ok());
    EXPECT_TRUE(store->Append(Entry(5, "x"), SyncMode::kSynced).ok());
  }
  EXPECT_EQ(Contents(*OpenAndLock()), (std::vector<std::string>{"1s", "3t", "4x", "5x"}));
}

TEST_P(StoreTest, RefusesASnapshotThatIsOutOfOrder) {
  const auto store = OpenAndLock();
  ASSERT_TRUE(store->Append(Entry(1, "a"), SyncMode::kSynced).ok());
  EXPECT_EQ(store->Snapshot({Entry(2, "s")}, 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Snapshot({Entry(2, "s"), Entry(1, "t")}, 2).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Contents(*store), (std::vector<std::string>{"1a"}));
}

TEST_P(StoreTest, GoesOnAfterASnapshotOfEverything) {
  const auto store = OpenAndLock();
  ASSERT_TRUE(store->Append(Entry(1, "a"), SyncMode::kBuffered).ok());
  ASSERT_TRUE(store->Append(Entry(2, "b"), SyncMode::kSynced).ok());
  ASSERT_TRUE(store->Snapshot({Entry(2, "s")}, 2).ok());
  EXPECT_EQ(store->Append(Entry(2, "c"), SyncMode::kSynced).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(store->Append(Entry(3, "c"), SyncMode::kBuffered).ok());
  EXPECT_EQ(Contents(*store), (std::vector<std::string>{"2s", "3c"}));
}

TEST_P(StoreTest, KeepsEveryFieldOfAnEntry) {
  v1::JournalEntry entry = Entry(1, "job");
  entry.mutable_job_submitted()->mutable_spec()->set_name(std::string("a\0b", 3));
  entry.mutable_job_submitted()->set_submission_id(std::string(1 << 20, 'x'));
  const auto store = OpenAndLock();
  ASSERT_TRUE(store->Append(entry, SyncMode::kSynced).ok());
  std::string read;
  EXPECT_TRUE(store
                  ->ReadAll([&](const v1::JournalEntry& stored) {
                    read = stored.SerializeAsString();
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(read, entry.SerializeAsString());
}

TEST_P(StoreTest, ReadingStopsAtTheVisitorsError) {
  const auto store = OpenAndLock();
  ASSERT_TRUE(store->Append(Entry(1, "a"), SyncMode::kSynced).ok());
  ASSERT_TRUE(store->Append(Entry(2, "b"), SyncMode::kSynced).ok());
  int visited = 0;
  const absl::Status status = store->ReadAll([&](const v1::JournalEntry&) {
    ++visited;
    return absl::DataLossError("enough");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(visited, 1);
}

OpenStore NewMemoryJournal() {
  return [journal = std::make_shared<MemoryJournal>()] { return std::make_unique<MemoryStore>(journal); };
}

OpenStore NewSqliteJournal() {
  return [directory = std::make_shared<TemporaryDirectory>()] {
    return std::make_unique<SqliteStore>(directory->Path("journal.sqlite"));
  };
}

INSTANTIATE_TEST_SUITE_P(All, StoreTest,
                         testing::Values(Implementation{"Memory", NewMemoryJournal},
                                         Implementation{"Sqlite", NewSqliteJournal}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace stagecoach
