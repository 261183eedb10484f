#ifndef STAGECOACH_COORDINATOR_SPEC_CUSTOM_VALUES_H_
#define STAGECOACH_COORDINATOR_SPEC_CUSTOM_VALUES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/spec/spec_node.h"
#include "coordinator/spec/spec_problems.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Readers and printers of the keys whose value is not a single field of v1::JobSpec; see SchemaField.
void ParseLabels(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintLabels(const v1::JobSpec& spec);

void ParseTrainSources(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintTrainSources(const v1::JobSpec& spec);
void ParseValidationSources(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintValidationSources(const v1::JobSpec& spec);

void ParseBetas(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintBetas(const v1::JobSpec& spec);

void ParsePartition(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintPartition(const v1::JobSpec& spec);

// A duration, "15m"; zero: none.
void ParseIntervalTime(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintIntervalTime(const v1::JobSpec& spec);

// An integer from -1000 to 1000.
void ParsePriority(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintPriority(const v1::JobSpec& spec);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_CUSTOM_VALUES_H_
