#!/usr/bin/env bash
# What takes too long for every change: ThreadSanitizer, clang's thread-safety analysis, and the fuzzers (seconds each: first
# argument, default 60). Run before an issue is closed.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install-deps.sh more
export CTEST_OUTPUT_ON_FAILURE=1 CTEST_PARALLEL_LEVEL=$(nproc) OMP_WAIT_POLICY=passive

echo "== clang-thread-safety"
cmake --preset clang-thread-safety > /dev/null
cmake --build --preset clang-thread-safety -- --quiet

echo "== tsan"
cmake --preset tsan > /dev/null
cmake --build --preset tsan -- --quiet
# Not the tests that run libgomp threads, whose barriers ThreadSanitizer cannot see.
TSAN_OPTIONS=suppressions="$PWD/tests/tsan.supp" ctest --test-dir build/tsan --no-tests=error -E "OpenMp|TwoThreads"

echo "== fuzz"
cmake --preset fuzz > /dev/null
cmake --build --preset fuzz -- --quiet
for fuzzer in build/fuzz/bin/*_fuzzer; do
  name=$(basename "$fuzzer")
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  seeds=tests/fuzz/seeds/$name
  "$fuzzer" -max_total_time="${1:-60}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "$corpus" $([ -d "$seeds" ] && echo "$seeds") 2>&1 | tail -n 12
done
