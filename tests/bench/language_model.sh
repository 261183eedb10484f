#!/usr/bin/env bash
# Trains a byte-level GPT for about ten minutes on two cores and compares it, on whole files held out, with an interpolated 4-gram
# model fitted on the same text. Prints both figures in nats per byte; fails when the GPT does not win.
# usage: tests/bench/language_model.sh [WORKERS]
set -euo pipefail
cd "$(dirname "$0")/../.."

workers=${1:-2}
stagecoach=build/release/bin/stagecoach
[ -x $stagecoach ] || { echo "build first: tests/run.sh, or cmake --preset release && cmake --build --preset release" >&2; exit 2; }
licences=/usr/share/common-licenses
log=$(mktemp)
trap 'rm -f "$log"' EXIT

ngram=$(python3 tests/bench/ngram_baseline.py --order 4 \
  --train $licences/GPL-[123] $licences/LGPL-2 $licences/LGPL-2.1 $licences/LGPL-3 $licences/GFDL-1.* $licences/MPL-* $licences/BSD \
  --validation $licences/Artistic $licences/Apache-2.0 $licences/CC0-1.0)
echo "4-gram: $ngram nats per byte"
$stagecoach train tests/bench/language_model.yaml --workers "$workers" -o jsonl > "$log"
python3 - "$log" "$ngram" <<'PY'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
steps = [e for e in events if "loss" in e]
validated = [(e["validation_loss"], e["step"]) for e in steps if e.get("validation_loss") is not None]
for loss, step in validated:
    print(f"step {step}: validation {loss:.4f}")
last, ngram = validated[-1][0], float(sys.argv[2])
seconds = sum(e["step_seconds"] for e in steps)
print(f"GPT: {last:.4f} nats per byte after {steps[-1]['step']} steps, {seconds:.0f} s (best {min(validated)[0]:.4f} at step {min(validated)[1]})")
print(f"4-gram: {ngram:.4f} nats per byte; GPT / 4-gram = {last / ngram:.3f}")
sys.exit(0 if last < ngram else 1)
PY
