#!/usr/bin/env bash
# Formatting and include edges: prints offenders and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

find common formats coordinator worker client tests \( -name '*.cc' -o -name '*.h' \) -print0 |
  sort -z | xargs -0 -r clang-format --dry-run -Werror
python3 tests/check_include_edges.py
