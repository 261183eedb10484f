#ifndef STAGECOACH_COORDINATOR_FOLLOWERS_H_
#define STAGECOACH_COORDINATOR_FOLLOWERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "absl/status/status.h"
#include "common/ids.h"
#include "coordinator/event_log.h"
#include "coordinator/log_book.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

using FollowerId = StrongId<struct FollowerIdTag, uint64_t>;

// Called by the coordinator's thread: they must not block. An error of on_event forgets the follower, and on_end is
// then not called: who returned the error knows. Otherwise on_end is the last call: OK after the event of the job's
// end, NOT_FOUND when the job is forgotten before that was read, UNAVAILABLE when the coordinator stops.
struct JobFollower {
  std::function<absl::Status(const v1::JobEvent&)> on_event;
  std::function<void(const absl::Status&)> on_end;
};
struct LogFollower {
  std::function<absl::Status(const v1::LogRecord&)> on_line;
  std::function<void(const absl::Status&)> on_end;
};

// Who reads a job's events or log, and how far each has come. Those that are behind catch up in portions, so that a
// long history does not hold up the coordinator. Used by one thread.
class Followers {
 public:
  // Both outlive this.
  Followers(const EventLog& events, const LogBook& log) : events_(events), log_(log) {}

  // `has_ended`: the job has; what is kept is sent, then the end.
  void Add(FollowerId id, const v1::FollowJobRequest& request, const v1::JobStatus& status, bool has_ended,
           JobFollower follower);
  void Add(FollowerId id, const v1::FollowLogsRequest& request, CoordinatorTerm term, bool has_ended,
           LogFollower follower);
  void Remove(FollowerId id);

  // There is something new of the job.
  void Wake(const JobId& job);
  void JobHasEnded(const JobId& job);
  // Those that have not read all of it yet end with this.
  void JobIsForgotten(const JobId& job, const absl::Status& why);
  // Sends a portion to everyone who is behind.
  void Pump();
  bool AnyoneIsBehind() const { return !behind_.empty(); }

  void EndAll(const absl::Status& why);

 private:
  enum class Progress { kMore, kWaits, kEnded, kDropped };

  // Where one reader of a job's events is.
  struct EventReader {
    // At most a portion; kEnded when all was sent and nothing more will come.
    Progress Deliver(const EventLog& events, const JobId& job, bool job_has_ended);
    absl::Status Send(const v1::JobEvent& event, uint64_t missing) const;

    uint64_t index = 0;
    uint64_t num_missing = 0;           // before the event at `index`
    std::optional<v1::JobEvent> first;  // before all others
    std::function<absl::Status(const v1::JobEvent&)> on_event;
  };
  struct LogReader {
    Progress Deliver(const LogBook& log, const JobId& job, bool job_has_ended);

    uint64_t sequence = 0;      // of the line read last
    uint64_t end = UINT64_MAX;  // of the last line to read
    std::function<bool(const v1::LogRecord&)> matches;
    std::function<absl::Status(const v1::LogRecord&)> on_line;
  };
  struct Entry {
    JobId job;
    bool job_has_ended = false;
    std::variant<EventReader, LogReader> reader;
    std::function<void(const absl::Status&)> on_end;
  };

  void Insert(FollowerId id, Entry entry);
  Progress Deliver(Entry& entry) const;

  const EventLog& events_;
  const LogBook& log_;
  std::map<FollowerId, Entry> entries_;
  std::map<JobId, std::set<FollowerId>> by_job_;
  std::set<FollowerId> behind_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_FOLLOWERS_H_
