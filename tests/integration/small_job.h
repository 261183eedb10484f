#ifndef STAGECOACH_TESTS_INTEGRATION_SMALL_JOB_H_
#define STAGECOACH_TESTS_INTEGRATION_SMALL_JOB_H_

#include <cstdint>
#include <string>

#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// The specification of a small GPT-2 on a text file made for the purpose, in a directory of its own that the destructor
// removes.
class SmallJob {
 public:
  SmallJob();
  ~SmallJob();
  SmallJob(const SmallJob&) = delete;
  SmallJob& operator=(const SmallJob&) = delete;

  v1::JobSpec& spec() { return spec_; }
  const v1::JobSpec& spec() const { return spec_; }
  const std::string& directory() const { return directory_; }
  // A file to validate on, every `interval` steps.
  void AddValidation(uint64_t interval);

 private:
  std::string directory_;
  v1::JobSpec spec_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_INTEGRATION_SMALL_JOB_H_
