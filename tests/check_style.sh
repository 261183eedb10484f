#!/usr/bin/env bash
# Formatting, include edges, and what is too long. Prints offenders; fails on formatting, edges, and functions over 60 lines.
set -euo pipefail
cd "$(dirname "$0")/.."

find common formats coordinator worker client tests \( -name '*.cc' -o -name '*.h' \) -print0 |
  sort -z | xargs -0 -r clang-format --dry-run -Werror
python3 tests/check_include_edges.py
