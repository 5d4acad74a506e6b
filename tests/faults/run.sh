#!/usr/bin/env bash
# run.sh FOLDER [ROW…]: injects every fault of the table in docs/reliability.md, or those of some rows, into runs of four
# ranks on this machine. Writes FOLDER/faults.csv, a line per case, puts these lines in the place of the rows in
# docs/reliability.csv, and writes the table of docs/reliability.md. All rows take about half an hour on two cores.
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
command -v mpirun >/dev/null || { echo "test-faults: no mpirun"; exit 77; }

header="row,case,result,noticed_s,back_s,exit_code,message,date"
echo "$header" >"$results"
run_to_end "${train[@]}" --save "$work/plain" --save-interval 3
[ "$code" = 0 ] || { echo "test-faults: the run without faults fails"; cat "$work/log"; exit 1; }
rows=("$@")
[ $# -gt 0 ] || mapfile -t rows < <(seq 1 27)
for row in "${rows[@]}"; do "row_$row"; done

awk -F, 'NR > 1 { count[$1]++ } END { for (row in count) n++; print "test-faults: " NR - 1 " cases in " n " rows; results in " FILENAME }' "$results"
touch docs/reliability.csv
{
    echo "$header"
    { awk -F, 'NR == FNR { is_new[$1] = 1; next } FNR > 1 && !is_new[$1]' "$results" docs/reliability.csv; tail -n +2 "$results"; } | sort -s -t, -k1,1n
} >"$folder/all.csv" && cp "$folder/all.csv" docs/reliability.csv
awk -v machine="$(nproc) cores of $(lscpu | sed -n 's/^Model name: *//p' | head -n 1)" -f tests/faults/table.awk docs/reliability.csv \
    docs/reliability.md >"$folder/page.md" && cp "$folder/page.md" docs/reliability.md
! grep -qE '^[0-9]+,"([^"]|"")*",fail,' "$results"
