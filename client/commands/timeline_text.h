#ifndef STAGECOACH_CLIENT_COMMANDS_TIMELINE_TEXT_H_
#define STAGECOACH_CLIENT_COMMANDS_TIMELINE_TEXT_H_

#include <optional>
#include <string>

#include "coordinator/program/simulator.h"

namespace stagecoach {

// A picture of a step, one row a worker, at most `columns` characters of it. Where every time is a multiple of one unit
// and there is room, a slot for each unit with the action's text (SlotText); else a character for each share of the
// step: forwards show the last digit of their micro-batch, backwards a letter (a is micro-batch 0), W a capital one,
// idle time a dot. With a line that says so.
std::string TimelineText(const Timeline& timeline, int columns);

// "worker 0  0F0 0F1  .  0B0---": nothing when no unit divides all times or a row would be wider than `columns`.
std::optional<std::string> SlotText(const Timeline& timeline, int columns);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_TIMELINE_TEXT_H_
