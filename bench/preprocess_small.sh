#!/bin/bash
# preprocess with many small files: the same documents in FILES plain files and in as many .gz files, in turns, and the
# ratio of the two. BEFORE names another bevatron, measured in the same turns.
# usage: [FILES=2500] [ROUNDS=3] [WORKERS=2] [FOLDER=/tmp] [BEFORE=PROGRAM] bench/preprocess_small.sh
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bevatron=${BEVATRON:-build/release/bevatron}
files=${FILES:-2500}
work=$(mktemp -d "${FOLDER:-/tmp}/small.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/plain" "$work/gz"
awk -v files="$files" -v folder="$work/plain" 'BEGIN {
    for (i = 0; i < files; i++) {
        name = sprintf("%s/%05d.jsonl", folder, i)
        for (k = 0; k < 10; k++) printf "{\"text\": \"%d %d %d %d\"}\n", i % 900, k, (i * 7 + k) % 900, 31 * k >name
        close(name)
    }
}'
cp "$work"/plain/* "$work/gz"
gzip "$work"/gz/*

# seconds PROGRAM KIND: of one run over the folder.
seconds() {
    local start end
    start=$(date +%s%N)
    "$1" preprocess --input "$work/$2" --restart --output-prefix "$work/out-$2" --tokenizer-type NullTokenizer --vocab-size 1000 \
        --workers "${WORKERS:-2}" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    end=$(date +%s%N)
    awk -v a="$start" -v b="$end" 'BEGIN { printf "%.2f", (b - a) / 1e9 }'
}
for ((round = 1; round <= ${ROUNDS:-3}; round++)); do
    for program in "$bevatron" ${BEFORE:-}; do
        plain=$(seconds "$program" plain) gz=$(seconds "$program" gz)
        cmp "$work/out-plain_text_document.bin" "$work/out-gz_text_document.bin"
        awk -v program="$program" -v files="$files" -v plain="$plain" -v gz="$gz" \
            'BEGIN { printf "%s: %d files, plain %.2f s, .gz %.2f s, ratio %.2f\n", program, files, plain, gz, gz / plain }'
    done
done
