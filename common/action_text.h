#ifndef STAGECOACH_COMMON_ACTION_TEXT_H_
#define STAGECOACH_COMMON_ACTION_TEXT_H_

#include <string>

#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// "2F0", "1SEND_F3", "0LOAD2", "0TIE_REDUCE", "3NORM": stage, kind and, where there is one, micro-batch. The one way in
// which logs, errors, traces, tables and golden files name an action.
std::string ActionText(const v1::Action& action);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_ACTION_TEXT_H_
