#ifndef STAGECOACH_CLIENT_COMMANDS_EVENT_LIST_H_
#define STAGECOACH_CLIENT_COMMANDS_EVENT_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/coordinator_client/coordinator_client.h"

namespace stagecoach {

struct EventFilter {
  bool with_steps = false;  // and validation losses
  bool Takes(const v1::JobEvent& event) const { return with_steps || !(event.has_step() || event.has_validation()); }
};

// What has happened to `job` until now; nothing is followed.
absl::StatusOr<std::vector<v1::JobEvent>> EventsUntilNow(CoordinatorClient& client, const std::string& job);

// Prints them; of all jobs, in the order of their sequence, when `job` is empty.
Outcome ListEvents(CoordinatorClient& client, const std::string& job, const EventFilter& filter,
                   const OutputArguments& output);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_EVENT_LIST_H_
