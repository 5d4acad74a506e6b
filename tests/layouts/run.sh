#!/usr/bin/env bash
# run.sh LAYOUTS [all|sample] [FLAGS…]: trains on all legal layouts of up to eight ranks, or on a sample that has every
# pair of values that occur together, and compares each with one rank; LAYOUTS is the program of layouts.c. The flags,
# e.g. --bf16, are added to all runs. RANKS="2 4" and MODELS="gpt t5" select some, SHARE=2/6 takes the second of every
# six layouts, DTYPE=bf16 or fp16 runs the fp32 layouts in that type. RESULTS names a file to which rows are appended as
# they come; layouts that already have rows in it are not run again, so a stopped call resumes where it was. LIMIT=600
# ends after that many seconds: layouts then come in a fixed mixed order, so that those that were run are of all kinds.
# CSV names a file for a table of all rows, REFERENCES a folder that keeps the results of one rank for other calls.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
layouts=$1
[ -x "$layouts" ] || { echo "run.sh: no program $layouts; build the target layouts"; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=${RESULTS:-$work/results}
limit=${LIMIT:-0} references=${REFERENCES:-$work}
touch "$results" || exit 2
# The list takes seconds and depends on the program only: it is kept beside it. The parts of a test begin together.
list=$layouts.list
if ! { flock 9 && { [ "$list" -nt "$layouts" ] || { "$layouts" list >"$list.new" && mv "$list.new" "$list"; }; }; } 9>"$list.lock"; then
    list=$work/list
    "$layouts" list >"$list" || exit 1
fi

# The selected rows of the list; its columns are number, ranks, whether in the sample, model, ….
awk -v sample="${2:-all}" -v share="${SHARE:-1/1}" -v models=" ${MODELS:-gpt llama bert t5 experts} " \
    -v sizes=" ${RANKS:-1 2 3 4 5 6 7 8} " -v dtype="${DTYPE:-}" '
    BEGIN { split(share, part, "/"); split("gpt llama bert t5 experts", names, " ") }
    dtype != "" { if ($NF > 0) next; $NF = dtype == "bf16" ? 1 : 2 }
    (sample != "sample" || $3) && index(sizes, " " $2 " ") && index(models, " " names[$4 + 1] " ") && ++rows % part[2] == part[1] % part[2]' \
    "$list" >"$work/wanted"
if [ "$limit" -gt 0 ]; then
    awk '{ print $1 * 7919 % 10007, $0 }' "$work/wanted" | sort -n | cut -d ' ' -f 2- >"$work/mixed" && mv "$work/mixed" "$work/wanted"
fi

# left RANKS: selected rows without a result, into $work/left.
left() {
    awk -v ranks="$1" 'FILENAME == ARGV[1] { if ($1 == "ok" || $1 == "FAIL") done[$2] = 1; next } $2 == ranks && !done[$1]' \
        "$results" "$work/wanted" >"$work/left"
    [ -s "$work/left" ]
}
for ranks in ${RANKS:-1 2 3 4 5 6 7 8}; do
    idle=0
    while left "$ranks" && [ "$limit" -eq 0 -o "$SECONDS" -lt "$limit" ]; do
        before=$(wc -l <"$results")
        timeout $((limit > 0 ? limit - SECONDS : 0)) bash tests/parallel/mpirun.sh "$ranks" "$layouts" run "$work/left" "$references" "${@:3}" 2>"$work/err" |
            grep --line-buffered -E "^(ok|FAIL|     )" | tee -a "$results"
        if [ "$(wc -l <"$results")" -gt "$before" ]; then idle=0; else idle=$((idle + 1)); fi
        left "$ranks" || break
        [ "$limit" -eq 0 -o "$SECONDS" -lt "$limit" ] || break
        # A rank died: print its last output; the layout it ran is the first without a row.
        { echo "FAIL $("$layouts" show "$work/left" | head -n 1): the run ended early"
          grep -vE "^(---|MPI_ABORT|with errorcode|NOTE|You may|exactly|\[|$)" "$work/err" | head -n 8 | sed 's/^/     /'; } | tee -a "$results"
        [ $idle -lt 2 ] || { echo "FAIL no layout of $ranks ranks can be run"; break; }
    done
done
# ok 7 gpt, 8 ranks: tensor 2, … | loss 1e-7, norm …, weights …, elements … | 1.20 s
if [ -n "${CSV:-}" ]; then
    { echo "result,number,layout,loss,norm,weights,elements,seconds"
      awk '$1 == "ok" || $1 == "FAIL" {
          split($0, part, " [|] "); layout = part[1]; sub(/^[a-zA-Z]+ +[0-9]+ /, "", layout); split(part[2], d, /[ ,]+/); split(part[3], t, " ")
          printf "%s,%s,\"%s\",%s,%s,%s,%s,%s\n", $1, $2, layout, d[2], d[4], d[6], d[8], t[1] }' "$results"; } >"$CSV"
fi
# One line per model and number of ranks: how many are right, and the largest differences in fp32.
awk -v limit="$limit" 'FILENAME == ARGV[1] { wanted[$1] = 1; all++; next }
    ($1 == "ok" || $1 == "FAIL") && wanted[$2] {
        key = $3 " " $4 " ranks" (/, bf16 /  ? ", bf16" : /, fp16 / ? ", fp16" : ""); if (!(key in total)) name[++keys] = key
        total[key]++; good[key] += $1 == "ok"; right += $1 == "ok"; run++
        for (i = 5; i < NF; i++) {
            value = $(i + 1); sub(/,$/, "", value)
            if (($i == "loss" || $i == "norm" || $i == "weights" || $i == "elements") && value + 0 > most[key $i] + 0) most[key $i] = value
        }
    } END {
        printf "%-22s %9s %10s %10s %10s %10s\n", "", "as on one", "loss", "norm", "weights", "elements"
        for (i = 1; i <= keys; i++) { k = name[i]; printf "%-22s %4d/%-4d %10s %10s %10s %10s\n", k, good[k], total[k], most[k "loss"], most[k "norm"], most[k "weights"], most[k "elements"] }
        printf "%d of %d layouts give what one rank gives", right, all
        print run < all ? "; " all - run " were not run" : ""
        exit right < (limit ? run : all) || run == 0
    }' "$work/wanted" "$results"
