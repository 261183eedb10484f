#ifndef STAGECOACH_COORDINATOR_JOBS_JOB_EVENTS_H_
#define STAGECOACH_COORDINATOR_JOBS_JOB_EVENTS_H_

#include "coordinator/jobs/job_record.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

// What followers of a job see of a journal entry that has just been applied to it, or of a coordinator that has started
// while it had not ended. Pure.
v1::JobEvent EventOfEntry(const v1::JournalEntry& entry, const JobRecord& job);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_JOB_EVENTS_H_
