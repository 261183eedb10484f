#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds, and trains examples/tiny.yaml on this machine's licence
# texts with four stage workers. Two to three minutes of training on two cores; the loss is shown while it falls.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== 1/3 packages"
deploy/install-deps.sh build
echo "== 2/3 build"
cmake --preset release -DSTAGECOACH_BUILD_TESTS=OFF -B build/quickstart > build-quickstart.log 2>&1 || { cat build-quickstart.log >&2; exit 1; }
rm -f build-quickstart.log
cmake --build build/quickstart -- --quiet
echo "== 3/3 train: a byte-level GPT of 16 blocks, cut into four stages"
stagecoach=build/quickstart/bin/stagecoach
$stagecoach plan examples/tiny.yaml --workers 4
$stagecoach train examples/tiny.yaml --workers 4

cat <<EOF

What next:
  $stagecoach train examples/tiny.yaml --workers 2          # another cut: the same bits, see the digests
  $stagecoach up --workers 4 -d                             # a cluster on this machine that stays, until: $stagecoach down
  $stagecoach submit examples/tiny.yaml --follow            # the same job there; Ctrl-C detaches
  $stagecoach plan examples/tiny.yaml --workers 8           # what each stage would hold, and the predicted bubble
  $stagecoach checkpoint digest /tmp/stagecoach/tiny        # the digest again, from the shards on disk
  cp examples/tiny.yaml mine.yaml                                   # then point data.train at your own text: docs/job_spec.md
EOF
