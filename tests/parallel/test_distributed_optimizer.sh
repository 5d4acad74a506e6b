#!/usr/bin/env bash
# The program with the distributed optimizer, gradient reduction overlapped with the backward pass and parameter
# gathering overlapped with the next forward pass, each alone and together, with dropout: losses, evaluation and saved
# weights of a GPT, a Llama, a BERT and a T5 equal those of one rank (tests/layouts tests the training step itself). In
# 16 bits losses agree within a bound. Buckets are small, so that there are many. Flags have their old names.
# tier: all
# label: slow
# cost: 15
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/layouts.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

layers=4
plain=("${training[@]}")
divided=(--use-distributed-optimizer --ddp-bucket-size 3000)
overlapped=("${divided[@]}" --overlap-grad-reduce --overlap-param-gather)
# same MODEL LAYOUT FLAGS…
same() {
    training=("${plain[@]}" "${@:3}")
    run_same "$1" "$2"
    training=("${plain[@]}")
}

for family in gpt llama bert t5; do
    run_first $family
    same $family "dp=2 tp=2 sp=yes" "${overlapped[@]}" --recompute-granularity full --check-replicas 3
done
same gpt "dp=2" "${divided[@]}"
same bert "dp=2" --overlap-grad-reduce --ddp-num-buckets 9
same llama "dp=2 pp=2 vp=2" "${overlapped[@]}"
# Inputs of recomputed layers, split by rows over the ranks that share layers.
same t5 "tp=4" --checkpoint-activations --distribute-checkpointed-activations
# One micro-batch per step: the last is the first. Three ranks, over which nothing divides evenly.
plain+=(--global-batch-size 12 --micro-batch-size 4)
training=("${plain[@]}")
rm -rf "$work/gpt.saved"
run_first gpt
same gpt "dp=3" "${overlapped[@]}" --log-num-zeros-in-grad

# Muon takes whole matrices, wherever their slices are.
adam=("${plain[@]}")
plain+=(--global-batch-size 8 --micro-batch-size 1 --optimizer muon --muon-extra-scale-factor 0.2
    --muon-fp32-matmul-prec high)
training=("${plain[@]}")
for family in gpt llama; do
    rm -rf "$work/$family.saved"
    run_first $family
    same $family "dp=2 tp=2 sp=yes" "${overlapped[@]}" --check-replicas 3
    same $family "tp=2 pp=2"
    same $family "dp=2 pp=2" "${overlapped[@]}"
done
same gpt "tp=4"
# Replicas without a distributed optimizer share out matrices, too.
same gpt "dp=2 tp=2" --check-replicas 3 --log-num-zeros-in-grad
same gpt "dp=4" --check-replicas 3
# A stage without parameters.
same gpt "pp=3" --pipeline-model-parallel-layout "Et*2||t*2L"
rm -rf "$work/llama.saved"
# QK-clip: the largest scores are those of all ranks. Every layer is clipped in every step.
whole=("${plain[@]}")
plain+=(--group-query-attention --num-query-groups 4)
training=("${plain[@]}")
run_first llama
mv "$work/llama.saved" "$work/unclipped"
plain+=(--qk-clip --qk-clip-threshold 1e-4 --qk-clip-alpha 0.3)
training=("${plain[@]}")
run_first llama
"$COMPARE_WEIGHTS" "$work/unclipped/iter_0000020" "$work/llama.saved/iter_0000020" 1e-3 >"$work/out" 2>&1
grep -q linear_qkv "$work/out" && pass || fail "nothing was clipped: $(head -n 3 "$work/out")"
same llama "dp=2 tp=2 sp=yes" "${overlapped[@]}" --check-replicas 3
same llama "cp=2 tp=2" --recompute-granularity full
same llama "dp=2 pp=2 vp=2" "${divided[@]}"
plain=("${whole[@]}")
# Lion, alone and for what Muon leaves. In a Llama no gradient is 0 up to rounding, whose sign would depend on the layout.
# NorMuon's norm is that of the whole matrix. AdaMuon has a larger epsilon, for the same reason as Adam.
for flags in "--optimizer lion" "--optimizer muon --muon-scalar-optimizer lion --muon-fp32-matmul-prec high" \
    "--optimizer adaptive_muon --adaptive-muon-moment2-method normuon --muon-fp32-matmul-prec high" \
    "--optimizer adaptive_muon --adaptive-muon-eps 1e-4 --muon-fp32-matmul-prec high"; do
    read -ra lion <<<"$flags"
    plain=("${adam[@]}" --global-batch-size 8 --micro-batch-size 1 --lr 1e-4 "${lion[@]}")
    training=("${plain[@]}")
    rm -rf "$work/llama.saved"
    run_first llama
    same llama "dp=2 tp=2 sp=yes" "${overlapped[@]}" --check-replicas 3
    same llama "dp=2 tp=2" --check-replicas 3
done
plain=("${adam[@]}")

# half PRECISION FLAGS…: losses of 20 iterations go to $work/half.
half() {
    expect 0 "iteration       20/" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${plain[@]}" --num-layers 4 \
        --initial-loss-scale 1024 --micro-batch-size 2 "$@"
    losses "$work/out" >"$work/half"
    [ "$(wc -l <"$work/half")" = 20 ] && pass || fail "$1: $(wc -l <"$work/half") losses"
}
for precision in --bf16 --fp16; do
    half $precision
    mv "$work/half" "$work/undivided"
    half $precision "${overlapped[@]}" --check-replicas 5
    paste "$work/undivided" "$work/half" | awk '{ d = ($2 - $4) / $2; if (d * d > 1e-6) bad = 1 } END { exit bad }' &&
        pass || fail "$precision: losses of a divided optimizer differ"
done

expect 2 "overlap-param-gather needs --use-distributed-optimizer" "$BEVATRON" train "${plain[@]}" --num-layers 2 \
    --overlap-param-gather --overlap-grad-reduce
finish
