#!/usr/bin/env bash
# A run does not resume on other data than it was trained on: datasets that were lengthened or replaced by others of the
# same size, another vocabulary. Moved data, new flags and --allow-changed-data are fine. And no dataset is used with
# another tokenizer than the one that made it.
# cost: 6
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

# make_texts FILE SEED LINES: numbers as words, so that texts of any seed have as many tokens.
make_texts() { awk -v seed="$2" -v lines="$3" 'BEGIN { srand(seed); for (i = 0; i < lines; i++) { s = ""; for (k = 0; k < 30; k++) s = s " " int(rand() * 90); print "{\"text\": \"" s "\"}" } }' >"$1"; }
tokenize() { "$BEVATRON" preprocess --input "$1" --output-prefix "$2" --tokenizer-type NullTokenizer --vocab-size 97 --append-eod --workers 1 >"$work/out" 2>&1 || fail "preprocess $1"; }
make_texts "$work/a.jsonl" 1 60
make_texts "$work/b.jsonl" 2 60
make_texts "$work/longer.jsonl" 1 61
for name in a b longer; do tokenize "$work/$name.jsonl" "$work/$name"; done
cmp -s "$work/a_text_document.bin" "$work/b_text_document.bin" && fail "the datasets are the same" || pass
[ "$(stat -c %s "$work/a_text_document.bin")" = "$(stat -c %s "$work/b_text_document.bin")" ] && pass || fail "the datasets differ in size"
put() { cp "$work/$1_text_document.bin" "$work/d_text_document.bin" && cp "$work/$1_text_document.idx" "$work/d_text_document.idx"; }

train=("$BEVATRON" train --tokenizer-type NullTokenizer --vocab-size 97 --num-layers 1 --hidden-size 16 --num-attention-heads 2
    --seq-length 16 --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --lr-decay-iters 50 --log-interval 1 --eval-iters 0 --split 100,0,0
    --device cpu --threads 1 --save-interval 2 --data-cache-path "$work/cache")
