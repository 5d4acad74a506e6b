#!/usr/bin/env bash
# Ranks that share each sequence and exchange heads, all of them (--cp-comm-type a2a) or neighbours (a2a+p2p): losses and
# norms equal those of one rank, of a Llama with grouped queries, a window, sinks and caps, of latent attention, of a BERT
# and of documents in a row, with dropout, alone and combined with other kinds of parallelism and recompute; what cannot
# be shared is refused.
# tier: all
# label: slow
# cost: 18
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/losses.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
base=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 8 --seq-length 32 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 2 --global-batch-size 4 --lr 1e-3
    --clip-grad 0.5 --log-interval 1 --eval-interval 10 --eval-iters 1 --threads 1 --log-params-norm
    --hidden-dropout 0.1 --attention-dropout 0.1 --train-iters 10)
llama=(--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights
    --disable-bias-linear --group-query-attention --num-query-groups 4 --sliding-window 11 --qk-layernorm
    --window-attn-skip-freq 2 --rotary-base-local 500 --softmax-type learnable --attn-logit-softcapping 0.02)
latent=(--swiglu --disable-bias-linear --position-embedding-type rope --normalization RMSNorm --multi-latent-attention
    --qk-layernorm --q-lora-rank 12 --kv-lora-rank 10 --qk-head-dim 4 --qk-pos-emb-head-dim 2 --v-head-dim 3)

for model in llama latent bert documents; do
    flags=("${base[@]}")
    [ $model = llama ] && flags+=("${llama[@]}")
    [ $model = latent ] && flags+=("${latent[@]}")
    [ $model = bert ] && flags+=(--model bert --norm-placement post --num-token-types 2)
    [ $model = documents ] && flags+=(--reset-position-ids --reset-attention-mask --eod-mask-loss)
    train 1 "${flags[@]}"
    cp "$work/log" "$work/$model"
    train 2 "${flags[@]}" --context-parallel-size 2 --cp-comm-type a2a --check-replicas 3
    same "$work/$model" "$model on 2 ranks that exchange heads"
    train 4 "${flags[@]}" --context-parallel-size 4 --cp-comm-type a2a --recompute-granularity full \
        --recompute-keep-attention --cpu-offloading
    same "$work/$model" "$model on 4 ranks that exchange heads, recomputed"
    train 4 "${flags[@]}" --context-parallel-size 2 --cp-comm-type a2a p2p --recompute-granularity selective
    same "$work/$model" "$model on 2 pairs of ranks that exchange heads in one layer"
    train 4 "${flags[@]}" --context-parallel-size 2 --cp-comm-type a2a --tensor-model-parallel-size 2 \
        --sequence-parallel --check-replicas 3
    same "$work/$model" "$model on 2 × 2 ranks with sequence parallelism"
    # In the second layer of half of them all ranks exchange heads.
    case $model in
    llama) more=(--recompute-granularity selective) type=(a2a+p2p) ;;
    latent) more=(--recompute-granularity full --recompute-keep-attention) type=(a2a+p2p a2a) ;;
    bert) more=(--recompute-granularity full) type=(a2a+p2p) ;;
    documents) more=(--check-replicas 3) type=(a2a+p2p a2a) ;;
    esac
    train 4 "${flags[@]}" --context-parallel-size 4 --cp-comm-type "${type[@]}" --hierarchical-context-parallel-sizes 2 2 \
        "${more[@]}"
    same "$work/$model" "$model on 2 pairs of neighbours that exchange heads"
done
train 1 "${base[@]}" "${llama[@]}" --micro-batch-size 1
cp "$work/log" "$work/small"
train 4 "${base[@]}" "${llama[@]}" --context-parallel-size 2 --cp-comm-type p2p a2a --pipeline-model-parallel-size 2 \
    --micro-batch-size 1
same "$work/small" "a pipeline whose last layer exchanges heads"

refuse() { expect 2 "$1" bash tests/parallel/mpirun.sh 4 "$BEVATRON" train "${base[@]}" --context-parallel-size 4 \
    "${@:2}"; }
refuse "a2a cannot share --num-query-groups 2 among 4 ranks" --cp-comm-type a2a --group-query-attention \
    --num-query-groups 2
refuse "a2a+p2p needs --hierarchical-context-parallel-sizes" --cp-comm-type a2a+p2p
refuse "are 8 ranks, but --context-parallel-size is 4" --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 4
refuse "ring is unknown; give p2p, all_gather, a2a or a2a+p2p" --cp-comm-type ring
refuse "has 3 values for 2 layers" --cp-comm-type a2a p2p a2a
refuse "does not work with --model t5" --cp-comm-type a2a --model t5 --decoder-seq-length 16
finish
