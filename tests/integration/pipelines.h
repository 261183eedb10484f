#ifndef STAGECOACH_TESTS_INTEGRATION_PIPELINES_H_
#define STAGECOACH_TESTS_INTEGRATION_PIPELINES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagecoach {

struct Pipeline {
  const char* schedule;
  uint32_t workers;
  uint32_t chunks;  // stages of each worker
  const char* recomputation = "none";
};

// Of the schedules that jobs can have, for models of eight blocks. Under a sanitizer every third: it looks for other
// mistakes than wrong bits, and all of them take minutes.
inline std::vector<Pipeline> PipelinesToTry() {
  const std::vector<Pipeline> all = {
      {"1f1b", 1, 1, "full"},  {"gpipe", 2, 1}, {"gpipe", 4, 1, "full"}, {"1f1b", 2, 1},
      {"1f1b", 3, 1},          {"1f1b", 4, 1},  {"1f1b", 4, 1, "full"},  {"zb_h1", 3, 1},
      {"zb_h1", 4, 1, "full"}, {"zb_h2", 3, 1}, {"interleaved", 2, 2},   {"interleaved", 3, 2, "full"},
      {"interleaved", 2, 4},   {"zb_v", 2, 2},  {"zb_v", 4, 2, "full"},  {"v_half", 3, 2, "full"},
      {"dualpipe_v", 2, 2},
  };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kStride = 3;
#else
  constexpr size_t kStride = 1;
#endif
  std::vector<Pipeline> tried;
  for (size_t i = 0; i < all.size(); i += kStride) tried.push_back(all[i]);
  return tried;
}

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_INTEGRATION_PIPELINES_H_
