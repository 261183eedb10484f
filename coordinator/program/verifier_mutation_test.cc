// Single changes to the instructions of verified programs. An executor that knows nothing of the verifier runs each
// mutant in many orders, random ones among them: whichever does other arithmetic, on other operands or in another
// order, in one of its runs, or does not end, is broken, and every broken one must be refused.

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/program/testing/symbolic_run.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::MakeSmallPipeline;
using testing::RunInManyOrders;
using testing::SmallPipeline;
using testing::SymbolicOutcome;

struct Mutant {
  std::string name;
  std::vector<v1::Instruction> replacement;  // of the instruction and of `num_replaced` - 1 after it
  int num_replaced = 1;
};

// A changed copy of the instruction for each field and each near value.
void AddRetargeted(const v1::Instruction& original, std::vector<Mutant>& mutants) {
  const google::protobuf::Descriptor& descriptor = *v1::Instruction::descriptor();
  const google::protobuf::Reflection& reflection = *original.GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor.field(i);
    for (const int change : {-1, 1}) {
      v1::Instruction changed = original;
      switch (field->cpp_type()) {
        case google::protobuf::FieldDescriptor::CPPTYPE_INT32:
          reflection.SetInt32(&changed, field, std::max(-1, reflection.GetInt32(original, field) + change));
          break;
        case google::protobuf::FieldDescriptor::CPPTYPE_UINT32:
          reflection.SetUInt32(&changed, field, reflection.GetUInt32(original, field) + static_cast<uint32_t>(change));
          break;
        case google::protobuf::FieldDescriptor::CPPTYPE_UINT64:
          reflection.SetUInt64(&changed, field, reflection.GetUInt64(original, field) + static_cast<uint64_t>(change));
          break;
        default:
          continue;
      }
      if (changed.SerializeAsString() == original.SerializeAsString()) continue;
      mutants.push_back({absl::StrCat("retarget ", std::string(field->name()), " ", change), {changed}});
    }
  }
  for (const int change : {-1, 1}) {
    v1::Instruction changed = original;
    changed.mutable_action()->set_micro_batch(original.action().micro_batch() + static_cast<uint32_t>(change));
    mutants.push_back({absl::StrCat("retarget micro_batch ", change), {changed}});
    changed = original;
    changed.mutable_action()->set_stage(original.action().stage() + static_cast<uint32_t>(change));
    mutants.push_back({absl::StrCat("retarget stage ", change), {changed}});
    changed = original;
    changed.mutable_action()->set_kind(static_cast<v1::ActionKind>(original.action().kind() + change));
    mutants.push_back({absl::StrCat("change kind ", change), {changed}});
  }
}

std::vector<Mutant> MutantsOf(const v1::StageProgram& program, int index) {
  const v1::Instruction& original = program.instructions(index);
  std::vector<Mutant> mutants;
  mutants.push_back({"delete", {}});
  mutants.push_back({"duplicate", {original, original}});
  for (const int distance : {1, 2, 3, 5, 8, 13}) {
    if (index + distance >= program.instructions_size()) break;
    Mutant move{absl::StrCat("move by ", distance), {}, distance + 1};
    for (int i = 1; i <= distance; ++i) move.replacement.push_back(program.instructions(index + i));
    move.replacement.push_back(original);
    mutants.push_back(move);
  }
  AddRetargeted(original, mutants);
  return mutants;
}

v1::StageProgram Apply(const v1::StageProgram& program, int index, const Mutant& mutant) {
  v1::StageProgram mutated = program;
  mutated.clear_instructions();
  for (int i = 0; i < index; ++i) *mutated.add_instructions() = program.instructions(i);
  for (const v1::Instruction& instruction : mutant.replacement) *mutated.add_instructions() = instruction;
  for (int i = index + mutant.num_replaced; i < program.instructions_size(); ++i) {
    *mutated.add_instructions() = program.instructions(i);
  }
  return mutated;
}

struct Counts {
  int programs = 0, mutants = 0, broken = 0, killed = 0;
  int refused_unbroken = 0;  // the verifier asks for more than arithmetic: a name that nothing reads is refused, too
};

bool IsBroken(const std::vector<v1::StageProgram>& programs, const SymbolicOutcome& expected) {
  const std::vector<SymbolicOutcome> outcomes = RunInManyOrders(programs);
  return std::any_of(outcomes.begin(), outcomes.end(), [&](const auto& outcome) { return !(outcome == expected); });
}

