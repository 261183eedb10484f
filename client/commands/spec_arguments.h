#ifndef STAGECOACH_CLIENT_COMMANDS_SPEC_ARGUMENTS_H_
#define STAGECOACH_CLIENT_COMMANDS_SPEC_ARGUMENTS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// `SPEC [--set a.b=c ...]`, which several verbs take.
struct SpecArguments {
  std::string file;  // "-": standard input
  std::vector<std::string> overrides;
};
void AddSpecArguments(CLI::App& verb, SpecArguments& arguments);

// The resolved specification, or nothing after every error has been printed to standard error as "FILE:LINE:COLUMN:
// ..."; with `json`, the first one also to standard output, as ReportFailure does.
std::optional<v1::JobSpec> LoadSpec(const SpecArguments& arguments, bool json);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_SPEC_ARGUMENTS_H_
