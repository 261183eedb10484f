#ifndef STAGECOACH_CLIENT_OUTPUT_WORKER_VIEW_H_
#define STAGECOACH_CLIENT_OUTPUT_WORKER_VIEW_H_

#include <string>
#include <vector>

#include "client/output/json.h"
#include "client/output/table.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

Json WorkerJson(const v1::WorkerDescription& worker);

// A row of `get workers`, and its headers.
std::vector<std::string> WorkerHeaders(bool wide);
std::vector<Cell> WorkerRow(const v1::WorkerDescription& worker, bool wide);

// `describe worker`.
std::string WorkerText(const v1::WorkerDescription& worker, bool colour);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_OUTPUT_WORKER_VIEW_H_
