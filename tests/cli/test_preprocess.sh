#!/usr/bin/env bash
# bevatron preprocess: inputs of every kind, Megatron's flags, the same bytes for every number of workers, exit codes.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

null=(--tokenizer-type NullTokenizer --vocab-size 1000)
for i in $(seq 3000); do
    echo "{\"id\": $i, \"text\": \"$((i % 1000)) $((i * 7 % 1000))\", \"title\": [\"$((i % 10))\", \"\", \"5 5\"]}"
done >"$work/in.jsonl"

expect 0 "3000 documents, 9000 tokens (uint16)" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/one" \
    --append-eod --workers 1 "${null[@]}"
expect 0 '"documents":3000' "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/three" --append-eod \
    --workers 3 --json "${null[@]}"
expect_same "$work/one_text_document.bin" "$work/three_text_document.bin" "tokens for 1 and 3 workers"
expect_same "$work/one_text_document.idx" "$work/three_text_document.idx" "index for 1 and 3 workers"

# Standard input, several files, a pattern, compression: the same documents.
"$BEVATRON" preprocess --input - --output-prefix "$work/piped" --append-eod "${null[@]}" <"$work/in.jsonl" >"$work/out" 2>&1
expect_same "$work/one_text_document.bin" "$work/piped_text_document.bin" "tokens of standard input"
# A stream after a plain file is opened by the reader of that file; the bytes read to detect its kind are not lost.
head -n 1000 "$work/in.jsonl" >"$work/begin.jsonl"
for workers in 1 3; do
    tail -n +1001 "$work/in.jsonl" | "$BEVATRON" preprocess --input "$work/begin.jsonl" - --output-prefix "$work/behind$workers" \
        --append-eod --workers "$workers" "${null[@]}" >"$work/out" 2>&1
    expect_same "$work/one_text_document.bin" "$work/behind${workers}_text_document.bin" \
        "tokens of a file and standard input, $workers workers"
    expect_same "$work/one_text_document.idx" "$work/behind${workers}_text_document.idx" \
        "index of a file and standard input, $workers workers"
done
mkdir "$work/parts"
split -l 1000 "$work/in.jsonl" "$work/parts/p"
for codec in gzip:ZLIB zstd:ZSTD bzip2:BZIP2; do
    part=$(find "$work/parts" -name 'p??' | sort | head -n 1)
    if command -v "${codec%:*}" >/dev/null && "$BEVATRON" version | grep -q "${codec#*:} *yes"; then
        "${codec%:*}" -q "$part" && rm -f "$part"
    fi
done
expect 0 "3000 documents" "$BEVATRON" preprocess --input "$work/parts/p*" --output-prefix "$work/parts-out" --append-eod \
    --log-interval 1000 "${null[@]}"
grep -qE "^Processed [0-9]+ documents \([0-9.]+ docs/s, [0-9.]+ MB/s\)\. [0-9.]+[kMG]? tok/s(, ETA [0-9:]+)?$" "$work/out" && pass || fail "Megatron's progress line"
expect_same "$work/one_text_document.idx" "$work/parts-out_text_document.idx" "index of parts"
expect_same "$work/one_text_document.bin" "$work/parts-out_text_document.bin" "tokens of parts"

# A folder: every .jsonl below it in byte order, compressed or not; no hidden files, no other names.
mkdir -p "$work/tree/b/c" "$work/tree/.hidden"
mv "$work/parts" "$work/kept"
split -l 1000 --additional-suffix=.jsonl "$work/in.jsonl" "$work/tree/part"
mv "$work/tree/partab.jsonl" "$work/tree/b/c/y.ndjson"
mv "$work/tree/partac.jsonl" "$work/tree/c.json"
mv "$work/tree/partaa.jsonl" "$work/tree/a.jsonl"
echo "no JSON" | tee "$work/tree/README.md" "$work/tree/.hidden/a.jsonl" >"$work/tree/.b.jsonl"
ln -s .. "$work/tree/b/loop"
expect 0 "3000 documents" "$BEVATRON" preprocess --input "$work/tree" --output-prefix "$work/folder" --append-eod "${null[@]}"
expect_same "$work/one_text_document.bin" "$work/folder_text_document.bin" "tokens of a folder"
mv "$work/kept" "$work/parts"

