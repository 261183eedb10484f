#ifndef STAGECOACH_CLIENT_OUTPUT_SCHEDULE_TEXT_H_
#define STAGECOACH_CLIENT_OUTPUT_SCHEDULE_TEXT_H_

#include <string>

#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// The schedule of a plan, for people: its name and, where that names no order, where the order is from.
std::string ScheduleText(const v1::Plan& plan);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_OUTPUT_SCHEDULE_TEXT_H_
