#include "tests/testing/allocation/allocation_counter.h"

#include <cerrno>
#include <cstddef>

namespace {
thread_local uint64_t num_allocations = 0;
}  // namespace

namespace stagecoach {

uint64_t AllocationsOfThisThread() { return num_allocations; }

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
bool CanCountAllocations() { return false; }
#else
bool CanCountAllocations() { return true; }
#endif

}  // namespace stagecoach

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
// operator new ends in malloc, so these see all. glibc's own are behind the other names.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  ++num_allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++num_allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  ++num_allocations;
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  ++num_allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++num_allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  ++num_allocations;
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
}
#endif