void CheckMutant(const SmallPipeline& pipeline, const SymbolicOutcome& expected, const std::string& name,
                 Counts& counts) {
  const bool refused = !pipeline.Verified().ok();
  const bool broken = IsBroken(pipeline.programs, expected);
  ++counts.mutants;
  if (broken) ++counts.broken;
  if (broken && refused) ++counts.killed;
  if (!broken && refused) ++counts.refused_unbroken;
  EXPECT_TRUE(refused || !broken) << "accepted: " << name;
}

void CheckMutants(const std::string& schedule, const testing::SmallPipelineOptions& options, Counts& counts) {
  SmallPipeline pipeline = MakeSmallPipeline(schedule, options);
  for (const SendSemantics sends : {SendSemantics::kRendezvous, SendSemantics::kBuffered}) {
    ASSERT_TRUE(pipeline.Verified(sends).ok()) << pipeline.Verified(sends);
  }
  ++counts.programs;
  const SymbolicOutcome expected = RunInManyOrders(pipeline.programs)[0];
  ASSERT_EQ(expected.problem, "");
  ASSERT_FALSE(IsBroken(pipeline.programs, expected));
  for (size_t worker = 0; worker < pipeline.programs.size(); ++worker) {
    const v1::StageProgram original = pipeline.programs[worker];
    for (int index = 0; index < original.instructions_size(); ++index) {
      for (const Mutant& mutant : MutantsOf(original, index)) {
        pipeline.programs[worker] = Apply(original, index, mutant);
        CheckMutant(
            pipeline, expected,
            absl::StrCat(schedule, " p=", pipeline.programs.size(), " m=", options.num_micro_batches,
                         " tied=", options.tied, options.recomputes.empty() ? "" : " recomputing",
                         options.frozen_layers.empty() ? "" : " frozen", ": ", mutant.name, " of worker ", worker,
                         ", instruction ", index, " (", ActionText(original.instructions(index).action()), ")"),
            counts);
      }
    }
    pipeline.programs[worker] = original;
  }
}

class VerifierMutationTest : public ::testing::TestWithParam<const Schedule*> {};

TEST_P(VerifierMutationTest, EveryMutantThatBreaksADependencyIsRefused) {
  const uint32_t v = GetParam()->default_chunks();
  Counts counts;
  for (const auto& [p, m] :
       {std::pair(1u, 1u), std::pair(1u, 3u), std::pair(2u, 2u), std::pair(2u, 4u), std::pair(3u, 3u)}) {
    for (const bool tied : {false, true}) {
      if (!tied && p == 3) continue;
      CheckMutants(std::string(GetParam()->name()),
                   {.num_stages = p * v, .num_chunks = v, .num_micro_batches = m, .tied = tied}, counts);
    }
    if (p == 3) continue;
    // All stages recompute, or every other one.
    for (const uint32_t distance : {1, 2}) {
      std::vector<bool> recomputes(p * v);
      for (uint32_t stage = 0; stage < p * v; stage += distance) recomputes[stage] = true;
      CheckMutants(std::string(GetParam()->name()),
                   {.num_stages = p * v, .num_chunks = v, .num_micro_batches = m, .recomputes = recomputes}, counts);
    }
  }
  // The first stage is frozen; gradients pass through the last one.
  const uint32_t num_stages = 2 * v;
  for (const std::vector<uint32_t>& frozen :
       std::vector<std::vector<uint32_t>>{{0, 1}, {num_stages, num_stages + 1, num_stages + 2}}) {
    CheckMutants(
        std::string(GetParam()->name()),
        {.num_stages = num_stages, .num_chunks = v, .num_micro_batches = 3, .tied = false, .frozen_layers = frozen},
        counts);
  }
  std::cout << GetParam()->name() << ": " << counts.programs << " programs, " << counts.mutants << " mutants, "
            << counts.killed << " of " << counts.broken << " broken ones killed, " << counts.refused_unbroken
            << " others refused\n";
  EXPECT_EQ(counts.killed, counts.broken);
  EXPECT_GT(counts.broken, 100);
}

INSTANTIATE_TEST_SUITE_P(Schedules, VerifierMutationTest, ::testing::ValuesIn(AllSchedules()),
                         [](const auto& schedule) { return std::string(schedule.param->name()); });

}  // namespace
}  // namespace stagecoach