# Sentences of a language: its ordinals and abbreviations do not end one.
echo '{"text": "Am 3. Oktober 1990 kamen z. B. Hunde. Sie blieben."}' >"$work/german.jsonl"
# sentences COUNT ARGUMENTS…
sentences() {
    "$BEVATRON" preprocess --input "$work/german.jsonl" --output-prefix "$work/german" --split-sentences --restart \
        --vocab-file tests/golden/bpe/vocab.json --merge-file tests/golden/bpe/merges.txt "${@:2}" >"$work/out" 2>&1 || fail "sentences: $*"
    "$BEVATRON" dataset inspect "$work/german_text_sentence" --json >"$work/out" 2>&1
    grep -qE "\"sequences\": *$1\b" "$work/out" && pass || fail "not $1 sentences: $*"
}
sentences 4
sentences 2 --lang german
sentences 2 --lang de
expect 2 "--lang klingon is not supported; choose one of english, czech" "$BEVATRON" preprocess \
    --input "$work/german.jsonl" --output-prefix "$work/x" --split-sentences --lang klingon "${null[@]}"
expect 2 "Thai, Lao, Khmer, Chinese and Japanese text needs no --lang" "$BEVATRON" preprocess --input "$work/german.jsonl" \
    --output-prefix "$work/x" --split-sentences --lang thai "${null[@]}"
# Without sentences the language has no effect, as in Megatron-LM.
expect 0 "warning: --lang has no effect without --split-sentences" "$BEVATRON" preprocess --input "$work/in.jsonl" \
    --output-prefix "$work/x" --lang klingon "${null[@]}"

# Several keys, arrays, and the other flags of Megatron's scripts.
expect 0 "without effect" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/keys" --json-keys text title \
    --partitions 2 --keep-sequential-samples --dataset-impl mmap --lang german --rank 1 "${null[@]}"
[ "$(stat -c %s "$work/keys_title_document.bin")" = 18000 ] && pass || fail "3 tokens of 2 bytes in 3000 titles"
expect_same "$work/keys_text_document.bin" <("$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/plain" \
    "${null[@]}" >"$work/out" 2>&1; cat "$work/plain_text_document.bin") "tokens of partitions and of one run"
expect 2 "of the kind mmap" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/x" --dataset-impl lazy "${null[@]}"
expect 2 "no best value" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/x" --find-optimal-num-workers "${null[@]}"

# Sentences: one sequence each, under another name.
expect 0 "_text_sentence" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/split" --split-sentences \
    --append-eod "${null[@]}"
expect_same "$work/one_text_document.bin" "$work/split_text_sentence.bin" "tokens of sentences"
expect 0 "no effect without --split-sentences" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/x" \
    --keep-newlines --restart "${null[@]}"
expect 2 "the dataset $work/x_text_document exists; give another --output-prefix, or replace it with --restart" "$BEVATRON" preprocess \
    --input "$work/in.jsonl" --output-prefix "$work/x" "${null[@]}"
rm -f "$work"/x*
expect 2 "unknown flag --append-eos; use --append-eod" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/x" --append-eos \
    "${null[@]}"
expect 2 "--output-prefix" "$BEVATRON" preprocess --input "$work/in.jsonl" "${null[@]}"
expect 0 "--skip-bad-lines" "$BEVATRON" preprocess --help

# Bad lines: an error with file, line and exit code 215, nothing left; or counted.
{ head -n 41 "$work/in.jsonl"; echo '{"text": '; tail -n +42 "$work/in.jsonl"; } >"$work/bad.jsonl"
expect 215 "bad.jsonl:42: not a valid JSON line" "$BEVATRON" preprocess --input "$work/bad.jsonl" --output-prefix "$work/x" \
    --workers 2 "${null[@]}"
expect 0 "1 bad lines skipped" "$BEVATRON" preprocess --input "$work/bad.jsonl" --output-prefix "$work/skip" --append-eod \
    --skip-bad-lines "${null[@]}"
expect_same "$work/one_text_document.bin" "$work/skip_text_document.bin" "tokens without the bad line"
expect 215 "no member \"txt\"" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/x" --json-keys txt "${null[@]}"
expect 215 "longer than 10 bytes" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/x" --max-line-bytes 10 \
    "${null[@]}"
: >"$work/empty.jsonl"
expect 215 "no documents" "$BEVATRON" preprocess --input "$work/empty.jsonl" --output-prefix "$work/x" "${null[@]}"
printf 'Once upon a time\nthere was plain text.\n' >"$work/plain.txt"
expect 215 "for plain text give --input-format text" "$BEVATRON" preprocess --input "$work/plain.txt" --output-prefix "$work/x" "${null[@]}"
expect 0 "new/folder/y" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/new/folder/y" "${null[@]}"
expect 1 "cannot create the folder" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/in.jsonl/x" "${null[@]}"
expect 1 "is a folder without" "$BEVATRON" preprocess --input "$work/parts" --output-prefix "$work/x" "${null[@]}"
[ -z "$(find "$work" -name 'x*' -o -name '*.tmp*')" ] && pass || fail "errors leave nothing behind"
finish
