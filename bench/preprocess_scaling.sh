#!/usr/bin/env bash
# How `bevatron preprocess` grows with the number of workers: makes its own corpus of plain JSON Lines in memory, trains
# a tokenizer on a part of it, and times 1, 2, 4, 8, … workers up to the number of processors. The output must be the
# same bytes every time. The last line says what the machine itself gives: as many processes as it has processors, with a
# worker each and nothing in common, beside one of them alone.
#   bench/preprocess_scaling.sh [BUILD_FOLDER]        (build/scaling by default; it is built where it is missing)
# SCALING_MEGABYTES is the size of the corpus (800), SCALING_ROUNDS how often each number is timed (3; the best counts),
# SCALING_FOLDER where files go (/dev/shm), SCALING_WORKERS the numbers to try. Needs a compiler, CMake and OpenBLAS only.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/scaling}
megabytes=${SCALING_MEGABYTES:-800}
rounds=${SCALING_ROUNDS:-3}
folder=$(mktemp -d "${SCALING_FOLDER:-/dev/shm}/bevatron-scaling.XXXXXX")
trap 'rm -rf "$folder"' EXIT

if [ ! -x "$build/bevatron" ] || [ ! -x "$build/make_stories" ]; then
    generator=()
    command -v ninja >/dev/null && generator=(-G Ninja)
    cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=OFF >"$folder/log" 2>&1 ||
        { cat "$folder/log"; exit 1; }
    cmake --build "$build" --parallel "$(nproc)" --target bevatron make_stories >"$folder/log" 2>&1 ||
        { tail -n 30 "$folder/log"; exit 1; }
fi
bevatron=$build/bevatron

echo "== corpus: $megabytes MB, $(nproc) processors, $(uname -m), load $(cut -d' ' -f1-3 /proc/loadavg)"
grep -m1 "model name" /proc/cpuinfo || true
# One part is made and repeated, so that making it does not take longer than what is measured.
part=$((megabytes < 100 ? megabytes : 100))
"$build/make_stories" --megabytes "$part" >"$folder/part.jsonl"
for _ in $(seq $((megabytes / part))); do cat "$folder/part.jsonl"; done >"$folder/corpus.jsonl"
head -c 20000000 "$folder/part.jsonl" | head -n -1 >"$folder/sample.jsonl"
"$bevatron" tokenizer train --input "$folder/sample.jsonl" --vocab-size 8000 --save "$folder/tokenizer" >"$folder/log" 2>&1 ||
    { cat "$folder/log"; exit 1; }

workers=${SCALING_WORKERS:-}
if [ -z "$workers" ]; then
    for ((n = 1; n < $(nproc); n *= 2)); do workers+=" $n"; done
    workers+=" $(nproc)"
fi

# seconds WORKERS: the wall-clock time of the best round; the checksum of the output goes to $folder/sum.
seconds() {
    local best= round line
    for ((round = 0; round < rounds; round++)); do
        line=$("$bevatron" preprocess --input "$folder/corpus.jsonl" --restart --output-prefix "$folder/out" --append-eod --json \
            --workers "$1" --vocab-file "$folder/tokenizer/vocab.json" --merge-file "$folder/tokenizer/merges.txt" \
            2>"$folder/log") || { cat "$folder/log" >&2; exit 1; }
        line=$(echo "$line" | sed -E 's/.*"peak_memory_bytes":([0-9]+).*"seconds":([0-9.e+-]+).*/\2 \1/')
        best=$(printf '%s\n%s\n' "$line" "$best" | grep . | sort -g | head -n 1)
        cat "$folder/out_text_document.bin" "$folder/out_text_document.idx" | sha256sum >"$folder/sum"
        rm -f "$folder"/out_text_document.*
    done
    echo "$best"
}

printf '%8s %10s %10s %8s %10s %10s\n' workers seconds MB/s times a_worker memory
first=
sum=
for n in $workers; do
    result=$(seconds "$n")
    now=$(cat "$folder/sum")
    [ -z "$sum" ] || [ "$sum" = "$now" ] || { echo "the output differs for $n workers"; exit 1; }
    sum=$now
    first=${first:-${result% *}}
    awk -v n="$n" -v s="${result% *}" -v m="${result#* }" -v first="$first" -v mb="$(stat -c %s "$folder/corpus.jsonl")" \
        'BEGIN { printf "%8d %10.3f %10.1f %8.2f %9.0f%% %7.0f MB\n", n, s, mb / 1e6 / s, first / s, 100 * first / s / n, m / 1e6 }'
done

# together N: the time in which N processes with one worker each tokenize a part each; the best round.
together() {
    local best= round i started now
    for ((round = 0; round < rounds; round++)); do
        started=$(date +%s.%N)
        for ((i = 0; i < $1; i++)); do
            "$bevatron" preprocess --input "$folder/two.jsonl" --restart --output-prefix "$folder/apart$i" --append-eod --workers 1 \
                --vocab-file "$folder/tokenizer/vocab.json" --merge-file "$folder/tokenizer/merges.txt" >"$folder/log$i" 2>&1 &
        done
        wait
        now=$(date +%s.%N)
        rm -f "$folder"/apart*
        best=$(awk -v a="$started" -v b="$now" -v best="$best" 'BEGIN { t = b - a; print best == "" || t < best ? t : best }')
    done
    echo "$best"
}

cat "$folder/part.jsonl" "$folder/part.jsonl" >"$folder/two.jsonl"
most=${workers##* }
alone=$(together 1)
all=$(together "$most")
awk -v n="$most" -v alone="$alone" -v all="$all" 'BEGIN { printf "%d processes of one worker each: %.2f times one process\n", n, n * alone / all }'
