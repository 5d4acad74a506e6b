#!/usr/bin/env bash
# page.sh [cpu|cuda RESULTS.csv]: puts the lines of run.sh in the place of their rows in docs/reliability.csv, or
# docs/reliability_gpu.csv for cuda, and writes the table of docs/reliability.md from both.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
set -eu
made=$(mktemp)
trap 'rm -f "$made"' EXIT
if [ $# -gt 0 ]; then
    table=docs/reliability.csv
    [ "$1" = cpu ] || table=docs/reliability_gpu.csv
    touch "$table"
    head -n 1 "$2" >"$made"
    { awk -F, 'NR == FNR { is_new[$1] = 1; next } FNR > 1 && !is_new[$1]' "$2" "$table"; tail -n +2 "$2"; } | sort -s -t, -k1,1n >>"$made"
    cp "$made" "$table"
fi
gpu=docs/reliability_gpu.csv
[ -e "$gpu" ] || gpu=/dev/null
awk -f tests/faults/table.awk kind=cpu docs/reliability.csv kind=gpu "$gpu" kind=page docs/reliability.md >"$made"
cp "$made" docs/reliability.md
