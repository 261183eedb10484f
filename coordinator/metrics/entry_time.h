#ifndef STAGECOACH_COORDINATOR_METRICS_ENTRY_TIME_H_
#define STAGECOACH_COORDINATOR_METRICS_ENTRY_TIME_H_

#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

// When the entry was appended, in seconds of Unix time.
inline double UnixTimeOf(const v1::JournalEntry& entry) {
  return static_cast<double>(entry.time().seconds()) + static_cast<double>(entry.time().nanos()) * 1e-9;
}

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_METRICS_ENTRY_TIME_H_
