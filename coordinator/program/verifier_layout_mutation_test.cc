// Every change to the layout of a verified program is either refused, or the program still does the same arithmetic in
// every run (RunSymbolically knows nothing of the verifier).

#include <functional>
#include <iostream>
#include <string>
#include <vector>

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
          static_cast<Lists>(&v1::StageSlots::mutable_shared), static_cast<Lists>(&v1::StageSlots::mutable_pending),
          static_cast<Lists>(&v1::StageSlots::mutable_recomputed)}) {
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

struct Counts {
  int mutants = 0, refused = 0, equivalent = 0;
};

void CheckMutantsOfWorker(size_t worker, SmallPipeline& pipeline, Counts& counts) {
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
    const std::vector<SymbolicOutcome> outcomes = RunInManyOrders(pipeline.programs);
    ASSERT_EQ(outcomes[0].problem, "");
    for (const SymbolicOutcome& outcome : outcomes) {
      ASSERT_EQ(outcome, outcomes[0]) << pipeline.table.schedule() << ": " << mutant.ShortDebugString();
    }
  }
  pipeline.programs[worker] = original;
}

TEST(VerifierLayoutMutationTest, EveryMutantIsRefusedOrEquivalent) {
  Counts counts;
  for (const Schedule* schedule : AllSchedules()) {
    for (uint32_t p = 1; p <= 3; ++p) {
      const uint32_t v = schedule->default_chunks();
      for (const bool recomputes : {false, true}) {
        SmallPipeline pipeline = MakeSmallPipeline(std::string(schedule->name()),
                                                   {.num_stages = p * v,
                                                    .num_chunks = v,
                                                    .num_micro_batches = 4,
                                                    .recomputes = std::vector<bool>(recomputes ? p * v : 0, true)});
        for (size_t worker = 0; worker < p; ++worker) CheckMutantsOfWorker(worker, pipeline, counts);
      }
      SmallPipeline pipeline =
          MakeSmallPipeline(std::string(schedule->name()), {.num_stages = p * v,
                                                            .num_chunks = v,
                                                            .num_micro_batches = 4,
                                                            .skip_connections = {{0, p * v + 1}, {1, p * v + 2}}});
      for (size_t worker = 0; worker < p; ++worker) CheckMutantsOfWorker(worker, pipeline, counts);
    }
  }
  std::cout << "layout: " << counts.mutants << " mutants, " << counts.refused << " refused, " << counts.equivalent
            << " equivalent\n";
}

}  // namespace
}  // namespace stagecoach
