// Single changes to the instructions of verified programs. An executor that knows nothing of the verifier runs each
// mutant in many orders, random ones among them: whichever does other arithmetic, on other operands or in another
// order, in one of its runs, or does not end, is broken, and every broken one must be refused.

#include <algorithm>
#include <functional>
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
using testing::SmallPipelineOptions;
using testing::SymbolicOutcome;

bool IsSkip(const v1::ChannelSpec& channel) {
  return channel.kind() == v1::CHANNEL_KIND_SKIP || channel.kind() == v1::CHANNEL_KIND_SKIP_GRADIENT;
}

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

using SkipSlots = google::protobuf::RepeatedPtrField<v1::SkipSlot>;

// One of its slots on skip edges more or less, in another order, others.
void AddSkipMutants(const v1::Instruction& original, bool sends, std::vector<Mutant>& mutants) {
  const auto skips_of = [sends](v1::Instruction& instruction) -> SkipSlots& {
    return sends ? *instruction.mutable_skip_send() : *instruction.mutable_skip_recv();
  };
  const auto add = [&](const std::string& what, const std::function<void(SkipSlots&)>& change) {
    v1::Instruction changed = original;
    change(skips_of(changed));
    mutants.push_back({absl::StrCat(what, sends ? " of skip_send" : " of skip_recv"), {changed}});
  };
  add("one more", [](SkipSlots& skips) { skips.Add(); });
  for (int i = 0; i < (sends ? original.skip_send_size() : original.skip_recv_size()); ++i) {
    add(absl::StrCat("drop ", i), [i](SkipSlots& skips) { skips.DeleteSubrange(i, 1); });
    add(absl::StrCat("double ", i), [i](SkipSlots& skips) { *skips.Add() = skips[i]; });
    if (i > 0) add(absl::StrCat("swap ", i), [i](SkipSlots& skips) { skips.SwapElements(i - 1, i); });
    for (const int change : {-1, 1}) {
      add(absl::StrCat("retarget slot ", change, " ", i),
          [=](SkipSlots& skips) { skips[i].set_slot(std::max(-1, skips[i].slot() + change)); });
      add(absl::StrCat("retarget channel ", change, " ", i),
          [=](SkipSlots& skips) { skips[i].set_channel(skips[i].channel() + static_cast<uint32_t>(change)); });
    }
  }
}

