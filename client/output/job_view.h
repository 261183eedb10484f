#ifndef STAGECOACH_CLIENT_OUTPUT_JOB_VIEW_H_
#define STAGECOACH_CLIENT_OUTPUT_JOB_VIEW_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/output/json.h"
#include "client/output/table.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// A job for programs. Of one from a list, spec, plan and stages are not known, and absent.
Json JobJson(const v1::Job& job);
// A step, without what only carries its validation loss here.
Json StepJson(const v1::StepEvent& step);

// A row of `get jobs`, and its headers.
std::vector<std::string> JobHeaders(bool wide);
std::vector<Cell> JobRow(const v1::Job& job, absl::Time now, bool wide);

// `describe job`: everything, for people.
std::string JobText(const v1::Job& job, absl::Time now, bool colour);

Cell StateCell(v1::JobState state);
// "worker-1 (stages 2, 3) at step 7, 2F0: message". Empty: the status has no root cause.
std::string RootCauseText(const v1::JobStatus& status);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_OUTPUT_JOB_VIEW_H_
