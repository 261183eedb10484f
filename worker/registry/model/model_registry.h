#ifndef STAGECOACH_WORKER_REGISTRY_MODEL_MODEL_REGISTRY_H_
#define STAGECOACH_WORKER_REGISTRY_MODEL_MODEL_REGISTRY_H_

#include "worker/agent/agent_options.h"

namespace stagecoach {

// What the jobs of a real worker are made of: text data, and layers and their state on its device.
void UseModels(AgentOptions& options);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_REGISTRY_MODEL_MODEL_REGISTRY_H_
