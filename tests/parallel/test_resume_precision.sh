#!/usr/bin/env bash
# A run resumes in another precision than its checkpoint's: nothing of the fp32 masters is lost, and every rank computes
# with values rounded from them. So if three checkpoints with the same masters, in fp32, bf16 and fp16, are each resumed
# in each precision on one rank, on two and on two with the distributed optimizer, the first loss depends only on the
# precision.
# tier: all
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
: "${COMPARE_WEIGHTS:=$(dirname "$BEVATRON")/tests/compare_weights}"
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

model=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 48 --num-attention-heads 3 --seq-length 33
    --max-position-embeddings 40 --micro-batch-size 2 --global-batch-size 4 --lr-decay-style constant --log-interval 1
    --eval-iters 0 --hidden-dropout 0 --attention-dropout 0 --device cpu --threads 1 --train-iters 12 --save-interval 12)
# A learning rate that moves no weight.
still=(--lr 1e-30 --override-opt-param-scheduler)
precisions=(fp32 bf16 fp16)

# flags_of PRECISION: sets the array `flags`.
flags_of() {
    case $1 in
    fp32) flags=() ;;
    bf16) flags=(--bf16) ;;
    fp16) flags=(--fp16 --initial-loss-scale 1024) ;;
    esac
}
# same_masters A B WHAT: even such a small rate shows in weights that are zero, and bf16 moves ties by one unit in the
# last place.
same_masters() {
    "$COMPARE_WEIGHTS" --masters "$1" "$2" 1e-7 >"$work/out" 2>&1 && pass || fail "$3: the masters differ"
}

# Six iterations make the masters; one that moves nothing saves them in a checkpoint of each precision.
expect 0 "exiting program at iteration 6" "$BEVATRON" train "${model[@]}" --lr 1e-3 --save "$work/origin" --exit-interval 6
for from in "${precisions[@]}"; do
    flags_of "$from"
    expect 0 "exiting program at iteration 7" "$BEVATRON" train "${model[@]}" "${still[@]}" "${flags[@]}" \
        --load "$work/origin" --save "$work/$from" --exit-interval 7
    same_masters "$work/origin/iter_0000006" "$work/$from/iter_0000007" "fp32 resumed in $from"
done
"$COMPARE_WEIGHTS" "$work/fp32/iter_0000007" "$work/origin/iter_0000006" 1e-7 >"$work/out" && pass || fail "fp32 weights"
[ "$(stat -c %s "$work/bf16/iter_0000007/model.safetensors")" -lt "$(stat -c %s "$work/fp32/iter_0000007/model.safetensors")" ] &&
    pass || fail "the weights of bf16 do not have 16 bits"

for to in "${precisions[@]}"; do
    flags_of $to
    first=
    for from in "${precisions[@]}"; do
        for layout in "1" "2" "2 --use-distributed-optimizer"; do
            rm -rf "$work/resumed"
            # shellcheck disable=SC2086
            expect 0 "exiting program at iteration 8" bash tests/parallel/mpirun.sh ${layout%% *} "$BEVATRON" train "${model[@]}" \
                "${still[@]}" "${flags[@]}" --load "$work/$from" --save "$work/resumed" --exit-interval 8 ${layout#[12]}
            loss=$(losses "$work/out" | cut -d" " -f2)
            first=${first:-$loss}
            awk -v a="$loss" -v b="$first" 'BEGIN { d = a - b; exit !(a > 0 && d <= 5e-6 && -d <= 5e-6) }' && pass ||
                fail "$from resumed in $to on $layout: the first loss is $loss, that of fp32 on one rank $first"
            same_masters "$work/$from/iter_0000007" "$work/resumed/iter_0000008" "$from resumed in $to on $layout"
        done
    done
    firsts+=("$first")
done
# The bound above distinguishes precisions.
[ "$(printf '%s\n' "${firsts[@]}" | sort -u | wc -l)" = 3 ] && pass || fail "losses do not show the precision: ${firsts[*]}"

# Adam's moments in 8 bits go through files to other layouts, and back, to the bit. The first loss
# scale of fp16 overflows, which skips the update.
coded=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 128 --num-attention-heads 2 --seq-length 17
    --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --lr-decay-style constant --log-interval 1 --eval-iters 0
    --device cpu --threads 1 --train-iters 12 --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8 --ckpt-writers 1)
expect 0 "exiting program at iteration 6" "$BEVATRON" train "${coded[@]}" --bf16 --save "$work/coded" --exit-interval 6
for layout in "1" "2 --tensor-model-parallel-size 2" "2 --use-distributed-optimizer --ddp-bucket-size 3000" \
    "4 --tensor-model-parallel-size 2 --use-distributed-optimizer"; do
    rm -rf "$work/resumed"
    # shellcheck disable=SC2086
    expect 0 "exiting program at iteration 7" bash tests/parallel/mpirun.sh ${layout%% *} "$BEVATRON" train "${coded[@]}" \
        --fp16 --load "$work/coded" --save "$work/resumed" --exit-interval 7 ${layout#[124]}
    grep -q "number of skipped iterations:   1" "$work/out" && pass || fail "moments in 8 bits: the update was not skipped"
    # The iteration is in the first bytes.
    cmp -i 64 "$work/coded/iter_0000006/optimizer.safetensors" "$work/resumed/iter_0000007/optimizer.safetensors" &&
        pass || fail "moments in 8 bits, loaded and saved on $layout, differ"
done
# Whoever holds which of them, updates make the same ones. A norm's sum would depend on it.
for zero in "" "--use-distributed-optimizer --ddp-bucket-size 3000"; do
    # shellcheck disable=SC2086
    expect 0 "exiting program at iteration 9" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${coded[@]}" \
        --bf16 --clip-grad 0 --load "$work/coded" --save "$work/updated$zero" --exit-interval 9 $zero
done
cmp "$work"/updated*/iter_0000009/optimizer.safetensors && pass || fail "moments in 8 bits of a divided optimizer differ"

# Layers in fp8 that were in bf16 before have no scales in the checkpoint. Then all layers measure theirs in the first
# step, also those of stages whose scales are there: its loss is that of one rank.
eight=(--mock-data --vocab-size 97 --num-layers 4 --hidden-size 32 --num-attention-heads 2 --seq-length 16
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --lr-decay-style constant --log-interval 1 --eval-iters 0
    --device cpu --threads 1 --train-iters 12 --bf16 --fp8-format hybrid)
expect 0 "exiting program at iteration 3" "$BEVATRON" train "${eight[@]}" --first-last-layers-bf16 \
    --num-layers-at-end-in-bf16 0 --save "$work/eight" --exit-interval 3
firsts=()
for stages in 1 2; do
    expect 0 "the checkpoint's fp8 scales are of other layers" bash tests/parallel/mpirun.sh $stages "$BEVATRON" train \
        "${eight[@]}" --load "$work/eight" --exit-interval 4 --pipeline-model-parallel-size $stages
    firsts+=("$(losses "$work/out")")
done
[ -n "${firsts[0]}" ] && [ "${firsts[0]}" = "${firsts[1]}" ] && pass || fail "fp8 resumed with other layers in bf16: ${firsts[*]}"
finish
