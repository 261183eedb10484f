#ifndef STAGECOACH_COORDINATOR_SCHEDULE_AUTO_GRAPH_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_AUTO_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/stage_placement.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What `auto` searches over: the order of the actions on each worker. F, I and W of a stage are each in micro-batch
// order: micro-batches are alike, so any schedule becomes one of these, at the same times, when the micro-batches of
// a stage and kind are renamed in the order they run.
using AutoRows = std::vector<std::vector<uint32_t>>;  // [num_workers], indices of nodes in execution order

enum class AutoKind : uint8_t { kForward, kBackwardInput, kBackwardWeight };
inline constexpr uint32_t kNumAutoKinds = 3;
inline constexpr uint32_t kNoNode = UINT32_MAX;
// Results of an edge and direction that may be made and not yet read, so that programs end under rendezvous sends: two
// slots at each end, the usual credit window of lowering. It orders actions and delays none, as in the simulator.
inline constexpr uint32_t kMaxUnread = 4;

// One F, I or W. Times as in ScheduleProblem.
struct AutoNode {
  double duration = 0;
  double edge_seconds = 0;    // what its result occupies of the edge it leaves by
  double latency = 0;         // of that hop, on top
  uint32_t input = kNoNode;   // whose result it waits for
  uint32_t output = kNoNode;  // who waits for its result; W: nobody
  uint32_t room = kNoNode;    // who must have read an earlier result on the edge before this starts
  uint32_t gives_room_to = kNoNode;
  uint32_t worker = 0;
  uint32_t stage = 0;
  uint32_t micro_batch = 0;
  AutoKind kind = AutoKind::kForward;
};

// A problem with one placement as a graph of actions. Constant after construction.
class AutoGraph {
 public:
  // `problem` has passed CheckProblem.
  AutoGraph(const ScheduleProblem& problem, StagePlacement placement);

  uint32_t num_workers() const { return num_workers_; }
  uint32_t num_chunks() const { return num_chunks_; }
  uint32_t num_stages() const { return num_workers_ * num_chunks_; }
  uint32_t num_micro_batches() const { return num_micro_batches_; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  StagePlacement placement() const { return placement_; }
  uint32_t chunk(uint32_t stage) const { return stage / num_workers_; }

  // Consecutive micro-batches of a stage and kind have consecutive indices.
  uint32_t Index(uint32_t stage, AutoKind kind, uint32_t micro_batch) const {
    return (stage * kNumAutoKinds + static_cast<uint32_t>(kind)) * num_micro_batches_ + micro_batch;
  }
  const AutoNode& node(uint32_t index) const { return nodes_[index]; }
  const std::vector<uint32_t>& stages(uint32_t worker) const { return stages_of_worker_[worker]; }
  // How many forwards, of any of its chunks, a worker may hold; a chunk is 1 / num_chunks of a full stage.
  uint32_t capacity(uint32_t worker) const { return capacity_[worker]; }
  // From when a worker's time counts: 0 for Objective::kSpan; for kDevice its first start, which is that of micro-batch
  // 0 in every table, since all else on the worker needs it.
  double origin(uint32_t worker) const { return origin_[worker]; }
  // Busy seconds of one micro-batch on the busiest worker: no schedule finishes them faster.
  double period() const { return period_; }

  // B becomes I, then W: its gradient then leaves earlier.
  AutoRows RowsOf(const v1::ComputeTable& table) const;
  v1::ComputeTable TableOf(const AutoRows& rows, const std::string& schedule) const;
  // Whether every action is there once, those of a stage and kind in micro-batch order, and no worker holds more than
  // its capacity.
  bool Accepts(const AutoRows& rows) const;

 private:
  void AddNodes(const ScheduleProblem& problem);
  void Connect(const ScheduleProblem& problem, uint32_t from_stage, uint32_t to_stage, AutoKind from, AutoKind to);
  void SetOrigins();

  uint32_t num_workers_;
  uint32_t num_chunks_;
  uint32_t num_micro_batches_;
  StagePlacement placement_;
  std::vector<AutoNode> nodes_;
  std::vector<std::vector<uint32_t>> stages_of_worker_;  // ascending: the lowest stage is chunk 0
  std::vector<uint32_t> capacity_;
  std::vector<double> origin_;
  double period_ = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_AUTO_GRAPH_H_
