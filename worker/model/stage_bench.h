#ifndef STAGECOACH_WORKER_MODEL_STAGE_BENCH_H_
#define STAGECOACH_WORKER_MODEL_STAGE_BENCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/skip_connections.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "worker/device/device.h"
#include "worker/model/layered_stage.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// Memory with a margin on either side that nobody may touch. For tests, on host-addressable devices.
class GuardedMemory {
 public:
  GuardedMemory(Device& device, uint64_t bytes);
  std::span<std::byte> span() const;
  // Every byte 0xFF, which is NaN in f32 and f64: whoever reads what was not written is found out.
  void Scribble();
  bool MarginsAreIntact() const;

 private:
  std::unique_ptr<Memory> memory_;
  uint64_t bytes_;
};

// Samples of one micro-batch.
struct BenchBatch {
  MicroBatch micro_batch;
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;
};

// Runs a model's stages one action at a time, on one device, as an executor would: with slots of every micro-batch
// apart, guarded, and scribbled over whenever their lifetime has not begun or is over; what goes over a skip edge, too.
// A failure fails the test. One thread.
class StageBench {
 public:
  // Stages begin at `first_layers`, the first of which is 0 for a whole model. `recomputed_layers`: ascending.
  StageBench(Device& device, const v1::JobSpec& spec, const v1::ModelGraph& graph, std::vector<uint32_t> first_layers,
             const std::vector<uint32_t>& recomputed_layers = {});

  // Samples [first_sample, first_sample + samples) with tokens and labels that are functions of the sample's index.
  // Every fifth label or so is masked.
  BenchBatch MakeBatch(uint32_t index, uint64_t first_sample, int64_t samples);
  // Adds a micro-batch; actions name it by the order of adding, from 0.
  void Add(BenchBatch batch);

  // Every stage, in order, and back: of frozen layers what is left. I comes after an R where a stage recomputes.
  void Forward(size_t batch);
  void BackwardInput(size_t batch);
  void BackwardWeight(size_t batch);
  // F, I and W of all micro-batches, then ties.
  void RunStep();
  void ReduceTies();
  void ZeroGradients();

  size_t num_stages() const { return stages_.size(); }
  StageState& state(size_t stage) { return *stages_[stage].state; }
  LayeredStage& stage(size_t stage) { return *stages_[stage].stage; }
  Stream& stream() { return *stream_; }
  double loss_part(size_t batch) const;
  double loss() const;  // sum over micro-batches
  // Of the micro-batch, at the edge into `stage`.
  Tensor activation(size_t batch, size_t stage) const;
  Tensor activation_gradient(size_t batch, size_t stage) const;
  // By name; of owned tensors, gradients of those that are trained. Exact: f32 and f64 are doubles.
  std::map<std::string, std::vector<double>> Gradients();
  std::map<std::string, std::vector<double>> State();  // parameters and optimizer state
  // Digests by name, of the accumulators and of the state.
  std::map<std::string, std::string> GradientDigests();
  std::map<std::string, std::string> StateDigests();
  void ExpectMarginsIntact() const;

 private:
  struct HeldStage {
    std::unique_ptr<StageState> state;
    std::unique_ptr<LayeredStage> stage;
    uint32_t first_layer, last_layer;
  };
  struct StageSlots {
    std::unique_ptr<GuardedMemory> saved, shared, pending, scratch, recomputed;
    // At the edge into this stage; the first has tokens.
    std::unique_ptr<GuardedMemory> input, input_gradient;
  };
  struct HeldBatch {
    BenchBatch batch;
    std::vector<StageSlots> stages;
    std::vector<std::unique_ptr<GuardedMemory>> skips;  // by skip edge
    std::unique_ptr<GuardedMemory> loss;
  };
  // The ends of a stage's skip edges, in F or in I.
  struct SkipEnds {
    std::vector<SkipTensors> read, written;
  };

  SkipEnds SkipsOf(const HeldBatch& batch, size_t stage, bool are_gradients) const;
  static StageMemoryView View(const StageSlots& slots, const SkipEnds& skips = {});
  // What a stage has read is free.
  static void ScribbleRead(const SkipEnds& skips);
  Tensor Labels(const HeldBatch& batch) const;

  Device& device_;
  const v1::ModelGraph graph_;
  std::unique_ptr<Stream> stream_;
  std::vector<HeldStage> stages_;
  std::vector<SkipEdge> skip_edges_;
  std::vector<HeldBatch> batches_;
};

std::vector<double> ValuesOf(const Tensor& tensor);
void WriteValues(const Tensor& tensor, const std::vector<double>& values);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_STAGE_BENCH_H_
