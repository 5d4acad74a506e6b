#!/usr/bin/env bash
# bevatron tokenizer: train, encode, decode and inspect as a user types them, including pipes, and what they refuse.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

golden=(--vocab-file tests/golden/bpe/vocab.json --merge-file tests/golden/bpe/merges.txt)
if "$BEVATRON" tokenizer encode "${golden[@]}" 2>&1 </dev/null | grep -q "no Unicode tables"; then
    echo "skipped: this build has no Unicode tables"
    exit 77
fi

# Training: the golden merges, for any number of workers, from a compressed file too, under both kinds of name.
expect 0 "600 tokens" "$BEVATRON" tokenizer train --input tests/golden/bpe/corpus.txt --vocab-size 600 --workers 1 \
    --output-prefix "$work/one"
expect_same "$work/one-merges.txt" tests/golden/bpe/merges.txt "trained merges"
expect 0 "343 merges" "$BEVATRON" tokenizer train --input tests/golden/bpe/corpus.txt --vocab-size 600 --workers 3 \
    --save "$work/folder/below"
expect_same "$work/folder/below/merges.txt" tests/golden/bpe/merges.txt "merges of three workers"
expect_same "$work/folder/below/vocab.json" "$work/one-vocab.json" "vocabulary of three workers"
gzip -c tests/golden/bpe/corpus.txt >"$work/corpus.gz"
"$BEVATRON" tokenizer train --input - --vocab-size 600 --output-prefix "$work/piped" <"$work/corpus.gz" >"$work/out" 2>&1
if grep -q "cannot read gzip" "$work/out"; then
    echo "no gzip in this build"
else
    expect_same "$work/piped-merges.txt" tests/golden/bpe/merges.txt "merges of compressed standard input"
fi
expect 0 "no more pairs occur" "$BEVATRON" tokenizer train --input tests/golden/bpe/corpus.txt --vocab-size 60000 \
    --output-prefix "$work/large"
expect 2 "either --output-prefix or --save" "$BEVATRON" tokenizer train --input tests/golden/bpe/corpus.txt --vocab-size 600
expect 2 "--vocab-size" "$BEVATRON" tokenizer train --input tests/golden/bpe/corpus.txt --vocab-size 256 --save "$work/x"
expect 2 "--input" "$BEVATRON" tokenizer train --vocab-size 600 --save "$work/x"
expect 1 "no such file" "$BEVATRON" tokenizer train --input "$work/none" --vocab-size 600 --save "$work/x"
# Folders created for the files are removed again; existing ones are kept.
mkdir "$work/there"
expect 1 "no such file" "$BEVATRON" tokenizer train --input "$work/none" --vocab-size 600 --save "$work/there/new/b/c"
[ -d "$work/there" ] && [ ! -e "$work/there/new" ] && pass || fail "folders are left"
[ ! -e "$work/x" ] && pass || fail "a failed training leaves nothing"
# A full disk: vocab.json and merges.txt fit, tokenizer.json does not. None is left, and other files are kept.
echo kept >"$work/there/notes"
blocks=$(($(stat -c %s "$work/one-vocab.json") / 1024 + 2))
[ "$(stat -c %s "$work/one-tokenizer.json")" -gt $((1024 * blocks)) ] && pass || fail "tokenizer.json is the largest"
expect 1 "ulimit -f" bash -c "trap '' XFSZ; ulimit -f $blocks; $(printf '%q ' "$BEVATRON" tokenizer train \
    --input tests/golden/bpe/corpus.txt --vocab-size 600 --save "$work/there")"
[ "$(ls "$work/there")" = notes ] && pass || fail "a full disk leaves no part of a tokenizer"

# Encoding and decoding: any bytes round-trip, as a whole or line by line.
head -c 100000 /dev/urandom >"$work/random"
"$BEVATRON" tokenizer encode "${golden[@]}" <"$work/random" >"$work/ids"
"$BEVATRON" tokenizer decode "${golden[@]}" <"$work/ids" >"$work/back"
expect_same "$work/random" "$work/back" "decoded random bytes"
printf 'one line\n\nthree lines, the last without an end' >"$work/text"
"$BEVATRON" tokenizer encode --lines "${golden[@]}" <"$work/text" >"$work/ids"
[ "$(wc -l <"$work/ids")" = 3 ] && pass || fail "three lines of ids"
"$BEVATRON" tokenizer decode --lines "${golden[@]}" <"$work/ids" >"$work/back"
echo >>"$work/text"
expect_same "$work/text" "$work/back" "decoded lines"
[ "$(printf '  ' | "$BEVATRON" tokenizer encode "${golden[@]}")" = 465 ] && pass || fail "two blanks are token 465"
[ -z "$("$BEVATRON" tokenizer encode "${golden[@]}" </dev/null)" ] && pass || fail "nothing gives nothing"
[ "$(echo '7 8' | "$BEVATRON" tokenizer encode --tokenizer-type NullTokenizer --vocab-size 9)" = "7 8" ] && pass ||
    fail "NullTokenizer encodes ids"
for ids in 600 -1 1.5 x 99999999999999999999; do
    echo "1 $ids" | "$BEVATRON" tokenizer decode "${golden[@]}" >"$work/out" 2>&1
    [ $? = 215 ] && pass || fail "id $ids is refused"
done

# Inspecting.
expect 0 "vocab_size           600" "$BEVATRON" tokenizer inspect "${golden[@]}"
expect 0 '"end_of_document":599' "$BEVATRON" tokenizer inspect --json "${golden[@]}"
expect 0 '"<|endoftext|>"' "$BEVATRON" tokenizer inspect --tokens "${golden[@]}"
[ "$(wc -l <"$work/out")" = 600 ] && pass || fail "600 tokens are listed"

