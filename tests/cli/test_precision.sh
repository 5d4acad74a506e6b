#!/usr/bin/env bash
# Training in 16 bits on the CPU: fp16 overflows at first, skips, finds its loss scale and learns like fp32; an overflow
# in the middle of a run is skipped too; a resumed run has the same scale and bits; bf16 follows fp32.
# label: slow
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

model=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 48 --num-attention-heads 3 --seq-length 33
    --max-position-embeddings 40 --micro-batch-size 2 --global-batch-size 6 --lr 1e-3 --lr-decay-style constant
    --log-interval 1 --eval-iters 0 --hidden-dropout 0.1 --attention-dropout 0.1 --device cpu --threads 2)

scales() { sed -n 's/.*loss scale: \([0-9.]*\).*/\1/p' "$work/out" | tr '\n' ' '; }
skipped() { grep -c "number of skipped iterations:   1" "$work/out"; }
last_loss() { losses "$work/out" | tail -1 | cut -d" " -f2; }
# |a - b| <= c
near() { awk -v a="$1" -v b="$2" -v c="$3" 'BEGIN { d = a - b; exit !(d <= c && -d <= c) }'; }

# From 2^32 down: the first overflow is tolerated, every further one halves the scale.
expect 0 "iteration       30/      30" "$BEVATRON" train "${model[@]}" --train-iters 30 --fp16
case "$(scales)" in
"4294967296.0 2147483648.0 1073741824.0 "*) pass ;;
*) fail "the scale does not begin as Megatron's: $(scales)" ;;
esac
skips=$(skipped)
[ "$skips" -ge 5 ] && [ "$skips" -le 25 ] && pass || fail "$skips iterations were skipped"
# A skipped iteration has no loss and no norm in its line.
[ "$(grep -c "grad norm" "$work/out")" = $((30 - skips)) ] && pass || fail "norms of skipped iterations"

# The memory that the CPU takes beside the plan is reported; fp32 needs none.
grep -q "> memory for copies in fp32" "$work/out" && pass || fail "a run in 16 bits does not say its copies"
expect 0 "for the device's own copies in fp32" "$BEVATRON" train "${model[@]}" --train-iters 30 --fp16 --dry-run
expect 0 "memory of a rank" "$BEVATRON" train "${model[@]}" --train-iters 30 --dry-run
grep -q "copies in fp32" "$work/out" && fail "copies of fp32 in fp32" || pass

# With a scale that fits from the start nothing is skipped, and the losses are those of fp32 except for rounding.
expect 0 "iteration       30/      30" "$BEVATRON" train "${model[@]}" --train-iters 30
exact=$(last_loss)
for precision in "--fp16 --initial-loss-scale 1024" "--fp16 --loss-scale 512" --bf16; do
    # shellcheck disable=SC2086
    expect 0 "iteration       30/      30" "$BEVATRON" train "${model[@]}" --train-iters 30 $precision
    [ "$(skipped)" = 0 ] && pass || fail "$precision: skipped iterations"
    near "$(last_loss)" "$exact" 0.02 && pass || fail "$precision: the loss is $(last_loss), in fp32 $exact"
done
grep -q "loss scale: 1.0 " "$work/out" && pass || fail "the scale of bf16 is 1"

# It grows after --loss-scale-window good iterations until it overflows in the middle of the run, which is skipped; the
# run continues and learns.
expect 0 "iteration       60/      60" "$BEVATRON" train "${model[@]}" --train-iters 60 --fp16 \
    --initial-loss-scale 65536 --loss-scale-window 3 --hysteresis 1
skips=$(skipped)
[ "$skips" -ge 2 ] && pass || fail "no overflow was provoked: $(scales)"
near "$(last_loss)" 2.5 1 && pass || fail "the loss after overflows is $(last_loss)"

# Overflows that no lower scale can cure end the run: at once with a constant scale, and after as many at the lowest one
# as would halve a higher one. If they are to be skipped, all iterations are.
expect 213 "at iteration 1 with a loss scale of 1e+30, which stays; the weights were not changed" "$BEVATRON" train "${model[@]}" \
    --train-iters 30 --fp16 --loss-scale 1e30
for chances in 1 4; do
    expect 213 "at iteration $((2 * chances + 1)) with a loss scale of 2.5e+29, which stays" "$BEVATRON" train "${model[@]}" --train-iters 30 \
        --fp16 --initial-loss-scale 1e30 --min-loss-scale 2.5e29 --hysteresis $chances
done
expect 0 "iteration       10/      10" "$BEVATRON" train "${model[@]}" --train-iters 10 --fp16 --loss-scale 1e30 \
    --no-check-for-nan-in-loss-and-grad
[ "$(skipped)" = 10 ] && pass || fail "$(skipped) of 10 iterations were skipped"

# The same, stopped and resumed: the scale's state is in the checkpoint.
expect 0 "iteration       40/      40" "$BEVATRON" train "${model[@]}" --train-iters 40 --fp16 \
    --initial-loss-scale 65536 --loss-scale-window 4 --save "$work/straight" --save-interval 40
