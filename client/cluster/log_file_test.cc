#include "client/cluster/log_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

class LogFileTest : public testing::Test {
 protected:
  void Append(const std::string& text) {
    const int log = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    EXPECT_EQ(write(log, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(log);
  }
  static std::string Read(const std::string& path) { return *ReadFile(FileSystem::Posix(), path, 1 << 20); }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.Path("log");
};

TEST_F(LogFileTest, TheTailIsWhatWasWrittenLast) {
  EXPECT_EQ(LogTail(path_, 2), "");
  Append("one\ntwo\n\nthr\033[2Jee");
  EXPECT_EQ(LogTail(path_, 2), "  | two\n  | thr?[2Jee\n");
  EXPECT_EQ(LogTail(path_, 9), "  | one\n  | two\n  | thr?[2Jee\n");
}

TEST_F(LogFileTest, TheTailOfALongFileIsFoundAtItsEnd) {
  Append(std::string(1 << 20, 'x') + "\nlast\n");
  EXPECT_EQ(LogTail(path_, 1), "  | last\n");
}

TEST_F(LogFileTest, AShortLogIsLeftAlone) {
  Append("12345");
  LimitLog(path_, 5);
  LimitLog(directory_.Path("none"), 5);
  EXPECT_EQ(Read(path_), "12345");
  EXPECT_NE(access((path_ + ".1").c_str(), F_OK), 0);
}

TEST_F(LogFileTest, ALongLogStartsAnewWhereItsWriterGoesOn) {
  const int writer = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ASSERT_EQ(write(writer, "123456789", 9), 9);
  LimitLog(path_, 5);
  ASSERT_EQ(write(writer, "abc", 3), 3);
  close(writer);
  EXPECT_EQ(Read(path_ + ".1"), "56789");
  EXPECT_EQ(Read(path_), "abc");
}

}  // namespace
}  // namespace stagecoach
