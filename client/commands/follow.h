#ifndef STAGECOACH_CLIENT_COMMANDS_FOLLOW_H_
#define STAGECOACH_CLIENT_COMMANDS_FOLLOW_H_

#include <functional>

#include "absl/status/statusor.h"
#include "client/commands/job_report.h"
#include "client/commands/server_arguments.h"
#include "client/coordinator_client/coordinator_client.h"
#include "client/coordinator_client/job_feed.h"

namespace stagecoach {

// Shows a job's events until its end: true. `keep_on` is asked at least ten times a second; when it says no: false.
// Errors are the feed's.
absl::StatusOr<bool> FollowToEnd(JobFeed& feed, JobReport& report, const std::function<bool()>& keep_on);

// What is known of a job whose end `status` tells: with the digests of its last checkpoint, unless the coordinator has
// gone too.
v1::Job DescribeEnded(CoordinatorClient& client, const v1::JobStatus& status);

// While following, an error that leaves the job's state unknown.
Failure LostFailure(const absl::Status& why, const std::string& job, const v1::JobStatus& last);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_FOLLOW_H_
