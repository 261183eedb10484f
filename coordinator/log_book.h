#ifndef STAGECOACH_COORDINATOR_LOG_BOOK_H_
#define STAGECOACH_COORDINATOR_LOG_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>

#include "common/ids.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// The newest lines that workers have logged about each job, in memory only. Lines of a job are numbered 1, 2, ...; the
// number and the coordinator's term are a line's token. Used by one thread.
class LogBook {
 public:
  static constexpr size_t kMaxLineBytes = 4096;  // longer ones are cut
  struct Limits {
    size_t lines_per_job = 10'000;
    size_t bytes = size_t{128} << 20;  // of all jobs; above that, those of the job that has been quiet for longest go
  };
  LogBook() : LogBook(Limits{}) {}
  explicit LogBook(Limits limits) : limits_(limits) {}

  void Add(const JobId& job, CoordinatorTerm term, const WorkerId& worker, const v1::LogLines& lines);

  void Forget(const JobId& job);

  // The first line after `sequence` that is kept. Null: there is none yet.
  const v1::LogRecord* FindAfter(const JobId& job, uint64_t sequence) const;
  // The number behind which the last `tail` lines that match begin.
  uint64_t SequenceBeforeTail(const JobId& job, uint64_t tail,
                              const std::function<bool(const v1::LogRecord&)>& matches) const;
  uint64_t LastSequence(const JobId& job) const;

 private:
  struct Lines {
    std::deque<v1::LogRecord> kept;
    uint64_t last_sequence = 0;
    std::list<JobId>::iterator place;  // in by_use_
  };
  const Lines* Find(const JobId& job) const;
  void DropOldest(Lines& lines);
  void Shrink();

  const Limits limits_;
  std::map<JobId, Lines> jobs_;
  std::list<JobId> by_use_;  // least recently added to first
  size_t bytes_ = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_LOG_BOOK_H_
