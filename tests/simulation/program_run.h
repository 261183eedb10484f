#ifndef STAGECOACH_TESTS_SIMULATION_PROGRAM_RUN_H_
#define STAGECOACH_TESTS_SIMULATION_PROGRAM_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"
#include "stagecoach/v1/worker.pb.h"
#include "tests/simulation/data_plane.h"
#include "tests/simulation/process.h"
#include "tests/simulation/simulated_stage_state.h"
#include "tests/simulation/toy_model.h"

namespace stagecoach::simulation {

// Troubles of a worker's device, for whatever runs on it next.
struct DeviceTrouble {
  bool hangs = false;               // the next instruction never ends by itself
  bool wedged = false;              // nor when it is interrupted
  bool fails = false;               // the next instruction fails
  absl::Duration slowness;          // of each instruction
  absl::Duration command_slowness;  // of everything else
};

// One run of a stage program on the toy model, in virtual time: computes where the real one does, and waits where it
// does. One stage a worker.
class ProgramRun : public std::enable_shared_from_this<ProgramRun> {
 public:
  struct Context {
    World& world;
    Process& process;
    DataPlane& data;
    DataPlane::TransportId transport;
    const v1::StageProgram& program;
    const v1::ModelGraph& graph;
    SimulatedStageState& state;
    DeviceTrouble& trouble;
    std::function<void(const absl::Status&)> on_end;  // once
  };
  // `order` and the context's references outlive the run.
  ProgramRun(Context context, const v1::RunStep& order);

  void Start() { Advance(); }
  // Something it waits for may have happened.
  void Wake();
  // Ends with `reason`, soon.
  void Interrupt(const absl::Status& reason);

  // Where it is; without run and usual_seconds.
  v1::RunState state() const;
  // Of a training run that has ended well.
  v1::StepPrepared Vote() const;
  std::vector<v1::LossPart> loss_parts() const { return loss_parts_; }

 private:
  struct MicroBatch {
    std::vector<uint64_t> activations;  // that each layer got, then the output
    std::vector<uint64_t> gradients;    // of the input, then of each layer's output
  };
  using Slot = std::pair<uint32_t, int32_t>;  // channel, slot

  const v1::Instruction& instruction() const;
  bool has_ended() const { return next_ == context_.program.instructions_size(); }
  void Advance();
  // True: it waits, or has failed.
  bool WaitsForSlots();
  bool WaitsFor(const Slot& slot);
  bool WaitsForAny();
  void Execute();
  // What skip edges have brought, and what is left there for them.
  Skips ReadSkips(const v1::Instruction& instruction) const;
  void WriteSkips(const v1::Instruction& instruction, const Skips& skips);
  void Compute(const v1::Instruction& instruction);
  void Forward(const v1::Instruction& instruction);
  void BackwardInput(const v1::Instruction& instruction);
  void BackwardWeight(const v1::Instruction& instruction);
  void Post(const v1::Instruction& instruction, bool is_send);
  void End(const absl::Status& status);
  Tag TagOf(uint32_t micro_batch) const;

  const Context context_;
  const v1::RunStep& order_;
  const bool is_first_, is_last_;
  int next_ = 0;
  bool computing_ = false;
  bool ended_ = false;
  std::optional<uint32_t> waits_on_;  // channel
  std::map<Slot, DataPlane::Transfer> posted_;
  std::map<Slot, Payload> contents_;  // of receive and send slots
  std::map<uint32_t, MicroBatch> micro_batches_;
  std::vector<v1::LossPart> loss_parts_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_PROGRAM_RUN_H_
