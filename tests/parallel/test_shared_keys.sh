#!/usr/bin/env bash
# More tensor-parallel ranks than key/value heads: 2 heads on 4 ranks and 1 head on 2, with every kind of head norm,
# biases, dropout, sequence, context, pipeline and data parallelism, recompute, Muon with QK-clip, and T5's attention to
# a memory. Losses, norms and weights equal those of one rank; a checkpoint goes from 2 ranks to 4 and to 1 without a
# changed bit; sizes that cannot be shared are refused.
# tier: all
# label: slow
# cost: 14
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/losses.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
: "${COMPARE_WEIGHTS:=$(dirname "$BEVATRON")/tests/compare_weights}"

base=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 8 --kv-channels 8 --seq-length 16
    --vocab-size 97 --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 1
    --global-batch-size 4 --lr 1e-3 --adam-eps 1e-3 --clip-grad 0.5 --log-interval 1 --eval-interval 10 --eval-iters 1
    --threads 1 --log-params-norm --hidden-dropout 0.1 --attention-dropout 0.1 --position-embedding-type rope
    --group-query-attention --train-iters 10 --save-interval 10)

# one NAME FLAGS…: on one rank, as the reference for the calls of `many` that follow.
one() {
    name=$1 model=("${@:2}")
    train 1 "${base[@]}" "${model[@]}" --save "$work/$name.one"
    cp "$work/log" "$work/$name"
}

# many RANKS FLAGS…: gives the same.
many() {
    rm -rf "$work/many"
    train "$1" "${base[@]}" "${model[@]}" "${@:2}" --save "$work/many"
    same "$work/$name" "$name on $1 ranks with ${*:2}"
    "$COMPARE_WEIGHTS" "$work/$name.one/iter_0000010" "$work/many/iter_0000010" 1e-5 >"$work/out" 2>&1 && pass ||
        fail "$name on $1 ranks with ${*:2}: weights differ"
}

tp4=(--tensor-model-parallel-size 4) tp2=(--tensor-model-parallel-size 2)
one gqa --num-query-groups 2 --qk-layernorm --normalization RMSNorm
many 4 "${tp4[@]}"
many 4 "${tp4[@]}" --sequence-parallel --recompute-granularity full

# The largest scores of a step are above the threshold, so every update scales rows.
one clipped --num-query-groups 2 --optimizer muon --muon-fp32-matmul-prec high --disable-bias-linear \
    --qk-clip --qk-clip-threshold 1e-3
many 4 "${tp4[@]}" --sequence-parallel --recompute-granularity selective

one all-heads --num-query-groups 2 --qk-layernorm --qk-layernorm-all-heads --add-qkv-bias --disable-bias-linear
many 4 "${tp4[@]}"
one per-head --num-query-groups 2 --qk-layernorm --qk-layernorm-per-head
many 4 "${tp4[@]}" --sequence-parallel --check-replicas 3

# A bias of such keys has no effect, so there is none.
one rotated --num-query-groups 2 --qk-layernorm --qk-layernorm-after-rope --normalization RMSNorm
many 4 "${tp4[@]}" --sequence-parallel

one t5 --num-query-groups 2 --model t5 --decoder-seq-length 8 --position-embedding-type learned_absolute
many 4 "${tp4[@]}" --sequence-parallel

one mqa --num-query-groups 1 --qk-layernorm --swiglu --softmax-type learnable
many 4 "${tp2[@]}" --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
many 4 "${tp2[@]}" --pipeline-model-parallel-size 2 --pipeline-schedule zero-bubble
many 4 "${tp2[@]}" --context-parallel-size 2

# 2 ranks to 4 to 1, through iterations that change nothing.
moved=("${base[@]}" --num-query-groups 2 --bf16 --add-qkv-bias --iterations-to-skip 3 4 --save-interval 1
    --ckpt-writers 1)
train 2 "${moved[@]}" "${tp2[@]}" --exit-interval 4 --save "$work/two"
train 4 "${moved[@]}" "${tp4[@]}" --exit-interval 3 --load "$work/two" --ckpt-step 2 --save "$work/four"
train 1 "${moved[@]}" --exit-interval 4 --load "$work/four" --ckpt-step 3 --save "$work/single"
# same_files ITERATION FOLDER
same_files() {
    (cd "$work/two/iter_000000$1" && sha256sum model.safetensors optimizer.safetensors) >"$work/sums"
    (cd "$work/$2/iter_000000$1" && sha256sum -c --quiet "$work/sums") >"$work/out" 2>&1 && pass || fail "$2 at iteration $1"
}
same_files 3 four
same_files 4 single

refuse() { expect 2 "$1" bash tests/parallel/mpirun.sh 4 "$BEVATRON" train "${base[@]}" "${tp4[@]}" "${@:2}"; }
refuse "num-query-groups 8 cannot be shared by --tensor-model-parallel-size 3 ranks; sizes that work are 1, 2, 4, 8, and" \
    --num-query-groups 8 --tensor-model-parallel-size 3
refuse "kv-channels 6 cannot be shared by the 4 ranks" --num-query-groups 1 --kv-channels 6
refuse "num-attention-heads 6 cannot be shared" --num-query-groups 2 --num-attention-heads 6
refuse "a2a cannot share --num-query-groups 2 among 4 ranks" --num-query-groups 2 --tensor-model-parallel-size 2 \
    --context-parallel-size 2 --cp-comm-type a2a
finish
