#ifndef STAGECOACH_COMMON_CHECK_H_
#define STAGECOACH_COMMON_CHECK_H_

#include <cstdio>
#include <cstdlib>

// Ends the process when an invariant of this program is broken; never for input or peers. Active in every build.
#define STAGECOACH_CHECK(condition)                                                          \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#endif  // STAGECOACH_COMMON_CHECK_H_
