#!/usr/bin/env bash
# Ranks that share each layer, with and without sequence parallelism: losses and norms of a GPT, a Llama, a BERT, a T5,
# OPT-350M's shape and experts with biases, with dropout, equal those of one rank, also with data parallelism and with a vocabulary that does
# not divide evenly, and with logits in parts; checkpoints of one layout load on any other; sizes that cannot be split are refused.
# tier: all
# label: slow
# cost: 23
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/losses.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
base=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3
    --clip-grad 0.5 --log-interval 1 --eval-interval 10 --eval-iters 1 --threads 1 --log-params-norm
    --hidden-dropout 0.1 --attention-dropout 0.1)
llama=(--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights
    --disable-bias-linear --group-query-attention --num-query-groups 4 --recompute-granularity full)


for model in gpt llama bert t5 opt experts; do
    flags=("${base[@]}")
    [ $model = llama ] && flags+=("${llama[@]}")
    [ $model = bert ] && flags+=(--model bert --norm-placement post --num-token-types 2)
    [ $model = t5 ] && flags+=(--model t5 --decoder-seq-length 8 --position-embedding-type relative)
    [ $model = opt ] && flags+=(--activation relu --position-offset 2 --word-embedding-size 20 --norm-placement post)
    [ $model = experts ] && flags+=(--num-experts 3 --moe-ffn-hidden-size 24 --moe-aux-loss-coeff 1e-2)
    train 1 "${flags[@]}" --train-iters 20 --save "$work/$model.1" --save-interval 10
    cp "$work/log" "$work/$model"
    train 2 "${flags[@]}" --train-iters 20 --tensor-model-parallel-size 2 --save "$work/$model.2" --save-interval 10
    same "$work/$model" "$model on 2 ranks that share layers"
    train 4 "${flags[@]}" --train-iters 20 --tensor-model-parallel-size 4 --logits-at-once 7
    same "$work/$model" "$model on 4 ranks that share layers"
    train 4 "${flags[@]}" --train-iters 20 --tensor-model-parallel-size 4 --sequence-parallel --logits-at-once 5
    same "$work/$model" "$model on 4 ranks that share layers and the residual stream"
    train 4 "${flags[@]}" --train-iters 20 --tensor-model-parallel-size 2 --sequence-parallel --check-replicas 3
    same "$work/$model" "$model on 2 pairs of ranks that share layers and the residual stream"
    [ $model = bert ] || [ $model = t5 ] || [ $model = opt ] || [ $model = experts ] && continue
    train 4 "${flags[@]}" --train-iters 20 --tensor-model-parallel-size 2 --save "$work/$model.4" --save-interval 10 \
        --check-replicas 3
    same "$work/$model" "$model on 2 pairs of ranks that share layers"

    # From every layout's checkpoint to every other: the second half of the run.
    grep -n "iteration *11/" "$work/$model" | head -n 1 | cut -d: -f1 >"$work/line"
    tail -n +"$(cat "$work/line")" "$work/$model" >"$work/half"
    for saved in 1 2 4; do
        for ranks in 1 2 4; do
            [ $saved = $ranks ] && continue
            sizes=()
            [ $ranks != 1 ] && sizes=(--tensor-model-parallel-size 2)
            train $ranks "${flags[@]}" "${sizes[@]}" --train-iters 20 --load "$work/$model.$saved" --ckpt-step 10
            same "$work/half" "$model saved on $saved ranks, continued on $ranks"
        done
    done
    "$BEVATRON" checkpoint verify "$work/$model.4/iter_0000020" >"$work/out" 2>&1 && pass || fail "$model: a checkpoint of 4 ranks"
done

# In 16 bits the ranks' partial sums are rounded, so only the first loss, from equal weights, is nearly the same.
for precision in --bf16 --fp16; do
    half=("${base[@]}" $precision --initial-loss-scale 1024 --train-iters 5)
    train 1 "${half[@]}"
    grep -m 1 "lm loss" "$work/log" >"$work/one"
    train 2 "${half[@]}" --tensor-model-parallel-size 2 --sequence-parallel
    grep -m 1 "lm loss" "$work/log" | paste -d' ' "$work/one" - |
        awk '{ d = $3 - $6; exit !($3 > 0 && d * d < 1e-6) }' && pass || fail "$precision on 2 ranks that share layers"
done

refuse() { expect 2 "$1" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${base[@]}" --train-iters 2 \
    --tensor-model-parallel-size 2 "${@:2}"; }
refuse "num-attention-heads 3" --num-attention-heads 3 --kv-channels 8
refuse "ffn-hidden-size 33" --ffn-hidden-size 33
refuse "cannot split the tokens of a micro-batch, 1 × 15" --sequence-parallel --seq-length 15
expect 2 "3 ranks are not a multiple of" bash tests/parallel/mpirun.sh 3 "$BEVATRON" train "${base[@]}" --train-iters 2 \
    --tensor-model-parallel-size 2
finish