losses "$work/out" >"$work/straight.losses"
expect 0 "exiting program at iteration 18" "$BEVATRON" train "${model[@]}" --train-iters 40 --fp16 \
    --initial-loss-scale 65536 --loss-scale-window 4 --exit-interval 18 --save "$work/resumed" --save-interval 18
losses "$work/out" >"$work/resumed.losses"
expect 0 "iteration       40/      40" "$BEVATRON" train "${model[@]}" --train-iters 40 --fp16 --loss-scale-window 4 \
    --load "$work/resumed" --save "$work/resumed" --save-interval 40
losses "$work/out" >>"$work/resumed.losses"
expect_same "$work/straight.losses" "$work/resumed.losses" "losses of a resumed fp16 run"
a=$(cd "$work/straight/iter_0000040" && sha256sum model.safetensors optimizer.safetensors)
b=$(cd "$work/resumed/iter_0000040" && sha256sum model.safetensors optimizer.safetensors)
[ "$a" = "$b" ] && pass || fail "stop and resume in fp16: the states differ"

# The same in bf16, whose masters are stored in halves, with one micro-batch per step, whose activations share memory
# with the gradients: neither a save in between, in the background or not, nor norms of the masters change a bit.
short=("${model[@]}" --hidden-size 64 --num-attention-heads 4 --num-layers 5 --global-batch-size 2 --train-iters 14 --bf16 --log-params-norm --log-num-zeros-in-grad)
lines() { grep "lm loss" "$work/out" | sed 's/.*consumed/consumed/; s/elapsed[^|]*|//'; }
expect 0 "iteration       14/      14" "$BEVATRON" train "${short[@]}" --save "$work/straight16" --save-interval 14
lines >"$work/straight16.lines"
expect 0 "exiting program at iteration 8" "$BEVATRON" train "${short[@]}" --exit-interval 8 --save "$work/resumed16" --save-interval 2 --async-save
lines >"$work/resumed16.lines"
expect 0 "iteration       14/      14" "$BEVATRON" train "${short[@]}" --load "$work/resumed16" --save "$work/resumed16" --save-interval 14
lines >>"$work/resumed16.lines"
[ "$(wc -l <"$work/straight16.lines")" = 14 ] && pass || fail "lines of a bf16 run"
expect_same "$work/straight16.lines" "$work/resumed16.lines" "lines of a resumed bf16 run"
a=$(cd "$work/straight16/iter_0000014" && sha256sum model.safetensors optimizer.safetensors)
b=$(cd "$work/resumed16/iter_0000014" && sha256sum model.safetensors optimizer.safetensors)
[ "$a" = "$b" ] && pass || fail "stop and resume in bf16: the states differ"

# Every matmul kernel learns the same except for rounding; one that the processor lacks is an error.
for kernels in $("$BEVATRON" version | sed -n 's/^ *kernels *//p' | tr -d ,) openblas; do
    for precision in "" --bf16; do
        # shellcheck disable=SC2086
        expect 0 "iteration       30/      30" "$BEVATRON" train "${model[@]}" --train-iters 30 --cpu-kernels "$kernels" $precision
        near "$(last_loss)" "$exact" 0.02 && pass || fail "$kernels $precision: the loss is $(last_loss), usually $exact"
    done
done
grep -q "matmuls by OpenBLAS" "$work/out" && pass || fail "the log does not say what multiplies"

# A CPU emulates fp8, with a warning; sizes must fit.
fp8=(--bf16 --hidden-size 128 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 2 --num-layers 1)
for recipe in "hybrid --fp8-recipe delayed --fp8-output-proj" "e4m3 --fp8-recipe blockwise" "hybrid --fp8-recipe blockwise" "e4m3 --fp8-recipe mxfp8"; do
    # shellcheck disable=SC2086  # flags
    expect 0 "emulates fp8" "$BEVATRON" train "${model[@]}" --train-iters 2 "${fp8[@]}" --fp8-format $recipe
done
expect 0 "--logits-at-once has no effect with --fp8-output-proj" "$BEVATRON" train "${model[@]}" --train-iters 1 \
    "${fp8[@]}" --fp8-format hybrid --fp8-output-proj --logits-at-once 5
# Blocks may end early on a CPU, as those of gpt-oss do. GPUs need whole ones.
ragged=(--bf16 --fp8-format hybrid --fp8-recipe blockwise --hidden-size 144 --num-attention-heads 4 --kv-channels 32 --seq-length 48)
expect 0 "emulates fp8" "$BEVATRON" train "${model[@]}" --train-iters 1 "${ragged[@]}" --max-position-embeddings 48
expect 2 "on GPUs --fp8-recipe blockwise needs multiples of 128, but --hidden-size is 144; give --fp8-format hybrid --fp8-recipe delayed" \
    "$BEVATRON" plan --num-layers 2 "${ragged[@]}" --mock-data --vocab-size 500 --train-iters 10 --micro-batch-size 1 --global-batch-size 8 --machine p5.48xlarge --gpus 8

finish
