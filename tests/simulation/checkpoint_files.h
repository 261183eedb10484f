#ifndef STAGECOACH_TESTS_SIMULATION_CHECKPOINT_FILES_H_
#define STAGECOACH_TESTS_SIMULATION_CHECKPOINT_FILES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace stagecoach::simulation {

// The file system that all checkpoints are on: directories, and the names of the shards in each.
class CheckpointFiles {
 public:
  // A new one.
  std::string MakeDirectory(const std::string& parent) {
    std::string directory = absl::StrCat(parent, "/", ++num_made_);
    shards_[directory];
    return directory;
  }
  void Remove(const std::string& directory) { shards_.erase(directory); }
  // False: there is no such directory (any more).
  bool AddShard(const std::string& directory, const std::string& file) {
    const auto found = shards_.find(directory);
    if (found == shards_.end()) return false;
    found->second.insert(file);
    return true;
  }
  bool HasShard(const std::string& directory, const std::string& file) const {
    const auto found = shards_.find(directory);
    return found != shards_.end() && found->second.contains(file);
  }

 private:
  std::map<std::string, std::set<std::string>> shards_;
  uint64_t num_made_ = 0;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_CHECKPOINT_FILES_H_
