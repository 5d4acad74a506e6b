#!/usr/bin/env bash
# Decoders other than GPT from the command line, with Megatron's flags: each learns, a run that was stopped and resumed
# equals an uninterrupted one, evaluation and generation take the model from its checkpoint, recompute changes no bit.
# label: slow
# cost: 15
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

run=(--tokenizer-type NullTokenizer --vocab-size 61 --mock-data --num-layers 2 --hidden-size 48 --num-attention-heads 6
    --seq-length 24 --max-position-embeddings 32 --micro-batch-size 4 --global-batch-size 8 --lr 1e-2 --log-interval 1
    --eval-iters 0 --hidden-dropout 0.1 --attention-dropout 0.1 --device cpu --train-iters 60)
llama=(--normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope --rotary-base 500
    --group-query-attention --num-query-groups 2 --untie-embeddings-and-output-weights)
opt=(--activation relu --position-offset 2)
mistral=("${llama[@]}" --sliding-window 7 --kv-channels 10)
neox=(--use-rotary-position-embeddings --no-position-embedding --rotary-percent 0.5 --rotary-interleaved
    --no-bias-gelu-fusion --use-rope-scaling --rope-original-length 16 --parallel-residual)

same_weights() {
    local a b
    a=$(cd "$1" && sha256sum <model.safetensors)
    b=$(cd "$2" && sha256sum <model.safetensors)
    if [ -n "$a" ] && [ "$a" = "$b" ]; then pass; else fail "$3: the weights in $1 and $2 differ"; fi
}

for name in llama opt mistral neox; do
    declare -n flags=$name
    expect 0 "iteration       60/      60" "$BEVATRON" train "${run[@]}" "${flags[@]}" --save "$work/$name" --save-interval 60
    # Samples count upward, so the next token is soon learned.
    last=$(losses "$work/out" | tail -n 1 | cut -d' ' -f2)
    awk -v loss="$last" 'BEGIN { exit !(loss < 1.5) }' && pass || fail "$name has a loss of $last after 60 steps"
    # Generated text continues like the samples, with flags from the checkpoint.
    expect 0 "10 11 12 13 14 15 16" "$BEVATRON" generate --load "$work/$name" --use-checkpoint-args --prompt "10 11 12" \
        --greedy --max-new-tokens 4 --device cpu
    expect 0 "iteration       30" "$BEVATRON" train "${run[@]}" "${flags[@]}" --save "$work/$name-2" --save-interval 30 \
        --exit-interval 30
    expect 0 "iteration       60" "$BEVATRON" train "${run[@]}" "${flags[@]}" --save "$work/$name-2" --save-interval 30 \
        --load "$work/$name-2" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
    same_weights "$work/$name/iter_0000060" "$work/$name-2/iter_0000060" "$name resumed, with recompute"
done

# A model that differs from the checkpoint's is refused, and every difference is named.
expect 1 "rotary-base is 500 there and 10000 here" "$BEVATRON" train "${run[@]}" "${llama[@]}" --rotary-base 10000 \
    --load "$work/llama"

# A model of others that is loaded with other flags is named.
expect 0 "granite: --embedding-multiplier is 12 there and 1 here, --residual-multiplier is 0.22 there and 1 here, --logits-scaling is 8" "$BEVATRON" train "${run[@]}" \
    --train-iters 1 --load tests/golden/foreign/granite --finetune "${llama[@]}" --hidden-size 24 --num-attention-heads 3 \
    --num-query-groups 1 --ffn-hidden-size 20 --vocab-size 36 --make-vocab-size-divisible-by 1 --norm-epsilon 1e-6
expect 0 "gpt_neox: --parallel-residual" "$BEVATRON" train "${run[@]}" --train-iters 1 --load tests/golden/foreign/gpt_neox \
    --finetune --hidden-size 24 --num-attention-heads 3 --ffn-hidden-size 20 --vocab-size 36 --make-vocab-size-divisible-by 1 \
    --position-embedding-type rope --rotary-percent 0.25 --activation gelu --untie-embeddings-and-output-weights

# Documents that do not see each other, positions that restart, no loss where a document ends.
expect 0 "iteration       60/      60" "$BEVATRON" train "${run[@]}" "${llama[@]}" --reset-attention-mask --reset-position-ids \
    --eod-mask-loss --recompute-activations

# A dry run reports the size of any model, and allocates nothing. 16 bytes a parameter are 2794 GB; activations lie in the gradients.
expect 0 "number of parameters: 174604836864" "$BEVATRON" train --preset gpt3-175b --dry-run
grep -q "linear_qkv.weight *(36864, 12288) *× 96" "$work/out" && grep -q "memory of a rank: 2\(79[4-9]\|8[0-9][0-9]\)\." "$work/out" && pass ||
    fail "shapes and memory of gpt3-175b"
expect 0 "linear_fc1.weight                   (49152, 12288) of which (6144, 12288)" "$BEVATRON" train --preset gpt3-175b \
    --tensor-model-parallel-size 8 --dry-run
expect 0 "of which rank 0 holds: 21853839360" "$BEVATRON" train --preset gpt3-175b \
    --tensor-model-parallel-size 8 --dry-run
expect 0 "linear_fc1.weight                   (49152, 12288) of which (6144, 12288)        × 12" "$BEVATRON" train \
    --preset gpt3-175b --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --dry-run
# Planned ranks are counted and not started, however many there are.
big=("$BEVATRON" train --preset gpt3-175b --tensor-model-parallel-size 8 --pipeline-model-parallel-size 12 --dry-run)
expect 0 "stage 11 of 12: a rank holds 1889906688 parameters" "${big[@]}" --nproc 6144 --use-distributed-optimizer
grep -Eq "data_parallel_size *\.+ 64$" "$work/out" && grep -q "ranks of stage 11 need most memory: 19.18 GB" "$work/out" &&
    pass || fail "gpt3-175b on 6144 ranks: $(tail -n 1 "$work/out")"
expect 2 "6145" "${big[@]}" --nproc=6145
printf 'dry-run: true\nnproc: 6144\n' >"$work/run.yaml"
expect 0 "stage 11 of 12: a rank holds 1889906688 parameters" "$BEVATRON" train --preset gpt3-175b --config "$work/run.yaml" \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 12 --use-distributed-optimizer
expect 2 "--nproc 6144 is not a number of ranks from 1 to 1024" "$BEVATRON" train --preset gpt3-175b --config "$work/run.yaml" \
    --dry-run=false
expect 0 "number of parameters: 405853388800" "$BEVATRON" train --preset llama3.1-405b --dry-run
expect 0 "number of parameters: 331196416" "$BEVATRON" train --preset opt-350m --vocab-size 50272 --dry-run
expect 0 "number of parameters: 68976648192" "$BEVATRON" train --preset llama2-70b --dry-run
expect 0 "number of parameters: 336226108" "$BEVATRON" train --preset bert-large --dry-run
expect 0 "cross_attention.linear_kv.weight" "$BEVATRON" train --preset t5-11b --dry-run
expect 2 "the length of the run is missing" "$BEVATRON" train --preset gpt3-175b --mock-data --dry-run
finish
