#ifndef STAGECOACH_TESTS_TESTING_ALLOCATION_ALLOCATION_COUNTER_H_
#define STAGECOACH_TESTS_TESTING_ALLOCATION_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace stagecoach {

// Heap allocations that the calling thread has made so far, operator new's among them. A program that links this has
// its allocator replaced by one that counts; not under a sanitizer, which replaces it itself.
uint64_t AllocationsOfThisThread();
bool CanCountAllocations();

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_ALLOCATION_ALLOCATION_COUNTER_H_
