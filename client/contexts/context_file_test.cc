#include "client/contexts/context_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "client/contexts/private_file.h"
#include "common/file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

constexpr char kFile[] = R"(version: 1
current_context: far
contexts:
  - {name: far, address: "far.example:7070"}
  - {name: near, address: "unix:/run/near.sock", state_dir: /var/near}
)";

TEST(ContextFileTest, IsRead) {
  const absl::StatusOr<ContextFile> file = ParseContextFile(kFile, "config.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->current, "far");
  ASSERT_EQ(file->contexts.size(), 2u);
  EXPECT_EQ(file->Find("far")->address, "far.example:7070");
  EXPECT_EQ(file->Find("near")->state_dir, "/var/near");
  EXPECT_EQ(file->Find("other"), nullptr);
}

TEST(ContextFileTest, WhatIsPrintedIsReadBack) {
  ContextFile file;
  file.current = "a: [b";  // as YAML it would be something else
  file.contexts = {{"a:[b", "unix:/tmp/a # b", ""}, {"c", "[::1]:7070", "/with \"quotes\""}};
  const absl::StatusOr<ContextFile> again = ParseContextFile(PrintContextFile(file), "config.yaml");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->current, file.current);
  EXPECT_EQ(again->Find("a:[b")->address, "unix:/tmp/a # b");
  EXPECT_EQ(again->Find("c")->state_dir, "/with \"quotes\"");
}

TEST(ContextFileTest, NothingIsAFileWithoutContexts) {
  EXPECT_TRUE(ParseContextFile("", "config.yaml")->contexts.empty());
  EXPECT_TRUE(ParseContextFile("version: 1\n", "config.yaml")->contexts.empty());
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<ContextFile> file = ParseContextFile(text, "config.yaml");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(file.status().message());
}

TEST(ContextFileTest, ErrorsSayWhere) {
  EXPECT_THAT(ErrorOf("version: 1\ncurent_context: a\n"),
              HasSubstr("config.yaml:2:1: \"curent_context\" is unknown; did you mean current_context?"));
  EXPECT_THAT(ErrorOf("version: 1\ncontexts:\n  - {name: a, address: nowhere}\n"), HasSubstr("config.yaml:3:"));
  EXPECT_THAT(ErrorOf("version: 2\n"), HasSubstr("version"));
  EXPECT_THAT(ErrorOf("- a\n"), HasSubstr("not a map"));
  EXPECT_THAT(ErrorOf("version: 1\ncontexts: {a: 1}\n"), HasSubstr("not a list"));
  EXPECT_THAT(ErrorOf("version: [1"), HasSubstr("config.yaml"));
}

TEST(ContextFileTest, RefusesNamesThatAreNoneOrTaken) {
  EXPECT_THAT(ErrorOf("version: 1\ncontexts: [{address: 'a:1'}]\n"), HasSubstr("needs a name"));
  EXPECT_THAT(ErrorOf("version: 1\ncontexts: [{name: a b, address: 'a:1'}]\n"), HasSubstr("needs a name"));
  EXPECT_THAT(ErrorOf("version: 1\ncontexts: [{name: a, address: 'a:1'}, {name: a, address: 'b:1'}]\n"),
              HasSubstr("another is named a"));
}

TEST(ContextFileTest, RefusesCertificatesByName) {
  for (const char* key : {"ca", "cert", "key", "token_file"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("version: 1\ncontexts: [{name: a, address: 'a:1', ", key, ": /x}]\n")),
                HasSubstr(absl::StrCat("\"", key, "\" is not supported yet")));
  }
}

TEST(ContextFileTest, RemovingTheCurrentContextLeavesNone) {
  ContextFile file = *ParseContextFile(kFile, "config.yaml");
  file.Remove("far");
  EXPECT_EQ(file.current, "");
  EXPECT_EQ(file.contexts.size(), 1u);
}

TEST(UpdateContextsTest, WritesAFileThatOnlyItsOwnerReads) {
  const TemporaryDirectory directory;
  const std::string path = directory.Path("new/folders/config.yaml");
  ASSERT_TRUE(UpdateContexts(path, [](ContextFile& file) {
                file.Put({"a", "a:1", ""});
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(LoadContexts(path)->Find("a")->address, "a:1");
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  ASSERT_EQ(stat(directory.Path("new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
}

TEST(UpdateContextsTest, AChangeThatFailsLeavesTheFileAlone) {
  const TemporaryDirectory directory;
  const std::string path = directory.Path("config.yaml");
  ASSERT_TRUE(WritePrivateFile(path, kFile).ok());
  EXPECT_TRUE(absl::IsAborted(UpdateContexts(path, [](ContextFile& file) {
    file.contexts.clear();
    return absl::AbortedError("no");
  })));
  EXPECT_EQ(*ReadFile(FileSystem::Posix(), path, 1 << 20), kFile);
}

TEST(UpdateContextsTest, DoesNotReplaceAFileItCannotRead) {
  const TemporaryDirectory directory;
  const std::string path = directory.Path("config.yaml");
  ASSERT_TRUE(WritePrivateFile(path, "version: 7\n").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(UpdateContexts(path, [](ContextFile&) { return absl::OkStatus(); })));
  EXPECT_EQ(*ReadFile(FileSystem::Posix(), path, 1 << 20), "version: 7\n");
}

TEST(UpdateContextsTest, ChangesAtTheSameTimeAllCount) {
  const TemporaryDirectory directory;
  const std::string path = directory.Path("config.yaml");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_TRUE(UpdateContexts(path, [&](ContextFile& file) {
                    file.Put({absl::StrCat("c", i), "a:1", ""});
                    return absl::OkStatus();
                  }).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(LoadContexts(path)->contexts.size(), 8u);
}

TEST(FileLockTest, IsHeldByOne) {
  const TemporaryDirectory directory;
  {
    const absl::StatusOr<FileLock> lock = FileLock::Try(directory.Path("lock"));
    ASSERT_TRUE(lock.ok()) << lock.status();
    ASSERT_TRUE(lock->Write("12345").ok());
    ASSERT_TRUE(lock->Write("7\n").ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(FileLock::Try(directory.Path("lock")).status()));
    EXPECT_EQ(*ReadFile(FileSystem::Posix(), directory.Path("lock"), 100), "7\n");
  }
  EXPECT_TRUE(FileLock::Try(directory.Path("lock")).ok());
}

TEST(PrivateDirectoryTest, AFileInTheWayIsAnError) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(WritePrivateFile(directory.Path("file"), "").ok());
  EXPECT_FALSE(MakePrivateDirectory(directory.Path("file")).ok());
  EXPECT_FALSE(MakePrivateDirectory(directory.Path("file/below")).ok());
}

}  // namespace
}  // namespace stagecoach
