#!/usr/bin/env bash
# All tests: installs what they need, builds release and asan-ubsan, runs every test in both. See tests/run_more.sh for the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install-deps.sh test
jobs=$(nproc)
export CTEST_OUTPUT_ON_FAILURE=1 CTEST_PARALLEL_LEVEL=$jobs
# Waiting threads of one test must not spin on the cores of another.
export OMP_WAIT_POLICY=passive

echo "== style"
tests/check_style.sh
for preset in release asan-ubsan; do
  echo "== $preset"
  cmake --preset "$preset" > "build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; exit 1; }
  rm -f "build-$preset.log"
  cmake --build --preset "$preset" -- --quiet
  options=()
  # Under a sanitizer not: the same jobs with two threads a worker, the longest test; processes and peers that are measured by
  # the clock or by their memory; and manifests, images and shells, of which no sanitizer sees anything.
  if [ "$preset" != release ]; then
    export GTEST_FILTER="-*OpenMp/BitwiseLaw*:*EndsAWorkerThatDoesNotRead*"
    options=(-E "tests/faults/|tests/kubernetes/|tests/cli/completion_")
  fi
  ASAN_OPTIONS=detect_stack_use_after_return=1 LSAN_OPTIONS=suppressions="$PWD/tests/lsan.supp" \
    ctest --test-dir "build/$preset" --no-tests=error "${options[@]}"
done
