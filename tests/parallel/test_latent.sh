#!/usr/bin/env bash
# Latent attention on several ranks gives the weights of one rank: with and without a latent of queries, with and
# without norms, with YaRN and dropout, computed again, in fp8 by blocks; a run resumes to the bit, also on another layout; what does not work
# with it is refused. tests/layouts has all layouts of one such model.
# tier: all
# label: slow
# cost: 18
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

model=(--mock-data --vocab-size 97 --tokenizer-type NullTokenizer --num-layers 2 --hidden-size 30 --num-attention-heads 4 --seq-length 16
    --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --adam-eps 1e-4 --train-iters 6 --log-interval 1 --eval-iters 1 --device cpu
    --threads 1 --hidden-dropout 0.1 --attention-dropout 0.1 --position-embedding-type rope --normalization RMSNorm --swiglu
    --disable-bias-linear --ffn-hidden-size 24 --multi-latent-attention --kv-lora-rank 12 --qk-head-dim 6 --qk-pos-emb-head-dim 4
    --v-head-dim 5)

# alone NAME FLAGS…: what one rank makes, in $work/NAME. same NAME RANKS FLAGS…: so many ranks make the same.
alone() {
    expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${@:2}" --save "$work/$1" --save-interval 6
}
same() {
    rm -rf "$work/shared"
    expect 0 "saved checkpoint" bash tests/parallel/mpirun.sh "$2" "$BEVATRON" train "${model[@]}" "${@:3}" --save "$work/shared" --save-interval 6
    "$(dirname "$BEVATRON")/tests/compare_weights" "$work/$1/iter_0000006" "$work/shared/iter_0000006" "${bound:-1e-5}" >"$work/out" 2>&1 && pass ||
        fail "$1 on $2 ranks with ${*:3}: $(head -n 3 "$work/out")"
}

plain=(--qk-layernorm)
alone plain "${plain[@]}"
same plain 2 "${plain[@]}" --tensor-model-parallel-size 2
same plain 2 "${plain[@]}" --context-parallel-size 2
same plain 4 "${plain[@]}" --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer
same plain 4 "${plain[@]}" --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel --recompute-granularity full
same plain 2 "${plain[@]}" --pipeline-model-parallel-size 2 --pipeline-schedule zero-bubble

# A latent of queries, latents without norms, YaRN.
yarn=(--q-lora-rank 10 --rotary-scaling-factor 8 --original-max-position-embeddings 4 --mscale 0.7)
alone yarn "${yarn[@]}"
same yarn 4 "${yarn[@]}" --tensor-model-parallel-size 4 --sequence-parallel
same yarn 4 "${yarn[@]}" --tensor-model-parallel-size 2 --context-parallel-size 2 --recompute-granularity selective

experts=(--q-lora-rank 10 --qk-layernorm --num-experts 4 --moe-ffn-hidden-size 16 --moe-router-topk 2 --moe-layer-freq "[0,1]")
alone experts "${experts[@]}"
same experts 4 "${experts[@]}" --tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 2 --use-distributed-optimizer

# Queries, keys and values computed again: the same bits on one rank, the weights of one rank on several, with exchanged
# heads, too.
again=(--recompute-granularity selective --recompute-modules mla_up_proj)
alone again "${yarn[@]}" "${again[@]}"
cmp -s "$work/yarn/iter_0000006/model.safetensors" "$work/again/iter_0000006/model.safetensors" && pass || fail "mla_up_proj changes bits"
same yarn 4 "${yarn[@]}" "${again[@]}" core_attn --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2
same yarn 2 "${yarn[@]}" "${again[@]}" --context-parallel-size 2 --cp-comm-type a2a
same plain 2 "${plain[@]}" "${again[@]}" core_attn --context-parallel-size 2 --cp-comm-type a2a

# fp8 by blocks of 128, with latents that end within a block: losses of two ranks that split rows and heads are near those
# of one.
blocks=(--mock-data --vocab-size 97 --tokenizer-type NullTokenizer --num-layers 2 --hidden-size 128 --num-attention-heads 8 --seq-length 256
    --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --train-iters 4 --log-interval 1 --eval-iters 0 --device cpu --threads 1
    --hidden-dropout 0 --attention-dropout 0 --position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear
    --ffn-hidden-size 256 --multi-latent-attention --q-lora-rank 80 --kv-lora-rank 48 --qk-head-dim 32 --qk-pos-emb-head-dim 32
    --v-head-dim 32 --qk-layernorm --bf16 --fp8-format e4m3 --fp8-recipe blockwise)
expect 0 "iteration        4/" "$BEVATRON" train "${blocks[@]}"
grep -o "lm loss: [^|]*" "$work/out" >"$work/one"
expect 0 "iteration        4/" "$BEVATRON" train "${blocks[@]}" --nproc 2 --tensor-model-parallel-size 2 --sequence-parallel "${again[@]}"
grep -o "lm loss: [^|]*" "$work/out" | paste -d' ' "$work/one" - | awk '{ d = $3 / $6 - 1; bad = bad || d * d > 1e-6 } END { exit bad || NR != 4 }' &&
    pass || fail "losses in fp8 by blocks on two ranks: $(paste -sd' ' "$work/one")"

