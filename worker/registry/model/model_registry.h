#ifndef STAGECOACH_WORKER_REGISTRY_MODEL_MODEL_REGISTRY_H_
#define STAGECOACH_WORKER_REGISTRY_MODEL_MODEL_REGISTRY_H_

#include "common/simulated_device.h"
#include "worker/agent/agent_options.h"

namespace stagecoach {

// What the jobs of a real worker are made of: text data, and layers and their state on its device.
void UseModels(AgentOptions& options);

// After UseModels, of a worker whose device is described: its stages take modelled time and compute nothing, while
// state, updates and checkpoints stay real, on that device. The worker says that it is simulated, with a numerics class
// of its own, since its bits are those of the device's updates of nothing.
void UseSimulatedStages(AgentOptions& options, const SimulatedCosts& costs);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_REGISTRY_MODEL_MODEL_REGISTRY_H_
