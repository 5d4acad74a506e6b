#!/usr/bin/env bash
# train on text: a file, a folder or a pattern as --data-path is tokenized into a cache, which is used again, rebuilt when
# the text has changed, and never taken if it is damaged or unfinished. What the flags leave open is chosen and named.
# Terminals, kills and runs beside each other: test_text_cache.sh.
# cost: 3
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/cli/text.sh || exit

# Without a tokenizer the error says how to get one.
expect 2 "books.jsonl is text, but no tokenizer is given; add --tokenizer-type auto --vocab-size 32000" "${train[@]}" --data-path "$text"
expect 2 "books.jsonl is text, but no tokenizer is given; add --tokenizer-type auto" "${train[@]}" --data-path "$text" --vocab-size 300

# Data that does not exist is named, with and without a tokenizer.
mkdir "$work/cut"
touch "$work/cut/half.bin" "$work/cut/other.idx"
for tokenizer in "" "${own[*]}" "--tokenizer-type NullTokenizer --vocab-size 300"; do
    # shellcheck disable=SC2086  # words
    missing() { expect 1 "$1" "${train[@]}" $tokenizer --data-path "${@:2}"; }
    missing "$work/books.jsonl does not exist; check the path" "$work/books.jsonl"
    missing "$work/gone.txt.zst does not exist; check the path" "$work/gone.txt.zst"
    missing "the folder $work/boks/ does not exist; check the path" "$work/boks/"
    missing "no file matches $work/data/*.txt; check the path" "$work/data/*.txt"
    missing "cannot open dataset $work/boks: $work/boks.idx does not exist; check the path" "$work/boks"
    missing "cannot open dataset $work/cut/half: $work/cut/half.idx does not exist, but $work/cut/half.bin does" "$work/cut/half"
    missing "cannot open dataset $work/cut/other: $work/cut/other.bin does not exist, but $work/cut/other.idx does" "$work/cut/other"
    missing "dataset import --nanogpt $work/cut/half.bin --output-prefix $work/cut/half_document" "$work/cut/half.bin"
    missing "$work/gone.jsonl does not exist; check the path" 0.5 "$text" 0.5 "$work/gone.jsonl"
done
[ -d "$cache" ] && fail "text was tokenized before the names were checked" || pass

# Several texts without weights: an evaluation of more samples than they have repeats them, and a run that is longer
# than the texts is told so when it starts.
mkdir "$work/several"
words 1 60 | as_json >"$work/several/a.jsonl"
words 3 60 | as_json >"$work/several/b.jsonl"
several=("$BEVATRON" train "${size[@]}" --micro-batch-size 2 --lr 1e-3 --split 80,10,10 "${own[@]}" --data-path "$work/several/a.jsonl" "$work/several/b.jsonl")
expect 0 "validation loss at iteration 2 on test set" "${several[@]}" --train-iters 2 --eval-iters 100
grep -q "samples, but the" "$work/out" && fail "a short run is said to be too long" || pass
expect 1 "is exhausted" "${several[@]}" --train-iters 1000 --eval-iters 1 --log-interval 1000
grep -Eq "warning: the run needs 2000 samples, but the train split of a blend of 2 datasets has [0-9]+: it will stop with an error there; give the datasets" "$work/out" &&
    pass || fail "not told at the start"

# The first run tokenizes; the dataset is what tokenizer train and preprocess make.
expect 0 "tokenized $text: 400 documents" "${train[@]}" --data-path "$text" "${own[@]}"
losses "$work/out" >"$work/first"
[ -s "$work/first" ] && pass || fail "no losses"
"$BEVATRON" tokenizer train --input "$text" --vocab-size 300 --save "$work/tok" >"$work/out" 2>&1
expect_same "$work/tok/vocab.json" "$(echo "$cache"/tokenizer-*/vocab.json)" "the vocabulary"
"$BEVATRON" preprocess --input "$text" --output-prefix "$work/pre" --append-eod --vocab-file "$work/tok/vocab.json" \
    --merge-file "$work/tok/merges.txt" >"$work/out" 2>&1