run=(--load "$work/run" --save "$work/run" --data-path "$work/d_text_document")
put a
expect 0 "successfully saved checkpoint from iteration       4" "${train[@]}" "${run[@]}" --train-iters 4
[ -f "$work/run/iter_0000004/data_identity.json" ] && pass || fail "the checkpoint does not say what it was trained on"
# A model that is made of it has a tokenizer or none, but not this.
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/exported"
grep -l datasets "$work/exported"/*.json && fail "the model says what it was trained on" || pass
put b
expect 215 "the dataset $work/d_text_document has changed since $work/run/iter_0000004 was saved: .bin has the same size and other content; put the old one back, or resume with --allow-changed-data" \
    "${train[@]}" "${run[@]}" --train-iters 6
put longer
expect 215 "bytes and had" "${train[@]}" "${run[@]}" --train-iters 6
[ "$(cat "$work/run/latest_checkpointed_iteration.txt")" = 4 ] && pass || fail "the refused run saved something"
expect 0 "resuming anyway (--allow-changed-data)" "${train[@]}" "${run[@]}" --train-iters 6 --allow-changed-data
# From now on this is the run's data.
expect 0 "iteration        8/       8" "${train[@]}" "${run[@]}" --train-iters 8
put a
expect 215 "bytes and had" "${train[@]}" "${run[@]}" --train-iters 10
# All bytes: the hash is kept, and compared.
put longer
expect 0 "iteration        9/       9" "${train[@]}" "${run[@]}" --train-iters 9 --check-data full
grep -q '"whole"' "$work/run/iter_0000009/data_identity.json" && pass || fail "no hash of all bytes was saved"
expect 0 "iteration       10/      10" "${train[@]}" "${run[@]}" --train-iters 10 --check-data full
put a
expect 215 "bytes and had" "${train[@]}" "${run[@]}" --train-iters 11 --check-data full
# The weights may begin another run, and flags may name other data.
expect 0 "iteration        2/       2" "${train[@]}" --finetune --load "$work/run" --save "$work/tuned" --data-path "$work/d_text_document" --train-iters 2
expect 0 "iteration       11/      11" "${train[@]}" --load "$work/run" --save "$work/run" --data-path "$work/b_text_document" --train-iters 11

# Two tokens that have changed places in the vocabulary.
vocab() { awk -v a="$1" -v b="$2" 'BEGIN { for (i = 0; i < 40; i++) { k = i == a ? b : i == b ? a : i; print (k == 0 ? "[PAD]" : k == 1 ? "[UNK]" : k == 2 ? "[CLS]" : k == 3 ? "[SEP]" : k == 4 ? "[MASK]" : "w" k) } }' >"$work/vocab.txt"; }
vocab 0 0
bert=("$BEVATRON" train --model bert --mock-data --tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt" --num-layers 1 --hidden-size 16
    --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 --global-batch-size 1 --lr 1e-3 --lr-decay-iters 50 --log-interval 1 --eval-iters 0
    --device cpu --threads 1 --save-interval 2 --load "$work/bert" --save "$work/bert")
expect 0 "iteration        2/       2" "${bert[@]}" --train-iters 2
expect 0 "iteration        3/       3" "${bert[@]}" --train-iters 3
vocab 7 9
expect 215 "the tokenizer has changed since $work/bert/iter_0000003 was saved" "${bert[@]}" --train-iters 4
expect 0 "resuming anyway" "${bert[@]}" --train-iters 4 --allow-changed-data

# A dataset says which tokenizer made it. Another one is refused before anything is trained or evaluated, also of the
# same size; the same one in other files and with more tokens is fine.
bpe=(--vocab-file tests/golden/bpe/vocab.json --merge-file tests/golden/bpe/merges.txt)
for _ in $(seq 60); do echo '{"text": "the cat sat on the mat and the dog ate it all again"}'; done >"$work/words.jsonl"
expect 0 "wrote" "$BEVATRON" preprocess --input "$work/words.jsonl" --output-prefix "$work/words" "${bpe[@]}" --append-eod
grep -qE '^# tokenizer [0-9]+ [0-9a-f]{64}$' "$work/words_text_document.sha256" && pass || fail "no record of the tokenizer"
(cd "$work" && sha256sum --quiet -c words_text_document.sha256) && pass || fail "sha256sum does not read the record"
small=("$BEVATRON" train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 --lr 1e-3
    --train-iters 2 --eval-iters 0 --log-interval 1 --device cpu --threads 1 --data-cache-path "$work/cache")
expect 0 "iteration        2/       2" "${small[@]}" --data-path "$work/words_text_document" "${bpe[@]}" --save "$work/small"
expect 0 "wrote" "$BEVATRON" tokenizer convert "${bpe[@]}" --output "$work/hf"
expect 0 "iteration        2/       2" "${small[@]}" --data-path "$work/words_text_document" --tokenizer-type HuggingFaceTokenizer \
    --tokenizer-model "$work/hf/tokenizer.json"
# Two letters have changed places.
sed -E 's/"x": *([0-9]+)/"swap": \1/; s/"z": *([0-9]+)/"x": \1/; s/"swap":/"z":/' tests/golden/bpe/vocab.json >"$work/other.json"
cmp -s "$work/other.json" tests/golden/bpe/vocab.json && fail "the vocabulary was not changed"
other=(--vocab-file "$work/other.json" --merge-file tests/golden/bpe/merges.txt)
refusal="the dataset $work/words_text_document was made with another tokenizer: its ids mean other text"
expect 215 "$refusal" "${small[@]}" --data-path "$work/words_text_document" "${other[@]}"
grep -q "or --allow-changed-data to use it anyway" "$work/out" && pass || fail "the refusal names no flag"
expect 0 "" "$BEVATRON" tokenizer train --input "$work/words.jsonl" --output-prefix "$work/few" --vocab-size 260
expect 215 "$work/words_text_document was made with another tokenizer of 600 tokens, not 260: its ids mean other text" "${small[@]}" \
    --data-path "$work/words_text_document" --vocab-file "$work/few-vocab.json" --merge-file "$work/few-merges.txt"
expect 0 "was made with another tokenizer (--allow-changed-data)" "${small[@]}" --data-path "$work/words_text_document" "${other[@]}" \
    --allow-changed-data
expect 215 "$refusal" "$BEVATRON" evaluate --load "$work/small" --data-path "$work/words_text_document" "${other[@]}"
expect 0 "(--allow-changed-data)" "$BEVATRON" evaluate --load "$work/small" --data-path "$work/words_text_document" "${other[@]}" \
    --allow-changed-data
expect 0 "perplexity" "$BEVATRON" evaluate --load "$work/small" --data-path "$work/words_text_document"
# A merge keeps the record that all parts have; without one, as in datasets of other programs, everything is as ever.
expect 0 "merged 2" "$BEVATRON" dataset merge "$work/words_text_document" "$work/words_text_document" --output-prefix "$work/both"
expect 215 "$work/both was made with another tokenizer" "${small[@]}" --data-path "$work/both" "${other[@]}"
rm "$work/both.sha256"
expect 0 "iteration        2/       2" "${small[@]}" --data-path "$work/both" "${other[@]}"

finish
