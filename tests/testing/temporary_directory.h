#ifndef STAGECOACH_TESTS_TESTING_TEMPORARY_DIRECTORY_H_
#define STAGECOACH_TESTS_TESTING_TEMPORARY_DIRECTORY_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "common/check.h"

namespace stagecoach {

// An empty directory that goes away, with what is in it, at the end of a test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((std::filesystem::temp_directory_path() / "stagecoach.XXXXXX").string()) {
    STAGECOACH_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_TEMPORARY_DIRECTORY_H_