expect_same "$work/pre_text_document.bin" "$(echo "$cache"/books*/data_text_document.bin)" "the tokens"
expect_same "$work/pre_text_document.idx" "$(echo "$cache"/books*/data_text_document.idx)" "the index"
# A dataset of another tokenizer, or without the token that ends documents, is noticed; its own is not.
"$BEVATRON" tokenizer train --input "$text" --vocab-size 310 --save "$work/larger" >/dev/null 2>&1
larger=(--vocab-file "$work/larger/vocab.json" --merge-file "$work/larger/merges.txt")
"$BEVATRON" preprocess --input "$text" --output-prefix "$work/larger/eod" --append-eod "${larger[@]}" >/dev/null 2>&1
expect 0 "; it was written without --append-eod, or with another tokenizer" "${train[@]}" --data-path "$work/pre_text_document" \
    "${larger[@]}" --make-vocab-size-divisible-by 1 --allow-changed-data
expect 0 "warning: none of 16 documents of $work/pre_text_document ends with" "${train[@]}" --data-path "$work/pre_text_document" "${larger[@]}" --allow-changed-data \
    --reset-attention-mask --make-vocab-size-divisible-by 1
expect 0 "iteration        2/" "${train[@]}" --data-path "$work/larger/eod_text_document" "${larger[@]}" --reset-attention-mask
grep -q "end-of-document" "$work/out" && fail "a warning about a dataset that has the token" || pass

# again WHAT: a run that tokenizes nothing and trains the same.
again() {
    shift
    expect 0 "iteration        2/" "$@"
    grep -q "tokenized\|training a tokenizer" "$work/out" && fail "$1: made again" || pass
    losses "$work/out" >"$work/losses"
    expect_same "$work/first" "$work/losses" "losses"
}
again "a second run" "${train[@]}" --data-path "$text" "${own[@]}"
touch "$text"
again "a file that was touched" "${train[@]}" --data-path "$text" "${own[@]}"
cp "$text" "$work/data/copy.jsonl"
mv "$text" "$work/data/novels.jsonl"
again "a text that was renamed" "${train[@]}" --data-path "$work/data/novels.jsonl" "${own[@]}"
[ "$(datasets)" = 1 ] && pass || fail "$(datasets) datasets after a rename"
mv "$work/data/novels.jsonl" "$text"
again "the given tokenizer" "${train[@]}" --data-path "$text" --vocab-file "$cache"/tokenizer-*/vocab.json \
    --merge-file "$cache"/tokenizer-*/merges.txt

# A changed letter, with the size and the time as they were.
touch -r "$text" "$work/stamp"
sed -i '7s/cat/cow/' "$text"
touch -r "$work/stamp" "$text"
expect 0 "tokenized $text" "${train[@]}" --data-path "$text" --vocab-file "$work/tok/vocab.json" --merge-file "$work/tok/merges.txt"
[ "$(datasets)" = 2 ] && pass || fail "$(datasets) datasets instead of 2"
cp "$work/data/copy.jsonl" "$text"
# A damaged dataset is noticed and made again, to the byte.
bin=$(find "$cache" -path '*books*' -name '*.bin' | while read -r file; do cmp -s "$file" "$work/pre_text_document.bin" && echo "$file"; done)
printf 'X' | dd of="$bin" bs=1 seek=33 conv=notrunc 2>/dev/null
expect 0 "was changed or damaged since it was written; rebuilding it" "${train[@]}" --data-path "$text" "${own[@]}"
expect_same "$work/pre_text_document.bin" "$bin" "the tokens after damage"
# So is what a killed builder has left: no manifest, half a file.
rm "$(dirname "$bin")/manifest.json"
truncate -s 20 "$bin"
touch "$(dirname "$bin").lock"
expect 0 "tokenized $text" "${train[@]}" --data-path "$text" "${own[@]}"
expect_same "$work/pre_text_document.bin" "$bin" "the tokens after a kill"

# Other forms of text: plain, in a folder, compressed, several with weights.
mkdir "$work/folder" "$work/folder/more"
words 3 90 >"$work/folder/a.txt"
words 4 80 | as_json | gzip -c >"$work/folder/more/b.jsonl.gz"
words 5 70 >"$work/plain.txt"
given=(--vocab-file "$work/tok/vocab.json" --merge-file "$work/tok/merges.txt")
expect 0 "tokenized $work/folder: 84 documents" "${train[@]}" --data-path "$work/folder" "${given[@]}"
[ -d "$work/folder/.bevatron-cache" ] && pass || fail "no cache in the folder"
expect 0 "iteration        2/" "${train[@]}" --data-path 0.3 "$work/plain.txt" 0.7 "$work/folder" "${given[@]}" \
    --data-cache-path "$work/elsewhere"
