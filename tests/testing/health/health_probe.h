#ifndef STAGECOACH_TESTS_TESTING_HEALTH_HEALTH_PROBE_H_
#define STAGECOACH_TESTS_TESTING_HEALTH_HEALTH_PROBE_H_

#include <string>

namespace stagecoach {

// What grpc.health.v1 at `address` says of a service, as a probe asks it: "SERVING", "NOT_SERVING", or the number of
// the error's code.
std::string AskHealth(const std::string& address, const std::string& service);
// Whether it comes to say so.
bool HealthBecomes(const std::string& address, const std::string& service, const std::string& answer);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_HEALTH_HEALTH_PROBE_H_
