#!/usr/bin/env bash
# Training as a user does it: an uninterrupted run equals one that was stopped and resumed, bit for bit; the number of
# threads changes no bit; evaluation and generation read what training wrote. Optimizers: test_train_optimizers.sh; kills
# and signals: test_train_signals.sh.
# cost: 5
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/cli/train.sh || exit

expect 0 "iteration       20/      20" \
    "$BEVATRON" train "${model[@]}" --threads 2 --train-iters 20 --save "$work/straight" --save-interval 20
losses "$work/out" >"$work/straight.losses"
[ "$(wc -l <"$work/straight.losses")" = 20 ] && pass || fail "20 log lines"

# Stopped after 10, then resumed with another number of threads.
expect 0 "exiting program at iteration 10" "$BEVATRON" train "${model[@]}" --threads 2 --train-iters 20 \
    --exit-interval 10 --save "$work/resumed" --save-interval 5
losses "$work/out" >"$work/resumed.losses"
expect 0 "successfully loaded checkpoint" "$BEVATRON" train "${model[@]}" --threads 1 --train-iters 20 \
    --load "$work/resumed" --save "$work/resumed" --save-interval 5
losses "$work/out" >>"$work/resumed.losses"
expect_same_state "$work/straight/iter_0000020" "$work/resumed/iter_0000020" "stop and resume"
expect_same "$work/straight.losses" "$work/resumed.losses" "losses of a resumed run"
# Started again it has nothing to do, says so, and leaves its checkpoint alone.
expect 0 "nothing is left to train" "$BEVATRON" train "${model[@]}" --threads 1 --train-iters 20 \
    --load "$work/resumed" --save "$work/./resumed/" --save-interval 5
grep -q "saving checkpoint" "$work/out" && fail "a finished run saves again" || pass
# Settings that differ from the checkpoint are reported, but only if they do.
grep -q "settings differ from the checkpoint" "$work/out" && fail "a run that goes on as it was" || pass
expect 0 "--seed is 1234 there and 77 here" "$BEVATRON" train "${model[@]}" --threads 1 --train-iters 20 --load "$work/resumed" --seed 77
# Both values of a schedule that differs.
expect 2 "the learning rate decays over 20 iterations there and 30 here (--train-iters)" "$BEVATRON" train "${model[@]}" --threads 1 \
    --train-iters 30 --load "$work/resumed"
# The last loss is printed whatever the interval, and how long the rest takes: at the second line and at each tenth of the run.
expect 0 " iteration       25/      25 |" "$BEVATRON" train "${model[@]}" --threads 1 --train-iters 25 --log-interval 10
[ "$(grep "time left" "$work/out" | sed 's/about .* for/for/')" = "$(printf '> time left: for %d iterations\n' 15 5)" ] && pass || fail "the time left"
# A learning rate of 0 trains nothing, which is said, unless there is a lowest rate or the decay is as long as the run.
rate=(--threads 1 --lr-warmup-iters 0 --train-iters 3 --eval-iters 0)
expect 0 "the learning rate is 0 from sample 12 on" "$BEVATRON" train "${model[@]}" "${rate[@]}" --lr-decay-iters 2 --min-lr 0 --save "$work/idle"
for more in "--lr-decay-iters 3 --min-lr 0" "--lr-decay-iters 2 --min-lr 1e-5"; do
    # shellcheck disable=SC2086
    expect 0 "iteration        3/       3" "$BEVATRON" train "${model[@]}" "${rate[@]}" $more
    grep -q "the learning rate is 0" "$work/out" && fail "a warning with $more" || pass
done
expect 0 "or a longer decay with --override-opt_param-scheduler" "$BEVATRON" train "${model[@]}" "${rate[@]}" --train-iters 4 --min-lr 0 \
    --load "$work/idle" --use-checkpoint-opt_param-scheduler

# Written while training continues, and read back.
expect 0 "successfully saved checkpoint from iteration      20" "$BEVATRON" train "${model[@]}" --threads 2 \
    --train-iters 20 --save "$work/background" --save-interval 5 --async-save
expect_same_state "$work/straight/iter_0000020" "$work/background/iter_0000020" "saved in the background"
[ "$(grep -c "successfully saved" "$work/out")" = 4 ] && pass || fail "four checkpoints in the background"
expect 0 "iteration       20/      20" "$BEVATRON" train "${model[@]}" --threads 2 --train-iters 20 \
    --load "$work/background" --ckpt-step 15 --save "$work/background2" --save-interval 20
expect_same_state "$work/straight/iter_0000020" "$work/background2/iter_0000020" "continued from one of the background"

# In several files, and in one again; a run can resume from either.
expect 0 "iteration 15" "$BEVATRON" checkpoint reshard --input "$work/background" --ckpt-step 15 --output "$work/many" --files 5
[ -f "$work/many/iter_0000015/model-00005-of-00005.safetensors" ] && pass || fail "five files"
expect 0 "whole" "$BEVATRON" checkpoint verify "$work/many"
expect 0 "iteration       20/      20" "$BEVATRON" train "${model[@]}" --threads 2 --train-iters 20 \
    --load "$work/many" --save "$work/many2" --save-interval 20
expect_same_state "$work/straight/iter_0000020" "$work/many2/iter_0000020" "continued from five files"
expect 0 "iteration 15" "$BEVATRON" checkpoint reshard --input "$work/many" --output "$work/one"
[ -f "$work/one/iter_0000015/model.safetensors" ] && pass || fail "one file"
expect 1 "already holds checkpoints" "$BEVATRON" checkpoint reshard --input "$work/many" --output "$work/one"
expect 2 "--output DIR" "$BEVATRON" checkpoint reshard --input "$work/many"
expect 216 "iteration: --input $work/many --ckpt-step 15" "$BEVATRON" checkpoint reshard --input "$work/many/iter_0000015" \
    --output "$work/two"