# DeepSeek-V3 in small: groups of experts with a bias, shared experts, a layer that predicts one token more. The forward
# pass does not depend on who holds the experts.
deepseek=("${blocks[@]}" --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 128 --moe-layer-freq "[0,1]"
    --moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-num-groups 4 --moe-router-group-topk 2
    --moe-router-topk-scaling-factor 2.5 --moe-shared-expert-intermediate-size 64 --mtp-num-layers 1 --train-iters 3)
expect 0 "iteration        3/" "$BEVATRON" train "${deepseek[@]}"
grep -o "lm loss: [^|]*" "$work/out" >"$work/one"
for layout in "--expert-model-parallel-size 2" "--tensor-model-parallel-size 2 --expert-tensor-parallel-size 1 --expert-model-parallel-size 2 --sequence-parallel"; do
    # shellcheck disable=SC2086  # flags
    expect 0 "iteration        3/" "$BEVATRON" train "${deepseek[@]}" --nproc 2 $layout
    grep -o "lm loss: [^|]*" "$work/out" | paste -d' ' "$work/one" - | awk '{ d = $3 / $6 - 1; bad = bad || d * d > 1e-6 } END { exit bad || NR != 3 }' &&
        pass || fail "losses of DeepSeek-V3 by blocks on two ranks with $layout: $(paste -sd' ' "$work/one")"
done
expect 2 "needs multiples of 128 where ranks split a size, but this rank's part of an expert's width is 64" "$BEVATRON" train "${deepseek[@]}" \
    --nproc 2 --tensor-model-parallel-size 2 --sequence-parallel
# Sizes that no rank splits may end within a block, here after 16 of 128.
early=("${blocks[@]}" --hidden-size 144 --train-iters 3)
expect 0 "iteration        3/" "$BEVATRON" train "${early[@]}"
grep -o "lm loss: [^|]*" "$work/out" >"$work/one"
expect 0 "iteration        3/" "$BEVATRON" train "${early[@]}" --nproc 2 --tensor-model-parallel-size 2 --sequence-parallel
grep -o "lm loss: [^|]*" "$work/out" | paste -d' ' "$work/one" - | awk '{ d = $3 / $6 - 1; bad = bad || d * d > 1e-6 } END { exit bad || NR != 3 }' &&
    pass || fail "losses of blocks that end early on two ranks: $(paste -sd' ' "$work/one")"
expect 2 "a micro-batch has 64 tokens on a rank" "$BEVATRON" train "${blocks[@]}" --nproc 2 --tensor-model-parallel-size 2 --sequence-parallel --seq-length 128

# Whole matrices, so the layout of ranks does not change Muon's updates.
muon=(--q-lora-rank 10 --qk-layernorm --optimizer muon --muon-fp32-matmul-prec high)
alone muon "${muon[@]}"
bound=2e-5 same muon 2 "${muon[@]}" --tensor-model-parallel-size 2
muon+=(--qk-clip --qk-clip-threshold 1e-3)
alone clipped "${muon[@]}"
bound=2e-5 same clipped 4 "${muon[@]}" --tensor-model-parallel-size 2 --context-parallel-size 2

# Interrupted and resumed, the bits are the same; on another layout the weights are.
two=("${yarn[@]}" --nproc 2 --tensor-model-parallel-size 2)
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${two[@]}" --save "$work/whole" --save-interval 6
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${two[@]}" --save "$work/parts" --save-interval 3 --exit-interval 3
cp -r "$work/parts" "$work/moved"
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${two[@]}" --load "$work/parts" --save "$work/parts" --save-interval 6
for file in model optimizer; do
    cmp -s "$work/whole/iter_0000006/$file.safetensors" "$work/parts/iter_0000006/$file.safetensors" && pass || fail "$file differs"
done
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${yarn[@]}" --nproc 2 --use-distributed-optimizer --load "$work/moved" --save "$work/moved" \
    --save-interval 6
"$(dirname "$BEVATRON")/tests/compare_weights" "$work/whole/iter_0000006" "$work/moved/iter_0000006" 1e-5 >"$work/out" 2>&1 && pass ||
    fail "resumed on another layout: $(head -n 3 "$work/out")"

# What does not work together.
expect 2 "does not work with --multi-latent-attention; give --rotary-scaling-factor instead" "$BEVATRON" train "${model[@]}" --use-rope-scaling
expect 2 "--multi-latent-attention needs --position-embedding-type rope" "$BEVATRON" train "${model[@]}" --position-embedding-type none
expect 2 "leave out --group-query-attention" "$BEVATRON" train "${model[@]}" --group-query-attention --num-query-groups 2
expect 2 "rotation needs pairs" "$BEVATRON" train "${model[@]}" --qk-pos-emb-head-dim 5
expect 2 "cannot be shared by --tensor-model-parallel-size 3" "$BEVATRON" train "${model[@]}" --tensor-model-parallel-size 3
expect 2 "does not work with --multi-latent-attention" "$BEVATRON" train "${model[@]}" --softmax-type learnable
expect 0 "has no effect with --multi-latent-attention" "$BEVATRON" train "${model[@]}" --kv-channels 8 --dry-run
expect 0 "has no effect with --rope-type rope" "$BEVATRON" train "${model[@]}" --rope-type rope --rotary-scaling-factor 4 --dry-run
finish
