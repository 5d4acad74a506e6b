#!/usr/bin/env bash
# A checkpoint of any layout of ranks can be resumed on any other: saved on each of six, loaded on each of the other
# five, the next step has the same loss as without a stop, and the following samples are the next ones. Every other layer
# is a mixture of experts, which three of the layouts share out to ranks: of data, context and tensor parallelism.
# tier: all
# label: slow
# cost: 12
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/layouts.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

layouts=("" "tp=2 sp=yes" "pp=2 vp=2" "dp=4 ep=4 zero=yes" "cp=2 dp=2 ep=2 zero=yes re=full"
    "tp=2 sp=yes pp=2 dp=2 ep=2 etp=1 zero=yes")
flags_of_run=(--mock-data --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 8 --lr 1e-3
    --clip-grad 0.5 --log-interval 1 --eval-iters 0 --threads 1 --hidden-dropout 0.1 --attention-dropout 0.1
    --train-iters 20 --lr-warmup-iters 5 --save-interval 10
    --num-experts 4 --moe-layer-freq "[0,1]*2" --moe-ffn-hidden-size 16 --moe-aux-loss-coeff 1e-2)

# go LAYOUT FLAGS…: trains, and writes the loss and the samples of each iteration to $work/log.
go() {
    layout "$1"
    expect 0 "iteration       11/" bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "${flags_of_run[@]}" \
        "${flags[@]}" --exit-interval 11 "${@:2}"
    sed -nE 's/.*iteration +([0-9]+)\/.*consumed samples: +([0-9]+).*learning rate: ([^ ]+).*lm loss: ([^ ]+).*/\1 \2 \3 \4/p' \
        "$work/out" >"$work/log"
}

for ((i = 0; i < ${#layouts[@]}; i++)); do
    # Every second one is written by several ranks, or in the background.
    more=()
    [ $((i % 2)) = 1 ] && more=(--ckpt-writers 2)
    [ $((i % 3)) = 2 ] && more+=(--async-save)
    go "${layouts[i]}" --save "$work/saved.$i" "${more[@]}"
    tail -n 1 "$work/log" >"$work/next.$i"
done
for ((i = 0; i < ${#layouts[@]}; i++)); do
    for ((k = 0; k < ${#layouts[@]}; k++)); do
        [ $i = $k ] && continue
        go "${layouts[k]}" --load "$work/saved.$i" --ckpt-step 10
        paste -d' ' "$work/next.$i" "$work/log" | awk '{
                d = $4 - $8; d = d < 0 ? -d : d
                good = $1 == 11 && $5 == 11 && $2 == $6 && $3 == $7 && d <= 1e-6 * $4
            } END { exit !(good && NR == 1) }' && pass ||
            fail "saved with \"${layouts[i]}\", continued with \"${layouts[k]}\": $(cat "$work/next.$i") and $(cat "$work/log")"
    done
done
finish