# A changed schedule is noticed; the user says which one counts.
expect 2 "Give --override-opt_param-scheduler to use the flags" "$BEVATRON" train "${model[@]}" --train-iters 30 --load "$work/resumed"
expect 1 "holds another model: --num-layers" "$BEVATRON" train "${model[@]}" --num-layers 3 --train-iters 30 --load "$work/resumed"
expect 0 "iteration       21/      21" "$BEVATRON" train "${model[@]}" --train-iters 21 --load "$work/resumed" \
    --use-checkpoint-opt_param-scheduler
grep -q "learning rate: 1.000000E-04" "$work/out" && pass || fail "the checkpoint's schedule ends at iteration 20"
expect 0 "iteration       21/      21" "$BEVATRON" train "${model[@]}" --train-iters 21 --lr 5e-4 --min-lr 5e-4 \
    --load "$work/resumed" --override-opt_param-scheduler
grep -q "learning rate: 5.000000E-04" "$work/out" && pass || fail "the schedule of the flags"

# Less frequent evaluation after a resume, and a smaller batch: the data must still last.
expect 0 "exiting program at iteration 4" "$BEVATRON" train "${model[@]}" --train-iters 8 --eval-interval 1 \
    --exit-interval 4 --save "$work/rarer" --save-interval 4
expect 0 "on test set" "$BEVATRON" train "${model[@]}" --train-iters 8 --eval-interval 8 --global-batch-size 2 \
    --load "$work/rarer" --override-opt_param-scheduler

# An unwritable folder is noticed before anything is trained.
: >"$work/file"
expect 2 "--save $work/file is a file, not a folder; give another folder with --save" "$BEVATRON" train "${model[@]}" --train-iters 8 --save "$work/file" --save-interval 4 \
    --metrics-file "$work/elsewhere.jsonl"
grep -q "iteration        1/" "$work/out" && fail "trained before the folder was looked at"
expect 2 "--save is empty; give a folder" "$BEVATRON" train "${model[@]}" --train-iters 8 --save ""

# Skipped steps print no loss.
expect 0 "number of skipped iterations:   1" "$BEVATRON" train "${model[@]}" --train-iters 4 --lr-warmup-iters 0 --lr 1e6 \
    --min-lr 0 --init-method-std 100 --clip-grad 0 --no-check-for-nan-in-loss-and-grad
grep "skipped iterations:   1" "$work/out" | grep -q "lm loss" && fail "a skipped step printed a loss"

# --keep-last keeps the newest ones.
expect 0 "iteration        8/       8" \
    "$BEVATRON" train "${model[@]}" --train-iters 8 --save "$work/kept" --save-interval 2 --keep-last 2
[ "$(cd "$work/kept" && echo iter_*)" = "iter_0000006 iter_0000008" ] && pass || fail "--keep-last: $(ls "$work/kept")"

# Gradient accumulation by ramp-up, counted in samples.
# Four batches of 2, two of 4, two of 6, then of 8: 92 of the 96 samples make whole batches.
expect 0 "consumed samples:           92" "$BEVATRON" train "${model[@]}" --train-samples 96 --global-batch-size 8 \
    --rampup-batch-size 2 2 24 --lr-warmup-samples 8 --lr-warmup-iters 0
grep -q "global batch size:     2 " "$work/out" && grep -q "global batch size:     8 " "$work/out" && pass ||
    fail "the batch size did not ramp up"

# Sizes by tokens seen, 33 of a sample: five batches of 2, then of 6, and from sample 30 on of 4; a resumed run goes on so.
steps=(--train-samples 48 --step-batch-size-schedule "0:2 300:6 0.99K:4" --lr-warmup-samples 8 --lr-warmup-iters 0)
unsized=()
for ((i = 0; i < ${#model[@]}; i++)); do
    [ "${model[i]}" = --global-batch-size ] && i=$((i + 1)) || unsized+=("${model[i]}")
done
expect 0 "consumed samples:           46" "$BEVATRON" train "${unsized[@]}" "${steps[@]}" --save "$work/steps"
sed -nE 's/.*global batch size: +([0-9]+).*/\1/p' "$work/out" | tr '\n' ' ' >"$work/sizes"
[ "$(cat "$work/sizes")" = "2 2 2 2 2 6 6 6 6 4 4 4 " ] && pass || fail "sizes of batches: $(cat "$work/sizes")"
expect 0 "exiting program" "$BEVATRON" train "${unsized[@]}" "${steps[@]}" --save "$work/steps2" --exit-interval 7
expect 0 "consumed samples:           46" "$BEVATRON" train "${unsized[@]}" "${steps[@]}" --load "$work/steps2" --save "$work/steps2"
expect_same_state "$work/steps/iter_0000012" "$work/steps2/iter_0000012" "batch sizes by tokens"

# Metrics, TensorBoard, evaluation.
expect 0 "params norm:" "$BEVATRON" train "${model[@]}" --train-iters 3 --lr-warmup-iters 0 --log-params-norm --log-num-zeros-in-grad \
    --log-throughput --tensorboard-dir "$work/board" --metrics-file "$work/metrics.jsonl"
grep -q "num zeros:" "$work/out" && grep -q "throughput per GPU (TFLOP/s/GPU):" "$work/out" && pass || fail "optional parts"
[ "$(grep -c '"kind": *"train"' "$work/metrics.jsonl")" = 3 ] && pass || fail "3 training lines in metrics.jsonl"
[ -s "$(echo "$work"/board/events.out.tfevents.*)" ] && pass || fail "no TensorBoard events"

finish
