#ifndef STAGECOACH_CLIENT_OUTPUT_EVENT_VIEW_H_
#define STAGECOACH_CLIENT_OUTPUT_EVENT_VIEW_H_

#include <string>
#include <vector>

#include "client/output/json.h"
#include "client/output/table.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// {"sequence", "time", "job", "reason", "message", ...} and, by kind, "state" with "step" and "epoch", or "step" with
// its figures.
Json EventJson(const std::string& job, const v1::JobEvent& event);

// A row of `get events`, and its headers.
std::vector<std::string> EventHeaders(bool wide);
std::vector<Cell> EventRow(const std::string& job, const v1::JobEvent& event, bool wide);

Json LogJson(const std::string& job, const v1::LogRecord& record);
// "worker-1 | text"; the time too when `times`.
std::string LogText(const v1::LogRecord& record, bool times, bool colour);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_OUTPUT_EVENT_VIEW_H_
