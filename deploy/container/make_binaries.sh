#!/bin/bash
# Within an image, in a copy of the tree: puts the three binaries into a folder, stripped. Compiles them, unless there is a folder
# prebuilt/ that has them (build.sh --from-binaries).
set -euo pipefail
to=$1
cd "$(dirname "$0")/../.."

mkdir -p "$to"
from=prebuilt
if [ ! -d prebuilt ]; then
  deploy/install-deps.sh build
  cmake --preset release -DSTAGECOACH_BUILD_TESTS=OFF
  cmake --build --preset release -- --quiet stagecoach stagecoach-coordinator stagecoach-worker
  from=build/release/bin
  strip "$from"/stagecoach*
fi
for binary in stagecoach stagecoach-coordinator stagecoach-worker; do
  install -m 0755 "$from/$binary" "$to/$binary"
done
