#ifndef STAGECOACH_COORDINATOR_FLEET_FLEET_OPTIONS_H_
#define STAGECOACH_COORDINATOR_FLEET_FLEET_OPTIONS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace stagecoach {

// How long the coordinator waits for whom, and what it remembers. Each duration may be infinite.
struct FleetOptions {
  absl::Duration lease = absl::Seconds(3);  // infinite: workers of this process, which cannot be cut off
  absl::Duration heartbeat_interval = absl::Milliseconds(250);
  absl::Duration suspect_grace = absl::Milliseconds(100);  // for a session that broke to be followed by another
  absl::Duration reattach_timeout = absl::Seconds(10);     // after a restart, for workers that were there to dial
  absl::Duration orphan_timeout = absl::Minutes(10);       // after which a worker without a session drops its state
  absl::Duration remember_lost = absl::Minutes(10);
  size_t keep_jobs = 1000;                               // that have ended, the newest; at least 1
  absl::Duration profiling_timeout = absl::Seconds(30);  // for costs of layers, which a job is planned without then
  // How long the cause of a failure may come after its consequences: a worker whose peer has failed often reports that
  // it was cut off before the peer's own report arrives.
  absl::Duration root_cause_grace = absl::Seconds(2);
  // For members to build their stages, connect, apply the last step, write their shards: workers that live but do not
  // come to an end are rare, and slow disks are not.
  absl::Duration phase_timeout = absl::Minutes(30);
  // For a checkpoint that is written behind training: this long, or, of a large one, as long as its bytes take at this
  // rate, which the slowest disks and networks in use exceed.
  absl::Duration checkpoint_timeout = absl::Minutes(10);
  double checkpoint_bytes_per_second = 100e6;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_FLEET_FLEET_OPTIONS_H_
