#include "common/file_system.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace stagecoach {
namespace {

class FileSystemTest : public testing::Test {
 protected:
  FileSystemTest() : directory_(testing::TempDir() + "file_system_test." + std::to_string(getpid())) {
    EXPECT_TRUE(files_.CreateDirectories(directory_).ok());
  }
  ~FileSystemTest() override { EXPECT_TRUE(files_.RemoveTree(directory_).ok()); }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  FileSystem& files_ = FileSystem::Posix();
  const std::string directory_;
};

TEST_F(FileSystemTest, ReadsWhatWasWritten) {
  ASSERT_TRUE(WriteFileAtomically(files_, Path("a"), "hello").ok());
  EXPECT_EQ(*ReadFile(files_, Path("a"), 5), "hello");
  EXPECT_EQ(ReadFile(files_, Path("a"), 4).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(FileSystemTest, AbandonedFileLeavesNothing) {
  {
    auto file = files_.Create(Path("a"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append("x", 1).ok());
  }
  EXPECT_TRUE(files_.List(directory_)->empty());
}

TEST_F(FileSystemTest, ReadPastTheEndIsOutOfRange) {
  ASSERT_TRUE(WriteFileAtomically(files_, Path("a"), "abc").ok());
  auto file = files_.Open(Path("a"));
  char buffer[4];
  EXPECT_EQ((*file)->Read(0, 4, buffer).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(FileSystemTest, GlobSortsAndTakesRegularFilesOnly) {
  ASSERT_TRUE(WriteFileAtomically(files_, Path("b.txt"), "").ok());
  ASSERT_TRUE(WriteFileAtomically(files_, Path("a.txt"), "").ok());
  ASSERT_TRUE(files_.CreateDirectories(Path("c.txt")).ok());
  EXPECT_EQ(*files_.Glob(Path("*.txt")), (std::vector<std::string>{Path("a.txt"), Path("b.txt")}));
  EXPECT_EQ(files_.Glob(Path("*.none")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FileSystemTest, MissingFileAndDirectoryAndFifoAreErrors) {
  EXPECT_EQ(files_.Open(Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.Open(directory_).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(files_.Open(Path("fifo")).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FileSystemTest, AReservedFileHasWhatWasAppendedAndNoMore) {
  const std::string bytes = [] {
    std::string made(36 << 20, '\0');  // more than is passed on to the disk at a time
    for (size_t i = 0; i < made.size(); i += 4096) made[i] = static_cast<char>(i >> 12);
    return made;
  }();
  auto file = files_.Create(Path("large"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Reserve(bytes.size() + (1 << 20)).ok());
  for (size_t at = 0; at < bytes.size(); at += 3 << 20) {
    ASSERT_TRUE((*file)->Append(bytes.data() + at, std::min<size_t>(3 << 20, bytes.size() - at)).ok());
  }
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(files_.Open(Path("large")).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE((*file)->Append("end", 3).ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_TRUE(*ReadFile(files_, Path("large"), 1 << 30) == bytes + "end");
}

TEST_F(FileSystemTest, CurrentSizeFollowsTheFileAndSizeDoesNot) {
  ASSERT_TRUE(WriteFileAtomically(files_, Path("a"), "abc").ok());
  auto file = files_.Open(Path("a"));
  ASSERT_EQ(truncate(Path("a").c_str(), 2), 0);
  EXPECT_EQ((*file)->size(), 3u);
  EXPECT_EQ(*(*file)->CurrentSize(), 2u);
}

TEST_F(FileSystemTest, ResolveFollowsLinks) {
  ASSERT_TRUE(WriteFileAtomically(files_, Path("a"), "abc").ok());
  ASSERT_EQ(symlink("a", Path("link").c_str()), 0);
  EXPECT_EQ(*files_.Resolve(Path("link")), *files_.Resolve(Path("./a")));
  EXPECT_EQ(files_.Resolve(Path("none")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stagecoach
