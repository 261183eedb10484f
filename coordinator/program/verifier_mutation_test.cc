// Every single change to a verified program is either refused, or does the same arithmetic on the same operands in
// every run (RunSymbolically knows nothing of the verifier).

#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/program/testing/symbolic_run.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using testing::MakeSmallPipeline;
using testing::RunSymbolically;
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

std::vector<SymbolicOutcome> AllOutcomes(const std::vector<v1::StageProgram>& programs) {
  std::vector<SymbolicOutcome> outcomes;
  for (const bool copies_early : {true, false}) {
    for (const bool first_worker_last : {true, false}) {
      outcomes.push_back(
          RunSymbolically(programs, {.copies_early = copies_early, .first_worker_last = first_worker_last}));
    }
  }
  return outcomes;
}

struct Counts {
  int mutants = 0, refused = 0, equivalent = 0;
};

void CheckMutants(const std::string& schedule, const testing::SmallPipelineOptions& options, Counts& counts) {
  SmallPipeline pipeline = MakeSmallPipeline(schedule, options);
  ASSERT_TRUE(pipeline.Verified().ok()) << pipeline.Verified();
  const SymbolicOutcome expected = AllOutcomes(pipeline.programs)[0];
  ASSERT_EQ(expected.problem, "");
  for (const SymbolicOutcome& outcome : AllOutcomes(pipeline.programs)) ASSERT_EQ(outcome, expected);
  for (size_t worker = 0; worker < pipeline.programs.size(); ++worker) {
    const v1::StageProgram original = pipeline.programs[worker];
    for (int index = 0; index < original.instructions_size(); ++index) {
      for (const Mutant& mutant : MutantsOf(original, index)) {
        pipeline.programs[worker] = Apply(original, index, mutant);
        ++counts.mutants;
        if (!pipeline.Verified().ok()) {
          ++counts.refused;
          continue;
        }
        ++counts.equivalent;
        for (const SymbolicOutcome& outcome : AllOutcomes(pipeline.programs)) {
          ASSERT_EQ(outcome, expected) << schedule << " p=" << options.num_stages << " m=" << options.num_micro_batches
                                       << " tied=" << options.tied << ": accepted " << mutant.name << " of worker "
                                       << worker << ", instruction " << index << " ("
                                       << ActionText(original.instructions(index).action()) << "): " << outcome.problem;
        }
      }
    }
    pipeline.programs[worker] = original;
  }
}

// Every slot of a program, its arena, and every number of its channels.
std::vector<v1::StageProgram> LayoutMutantsOf(const v1::StageProgram& program) {
  std::vector<v1::StageProgram> mutants;
  const auto add = [&](const std::function<void(v1::StageProgram&)>& change) {
    mutants.push_back(program);
    change(mutants.back());
  };
  const auto add_slot = [&](const std::function<v1::Slot*(v1::StageProgram&)>& slot_of) {
    for (const int64_t change : {-640, -64, 64, 640}) {
      add([&](v1::StageProgram& p) { slot_of(p)->set_offset(slot_of(p)->offset() + static_cast<uint64_t>(change)); });
      add([&](v1::StageProgram& p) { slot_of(p)->set_bytes(slot_of(p)->bytes() + static_cast<uint64_t>(change)); });
    }
    add([&](v1::StageProgram& p) { slot_of(p)->set_offset(slot_of(p)->offset() + 1); });
  };
  using Lists = google::protobuf::RepeatedPtrField<v1::Slot>* (v1::StageSlots::*)();
  for (int stage = 0; stage < program.stages_size(); ++stage) {
    for (const Lists list :
         {static_cast<Lists>(&v1::StageSlots::mutable_load), static_cast<Lists>(&v1::StageSlots::mutable_saved),
          static_cast<Lists>(&v1::StageSlots::mutable_shared), static_cast<Lists>(&v1::StageSlots::mutable_pending)}) {
      v1::StageSlots slots = program.stages(stage);
      for (int i = 0; i < (slots.*list)()->size(); ++i) {
        add_slot([=](v1::StageProgram& p) { return (p.mutable_stages(stage)->*list)()->Mutable(i); });
      }
    }
  }
  for (int channel = 0; channel < program.channels_size(); ++channel) {
    for (int i = 0; i < program.channel_slots(channel).slots_size(); ++i) {
      add_slot([=](v1::StageProgram& p) { return p.mutable_channel_slots(channel)->mutable_slots(i); });
    }
    add([&](v1::StageProgram& p) { p.mutable_channels(channel)->set_num_slots(p.channels(channel).num_slots() + 1); });
    add([&](v1::StageProgram& p) { p.mutable_channels(channel)->set_bytes(p.channels(channel).bytes() + 2); });
    add([&](v1::StageProgram& p) { p.mutable_channels(channel)->set_to_stage(p.channels(channel).to_stage() + 1); });
  }
  add_slot([](v1::StageProgram& p) { return p.mutable_scratch(); });
  add([](v1::StageProgram& p) { p.set_arena_bytes(p.arena_bytes() - 64); });
  add([](v1::StageProgram& p) { p.set_arena_bytes(p.arena_bytes() + 64); });
  return mutants;
}

TEST(VerifierLayoutMutationTest, EveryMutantIsRefusedOrEquivalent) {
  Counts counts;
  for (const char* schedule : {"gpipe", "1f1b", "forward_only"}) {
    for (uint32_t p = 1; p <= 3; ++p) {
      SmallPipeline pipeline = MakeSmallPipeline(schedule, {.num_stages = p, .num_micro_batches = 4});
      const SymbolicOutcome expected = AllOutcomes(pipeline.programs)[0];
      for (size_t worker = 0; worker < p; ++worker) {
        const v1::StageProgram original = pipeline.programs[worker];
        for (const v1::StageProgram& mutant : LayoutMutantsOf(original)) {
          pipeline.programs[worker] = mutant;
          ++counts.mutants;
          if (!pipeline.Verified().ok()) {
            ++counts.refused;
            continue;
          }
          ++counts.equivalent;
          // Other sizes give other hashes; what counts is that every run gives the same.
          const std::vector<SymbolicOutcome> outcomes = AllOutcomes(pipeline.programs);
          ASSERT_EQ(outcomes[0].problem, "");
          for (const SymbolicOutcome& outcome : outcomes) ASSERT_EQ(outcome, outcomes[0]) << mutant.ShortDebugString();
        }
        pipeline.programs[worker] = original;
      }
      ASSERT_EQ(AllOutcomes(pipeline.programs)[0], expected);
    }
  }
  std::cout << "layout: " << counts.mutants << " mutants, " << counts.refused << " refused, " << counts.equivalent
            << " equivalent\n";
}

class VerifierMutationTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(VerifierMutationTest, EveryMutantIsRefusedOrEquivalent) {
  Counts counts;
  for (const char* schedule : {"gpipe", "1f1b", "forward_only"}) {
    for (uint32_t m = 1; m <= 5; ++m) {
      for (const bool tied : {false, true}) {
        CheckMutants(schedule, {.num_stages = GetParam(), .num_micro_batches = m, .tied = tied}, counts);
      }
    }
  }
  std::cout << GetParam() << " stages: " << counts.mutants << " mutants, " << counts.refused << " refused, "
            << counts.equivalent << " equivalent\n";
  EXPECT_LT(counts.equivalent * 20, counts.mutants);
}

INSTANTIATE_TEST_SUITE_P(Stages, VerifierMutationTest, ::testing::Values(1u, 2u, 3u, 4u));

}  // namespace
}  // namespace stagecoach
