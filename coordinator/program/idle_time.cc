#include "coordinator/program/idle_time.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "coordinator/program/wait_causes.h"

namespace stagecoach {
namespace {

using Causes = std::vector<std::vector<StartCause>>;

// Indices in a row between which its worker is past warm-up and not yet draining.
struct Phases {
  size_t first_backward = 0;  // of the first action that ends the warm-up
  size_t last_forward = 0;
};

Phases PhasesOf(const std::vector<TimedAction>& row) {
  const auto is_forward = [](const TimedAction& timed) { return timed.action.kind() == v1::ACTION_KIND_FORWARD; };
  // An R waits for nobody, and what comes behind it may wait still.
  const auto is_backward = [&](const TimedAction& timed) {
    return !is_forward(timed) && timed.action.kind() != v1::ACTION_KIND_RECOMPUTE;
  };
  Phases phases;
  phases.first_backward = static_cast<size_t>(std::find_if(row.begin(), row.end(), is_backward) - row.begin());
  if (phases.first_backward == row.size()) phases.first_backward = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (is_forward(row[i])) phases.last_forward = i;
  }
  return phases;
}

double HopSecondsOf(const std::vector<ChainPiece>& pieces) {
  double seconds = 0;
  for (const ChainPiece& piece : pieces) {
    if (piece.is_hop) seconds += piece.end - piece.start;
  }
  return seconds;
}

// Waits of a worker, before imbalance is taken out.
struct Waits {
  double transfer = 0;
  double warm_up = 0;
  double between = 0;
  double drain = 0;
};

class WaitMeter {
 public:
  WaitMeter(const Timeline& timeline, const Causes& causes) : timeline_(timeline), causes_(causes) {
    for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
      const std::vector<TimedAction>& row = timeline.workers[worker];
      if (row.empty() || (last_.has_value() && row.back().end <= last_end_)) continue;
      last_ = {worker, row.size() - 1};
      last_end_ = row.back().end;
    }
  }

  Waits Measure(size_t worker) const {
    const std::vector<TimedAction>& row = timeline_.workers[worker];
    const Phases phases = PhasesOf(row);
    Waits waits;
    double free_from = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      double& phase = i <= phases.first_backward ? waits.warm_up
                      : i > phases.last_forward  ? waits.drain
                                                 : waits.between;
      Add({worker, i}, free_from, row[i].start, waits.transfer, phase);
      free_from = row[i].end;
    }
    AddEnd(free_from, waits);
    return waits;
  }

 private:
  void Add(ActionPlace next, double start, double end, double& transfer, double& phase) const {
    if (end <= start) return;
    const double hops = std::min(HopSecondsOf(ChainBefore(timeline_, causes_, next, start)), end - start);
    transfer += hops;
    phase += end - start - hops;
  }
  // From the worker's last action until the step's last one has run, which nothing of the worker waits for.
  void AddEnd(double free_from, Waits& waits) const {
    if (!last_.has_value() || last_end_ <= free_from) return;
    const double last_start = timeline_.workers[last_->worker][last_->index].start;
    waits.drain += last_end_ - std::max(last_start, free_from);
    Add(*last_, free_from, last_start, waits.transfer, waits.drain);
  }

  const Timeline& timeline_;
  const Causes& causes_;
  std::optional<ActionPlace> last_;
  double last_end_ = 0;
};

IdleTime WithoutImbalance(const Waits& waits, double spare_seconds) {
  IdleTime idle{.transfer = waits.transfer};
  const double from_between = std::min(waits.between, spare_seconds);
  const double ramps = waits.warm_up + waits.drain;
  const double from_ramps = std::min(ramps, spare_seconds - from_between);
  const double kept = ramps > 0 ? (ramps - from_ramps) / ramps : 0;
  idle.imbalance = from_between + from_ramps;
  idle.order = waits.between - from_between;
  idle.warm_up = waits.warm_up * kept;
  idle.drain = waits.drain * kept;
  return idle;
}

double BusySeconds(const std::vector<TimedAction>& row) {
  double seconds = 0;
  for (const TimedAction& timed : row) seconds += timed.end - timed.start;
  return seconds;
}

}  // namespace

std::vector<IdleTime> IdleByCause(const Timeline& timeline) {
  const Causes causes = StartCauses(timeline);
  const WaitMeter meter(timeline, causes);
  double busiest = 0;
  for (const std::vector<TimedAction>& row : timeline.workers) busiest = std::max(busiest, BusySeconds(row));
  std::vector<IdleTime> idle;
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    const double spare = busiest - BusySeconds(timeline.workers[worker]);
    idle.push_back(WithoutImbalance(meter.Measure(worker), spare));
  }
  return idle;
}

IdleTime Total(const std::vector<IdleTime>& idle) {
  IdleTime total;
  for (const IdleTime& worker : idle) {
    total.warm_up += worker.warm_up;
    total.drain += worker.drain;
    total.imbalance += worker.imbalance;
    total.transfer += worker.transfer;
    total.order += worker.order;
  }
  return total;
}

}  // namespace stagecoach
