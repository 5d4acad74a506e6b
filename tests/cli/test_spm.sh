#!/usr/bin/env bash
# SentencePiece models from the command line: the three types, JSON lines, preprocessing, and refusals.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

models=tests/golden/spm
plain=(--tokenizer-type GPTSentencePieceTokenizer --tokenizer-model "$models/bpe.model")
llama=(--tokenizer-type Llama2Tokenizer --tokenizer-model "$models/bpe.model")

# Text round-trips, and Llama-2 puts <s> (1) first unless --no-legacy-tokenizer is given.
printf 'The miller counted  the sacks\n\t\xf0\x9f\x98\x80' >"$work/text"
"$BEVATRON" tokenizer encode "${plain[@]}" <"$work/text" >"$work/ids"
"$BEVATRON" tokenizer decode "${plain[@]}" <"$work/ids" >"$work/back"
expect_same "$work/text" "$work/back" "decoded text"
"$BEVATRON" tokenizer encode "${llama[@]}" <"$work/text" >"$work/llama"
[ "$(cat "$work/llama")" = "1 $(cat "$work/ids")" ] && pass || fail "Llama2Tokenizer begins with 1"
"$BEVATRON" tokenizer encode "${llama[@]}" --no-legacy-tokenizer <"$work/text" >"$work/today"
expect_same "$work/ids" "$work/today" "ids of today's Llama2Tokenizer"

# JSON lines: strings to arrays and back.
printf '"the\\nriver"\n""\n"\\u0000 \\ud83d\\ude00"\n' >"$work/lines"
"$BEVATRON" tokenizer encode --json-lines "${plain[@]}" <"$work/lines" >"$work/ids"
[ "$(sed -n 2p "$work/ids")" = "[]" ] && pass || fail "no text is an empty array"
"$BEVATRON" tokenizer decode --json-lines "${plain[@]}" <"$work/ids" >"$work/back"
printf '"the\\nriver"\n""\n"\\u0000 😀"\n' >"$work/expected"
expect_same "$work/expected" "$work/back" "decoded JSON lines"
for line in '1' '["a"]' '[1.5]' '[-1]' '[1'; do
    echo "$line" | "$BEVATRON" tokenizer decode --json-lines "${plain[@]}" >"$work/out" 2>&1 && fail "$line is refused" || pass
done
echo '7' | "$BEVATRON" tokenizer encode --json-lines "${plain[@]}" >"$work/out" 2>&1 && fail "a number is no text" || pass

# The end of documents: <EOD> of the classic tokenizer, none in a model without </s>.
expect 0 '"end_of_document":502' "$BEVATRON" tokenizer inspect --json --tokenizer-type SentencePieceTokenizer \
    --tokenizer-model "$models/unigram.model"
expect 0 '"vocab_size":506' "$BEVATRON" tokenizer inspect --json --tokenizer-type SentencePieceTokenizer \
    --tokenizer-model "$models/unigram.model" --vocab-extra-ids 2
echo '{"text": "The river"}' >"$work/in.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/out" --append-eod "${llama[@]}"
expect 2 "no end-of-document token" "$BEVATRON" preprocess --input "$work/in.jsonl" --output-prefix "$work/none" \
    --append-eod --tokenizer-type GPTSentencePieceTokenizer --tokenizer-model "$models/suffix.model"
[ ! -e "$work/none_text_document.idx" ] && pass || fail "a refused run leaves nothing"

# Refusals.
expect 1 "not a SentencePiece model" "$BEVATRON" tokenizer inspect --tokenizer-type Llama2Tokenizer \
    --tokenizer-model tests/golden/bpe/vocab.json
head -c 4000 "$models/bpe.model" >"$work/cut.model"
expect 1 "cut.model: byte" "$BEVATRON" tokenizer inspect --tokenizer-type Llama2Tokenizer --tokenizer-model "$work/cut.model"

finish
