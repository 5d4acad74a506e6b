#!/usr/bin/env bash
# ICT on several ranks: a query is compared with the contexts of all data-parallel ranks, so with the same number of
# samples in all micro-batches together, losses, top-k accuracies and norms equal those of one rank, with dropout; also
# with tensor and sequence parallelism, the distributed optimizer and overlap, with two towers and with a shared one. A
# checkpoint of one layout can be resumed on another. Impossible layouts are refused.
# tier: all
# label: slow
# cost: 15
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/losses.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
base=(--model ict --mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --global-batch-size 16 --lr 3e-3 --clip-grad 0.5
    --log-interval 1 --eval-interval 10 --eval-iters 1 --threads 1 --log-params-norm --hidden-dropout 0.1
    --attention-dropout 0.1 --init-method-std 0.1 --retriever-report-topk-accuracies 1 3 --train-iters 20)
towers=(--biencoder-projection-dim 12 --retriever-score-scaling)
shared=(--biencoder-shared-query-context-model --norm-placement post --recompute-granularity full --retriever-score-scaling)

for model in towers shared; do
    declare -n flags=$model
    train 1 "${base[@]}" "${flags[@]}" --micro-batch-size 8 --save "$work/$model.1" --save-interval 10
    cp "$work/log" "$work/$model"
    grep -q "top3_acc" "$work/$model" && pass || fail "$model: no top-k accuracies"
    train 2 "${base[@]}" "${flags[@]}" --micro-batch-size 4 --check-replicas 3 --save "$work/$model.2" --save-interval 10
    same "$work/$model" "$model on 2 data-parallel ranks"
    train 4 "${base[@]}" "${flags[@]}" --micro-batch-size 2 --use-distributed-optimizer --overlap-grad-reduce \
        --overlap-param-gather --ddp-num-buckets 9
    same "$work/$model" "$model on 4 data-parallel ranks with a divided optimizer"
    train 2 "${base[@]}" "${flags[@]}" --micro-batch-size 8 --tensor-model-parallel-size 2
    same "$work/$model" "$model on 2 tensor-parallel ranks"
    train 4 "${base[@]}" "${flags[@]}" --micro-batch-size 4 --tensor-model-parallel-size 2 --sequence-parallel \
        --overlap-grad-reduce
    same "$work/$model" "$model on 2 pairs of tensor-parallel ranks that divide the residual stream"
done

# The second half of the run, on another layout than the first.
sed -n '/iteration *11\//,$p' "$work/towers" >"$work/half"
train 4 "${base[@]}" "${towers[@]}" --micro-batch-size 4 --tensor-model-parallel-size 2 --load "$work/towers.2" --ckpt-step 10
same "$work/half" "saved on 2 ranks, continued on 4"

# Retrieval: ranks embed the blocks together, and each searches for its own queries. Scores are equal except for
# rounding, so one of the 60 queries may swap places.
{ printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' .; printf '%sow\n' b c d f g h j k l m n p q r s t v w x z; } >"$work/vocab.txt"
awk 'BEGIN {
    srand(3)
    for (d = 0; d < 60; d++) {
        text = ""
        for (s = 0; s < 3; s++)
            for (w = 0; w < 4; w++) {
                word = substr("bcdfghjklmnpqrstvwxz", 1 + (d + int(rand() * 3)) % 20, 1)
                text = text (w ? " " word : toupper(word)) "ow" (w < 3 ? "" : s < 2 ? ". " : ".")
            }
        printf "{\"text\": \"%s\"}\n", text
    }
}' >"$work/text.jsonl"
words=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt")
expect 0 "" "$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/text" --split-sentences "${words[@]}"
expect 0 "iteration" "$BEVATRON" train "${base[@]}" --mock-data=false "${words[@]}" --data-path "$work/text_text_sentence" --split 1,0,0 \
    --micro-batch-size 8 --train-iters 5 --save "$work/found"
for ranks in 1 2 4; do
    tensor=1
    [ $ranks = 4 ] && tensor=2
    expect 0 "blocks 60 | queries 60" bash tests/parallel/mpirun.sh $ranks "$BEVATRON" evaluate --load "$work/found" \
        --data-path "$work/text_text_sentence" --micro-batch-size 7 --tensor-model-parallel-size $tensor --retrieval
    grep "^blocks" "$work/out" >"$work/found.$ranks"
    paste -d' ' "$work/found.1" "$work/found.$ranks" | awk '{
        for (i = 8; i <= NF / 2; i += 3) { d = $i - $(i + NF / 2); bad = bad || d * d > 9; rows++ }
    } END { exit bad || rows < 2 }' && pass || fail "retrieval on $ranks ranks: $(cat "$work/found.1" "$work/found.$ranks")"
done

refuse() { expect 2 "$1" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${base[@]}" --micro-batch-size 4 "${@:2}"; }
refuse "compares the embeddings of both towers in one pass" --pipeline-model-parallel-size 2
refuse "embeds a text by its first token" --context-parallel-size 2
finish
