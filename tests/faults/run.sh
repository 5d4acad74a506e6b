#!/usr/bin/env bash
# run.sh FOLDER [ROW…]: injects every fault of the table in docs/reliability.md, or those of some rows, into runs of four
# ranks on this machine. Writes FOLDER/faults.csv, a line per case, puts these lines in the place of the rows in
# docs/reliability.csv, and writes the table of docs/reliability.md (page.sh). All rows take about half an hour on two cores.
#
#   FAULTS_DEVICE=cuda BEVATRON=build/gpu/bevatron tests/faults/run.sh FOLDER [ROW…]
#
# runs the rows that touch the device (rows_gpu.sh) on ranks that share one GPU, FAULTS_JOBS rows at a time (by
# default the cores divided by the ranks), and writes docs/reliability_gpu.csv. FAULTS_DEVICE=rehearse runs the same on CPUs and leaves the documents alone.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
folder=${1:?folder for the results}
shift
BEVATRON=${BEVATRON:-build/release/bevatron}
BEVATRON=$(realpath "$BEVATRON")
mkdir -p "$folder" || exit 1
results=$folder/faults.csv
. tests/faults/common.sh || exit
. tests/faults/rows_processes.sh || exit
. tests/faults/rows_files.sh || exit
. tests/faults/rows_numbers.sh || exit
. tests/faults/rows_system.sh || exit
. tests/faults/rows_gpu.sh || exit
command -v mpirun >/dev/null || { echo "test-faults: no mpirun"; exit 77; }

echo "row,case,result,noticed_s,back_s,exit_code,message,date,machine" >"$results"
run_to_end "${train[@]}" --save "$work/plain" --save-interval 3
[ "$code" = 0 ] || { echo "test-faults: the run without faults fails"; cat "$work/log"; exit 1; }
rows=("$@") kind=row jobs=${FAULTS_JOBS:-1}
[ $# -gt 0 ] || mapfile -t rows < <(seq 1 27)
if [ "$device" != cpu ]; then
    kind=gpu_row jobs=${FAULTS_JOBS:-$(($(nproc) / ranks))}
    # The longest first.
    [ $# -gt 0 ] || rows=(27 14 3 1 25 9 13 5 2 7 $(seq 1 27 | grep -vxE '27|14|3|1|25|9|13|5|2|7'))
fi

# alone ROW: a row with folders and results of its own, beside others.
alone() {
    local all=$results plain=$work/plain
    work=$(mktemp -d) results=$(mktemp)
    export TMPDIR=$work
    cp -r "$plain" "$work/plain"
    "${kind}_$1"
    flock "$all" cat "$results" >>"$all"
    rm -rf "$work" "$results"
}
if [ "$jobs" -gt 1 ]; then
    for row in "${rows[@]}"; do
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
        alone "$row" &
    done
    wait
else
    for row in "${rows[@]}"; do "${kind}_$row"; done
fi
awk -F, 'NR > 1 { count[$1]++ } END { for (row in count) n++; print "test-faults: " NR - 1 " cases in " n " rows; results in " FILENAME }' "$results"
[ "$device" = rehearse ] || bash tests/faults/page.sh "$device" "$results" || exit
! grep -qE '^[0-9]+,"([^"]|"")*",fail,' "$results"
