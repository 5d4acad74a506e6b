#!/usr/bin/env bash
# From text to training for every kind of sample: BERT and T5 from sentences, RoBERTa from blocks, GPT from blends and
# from separate data for each split.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts UTF8PROC

# A small language: words of a small vocabulary, some with a second piece, in sentences and documents.
{
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' .
    for w in red green blue black white one two three four five cat dog bird fish horse sees likes finds takes hides \
        the a old new ; do printf '%s\n' "$w"; done
    printf '%s\n' '##s' '##ish' '##er'
} >"$work/vocab.txt"
awk 'BEGIN {
    srand(5)
    split("red green blue black white reddish greenish", adjective); split("cat dog bird fish horse cats dogs birds", noun)
    split("sees likes finds takes hides", verb)
    for (d = 0; d < 240; d++) {
        text = ""
        sentences = 1 + int(rand() * 7)
        for (s = 0; s < sentences; s++)
            text = text (s ? " " : "") "The " adjective[1 + int(rand() * 7)] " " noun[1 + int(rand() * 8)] " " \
                verb[1 + int(rand() * 5)] " the " adjective[1 + int(rand() * 7)] " " noun[1 + int(rand() * 8)] "."
        printf "{\"text\": \"%s\"}\n", text
    }
}' >"$work/text.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/bert" --split-sentences \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt"
sentences=$work/bert_text_sentence
[ -s "$sentences.idx" ] && pass || fail "no dataset of sentences"

size=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 48 --max-position-embeddings 48
    --micro-batch-size 4 --global-batch-size 8 --lr 5e-3 --lr-warmup-iters 2 --log-interval 10 --eval-iters 2
    --eval-interval 20 --train-iters 40 --device cpu --threads 2 --hidden-dropout 0 --attention-dropout 0
    --make-vocab-size-divisible-by 8 --split 90,10,0)
bert=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt" --data-path "$sentences")

# The loss must fall below FROM nats.
expect_learns() {
    local last
    last=$(losses "$work/out" | tail -1 | cut -d" " -f2)
    awk -v a="$last" -v b="$1" 'BEGIN { exit !(a > 0 && a < b) }' && pass || fail "$2: the loss is $last, not below $1"
}

expect 0 "sop loss value" "$BEVATRON" train --model bert "${size[@]}" "${bert[@]}" --save "$work/m" --save-interval 20
expect_learns 2.9 BERT
losses "$work/out" >"$work/bert.losses"
[ -d "$sentences/cache/BERTMaskedWordPieceDataset_indices" ] && pass || fail "no cache of BERT's samples"
# A resumed run gets the same samples.
expect 0 "successfully loaded" "$BEVATRON" train --model bert "${size[@]}" "${bert[@]}" --load "$work/m" --ckpt-step 20
losses "$work/out" | tail -1 >"$work/a"
tail -1 "$work/bert.losses" >"$work/b"
expect_same "$work/a" "$work/b" "BERT resumed"
expect 0 "lm loss value" "$BEVATRON" train --model bert "${size[@]}" "${bert[@]}" --bert-no-binary-head --mask-prob 0.3
grep -q "sop loss" "$work/out" && fail "no head, no loss of its own" || pass

expect 0 "validation loss" "$BEVATRON" train --model t5 "${size[@]}" "${bert[@]}" --vocab-extra-ids 20 \
    --decoder-seq-length 24
expect_learns 2.9 T5
# A T5 of Hugging Face starts its decoder with the token named in config.json, even if the vocabulary has a begin token,
# as here. A flag overrides it. The same weights and samples give the same loss as with the flag alone.
original=(--normalization RMSNorm --disable-bias-linear --position-embedding-type relative --softmax-scale 1 --activation relu --init-method-std 0.2)
expect 0 "validation loss" "$BEVATRON" train --model t5 "${size[@]}" "${bert[@]}" --vocab-extra-ids 20 --decoder-seq-length 24 \
    "${original[@]}" --train-iters 2 --lr-warmup-iters 0 --save "$work/t5"
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/t5" --output "$work/t5.begins"
begins=$(sed -nE 's/.*"decoder_start_token_id": ([0-9]+).*/\1/p' "$work/t5.begins/config.json")
[ "${begins:-0}" -gt 0 ] && pass || fail "the vocabulary has a token that begins a text"
cp -r "$work/t5.begins" "$work/t5.pads"
sed -i -E 's/("decoder_start_token_id": )[0-9]+/\10/' "$work/t5.pads/config.json"
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/t5.pads" --output "$work/t5.plain" --to huggingface
expect 0 "bevatron" "$BEVATRON" checkpoint convert --input "$work/t5.pads" --output "$work/t5.ours"
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/t5.ours" --output "$work/t5.back"
grep -q '"decoder_start_token_id": 0' "$work/t5.back/config.json" && grep -q '"decoder_start_token_id": 0' "$work/t5.plain/config.json" &&
    pass || fail "decoder_start_token_id on its way back"