// The slots that it reads and those that it writes, or those of its skip edge and its other one.
void AddExchanged(const v1::Instruction& original, std::vector<Mutant>& mutants) {
  v1::Instruction changed = original;
  changed.mutable_skip_recv()->Swap(changed.mutable_skip_send());
  mutants.push_back({"exchange skip_recv and skip_send", {changed}});
  changed = original;
  if (!original.skip_recv().empty() && original.recv_slot() >= 0) {
    changed.set_recv_channel(original.skip_recv(0).channel());
    changed.set_recv_slot(original.skip_recv(0).slot());
    changed.mutable_skip_recv(0)->set_channel(original.recv_channel());
    changed.mutable_skip_recv(0)->set_slot(original.recv_slot());
    mutants.push_back({"exchange recv and skip_recv", {changed}});
  }
  changed = original;
  if (!original.skip_send().empty() && original.send_slot() >= 0) {
    changed.set_send_channel(original.skip_send(0).channel());
    changed.set_send_slot(original.skip_send(0).slot());
    changed.mutable_skip_send(0)->set_channel(original.send_channel());
    changed.mutable_skip_send(0)->set_slot(original.send_slot());
    mutants.push_back({"exchange send and skip_send", {changed}});
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
  if (std::none_of(program.channels().begin(), program.channels().end(), IsSkip)) return mutants;
  for (const bool sends : {false, true}) AddSkipMutants(original, sends, mutants);
  AddExchanged(original, mutants);
  return mutants;
}

// Of what its skip edges carry, at this end alone.
std::vector<v1::StageProgram> ChannelMutantsOf(const v1::StageProgram& program) {
  std::vector<v1::StageProgram> mutants;
  const auto add = [&](int channel, const std::function<void(v1::ChannelSpec&)>& change) {
    mutants.push_back(program);
    change(*mutants.back().mutable_channels(channel));
  };
  for (int i = 0; i < program.channels_size(); ++i) {
    if (!IsSkip(program.channels(i))) continue;
    for (int n = 0; n < program.channels(i).skip_connections_size(); ++n) {
      add(i, [n](v1::ChannelSpec& spec) { spec.mutable_skip_connections()->SwapElements(0, n); });
      for (const uint32_t change : {UINT32_MAX, 1u}) {
        add(i, [=](v1::ChannelSpec& spec) { spec.set_skip_connections(n, spec.skip_connections(n) + change); });
      }
    }
    add(i, [](v1::ChannelSpec& spec) { spec.mutable_skip_connections()->RemoveLast(); });
    add(i, [](v1::ChannelSpec& spec) { spec.add_skip_connections(1); });
    for (const int change : {-1, 1}) {
      add(i, [=](v1::ChannelSpec& spec) { spec.set_kind(static_cast<v1::ChannelKind>(spec.kind() + change)); });
    }
    for (const uint32_t change : {UINT32_MAX, 1u}) {
      add(i, [=](v1::ChannelSpec& spec) { spec.set_to_stage(spec.to_stage() + change); });
      add(i, [=](v1::ChannelSpec& spec) { spec.set_from_stage(spec.from_stage() + change); });
    }
  }
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

// Of the mutants one in so many. A sanitizer looks for other mistakes than the verifier's, and makes all of them dear.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kStride = 5;
#else
constexpr int kStride = 1;
#endif

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
  if (counts.mutants++ % kStride != 0) return;
  const bool refused = !pipeline.Verified().ok();
  const bool broken = IsBroken(pipeline.programs, expected);
  if (broken) ++counts.broken;
  if (broken && refused) ++counts.killed;
  if (!broken && refused) ++counts.refused_unbroken;
  EXPECT_TRUE(refused || !broken) << "accepted: " << name;
}

void CheckMutants(const std::string& schedule, const SmallPipelineOptions& options, Counts& counts) {
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
    const std::string name = absl::StrCat(schedule, " p=", pipeline.programs.size(), " m=", options.num_micro_batches,
                                          " tied=", options.tied, options.recomputes.empty() ? "" : " recomputing",
                                          options.frozen_layers.empty() ? "" : " frozen",
                                          " skips=", options.skip_connections.size(), ", worker ", worker);
    for (int index = 0; index < original.instructions_size(); ++index) {
      for (const Mutant& mutant : MutantsOf(original, index)) {
        pipeline.programs[worker] = Apply(original, index, mutant);
        CheckMutant(pipeline, expected,
                    absl::StrCat(name, ": ", mutant.name, " of instruction ", index, " (",
                                 ActionText(original.instructions(index).action()), ")"),
                    counts);
      }
    }
    for (const v1::StageProgram& mutant : ChannelMutantsOf(original)) {
      pipeline.programs[worker] = mutant;
      CheckMutant(pipeline, expected, absl::StrCat(name, ": ", mutant.ShortDebugString()), counts);
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
    for (const uint32_t distance : {1U, 2U}) {
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
  // Of the ends, packed and not, with a frozen start that no gradient goes back to, and between neighbours.
  for (const uint32_t p : {2u, 3u}) {
    const uint32_t n = p * v;
    SmallPipelineOptions options{.num_stages = n, .num_chunks = v, .num_micro_batches = 5 - p, .tied = false};
    for (const std::vector<std::pair<uint32_t, uint32_t>>& connections :
         std::vector<std::vector<std::pair<uint32_t, uint32_t>>>{{{0, n + 1}, {1, n + 2}}, {{0, 2}, {n - 1, n + 1}}}) {
      options.skip_connections = connections;
      options.frozen_layers.clear();
      CheckMutants(std::string(GetParam()->name()), options, counts);
      if (p == 3) continue;
      options.frozen_layers = {0};
      CheckMutants(std::string(GetParam()->name()), options, counts);
    }
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
