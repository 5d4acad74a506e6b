#!/usr/bin/env bash
# The state of every optimizer goes from one layout of ranks to another and back without a changed bit. Four ranks, which
# share out matrices and optimizer, save; two pipeline stages load that, skip an iteration and save the same files; four
# ranks load those, and train on to the bits of a run that was never stopped.
# tier: all
# label: slow
# cost: 10
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/layouts.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

# Iteration 4 reads its samples and changes nothing. Slices of rows have 64 elements, which share exponents in fp8.
common=(--mock-data --num-layers 2 --hidden-size 128 --num-attention-heads 4 --seq-length 16 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 8 --lr 1e-2
    --clip-grad 0.5 --log-interval 1 --eval-iters 0 --threads 1 --hidden-dropout 0.1 --disable-bias-linear
    --train-iters 7 --save-interval 1 --iterations-to-skip 4 --ckpt-writers 1)

# train_on LAYOUT END FLAGS…: up to iteration END.
train_on() {
    layout "$1"
    expect 0 "exiting program at iteration $2" bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "${common[@]}" "${flags[@]}" \
        "${optimizer[@]}" --exit-interval "$2" "${@:3}"
}

# same_state ITERATION WHAT: of both folders, each copied into one file, since stages write files of their own.
same_state() {
    local folder sums=()
    for folder in straight there; do
        rm -rf "$work/one"
        expect 0 "" "$BEVATRON" checkpoint reshard --input "$work/$folder" --output "$work/one" --ckpt-step "$1"
        sums+=("$(cd "$work/one/iter_000000$1" && sha256sum model.safetensors optimizer.safetensors)")
    done
    [ -n "${sums[0]}" ] && [ "${sums[0]}" = "${sums[1]}" ] && pass || fail "${optimizer[*]}: $2"
}

here="tp=2 dp=2 sp=yes zero=yes" there="pp=2"
for chosen in "--optimizer muon --bf16 --qk-clip --qk-clip-threshold 1e-3" \
    "--optimizer adaptive_muon --muon-scalar-optimizer lion" \
    "--optimizer adaptive_muon --adaptive-muon-moment2-method normuon --bf16 --ema-decay 0.9" \
    "--optimizer lion" "--optimizer sgd --bf16" "--exp-avg-dtype fp8 --exp-avg-sq-dtype fp8 --bf16"; do
    read -ra optimizer <<<"$chosen"
    rm -rf "$work"/straight "$work"/there
    train_on "$here" 6 --save "$work/straight"
    train_on "$there" 4 --load "$work/straight" --ckpt-step 3 --save "$work/there"
    same_state 4 "saved again by another layout"
    train_on "$here" 6 --load "$work/there" --save "$work/there"
    same_state 6 "trained on where it came from"
done
finish