# started FOLDER FLAGS…: the loss of the first step.
started() {
    local from=$1
    shift
    expect 0 "iteration        1/" "$BEVATRON" train "${size[@]}" --data-path "$sentences" --load "$work/$from" --use-checkpoint-args \
        --finetune --decoder-seq-length 24 --train-iters 1 --lr-warmup-iters 0 --log-interval 1 --eval-iters 0 "$@"
    losses "$work/out" >"$work/started.$((++starts))"
}
starts=0
started t5.begins                                     # 1
started t5.pads                                       # 2
started t5.ours                                       # 3
started t5.begins --decoder-start-token 0             # 4
started t5.pads --decoder-start-token "$begins"       # 5
expect_same "$work/started.4" "$work/started.2" "the token of config.json, and of the flag"
expect_same "$work/started.4" "$work/started.3" "the token of config.json after a conversion"
expect_same "$work/started.1" "$work/started.5" "a flag against config.json"
cmp -s "$work/started.1" "$work/started.2" && fail "the first token makes no difference" || pass
for from in t5.begins t5.pads; do
    expect 0 "" "$BEVATRON" generate --load "$work/$from" --prompt "the red cat" --greedy --max-new-tokens 12 --device cpu
    grep -v '^note' "$work/out" >"$work/said.$from"
    expect 0 "" "$BEVATRON" generate --load "$work/$from" --prompt "the red cat" --greedy --max-new-tokens 12 --device cpu \
        --decoder-start-token "$([ $from = t5.pads ] && echo 0 || echo "$begins")"
    grep -v '^note' "$work/out" >"$work/said.flag"
    expect_same "$work/said.flag" "$work/said.$from" "text of $from"
done
cmp -s "$work/said.t5.begins" "$work/said.t5.pads" && fail "the first token makes no difference to the text" || pass
expect 2 "--decoder-start-token 9999 is not a token" "$BEVATRON" train --model t5 "${size[@]}" "${bert[@]}" --vocab-extra-ids 20 \
    --decoder-seq-length 24 --decoder-start-token 9999
expect 2 "--vocab-extra-ids" "$BEVATRON" train --model t5 "${size[@]}" "${bert[@]}" --decoder-seq-length 24
expect 2 "needs the tokenizer" "$BEVATRON" train --model bert "${size[@]}" --vocab-size 40 --data-path "$sentences"

# RoBERTa: fairseq's dictionary of words, blocks of whole sentences. test_examples.sh has one with a BPE.
{
    for w in the red green blue black white reddish greenish cat dog bird fish horse cats dogs birds sees likes finds \
        takes hides; do echo "$w 100"; done
} >"$work/dict.txt"
sed 's/[.]//g; s/The/the/g' "$work/text.jsonl" >"$work/plain.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/plain.jsonl" --output-prefix "$work/roberta" --append-eod \
    --tokenizer-type FairseqTokenizer --tokenizer-model "$work/dict.txt"
roberta=(--tokenizer-type FairseqTokenizer --tokenizer-model "$work/dict.txt" --data-path "$work/roberta_text_document"
    --bert-no-binary-head)
for mode in none complete complete_doc eos; do
    expect 0 "iteration       40/      40" "$BEVATRON" train --model bert "${size[@]}" "${roberta[@]}" \
        --sample-break-mode $mode --lr-decay-style polynomial_decay --lr-decay-power 2
    expect_learns 2.9 "RoBERTa, $mode"
done

# Blends: the sum of rounded-up shares, one dataset for each weight; a cache; files with the words.
expect 0 "" "$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/gpt" --append-eod \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt"
document=$work/gpt_text_document
plain=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt")
expect 0 "iteration       40/      40" "$BEVATRON" train "${size[@]}" "${plain[@]}" --data-path 0.3 "$document" 0.7 \
    "$sentences" --data-cache-path "$work/cache"
expect_learns 2.9 "a blend"
losses "$work/out" >"$work/blend.losses"
ls "$work/cache" | grep -q -- "-BlendedDataset-train-dataset_index.npy" && pass || fail "no cache of the blend"
echo "3 $document
 7 $sentences" >"$work/words"
expect 0 "iteration       40/      40" "$BEVATRON" train "${size[@]}" "${plain[@]}" --data-args-path "$work/words"
losses "$work/out" >"$work/words.losses"
expect_same "$work/blend.losses" "$work/words.losses" "a blend from a file, without a cache"
expect 2 "the weight of x is missing; give WEIGHT PREFIX for each dataset" "$BEVATRON" train "${size[@]}" "${plain[@]}" --data-path 1 "$document" x "$document"
without_split=("${size[@]:0:${#size[@]}-2}")
expect 0 "on test set" "$BEVATRON" train "${without_split[@]}" "${plain[@]}" --train-data-path "$document" "$sentences" \
    --valid-data-path "$sentences" --test-data-path 1 "$document"
echo "{\"train\": [\"$document\", \"$sentences\"], \"valid\": [\"$sentences\"], \"test\": [1, \"$document\"]}" >"$work/j.json"
losses "$work/out" >"$work/own.losses"
expect 0 "on test set" "$BEVATRON" train "${without_split[@]}" "${plain[@]}" --per-split-data-args-path "$work/j.json"
losses "$work/out" >"$work/json.losses"
expect_same "$work/own.losses" "$work/json.losses" "data of each split from a file"
finish
