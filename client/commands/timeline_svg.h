#ifndef STAGECOACH_CLIENT_COMMANDS_TIMELINE_SVG_H_
#define STAGECOACH_CLIENT_COMMANDS_TIMELINE_SVG_H_

#include <string>

#include "coordinator/program/simulator.h"

namespace stagecoach {

// A drawing of a step: a row for each worker, with the stages it holds, a bar for each action with its text where there
// is room (and always as a tooltip), thick outlines on the critical path, a time axis and a legend. Kinds differ in
// lightness, stages of one worker in a hatch, so that it can be read in print without colours.
std::string TimelineSvg(const Timeline& timeline, const std::string& title);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_TIMELINE_SVG_H_
