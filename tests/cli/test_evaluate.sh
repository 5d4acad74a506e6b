#!/usr/bin/env bash
# Evaluation as a user does it: perplexity of texts, WikiText's conventions, overlapping samples, cloze accuracy,
# datasets of BERT.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts UTF8PROC

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' one two three four five six sev '##en' ten . , '=' '@' - >"$work/vocab.txt"
for _ in $(seq 60); do printf 'one two three four five six seven ten . '; done >"$work/train.txt"
for _ in $(seq 40); do printf '{"text": "%s"}\n' "$(head -c 400 "$work/train.txt")"; done >"$work/train.jsonl"
tokenizer=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt")
expect 0 "" "$BEVATRON" preprocess --input "$work/train.jsonl" --output-prefix "$work/data" "${tokenizer[@]}"
expect 0 "iteration      120/     120" "$BEVATRON" train "${tokenizer[@]}" --data-path "$work/data_text_document" \
    --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 64 \
    --micro-batch-size 8 --lr 1e-2 --lr-warmup-iters 5 --train-iters 120 --eval-iters 0 --split 1,0,0 --log-interval 40 \
    --hidden-dropout 0 --attention-dropout 0 --device cpu --threads 2 --save "$work/run" --save-interval 120
evaluate=("$BEVATRON" evaluate --load "$work/run" --device cpu --micro-batch-size 4)

value() { sed -nE "s/.*\"$1\": ?([0-9.e+-]+).*/\1/p" "$work/out"; }
# The word perplexity of the run's own text follows from the loss; overlapping samples have more context and do better.
expect 0 '"word_perplexity"' "${evaluate[@]}" --text "$work/train.txt" --json
tokens=$(value tokens)
[ "$tokens" = 599 ] && pass || fail "$tokens tokens instead of 599"
plain=$(value loss)
# Another tokenizer of the same size gives numbers that mean nothing; the same one in another file is fine.
sed 's/^one$/swap/; s/^two$/one/; s/^swap$/two/' "$work/vocab.txt" >"$work/swapped.txt"
cp "$work/vocab.txt" "$work/copy.txt"
expect 0 "the tokenizer is not the one of $work/run/iter_0000120" "${evaluate[@]}" --text "$work/train.txt" --vocab-file "$work/swapped.txt"
expect 0 "perplexity" "${evaluate[@]}" --text "$work/train.txt" --vocab-file "$work/copy.txt"
grep -q "the tokenizer is not" "$work/out" && fail "the same tokenizer is warned of" || pass
expect 0 '"word_perplexity"' "${evaluate[@]}" --text "$work/train.txt" --overlapping-eval 8 --json
[ "$(value tokens)" = 599 ] && pass || fail "overlapping samples count $(value tokens) tokens"
awk -v a="$(value loss)" -v b="$plain" 'BEGIN { exit !(a < b && a > 0) }' && pass || fail "overlap: $(value loss), without $plain"

# WikiText: words are separated by spaces, one fewer is counted, and spaces around punctuation are removed before
# encoding.
printf ' \n = one two = \n \n three , four @-@ five . six \n' >"$work/wiki.txt"
expect 0 '"words":13' "${evaluate[@]}" --text "$work/wiki.txt" --wikitext --json
awk -v l="$(value loss)" -v t="$(value tokens)" -v w="$(value word_perplexity)" \
    'BEGIN { e = exp(l * t / 12); exit !(w / e < 1.0001 && e / w < 1.0001) }' && pass || fail "word perplexity of WikiText"

# Cloze: the last token, or the whole last word, which here has two pieces.
cat >"$work/cloze.jsonl" <<'TEXT'
{"text": "one two three four five six seven ten . one two three four"}

{"text": "one two three four five six seven ten . one two three four five six seven"}
{"text": "one two three four five six seven ten . one two three ten"}
{"text": "one two three four five six seven ten . one two three four five six tenen"}
TEXT
expect 0 "texts 4 | right 2 | accuracy 0.500000" "${evaluate[@]}" --cloze "$work/cloze.jsonl" --strict-lambada
expect 0 '"right": 2' "${evaluate[@]}" --cloze "$work/cloze.jsonl" --json
expect 0 "there is no word perplexity" "${evaluate[@]}" --text "$work/train.txt" --max-samples 1
grep -q "words" "$work/out" && fail "words of a text that was evaluated in part" || pass
expect 0 "texts 1 | right 1" "${evaluate[@]}" --cloze "$work/cloze.jsonl" --max-samples 1
grep -q "beginnings were left out" "$work/out" && fail "a short text is called cut" || pass
echo "{\"text\": \"$(for i in $(seq 40); do printf 'one two three four five six seven ten . '; done)one two\"}" >"$work/long.jsonl"
expect 0 "1 of 1 texts of $work/long.jsonl are longer than the model's 64 positions: their beginnings were left out" \
    "${evaluate[@]}" --cloze "$work/long.jsonl"
echo '{"title": "x"}' >"$work/bad.jsonl"
expect 215 'bad.jsonl:1: there is no text in the member "text"' "${evaluate[@]}" --cloze "$work/bad.jsonl"
echo '{"text": "one"}' >"$work/bad.jsonl"
expect 215 "no word after another one to ask for" "${evaluate[@]}" --cloze "$work/bad.jsonl"
: >"$work/bad.jsonl"
expect 215 "has no texts" "${evaluate[@]}" --cloze "$work/bad.jsonl"

expect 2 "--split 1,0,1 leaves nothing of --data-path for validation" "${evaluate[@]}" --data-path "$work/data_text_document" --split 1,0,1

# Weights that are not finite: neither a loss nor a text is printed, and the exit code says it.
expect 0 "" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/nan"
size=$(stat -c %s "$work/nan/model.safetensors")
printf '\377\377\377\377' | dd of="$work/nan/model.safetensors" bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
nan=(--load "$work/nan" --device cpu "${tokenizer[@]}")
expect 213 "the model's weights have NaN" "$BEVATRON" evaluate "${nan[@]}" --text "$work/train.txt"
grep -q perplexity "$work/out" && fail "a perplexity of NaN is printed" || pass
expect 213 "cloze.jsonl:1: the model's output is not finite" "$BEVATRON" evaluate "${nan[@]}" --cloze "$work/cloze.jsonl"
expect 213 "the model's output is not finite" "$BEVATRON" generate "${nan[@]}" --prompt "one two" --max-new-tokens 3
expect 0 "longer than the model's 64 positions" "$BEVATRON" generate --load "$work/run" --device cpu --prompt "one two" --max-new-tokens 80 --ignore-eod
expect 0 "one two" "$BEVATRON" generate --load "$work/run" --device cpu --prompt "one two" --max-new-tokens 60 --ignore-eod
grep -q "positions" "$work/out" && fail "a text within the model's positions is warned of" || pass
# Weights alone are not a checkpoint, and the message says what is missing.
mkdir "$work/alone" && cp "$work/nan/model.safetensors" "$work/alone/"
expect 1 "but no config.json, which says what model they are" "$BEVATRON" evaluate --load "$work/alone" --device cpu --text "$work/train.txt"
echo '[1]' >"$work/alone/config.json"
expect 1 "config.json: it is not a JSON object" "$BEVATRON" evaluate --load "$work/alone" --device cpu --text "$work/train.txt"

# Models that do not predict the next token have no perplexity on a text, and no last word.
for name in t5 bert; do
    for file in --text --cloze; do
        expect 2 "$file asks for the next token, which --model $name does not predict" "$BEVATRON" evaluate --device cpu \
            --load "tests/golden/foreign/$name" "$file" "$work/cloze.jsonl"
    done
done
finish
