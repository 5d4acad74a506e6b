#!/usr/bin/env bash
# Moving averages of weights: they change nothing in training, are evaluated, resumed to the bit and exported, in every
# precision. On two ranks: tests/parallel/test_training.sh.
# cost: 6
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

model=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 17
    --max-position-embeddings 20 --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-warmup-iters 0 --log-interval 1
    --eval-interval 3 --eval-iters 2 --device cpu --threads 1 --train-iters 6 --save-interval 3)
same_bytes() { # PART A B WHAT
    expect_same "$2/iter_0000006/$1.safetensors" "$3/iter_0000006/$1.safetensors" "$4"
}
# The last loss on a set of the output.
evaluated() { # [SET]
    grep -o "${1:-validation} set | lm loss value: [0-9.E+-]*" "$work/out" | tail -1
}

for precision in "" --bf16 "--fp16 --initial-loss-scale 1024"; do
    read -ra flags <<<"$precision"
    rm -rf "$work"/{plain,kept,used,again,average}
    expect 0 "iteration        6/" "$BEVATRON" train "${model[@]}" "${flags[@]}" --save "$work/plain"
    expect 0 "iteration        6/" "$BEVATRON" train "${model[@]}" "${flags[@]}" --ema-decay 0.7 --save "$work/kept"
    own=$(evaluated)
    flags+=(--ema-decay 0.7 --eval-with-ema)
    expect 0 "iteration        6/" "$BEVATRON" train "${model[@]}" "${flags[@]}" --save "$work/used"
    average=$(evaluated)
    same_bytes model "$work/plain" "$work/used" "weights of a run that averages them [$precision]"
    same_bytes optimizer "$work/kept" "$work/used" "the average after evaluations with it [$precision]"
    [ -n "$average" ] && [ "$average" != "$own" ] && pass || fail "--eval-with-ema evaluated the weights: $average"
    expect 0 "exiting program" "$BEVATRON" train "${model[@]}" "${flags[@]}" --save "$work/again" --exit-interval 3
    expect 0 "iteration        6/" "$BEVATRON" train "${model[@]}" "${flags[@]}" --load "$work/again" --save "$work/again"
    same_bytes optimizer "$work/used" "$work/again" "a resumed average [$precision]"
    # What is exported is what was evaluated.
    expect 0 "the moving average of 1 checkpoint " "$BEVATRON" checkpoint average --input "$work/used" --ema --output "$work/average"
    expect 0 "validation" "$BEVATRON" train "${model[@]}" "${flags[@]:0:${#flags[@]}-3}" --load "$work/average" --finetune --skip-train
    exported=$(evaluated test)
    expect 0 "validation" "$BEVATRON" train "${model[@]}" "${flags[@]}" --load "$work/used" --skip-train
    skipped=$(evaluated test)
    [ -n "$exported" ] && [ "$exported" = "$skipped" ] && pass || fail "exported: $exported, evaluated: $skipped [$precision]"
done

# A run that begins to average, and one that stops.
expect 0 "has no moving average of the weights" "$BEVATRON" train "${model[@]}" --fp16 --initial-loss-scale 1024 --ema-decay 0.7 \
    --load "$work/plain" --train-iters 7 --override-opt_param-scheduler
expect 0 "iteration        7/" "$BEVATRON" train "${model[@]}" --fp16 --initial-loss-scale 1024 --load "$work/used" --train-iters 7 \
    --override-opt_param-scheduler
expect 2 "--eval-with-ema needs a moving average" "$BEVATRON" train "${model[@]}" --eval-with-ema
expect 0 "--no-save-optim leaves the moving average" "$BEVATRON" train "${model[@]}" --ema-decay 0.7 --no-save-optim --save "$work/bare"
expect 2 "--ema-decay" "$BEVATRON" train "${model[@]}" --ema-decay 1
expect 2 "--ema-decay" "$BEVATRON" train "${model[@]}" --ema-decay 0.99999999
expect 2 "--ema-decay" "$BEVATRON" train "${model[@]}" --ema-decay nan
# Memory is planned: four bytes for each parameter more.
planned() {
    "$BEVATRON" plan "${model[@]}" --nproc 1 --json "$@" 2>/dev/null | sed -n 's/^  "checkpoint_bytes": \([0-9]*\).*/\1/p'
}
parameters=$((($(planned) - 0) / 12))
[ $(($(planned --ema-decay 0.9) - $(planned))) = $((4 * parameters)) ] && pass || fail "plan: $(planned) and $(planned --ema-decay 0.9) bytes"
finish
