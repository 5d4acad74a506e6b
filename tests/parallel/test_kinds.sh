#!/usr/bin/env bash
# One layout of each kind of parallelism on two ranks, each with another model: 20 steps give the losses, norms and
# weights of one rank. test_layouts.sh has every pair of kinds, `make test-layouts` all layouts.
# cost: 5
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
layouts=$(dirname "${BEVATRON:?the program under test}")/tests/layouts
[ -x "$layouts" ] || { echo "skipped: built without MPI"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Rows of `layouts list`, see tests/layouts/layouts.h: number, ranks, in the sample, then a value per axis: model, tensor,
# context, pipeline, data, expert, slices, sequence, schedule, optimizer, recompute, stages, batch, overlap, method, saved,
# heads, dtype.
while read -r what row; do
    printf '%s\n' "$row" >>"$work/list"
    printf '%s\n' "$what" >>"$work/kinds"
done <<'END'
data                  1 2 1  2 1 1 1 2 1 1 0 0 0 0 0 1 0 0 0 0 0
distributed_optimizer 2 2 1  0 1 1 1 2 1 1 0 0 1 0 0 1 2 0 0 0 0
tensor_sequence       3 2 1  3 2 1 1 1 1 2 1 0 0 0 0 0 0 0 0 0 0
pipeline              4 2 1  0 1 1 2 1 1 1 0 0 0 0 0 1 0 0 0 0 0
context               5 2 1  1 1 2 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0
expert                6 2 1  4 1 1 1 2 2 1 0 0 0 0 0 0 0 0 0 0 0
END
bash tests/parallel/mpirun.sh 2 "$layouts" run "$work/list" "$work" >"$work/out" 2>&1
code=$?
grep -E "^(ok|FAIL|     )" "$work/out"
right=$(grep -c "^ok " "$work/out")
all=$(wc -l <"$work/kinds")
echo "$right of $all kinds of parallelism give what one rank gives"
[ "$code" = 0 ] && [ "$right" = "$all" ] && exit
tail -n 25 "$work/out"
exit 1
