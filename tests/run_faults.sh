#!/usr/bin/env bash
# The rounds that a release must stand: kills and stops at random instants, the simulation's seeds. About half an hour on two
# cores. Argument: a build directory (default build/release).
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
chaos=(python3 tests/faults/chaos.py "$build/bin")
"${chaos[@]}" worker-kill --rounds 100
"${chaos[@]}" worker-stop --rounds 100
"${chaos[@]}" worker-term --rounds 20
"${chaos[@]}" coordinator-kill --rounds 50
for schedule in interleaved zb_v; do
  "${chaos[@]}" worker-kill --rounds 20 --workers 2 --set parallelism.schedule=$schedule
  "${chaos[@]}" coordinator-kill --rounds 20 --workers 2 --set parallelism.schedule=$schedule
done
python3 tests/faults/checkpoint_chaos.py "$build/bin" --rounds 200
python3 tests/faults/checkpoint_chaos.py "$build/bin" --rounds 50 --layouts 1f1b:2,zb_v:2,interleaved:3 --victims workers \
  --set model.config.num_hidden_layers=6
python3 tests/faults/leaks.py "$build/bin"
"$build/bin/simulation" --seeds 1..100000
