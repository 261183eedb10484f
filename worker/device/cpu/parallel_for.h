#ifndef STAGECOACH_WORKER_DEVICE_CPU_PARALLEL_FOR_H_
#define STAGECOACH_WORKER_DEVICE_CPU_PARALLEL_FOR_H_

#include <algorithm>
#include <cstdint>

namespace stagecoach {

// ThreadSanitizer does not see OpenMP's barriers and would report every loop: under it, loops run on one thread.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kParallelLoops = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kParallelLoops = false;
#else
inline constexpr bool kParallelLoops = true;
#endif
#else
inline constexpr bool kParallelLoops = true;
#endif

// Calls body(task, thread) for every task in [0, tasks), on at most `threads` threads, and returns when all calls have.
// Thread t in [0, threads) gets a contiguous range of tasks that depends on `tasks` and `threads` alone: `thread`
// chooses a workspace, never a result. One thread or one task runs inline, without an OpenMP region. `body` may not
// throw.
template <typename Body>
void ParallelForOnThreads(int threads, int64_t tasks, const Body& body) {
  const int used = static_cast<int>(std::min<int64_t>(threads, tasks));
  if (used <= 1 || !kParallelLoops) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  // One iteration a thread, so that the range of a thread does not hang on the runtime's chunking.
#pragma omp parallel for schedule(static, 1) num_threads(used)
  for (int thread = 0; thread < used; ++thread) {
    const int64_t first = tasks * thread / used;
    const int64_t last = tasks * (thread + 1) / used;
    for (int64_t task = first; task < last; ++task) body(task, thread);
  }
}

// The same for bodies that need no workspace: body(task).
template <typename Body>
void ParallelFor(int threads, int64_t tasks, const Body& body) {
  ParallelForOnThreads(threads, tasks, [&body](int64_t task, int /*thread*/) { body(task); });
}

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_PARALLEL_FOR_H_