[ "$(find "$work/elsewhere" -name data_text_document.bin | wc -l)" = 2 ] && pass || fail "no two datasets in --data-cache-path"
expect 0 "tokenized $work/folder/*.txt: 4 documents" "${train[@]}" --data-path "$work/folder/*.txt" "${given[@]}"
expect 0 "iteration        2/" "${train[@]}" --train-data-path "$text" --valid-data-path "$work/plain.txt" "${given[@]}"
printf 'bad \xff byte\n' >>"$work/plain.txt"
expect 0 "1 lines that are not UTF-8; such bytes were replaced" "${train[@]}" --data-path "$work/plain.txt" "${given[@]}"

# A folder that cannot be written (a file is in the way) gets the user's own cache.
mkdir "$work/locked"
cp "$work/data/copy.jsonl" "$work/locked/t.jsonl"
touch "$work/locked/.bevatron-cache"
expect 0 "kept in $work/home/bevatron/text/" env XDG_CACHE_HOME="$work/home" "${train[@]}" --data-path "$work/locked/t.jsonl" "${own[@]}"
expect 1 "give a writable folder with --data-cache-path" "${train[@]}" --data-path "$work/locked/t.jsonl" "${own[@]}" --data-cache-path "$work/stamp"
# A file size limit stands in for a full disk.
(ulimit -f 2; trap '' XFSZ; exec "${train[@]}" --data-path "$text" "${given[@]}" --data-cache-path "$work/full") 2>&1 | cat >"$work/out"
[ "${PIPESTATUS[0]}" = 1 ] && grep -q "cannot write the cache in $work/full/books.jsonl-.*--data-cache-path chooses another folder" "$work/out" &&
    pass || fail "a full disk"
expect 0 "iteration        2/" "${train[@]}" --data-path "$text" "${given[@]}" --data-cache-path "$work/full"

# What is not text, and text that is damaged, is refused by name.
printf 'PAR1....' >"$work/t.parquet"
expect 215 "t.parquet: Parquet data is damaged at byte 8: it ends before its footer; copy or download the file again" "${train[@]}" --data-path "$work/t.parquet" "${given[@]}"
mkdir "$work/lake"
cp "$work/t.parquet" "$work/lake/0.parquet"
expect 215 "0.parquet: Parquet data is damaged" "${train[@]}" --data-path "$work/lake" "${given[@]}"
mkdir "$work/none"
expect 1 "$work/none is a folder without .jsonl" "${train[@]}" --data-path "$work/none" "${given[@]}"
{ words 1 3 | as_json; echo '{"text": 3}'; } >"$work/bad.jsonl"
expect 215 "bad.jsonl:4: " "${train[@]}" --data-path "$work/bad.jsonl" "${given[@]}"
grep -q "(--skip-bad-lines is a flag of .bevatron preprocess.; give the dataset that it writes as --data-path)" "$work/out" && pass || fail "whose flags are named"
echo '{"content": "a"}' >"$work/content.jsonl"
expect 215 "content.jsonl:1: the object has no member \"text\", only \"content\"; name the member that holds the text with --json-keys" \
    "${train[@]}" --data-path "$work/content.jsonl" "${own[@]}"
