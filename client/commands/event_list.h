#ifndef STAGECOACH_CLIENT_COMMANDS_EVENT_LIST_H_
#define STAGECOACH_CLIENT_COMMANDS_EVENT_LIST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/commands/output_arguments.h"
#include "client/commands/server_arguments.h"
#include "client/coordinator_client/coordinator_client.h"
#include "common/clock.h"

namespace stagecoach {

struct EventFilter {
  bool with_steps = false;  // and validation losses
  bool Takes(const v1::JobEvent& event) const { return with_steps || !(event.has_step() || event.has_validation()); }
};

// The next event of a stream, or none for the moment; OUT_OF_RANGE at its end.
using NextEvent = absl::FunctionRef<absl::StatusOr<std::optional<v1::JobEvent>>()>;
// Events up to the one whose sequence is `last`; 0: none are kept. UNAVAILABLE: for ten seconds there was none.
absl::StatusOr<std::vector<v1::JobEvent>> EventsUpTo(uint64_t last, NextEvent next, const Clock& clock);

// What has happened to `job` until now; nothing is followed.
absl::StatusOr<std::vector<v1::JobEvent>> EventsUntilNow(CoordinatorClient& client, const std::string& job);

// Prints them; of all jobs, in the order of their sequence, when `job` is empty.
Outcome ListEvents(CoordinatorClient& client, const std::string& job, const EventFilter& filter,
                   const OutputArguments& output);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_EVENT_LIST_H_
