#!/usr/bin/env bash
# bevatron preprocess --partitions: the order of documents is Megatron's. The expected result is made the long way: awk
# deals the lines of all inputs in turn to files, each is a separate run, and their datasets are merged in order.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

has() { "$BEVATRON" version | grep -q "$1 *yes"; }
bpe=(--vocab-file tests/golden/bpe/vocab.json --merge-file tests/golden/bpe/merges.txt)

# 2,003 documents of 0 to 60 words, some of several sentences, under two keys, in three files. The last line has no end.
awk 'BEGIN { for (i = 0; i < 2003; i++) {
    n = i % 11 ? i * 7919 % 61 : 0
    printf "{\"id\": %d, \"title\": \"Document %d\", \"text\": \"", i, i * i
    for (j = 0; j < n; j++) printf "%sword%d%s", j ? " " : "", (i * 31 + j * 17) % 997, j % 9 == 8 ? ". The" : ""
    printf i < 2002 ? "\"}\n" : "\"}" } }' >"$work/all.jsonl"
mkdir "$work/in"
head -n 500 "$work/all.jsonl" >"$work/in/a.jsonl"
sed -n 501,501p "$work/all.jsonl" >"$work/in/b.jsonl"
tail -n +502 "$work/all.jsonl" >"$work/in/c.jsonl"
if has ZLIB && command -v gzip >/dev/null; then gzip -q "$work/in/a.jsonl"; fi

# expect_dealt PARTS LEVEL FLAGS…
expect_dealt() {
    local parts=$1 level=$2 part workers
    shift 2
    rm -rf "$work/deal" "$work"/out* "$work"/expected*
    mkdir "$work/deal"
    awk -v parts="$parts" -v folder="$work/deal" '{ print > folder "/" (NR - 1) % parts ".jsonl" }' "$work/all.jsonl"
    for ((part = 0; part < parts; part++)); do
        [ -e "$work/deal/$part.jsonl" ] || continue
        expect 0 "wrote" "$BEVATRON" preprocess --input "$work/deal/$part.jsonl" --output-prefix "$work/deal/$part" \
            --json-keys text title "$@" "${bpe[@]}"
    done
    for key in text title; do
        # shellcheck disable=SC2046  # the parts that exist are separate words
        expect 0 "" "$BEVATRON" dataset merge $(for ((part = 0; part < parts; part++)); do
            [ -e "$work/deal/$part.jsonl" ] && echo "$work/deal/${part}_${key}_$level"; done) \
            --output-prefix "$work/expected_${key}_$level"
    done
    for workers in 1 3; do
        expect 0 "2003 documents" "$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/out" --json-keys text title \
            --partitions "$parts" --workers "$workers" --chunk-bytes 3000 --restart "$@" "${bpe[@]}"
        for key in text title; do
            for file in bin idx; do
                expect_same "$work/expected_${key}_$level.$file" "$work/out_${key}_$level.$file" \
                    "$key.$file of $parts parts, $workers workers $*"
            done
        done
    done
}

expect_dealt 2 document --append-eod
expect_dealt 7 document
expect_dealt 3 sentence --split-sentences --append-eod
cp "$work/out_text_sentence.bin" "$work/dealt.bin"

# One part, and parts that keep the order, change nothing; a shuffle has its own order, and says so.
expect 0 "2003 documents" "$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/plain" "${bpe[@]}"
expect 0 "2003 documents" "$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/one" --partitions 1 "${bpe[@]}"
expect_same "$work/plain_text_document.bin" "$work/one_text_document.bin" "one part"
expect 0 "2003 documents" "$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/kept" --partitions 4 \
    --keep-sequential-samples "${bpe[@]}"
expect_same "$work/plain_text_document.bin" "$work/kept_text_document.bin" "parts that keep the order"
expect_same "$work/plain_text_document.idx" "$work/kept_text_document.idx" "parts that keep the order"
cmp -s "$work/plain_text_document.bin" "$work/dealt.bin" && fail "dealt documents are in the order of the input" || pass
expect 0 "no effect with --shuffle" "$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/mixed" --partitions 4 --shuffle \
    "${bpe[@]}"
expect 0 "" "$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/alone" --shuffle "${bpe[@]}"
expect_same "$work/alone_text_document.bin" "$work/mixed_text_document.bin" "a shuffle of parts"
# More parts than documents: each document is its own part.
expect 0 "2003 documents" "$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/many" --partitions 5000 "${bpe[@]}"
expect_same "$work/plain_text_document.idx" "$work/many_text_document.idx" "more parts than documents"
finish
