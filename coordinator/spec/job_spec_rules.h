#ifndef STAGECOACH_COORDINATOR_SPEC_JOB_SPEC_RULES_H_
#define STAGECOACH_COORDINATOR_SPEC_JOB_SPEC_RULES_H_

#include "absl/strings/string_view.h"
#include "coordinator/spec/spec_node.h"
#include "coordinator/spec/spec_problems.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// The value at a dotted path, or the nearest section above it that the file has.
const SpecNode& FindValueOrSection(const SpecNode& root, absl::string_view path);

// Fills in the defaults that depend on other values (kDerived).
void FillDerivedValues(const SpecNode& root, v1::JobSpec& spec);

// Adds a problem for everything that is wrong between values that are each right by themselves.
void CheckJobSpecRules(const SpecNode& root, const v1::JobSpec& spec, SpecProblems& problems);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_JOB_SPEC_RULES_H_
