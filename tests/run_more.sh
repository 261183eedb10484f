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
# Where threads meet. Not everything: the packaged protobuf has another layout of map fields than code compiled for
# ThreadSanitizer, and libgomp's barriers (the OpenMp cases) cannot be seen by it.
threaded=(coordinator worker_agent worker_executor worker_transport_ucx transport_conformance integration)
cmake --preset tsan > /dev/null
targets=("${threaded[@]/#/stagecoach_}")
cmake --build --preset tsan --target "${targets[@]/%/_test}" -- --quiet
# UCX's watch over memory runs in threads of which ThreadSanitizer has already let go.
for name in "${threaded[@]}"; do
  UCX_MEM_EVENTS=no TSAN_OPTIONS=suppressions="$PWD/tests/tsan.supp" "build/tsan/tests/stagecoach_${name}_test" --gtest_brief=1 --gtest_filter='-*OpenMp*'
done

echo "== fuzz"
cmake --preset fuzz > /dev/null
cmake --build --preset fuzz --target spec_fuzzer safetensors_fuzzer checkpoint_manifest_fuzzer worker_message_fuzzer \
  client_request_fuzzer csv_fuzzer program_text_fuzzer -- --quiet
for fuzzer in build/fuzz/bin/*_fuzzer; do
  name=$(basename "$fuzzer")
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  seeds=tests/fuzz/seeds/$name
  "$fuzzer" -max_total_time="${1:-60}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "$corpus" $([ -d "$seeds" ] && echo "$seeds") 2>&1 | tail -n 12
done
