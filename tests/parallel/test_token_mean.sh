#!/usr/bin/env bash
# --calculate-per-token-loss: if some tokens do not count, a step is the mean over those of the global batch that do. So
# a global batch in many micro-batches, on any layout, learns as in one micro-batch, which has the mean in any case.
# Without the flag a step is a mean of means, which is another.
# tier: all
# label: slow
# cost: 12
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/losses.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

# Documents of 40 tokens and of one: samples have between none and half of their tokens left.
awk 'BEGIN { srand(3); for (i = 0; i < 400; i++) { printf "{\"text\": \""; n = i % 20 < 12 ? 1 : 40
    for (k = 0; k < n; k++) printf "%d ", rand() * 90; print "\"}" } }' >"$work/ids.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/ids.jsonl" --output-prefix "$work/ids" --tokenizer-type NullTokenizer \
    --vocab-size 96 --append-eod
printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n' >"$work/vocab.txt"
awk 'BEGIN { for (i = 0; i < 60; i++) print "w" i }' >>"$work/vocab.txt"
awk 'BEGIN { srand(5); for (i = 0; i < 200; i++) { printf "{\"text\": \""; for (s = 0; s < 4; s++) { n = 2 + rand() * 14
    for (k = 0; k < n; k++) printf "w%d ", rand() * 60; printf ". " } print "\"}" } }' >"$work/words.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/words.jsonl" --output-prefix "$work/words" --split-sentences \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt"

both=(--num-layers 2 --hidden-size 24 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --global-batch-size 8 --lr 1e-2
    --adam-eps 1e-4 --log-interval 1 --eval-iters 0 --clip-grad 0.3 --split 1 --hidden-dropout 0 --attention-dropout 0
    --device cpu --threads 1)
gpt=("${both[@]}" --data-path "$work/ids_text_document" --tokenizer-type NullTokenizer --vocab-size 96 --eod-mask-loss)
t5=("${both[@]}" --model t5 --decoder-seq-length 12 --data-path "$work/words_text_sentence" --vocab-file "$work/vocab.txt"
    --tokenizer-type BertWordPieceLowerCase --vocab-extra-ids 10)
alike=(--micro-batch-size 2 --calculate-per-token-loss --train-iters 8)

train 1 "${gpt[@]}" --micro-batch-size 8 --train-iters 8
cp "$work/log" "$work/whole"
train 1 "${gpt[@]}" --micro-batch-size 2 --train-iters 8
cmp -s "$work/log" "$work/whole" && fail "a mean of means is the mean" || pass
train 1 "${gpt[@]}" "${alike[@]}"
same "$work/whole" "one rank"
train 4 "${gpt[@]}" "${alike[@]}" --pipeline-model-parallel-size 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
same "$work/whole" "two stages of two data-parallel ranks"
train 4 "${gpt[@]}" "${alike[@]}" --tensor-model-parallel-size 2 --sequence-parallel --context-parallel-size 2
same "$work/whole" "two tensor-parallel and two context-parallel ranks"
# The factor is that of the step, not of the whole run's batch: with fewer micro-batches at first, too.
for size in 4 2; do
    train 1 "${gpt[@]}" --rampup-batch-size 4 4 20 --train-samples 48 --micro-batch-size $size --calculate-per-token-loss
    mv "$work/log" "$work/grown$size"
done
cp "$work/grown2" "$work/log"
same "$work/grown4" "a growing batch"

# The loss scale of fp16 changes neither the norm nor the update.
train 1 "${gpt[@]}" --micro-batch-size 8 --train-iters 8 --fp16 --loss-scale 4096
cp "$work/log" "$work/whole"
train 1 "${gpt[@]}" --micro-batch-size 8 --calculate-per-token-loss --train-iters 8 --fp16 --loss-scale 1024
awk '/grad norm/' "$work/log" >"$work/norms"
awk '/grad norm/' "$work/whole" | paste -d' ' - "$work/norms" | awk '{ d = $3 - $6; bad = bad || d > 0.01 || d < -0.01 }
    END { exit bad || NR != 8 }' && pass || fail "fp16"
# With one micro-batch the means of multi-token prediction are what they are without the flag.
depths=("${gpt[@]}" --mtp-num-layers 2 --mtp-loss-scaling-factor 1 --train-iters 8)
train 1 "${depths[@]}" --micro-batch-size 8
cp "$work/log" "$work/whole"
train 2 "${depths[@]}" --micro-batch-size 8 --calculate-per-token-loss --context-parallel-size 2
same "$work/whole" "multi-token prediction"
# Losses that balance experts are means over all tokens, and are divided by those that count. Here that is every other
# one: such losses count twice.
awk 'BEGIN { srand(7); for (i = 0; i < 2000; i++) printf "{\"text\": \"%d\"}\n", rand() * 90 }' >"$work/single.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/single.jsonl" --output-prefix "$work/single" --tokenizer-type NullTokenizer \
    --vocab-size 96 --append-eod
experts=("${gpt[@]}" --data-path "$work/single_text_document" --num-experts 4 --moe-router-topk 2 --disable-bias-linear
    --moe-router-load-balancing-type seq_aux_loss --train-iters 8)
train 1 "${experts[@]}" --micro-batch-size 8 --moe-aux-loss-coeff 0.2 --moe-z-loss-coeff 0.2
cp "$work/log" "$work/whole"
train 2 "${experts[@]}" --micro-batch-size 2 --calculate-per-token-loss --moe-aux-loss-coeff 0.1 --moe-z-loss-coeff 0.1
same "$work/whole" "losses that balance experts"

train 1 "${t5[@]}" --micro-batch-size 8 --train-iters 8
cp "$work/log" "$work/whole"
train 1 "${t5[@]}" "${alike[@]}"
same "$work/whole" "T5 on one rank"
train 2 "${t5[@]}" "${alike[@]}"
same "$work/whole" "T5 on two data-parallel ranks"
finish
