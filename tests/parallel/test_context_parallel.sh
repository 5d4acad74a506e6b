#!/usr/bin/env bash
# Ranks that share each sequence: losses and norms of a GPT, a Llama with a window, a BERT and a T5 with dropout equal
# those of one rank, alone and combined with the other kinds of parallelism and recompute; documents in a row stay
# separate; checkpoints move from one layout to another; evaluation gives the same; lengths that cannot be split are
# refused.
# tier: all
# label: slow
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/losses.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
base=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 2 --global-batch-size 4 --lr 1e-3
    --clip-grad 0.5 --log-interval 1 --eval-interval 10 --eval-iters 1 --threads 1 --log-params-norm
    --hidden-dropout 0.1 --attention-dropout 0.1)
llama=(--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights
    --disable-bias-linear --group-query-attention --num-query-groups 2 --sliding-window 11
    --window-attn-skip-freq 2 --rotary-base-local 500)


for model in gpt llama bert t5; do
    flags=("${base[@]}" --train-iters 20)
    [ $model = llama ] && flags+=("${llama[@]}")
    [ $model = bert ] && flags+=(--model bert --norm-placement post --num-token-types 2)
    [ $model = t5 ] && flags+=(--model t5 --decoder-seq-length 16 --position-embedding-type relative)
    train 1 "${flags[@]}" --save "$work/$model.1" --save-interval 10
    cp "$work/log" "$work/$model"
    train 2 "${flags[@]}" --context-parallel-size 2 --check-replicas 3 --save "$work/$model.2" --save-interval 10
    same "$work/$model" "$model on 2 ranks that share sequences"
    train 4 "${flags[@]}" --context-parallel-size 4 --recompute-granularity full
    same "$work/$model" "$model on 4 ranks that share sequences, recomputed"
    train 4 "${flags[@]}" --context-parallel-size 2 --recompute-granularity selective
    same "$work/$model" "$model on 2 pairs of ranks that share sequences"
    train 8 "${flags[@]}" --context-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel --check-replicas 3
    same "$work/$model" "$model on 2 × 2 × 2 ranks"
    [ $model = bert ] && continue
    grep -n "iteration *11/" "$work/$model" | head -n 1 | cut -d: -f1 >"$work/line"
    tail -n +"$(cat "$work/line")" "$work/$model" >"$work/half"
    train 1 "${flags[@]}" --load "$work/$model.2" --ckpt-step 10
    same "$work/half" "$model saved by ranks that share sequences, continued on one"
    train 4 "${flags[@]}" --load "$work/$model.1" --ckpt-step 10 --context-parallel-size 4
    same "$work/half" "$model saved on one rank, continued by ranks that share sequences"
done

# Documents that do not see each other, and positions that restart with them.
documents=("${base[@]}" --train-iters 20 --reset-position-ids --reset-attention-mask --eod-mask-loss)
train 1 "${documents[@]}"
cp "$work/log" "$work/documents"
train 4 "${documents[@]}" --context-parallel-size 4
same "$work/documents" "documents apart on 4 ranks that share sequences"

# In 16 bits partial sums are rounded, so only the first loss, from equal weights, is nearly the same.
train 1 "${base[@]}" --bf16 --train-iters 5
grep -m 1 "lm loss" "$work/log" >"$work/one"
train 2 "${base[@]}" --bf16 --train-iters 5 --context-parallel-size 2
grep -m 1 "lm loss" "$work/log" | paste -d' ' "$work/one" - |
    awk '{ d = $3 - $6; exit !($3 > 0 && d * d < 1e-6) }' && pass || fail "bf16 on 2 ranks that share sequences"

refuse() { expect 2 "$1" bash tests/parallel/mpirun.sh 4 "$BEVATRON" train "${base[@]}" --train-iters 2 \
    --context-parallel-size 4 "${@:2}"; }
refuse "cut into 2 × --context-parallel-size 4 equal strips; 24 and 32 tokens can" --seq-length 30
refuse "cut into 2 × --context-parallel-size 4 equal strips; 8 tokens can" --seq-length 6
refuse "decoder-seq-length 12 cannot be cut" --model t5 --decoder-seq-length 12
expect 2 "3 ranks are not a multiple of" bash tests/parallel/mpirun.sh 3 "$BEVATRON" train "${base[@]}" --train-iters 2 \
    --context-parallel-size 2
finish
