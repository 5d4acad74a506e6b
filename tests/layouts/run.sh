#!/usr/bin/env bash
# run.sh LAYOUTS [all|sample] [FLAGS…]: trains on all legal layouts of up to eight ranks, or on a sample that has every
# pair of values that occur together, and compares each with one rank; LAYOUTS is the program of layouts.c. The flags,
# such as --bf16, are added to all runs. RANKS="2 4" and MODELS="gpt t5" narrow it down.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
layouts=$1
[ -x "$layouts" ] || { echo "run.sh: no program $layouts; build the target layouts"; exit 2; }
sample=
[ "${2:-all}" = sample ] && sample=sample
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$layouts" list >"$work/list" || exit 1
"$layouts" show "$work/list" >"$work/all"
if [ -n "$sample" ]; then grep sample "$work/all" >"$work/wanted"; else cp "$work/all" "$work/wanted"; fi
for ranks in ${RANKS:-1 2 3 4 5 6 7 8}; do
    for model in ${MODELS:-gpt llama bert t5}; do
        grep -q "^$model, $ranks ranks" "$work/wanted" || continue
        bash tests/parallel/mpirun.sh "$ranks" "$layouts" run "$work/list" "$model" $sample "${@:3}" \
            >"$work/out" 2>"$work/err" || echo "FAIL $model, $ranks ranks: the run ended early, or layouts differ" >>"$work/failures"
        grep -E "^(ok|FAIL|     )" "$work/out" | tee -a "$work/rows"
        # Where a rank died, what it said last.
        grep -q "layouts of $model on $ranks ranks" "$work/out" || grep -vE "^(---|MPI_ABORT|with errorcode|NOTE|You may|exactly|\[|$)" "$work/err" | head -n 8
    done
done
# One line per model and number of ranks: how many are right, and the largest differences.
awk -F'[|,:]' '/^(ok|FAIL)/ {
        is_right = /^ok/; split($0, parts, "|"); split(parts[2], numbers, /[ ,]+/)
        sub(/^(ok|FAIL) */, "", $1); key = $1 " on" $2; order[key] = order[key] ? order[key] : ++keys; name[order[key]] = key
        total[key]++; good[key] += is_right
        if (numbers[3] + 0 > loss[key] + 0) loss[key] = numbers[3]
        if (numbers[7] + 0 > weights[key] + 0) weights[key] = numbers[7]
        sum++; right += is_right
    } END {
        printf "%-18s %9s %14s %14s\n", "", "as on one", "largest loss", "largest weight"
        for (i = 1; i <= keys; i++) { k = name[i]; printf "%-18s %4d/%-4d %14s %14s\n", k, good[k], total[k], loss[k], weights[k] }
        printf "%d of %d layouts give what one rank gives\n", right, sum
    }' "$work/rows"
[ ! -f "$work/failures" ] || { cat "$work/failures"; exit 1; }
