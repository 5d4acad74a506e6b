#!/usr/bin/env bash
# A BLOOM (ALiBi, a norm of words) on several ranks: losses and norms equal those of one rank with tensor, sequence,
# context (also by exchanged heads, with windows and documents), pipeline and data parallelism, recompute and other
# micro-batches, and its text with a cache is the same too. Twelve heads, which are no power of two. What ALiBi and the norm
# of words do not go with is refused.
# tier: all
# label: slow
# cost: 12
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/losses.sh || exit
base=(--mock-data --num-layers 2 --hidden-size 48 --num-attention-heads 12 --seq-length 32 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 2 --global-batch-size 4 --lr 1e-3
    --clip-grad 0.5 --log-interval 1 --eval-interval 10 --eval-iters 1 --threads 1 --log-params-norm
    --hidden-dropout 0.1 --attention-dropout 0.1 --train-iters 10)
bloom=(--position-embedding-type alibi --embed-layernorm)

refuse() { expect 2 "$1" "$BEVATRON" train "${base[@]}" "${@:2}" --dry-run; }
refuse "alibi belongs to --model gpt" --position-embedding-type alibi --model bert
refuse "alibi belongs to --model gpt" --position-embedding-type alibi --model t5 --decoder-seq-length 8
refuse "does not work with --position-embedding-type alibi" "${bloom[@]}" --attn-logit-softcapping 2
refuse "scale-alibi needs --position-embedding-type alibi" --scale-alibi
refuse "embed-layernorm belongs to --model gpt" --embed-layernorm --model bert
refuse "embed-layernorm does not work with --embedding-multiplier" "${bloom[@]}" --embedding-multiplier 2 --disable-bias-linear
refuse "does not work with --word-embedding-size" "${bloom[@]}" --word-embedding-size 8
refuse "embed-layernorm does not work with --mtp-num-layers" "${bloom[@]}" --mtp-num-layers 1
refuse "no-rope-freq needs --position-embedding-type rope" "${bloom[@]}" --no-rope-freq 2

command -v mpirun >/dev/null || { echo "skipped: no mpirun"; finish; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; finish; }
train 1 "${base[@]}" "${bloom[@]}" --save "$work/saved"
cp "$work/log" "$work/one"
train 2 "${base[@]}" "${bloom[@]}" --tensor-model-parallel-size 2 --sequence-parallel --check-replicas 3
same "$work/one" "2 tensor ranks with sequence parallelism"
train 2 "${base[@]}" "${bloom[@]}" --context-parallel-size 2 --recompute-granularity full
same "$work/one" "2 context ranks, recomputed"
train 4 "${base[@]}" "${bloom[@]}" --context-parallel-size 2 --cp-comm-type a2a --tensor-model-parallel-size 2 \
    --sequence-parallel
same "$work/one" "2 x 2 ranks that exchange heads"
train 4 "${base[@]}" "${bloom[@]}" --context-parallel-size 4 --cp-comm-type a2a+p2p a2a \
    --hierarchical-context-parallel-sizes 2 2 --recompute-granularity full --recompute-keep-attention
same "$work/one" "neighbours that exchange heads, recomputed but attention"
train 4 "${base[@]}" "${bloom[@]}" --micro-batch-size 1 --pipeline-model-parallel-size 2 --pipeline-schedule zero-bubble \
    --use-distributed-optimizer --recompute-granularity selective
cp "$work/log" "$work/pipeline"
train 1 "${base[@]}" "${bloom[@]}" --micro-batch-size 1
same "$work/pipeline" "two pipelines of 2 stages"

mixed=("${bloom[@]}" --scale-alibi --group-query-attention --num-query-groups 4 --sliding-window 11 --reset-position-ids
    --reset-attention-mask --disable-bias-linear --no-norm-bias --swiglu)
train 1 "${base[@]}" "${mixed[@]}"
cp "$work/log" "$work/one"
train 4 "${base[@]}" "${mixed[@]}" --context-parallel-size 2 --tensor-model-parallel-size 2
same "$work/one" "documents and windows on 2 x 2 ranks"
train 2 "${base[@]}" "${mixed[@]}" --context-parallel-size 2 --cp-comm-type a2a
same "$work/one" "documents and windows on 2 ranks that exchange heads"
# The norm comes before learned positions.
train 1 "${base[@]}" --embed-layernorm
cp "$work/log" "$work/one"
train 4 "${base[@]}" --embed-layernorm --context-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel
same "$work/one" "learned positions behind the norm of words on 2 x 2 ranks"

write() { bash tests/parallel/mpirun.sh "$1" "$BEVATRON" generate --threads 1 --load "$work/saved" --prompt "1 2 3" --greedy \
    --max-new-tokens 25 "${@:3}" >"$2" 2>"$work/out" || fail "$1 ranks: ${*:3}"; }
write 1 "$work/text"
write 2 "$work/text2" --tensor-model-parallel-size 2
expect_same "$work/text" "$work/text2" "text on 2 tensor ranks"
write 2 "$work/text2" --pipeline-model-parallel-size 2
expect_same "$work/text" "$work/text2" "text on 2 stages"
finish