grep -q "flag of .bevatron" "$work/out" && fail "whose flags are named, where there are none" || pass
# Another member: the run is that of the same text under "text", and each member has its own dataset and tokenizer.
words 1 300 | as_json | sed 's/{"text": \(.*\)}$/{"text": "other words", "content": \1}/' >"$work/two.jsonl"
words 1 300 | as_json >"$work/one.jsonl"
expect 0 "iteration        2/" "${train[@]}" --data-path "$work/one.jsonl" "${own[@]}"
losses "$work/out" >"$work/under_text"
[ -s "$work/under_text" ] && pass || fail "no losses"
expect 0 "iteration        2/" "${train[@]}" --data-path "$work/two.jsonl" --json-keys content "${own[@]}" --save "$work/keyed"
losses "$work/out" >"$work/under_content"
expect_same "$work/under_content" "$work/under_text" "losses of --json-keys content"
expect 0 "tokenized $work/two.jsonl" "${train[@]}" --data-path "$work/two.jsonl" "${own[@]}"
losses "$work/out" | cmp -s - "$work/under_text" && fail "--json-keys is no part of the cache's key" || pass
[ "$(find "$work/.bevatron-cache" -name 'data_*_document.bin' -path '*two.jsonl*' | wc -l)" = 2 ] && pass || fail "no dataset for each member"
expect 0 " | samples " "$BEVATRON" evaluate --load "$work/keyed" --data-path "$work/two.jsonl" --json-keys content
expect 0 "texts 2 |" "$BEVATRON" evaluate --load "$work/keyed" --cloze "$work/two.jsonl" --json-keys content --max-samples 2
expect 215 "no text in the member \"title\"" "$BEVATRON" evaluate --load "$work/keyed" --cloze "$work/two.jsonl" --json-keys title
expect 0 "note: --json-keys has no effect" "${train[@]}" --data-path "$work/pre_text_document" --json-keys content "${given[@]}"
expect 1 "nothing.idx does not exist" "${train[@]}" --data-path "$work/nothing" "${given[@]}"
expect 2 "the data is tokenized already" "${train[@]}" --data-path "$work/pre_text_document" "${own[@]}"

# What is left open is chosen and named; flags that are given stay.
expect 0 "chosen for this run:" "$BEVATRON" train "${size[@]}" --data-path "$text" "${own[@]}" --save "$work/run" --exit-interval 3
grep -q "chosen for this run:.* --micro-batch-size [0-9]* --global-batch-size [0-9]* --lr 0.001 .*--train-iters [0-9]* --log-interval 10" "$work/out" ||
    grep -q "chosen for this run:.* --micro-batch-size [0-9]* --global-batch-size [0-9]* --lr 0.001 .*--train-iters [0-9]*" "$work/out" && pass || fail "the line of choices"
iterations=$(grep -o "iteration        1/ *[0-9]*" "$work/out" | grep -o "[0-9]*$")
# A resumed run takes them, and the tokenizer, from its checkpoint. A text that has grown is not the data it was trained on.
words 9 300 | as_json >>"$text"
resumed=("$BEVATRON" train "${size[@]}" --data-path "$text" "${own[@]}" --save "$work/run" --load "$work/run" --exit-interval 6)
expect 215 "the dataset $text has changed since" "${resumed[@]}"
expect 0 "as in the checkpoint:" "${resumed[@]}" --allow-changed-data
grep -q "iteration        4/ *$iterations " "$work/out" && pass || fail "another length than $iterations"
grep -q "training a tokenizer" "$work/out" && fail "another tokenizer" || pass
expect 0 "tokens; --vocab-size 600 has no effect" "${resumed[@]}" --allow-changed-data --vocab-size 600 --exit-interval 8
[ "$(grep -c " 600$" "$work/out")" = 0 ] && pass || fail "a vocabulary of 600 is told, and there is none"
expect 0 "loss " "$BEVATRON" evaluate --load "$work/run" --data-path "$work/plain.txt"
expect 0 "the" "$BEVATRON" generate --load "$work/run" --prompt "the" --max-new-tokens 2
expect 0 "chosen for this run: --lr 0.001 --min-lr 0.0001 --lr-decay-style cosine --lr-warmup-fraction 0.02;" \
    "$BEVATRON" train "${size[@]}" --data-path "$text" "${given[@]}" --micro-batch-size 3 --train-iters 1 --eval-iters 0
grep -q "training in fp32" "$work/out" && pass || fail "--micro-batch-size without --bf16 is not fp32"
expect 0 "training in fp32" "$BEVATRON" train "${size[@]}" --data-path "$text" "${given[@]}" --bf16=false --train-iters 1 --eval-iters 0
expect 0 "and a run would choose it" "$BEVATRON" train "${size[@]}" --data-path "$text" "${own[@]}" --dry-run
expect 0 "books.jsonl: text, which train tokenizes first" "$BEVATRON" preflight "${size[@]}" "${short[@]}" --data-path "$text" "${given[@]}"
expect 0 "sbatch" "$BEVATRON" launch slurm --dry-run train "${size[@]}" --data-path "$text" "${own[@]}"
# The example.
expect 0 "iteration        1/" "$BEVATRON" train --config examples/text/cpu.yaml "${size[@]}" --data-path "$text" --exit-interval 1
finish