# Special tokens by role; a vocabulary without them prints nothing about them.
mask=$(($(grep -n '^\[MASK\]$' tests/golden/wordpiece/vocab.txt | cut -d: -f1) - 1))
expect 0 "\"mask\":$mask," "$BEVATRON" tokenizer inspect --json --tokenizer-type BertWordPieceCase --vocab-file tests/golden/wordpiece/vocab.txt
expect 0 "vocab_size" "$BEVATRON" tokenizer inspect "${golden[@]}"
grep -q '^mask' "$work/out" && fail "a mask where there is none" || pass

# --eod-token names the end of documents if the file does not; the run's checkpoint records it.
ranks=(--tokenizer-type TikTokenizer --tokenizer-model tests/golden/tiktoken/small.tiktoken --tiktoken-pattern gpt2)
expect 0 '"end_of_document":-1' "$BEVATRON" tokenizer inspect --json "${ranks[@]}"
expect 0 '"end_of_document":0' "$BEVATRON" tokenizer inspect --json "${golden[@]}" --eod-token '!'
expect 2 '"<end>" is not a token of this tokenizer' "$BEVATRON" tokenizer inspect "${golden[@]}" --eod-token '<end>'
for i in 1 2 3 4 5 6 7 8; do echo "{\"text\": \"document number $i about nothing\"}"; done >"$work/documents.jsonl"
expect 2 "name one of its tokens with --eod-token" "$BEVATRON" preprocess --input "$work/documents.jsonl" \
    --output-prefix "$work/none" "${ranks[@]}" --append-eod
expect 0 "" "$BEVATRON" preprocess --input "$work/documents.jsonl" --output-prefix "$work/ended" "${ranks[@]}" \
    --append-eod --eod-token '|'
expect 0 "nothing|" "$BEVATRON" dataset peek "$work/ended_text_document" "${ranks[@]}" --eod-token '|'
run=(--data-path "$work/ended_text_document" --split 1,0,0 --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8
    --max-position-embeddings 8 --micro-batch-size 1 --global-batch-size 1 --train-iters 1 --lr 1e-3 --eval-iters 0 --device cpu
    --eod-mask-loss --save "$work/run" --save-interval 1)
expect 2 "name one with --eod-token" "$BEVATRON" train "${ranks[@]}" "${run[@]}"
expect 0 "" "$BEVATRON" train "${ranks[@]}" "${run[@]}" --eod-token '|'
expect 0 "" "$BEVATRON" generate --load "$work/run" --prompt "" --max-new-tokens 1 --device cpu

# Refusals.
expect 0 "inspect" "$BEVATRON" tokenizer --help
expect 2 "usage: bevatron tokenizer COMMAND" "$BEVATRON" tokenizer
expect 2 'there is no command "tokenizer encod"; did you mean encode?' "$BEVATRON" tokenizer encod
expect 2 "--merge-file" "$BEVATRON" tokenizer inspect --vocab-file tests/golden/bpe/vocab.json
sed '5s/.*/q zqz/' tests/golden/bpe/merges.txt >"$work/merges.txt"
expect 1 "merges.txt:5: \"zqz\" is not a token" "$BEVATRON" tokenizer inspect --vocab-file tests/golden/bpe/vocab.json \
    --merge-file "$work/merges.txt"
# Folders of an output are created; if that fails, it is noticed before the work.
expect 0 "wrote $work/new/folder/t-vocab.json" "$BEVATRON" tokenizer train --input tests/golden/bpe/corpus.txt --vocab-size 300 \
    --output-prefix "$work/new/folder/t"
expect 1 "cannot create the folder" "$BEVATRON" tokenizer train --input tests/golden/bpe/corpus.txt --vocab-size 300 --save "$work/merges.txt/x"
grep -q "distinct pieces" "$work/out" && fail "text was read for an output that cannot be written" || pass
expect 1 "cannot write to standard output" bash -c "$(printf '%q ' "$BEVATRON" tokenizer inspect --tokens "${golden[@]}") >/dev/full"

# Any tokenizer for Hugging Face: runs of spaces are preserved, and existing files are kept.
spm=(--tokenizer-type GPTSentencePieceTokenizer --tokenizer-model tests/golden/spm/bpe.model)
expect 0 "tokenizer.json (560 tokens)" "$BEVATRON" tokenizer convert "${spm[@]}" --output "$work/for/hf"
printf 'a  b\n   c    d \n\te\n' >"$work/spaces"
"$BEVATRON" tokenizer encode --lines "${spm[@]}" <"$work/spaces" >"$work/ids.ours"
"$BEVATRON" tokenizer encode --lines --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$work/for/hf" <"$work/spaces" >"$work/ids.theirs"
[ -s "$work/ids.ours" ] && expect_same "$work/ids.ours" "$work/ids.theirs" "ids of spaces in a tokenizer.json"
expect 1 "already has a tokenizer.json" "$BEVATRON" tokenizer convert "${spm[@]}" --output "$work/for/hf"
expect 1 "is a model of words, which a tokenizer.json cannot express" "$BEVATRON" tokenizer convert --tokenizer-type GPTSentencePieceTokenizer \
    --tokenizer-model tests/golden/spm/word.model --output "$work/words"
expect 2 "--output" "$BEVATRON" tokenizer convert "${spm[@]}"
finish
