#!/usr/bin/env bash
# Runs every fuzzer of a build folder: run_fuzzers.sh BUILD RUNS.  Seeds are the files of tests/fuzz/seeds/NAME.
set -euo pipefail
build=$1
runs=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

found=0
for fuzzer in "$build"/tests/fuzz/*_fuzzer; do
  [ -x "$fuzzer" ] || continue
  found=1
  name=$(basename "$fuzzer")
  corpus=$(mktemp -d)
  seeds=()
  [ -d "$here/seeds/$name" ] && seeds=("$here/seeds/$name")
  echo "$name: $runs runs"
  "$fuzzer" -runs="$runs" -seed=1 -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="$build/$name-" "$corpus" "${seeds[@]}"
  rm -r "$corpus"
done
if [ "$found" = 0 ]; then
  echo "run_fuzzers.sh: no fuzzer in $build/tests/fuzz" >&2
  exit 1
fi
