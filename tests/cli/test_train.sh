#!/usr/bin/env bash
# Training as a user does it: an uninterrupted run equals one that was stopped, killed and resumed, bit for bit; the
# number of threads changes no bit; evaluation and generation read what training wrote.
# cost: 15
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

model=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 48 --num-attention-heads 3 --seq-length 33
    --max-position-embeddings 40 --micro-batch-size 2 --global-batch-size 6 --lr 1e-3 --min-lr 1e-4
    --lr-decay-style cosine --lr-warmup-iters 3 --weight-decay 0.1 --log-interval 1 --eval-interval 8 --eval-iters 2
    --hidden-dropout 0.1 --attention-dropout 0.1 --device cpu)

# Compares every weight and every moment of two checkpoints by their hashes.
expect_same_state() {
    local a b
    a=$(cd "$1" && sha256sum model.safetensors optimizer.safetensors)
    b=$(cd "$2" && sha256sum model.safetensors optimizer.safetensors)
    if [ -n "$a" ] && [ "$a" = "$b" ]; then pass; else fail "$3: the states in $1 and $2 differ"; fi
}

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
expect 2 "lr_decay_steps is" "$BEVATRON" train "${model[@]}" --threads 1 --train-iters 30 --load "$work/resumed"
grep -q "lr_decay_steps is [0-9]* there and [0-9]* here (in samples)" "$work/out" && pass || fail "both values of a schedule"
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

# With SGD, whose state is different: stopped and resumed in bf16, and refused by a run with Adam, which can take its
# weights.
sgd=(--optimizer sgd --sgd-momentum 0.8 --bf16 --lr 0.1 --train-iters 6 --threads 1 --save-interval 3)
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${sgd[@]}" --save "$work/sgd"
expect 0 "exiting program" "$BEVATRON" train "${model[@]}" "${sgd[@]}" --save "$work/sgd2" --exit-interval 3
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${sgd[@]}" --load "$work/sgd2" --save "$work/sgd2"
expect_same_state "$work/sgd/iter_0000006" "$work/sgd2/iter_0000006" "stop and resume with SGD"
grep -aq '"momentum_buffer.decoder.final_layernorm.weight"' "$work/sgd/iter_0000006/optimizer.safetensors" && pass || fail "SGD's state"
expect 1 "optimizer is sgd there and adam here" "$BEVATRON" train "${model[@]}" "${sgd[@]}" --optimizer adam --load "$work/sgd"
expect 0 "iteration        1/       1" "$BEVATRON" train "${model[@]}" --train-iters 1 --lr-warmup-iters 0 --load "$work/sgd" --finetune

# With Muon for matrices and Adam for the rest.
muon=(--optimizer muon --muon-nesterov --muon-extra-scale-factor 0.2 --bf16 --lr 1e-2 --train-iters 6 --threads 1 --save-interval 3)
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${muon[@]}" --save "$work/muon"
expect 0 "exiting program" "$BEVATRON" train "${model[@]}" "${muon[@]}" --save "$work/muon2" --exit-interval 3
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${muon[@]}" --load "$work/muon2" --save "$work/muon2"
expect_same_state "$work/muon/iter_0000006" "$work/muon2/iter_0000006" "stop and resume with Muon"
for name in momentum_buffer.decoder.layers.0.mlp.linear_fc1.weight exp_avg_sq.embedding.word_embeddings.weight \
    exp_avg.embedding.position_embeddings.weight exp_avg.decoder.final_layernorm.weight; do
    grep -aq "\"$name\"" "$work/muon/iter_0000006/optimizer.safetensors" && pass || fail "Muon's state lacks $name"
done
expect 2 "--optimizer muon does not work with --fp16" "$BEVATRON" train "${model[@]}" --optimizer muon --fp16
expect 2 "takes one of quintic" "$BEVATRON" train "${model[@]}" "${muon[@]}" --muon-coefficient-type custom
expect 2 "aol has 4 steps" "$BEVATRON" train "${model[@]}" "${muon[@]}" --muon-coefficient-type aol
expect 2 "cubic5 has 5 steps" "$BEVATRON" train "${model[@]}" "${muon[@]}" --muon-coefficient-type cubic5 --muon-num-ns-steps 4
expect 0 "--muon-use-syrk tunes the speed" "$BEVATRON" train "${model[@]}" "${muon[@]}" --muon-use-syrk --dry-run

# With Lion, alone and for what Muon leaves.
for flags in "--optimizer lion" "--optimizer muon --muon-scalar-optimizer lion"; do
    read -ra lion <<<"$flags --lion-beta1 0.9 --bf16 --lr 1e-3 --train-iters 6 --threads 1 --save-interval 3"
    rm -rf "$work/lion" "$work/lion2"
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${lion[@]}" --save "$work/lion"
    expect 0 "exiting program" "$BEVATRON" train "${model[@]}" "${lion[@]}" --save "$work/lion2" --exit-interval 3
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${lion[@]}" --load "$work/lion2" --save "$work/lion2"
    expect_same_state "$work/lion/iter_0000006" "$work/lion2/iter_0000006" "stop and resume with $flags"
    grep -aq '"exp_avg_sq' "$work/lion/iter_0000006/optimizer.safetensors" && fail "Lion has a second moment" || pass
done
expect 1 "muon_scalar_optimizer is lion there and adam here" "$BEVATRON" train "${model[@]}" "${lion[@]}" \
    --muon-scalar-optimizer adam --load "$work/lion"
expect 1 "optimizer is muon there and lion here" "$BEVATRON" train "${model[@]}" --optimizer lion --bf16 --train-iters 6 --load "$work/lion"
expect 2 "--lion-beta2" "$BEVATRON" train "${model[@]}" --optimizer lion --lion-beta2 1

# With second moments of Muon, and with Adam's moments in 16 and 8 bits, which fp32 ones become and come from.
for flags in "--optimizer adaptive_muon --bf16" "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16" \
    "--exp-avg-dtype fp8 --exp-avg-sq-dtype fp8 --bf16" \
    "--optimizer muon --bf16 --disable-bias-linear --qk-clip --qk-clip-threshold 1e-3" \
    "--optimizer adaptive_muon --adaptive-muon-moment2-method normuon --muon-scalar-optimizer lion"; do
    read -ra other <<<"$flags --lr 1e-3 --train-iters 6 --threads 1 --save-interval 3"
    rm -rf "$work/other" "$work/other2"
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${other[@]}" --save "$work/other"
    expect 0 "exiting program" "$BEVATRON" train "${model[@]}" "${other[@]}" --save "$work/other2" --exit-interval 3
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${other[@]}" --load "$work/other2" --save "$work/other2"
    expect_same_state "$work/other/iter_0000006" "$work/other2/iter_0000006" "stop and resume with $flags"
    [ "${other[0]}" = --optimizer ] || { rm -rf "$work/narrow" && mv "$work/other" "$work/narrow"; }
done
# States in host memory, all of them or some, change no bit; a run resumes with or without them.
for flags in "--bf16" "--fp16 --initial-loss-scale 1024 --ema-decay 0.9 --exp-avg-dtype fp8" \
    "--optimizer muon --bf16 --qk-clip --qk-clip-threshold 1e-3" "--optimizer adaptive_muon --ema-decay 0.9"; do
    read -ra other2 <<<"$flags --lr 1e-3 --train-iters 6 --threads 1 --save-interval 3"
    rm -rf "$work/here" "$work/hosted"
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${other2[@]}" --save "$work/here"
    expect 0 "optimizer states in host memory" "$BEVATRON" train "${model[@]}" "${other2[@]}" --save "$work/hosted" \
        --optimizer-cpu-offload --optimizer-offload-fraction 0.5 --exit-interval 3
    expect 0 "saves no memory on a CPU" "$BEVATRON" train "${model[@]}" "${other2[@]}" --load "$work/hosted" --save "$work/hosted" \
        --optimizer-cpu-offload
    expect_same_state "$work/here/iter_0000006" "$work/hosted/iter_0000006" "states in host memory with $flags"
done
expect 2 "--qk-clip needs an optimizer that updates whole matrices" "$BEVATRON" train "${model[@]}" --qk-clip
expect 2 "--qk-clip does nothing behind --qk-layernorm" "$BEVATRON" train "${model[@]}" --optimizer muon --qk-clip --qk-layernorm
expect 0 "--qk-clip-alpha has no effect without --qk-clip" "$BEVATRON" train "${model[@]}" --qk-clip-alpha 0.3 --train-iters 8 --dry-run
expect 2 "does nothing without --optimizer-cpu-offload" "$BEVATRON" train "${model[@]}" --optimizer-offload-fraction 0.5
expect 1 "adaptive_muon_moment2_method is normuon there and adamuon here" "$BEVATRON" train "${model[@]}" "${other[@]}" \
    --adaptive-muon-moment2-method adamuon --load "$work/other"
expect 2 "--optimizer adaptive_muon does not work with --fp16" "$BEVATRON" train "${model[@]}" --optimizer adaptive_muon --fp16
expect 2 "--adaptive-muon-eps" "$BEVATRON" train "${model[@]}" --optimizer adaptive_muon --adaptive-muon-eps 0
expect 2 "--exp-avg-dtype" "$BEVATRON" train "${model[@]}" --exp-avg-dtype int8
expect 0 "they do nothing with --optimizer lion" "$BEVATRON" train "${model[@]}" --optimizer lion --exp-avg-dtype fp8 \
    --train-iters 8 --dry-run
expect 0 "iteration        7/       7" "$BEVATRON" train "${model[@]}" --lr 1e-3 --train-iters 7 --threads 1 --load "$work/narrow" \
    --override-opt_param-scheduler
expect 0 "iteration        7/       7" "$BEVATRON" train "${model[@]}" --exp-avg-dtype bf16 --lr 1e-3 --train-iters 7 --threads 1 \
    --load "$work/narrow" --override-opt_param-scheduler
expect 0 "read back: flags, shapes and all elements" "$BEVATRON" checkpoint convert --input "$work/narrow" \
    --output "$work/narrow_there" --to megatron --no-tokenizer
expect 0 "iteration        7/       7" "$BEVATRON" train "${model[@]}" --lr 1e-3 --train-iters 7 --threads 1 --load "$work/narrow_there" \
    --override-opt_param-scheduler
expect 0 "warning: --exp-avg-sq-dtype fp16: moments of 16 bits are in bf16 here" "$BEVATRON" train "${model[@]}" --exp-avg-sq-dtype fp16 \
    --lr 1e-3 --train-iters 6 --threads 1
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" --ema-decay 0.9 --lr 1e-3 --train-iters 6 --threads 1 --save "$work/mean"
expect 0 "is not converted; bevatron checkpoint average --ema exports it" "$BEVATRON" checkpoint convert --input "$work/mean" \
    --output "$work/mean_there" --to megatron --no-tokenizer

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
expect 2 "lr_decay_steps" "$BEVATRON" train "${model[@]}" --train-iters 30 --load "$work/resumed"
expect 1 "holds another model: num_layers" "$BEVATRON" train "${model[@]}" --num-layers 3 --train-iters 30 --load "$work/resumed"
expect 0 "iteration       21/      21" "$BEVATRON" train "${model[@]}" --train-iters 21 --load "$work/resumed" \
    --use-checkpoint-opt_param-scheduler
grep -q "learning rate: 1.000000E-04" "$work/out" && pass || fail "the checkpoint's schedule ends at iteration 20"
expect 0 "iteration       21/      21" "$BEVATRON" train "${model[@]}" --train-iters 21 --lr 5e-4 --min-lr 5e-4 \
    --load "$work/resumed" --override-opt_param-scheduler
grep -q "learning rate: 5.000000E-04" "$work/out" && pass || fail "the schedule of the flags"

# Killed without warning somewhere after the tenth iteration.
in_background "$work/killed.log" "$BEVATRON" train "${model[@]}" --train-iters 100000 --lr-decay-iters 20 --save "$work/killed" --save-interval 5
pid=$!
within 900 [ -d "$work/killed/iter_0000015" ]
kill -9 "$pid"
wait "$pid" 2>/dev/null
saved=$(cat "$work/killed/latest_checkpointed_iteration.txt")
[ "$saved" -ge 10 ] && pass || fail "no checkpoint before the kill"
expect 0 "successfully loaded checkpoint from $work/killed [ t 1/1, p 1/1 ] at iteration 10" "$BEVATRON" train \
    "${model[@]}" --train-iters 20 --load "$work/killed" --ckpt-step 10 --save "$work/after" --save-interval 20 \
    --override-opt_param-scheduler
expect_same_state "$work/straight/iter_0000020" "$work/after/iter_0000020" "kill and resume"
ls "$work/killed" | grep -q tmp && { "$BEVATRON" checkpoint verify "$work/killed" >/dev/null 2>&1 || fail "leftovers of a kill harm"; }

# A signal: the step ends, a checkpoint is saved, exit code 210.
in_background "$work/out" "$BEVATRON" train "${model[@]}" --train-iters 100000 --save "$work/signalled" --save-interval 100000
pid=$!
await_text "iteration        3/"
kill -TERM "$pid"
wait "$pid"
code=$?
[ "$code" = 210 ] && pass || fail "exit code $code instead of 210 after SIGTERM"
[ -f "$work/signalled/latest_checkpointed_iteration.txt" ] && pass || fail "no checkpoint after SIGTERM"
grep -qE "^(finishing|ending the evaluation at) iteration [0-9]+, then saving$" "$work/out" && pass || fail "SIGTERM is not answered"
expect 210 "exiting program after" "$BEVATRON" train "${model[@]}" --train-iters 100000 --exit-duration-in-mins 0.001 \
    --save "$work/late" --save-interval 100000

# Without --save there is nothing to resume from: the exit code is the signal's. A repeated warning does not kill.
in_background "$work/out" "$BEVATRON" train "${model[@]}" --train-iters 100000
pid=$!
await_text "iteration        3/"
kill -TERM "$pid"
wait "$pid"
code=$?
[ "$code" = 143 ] && pass || fail "exit code $code instead of 143 after SIGTERM without --save"
# The fault does nothing but tell that the evaluation has begun.
in_background "$work/out" "$BEVATRON" train "${model[@]}" --train-iters 100000 --save "$work/warned" --save-interval 100000 --eval-interval 4 \
    --eval-iters 100000 --allow-injected-faults --inject slow:phase=evaluate:seconds=0
pid=$!
await_text "phase evaluate: injecting the fault"
kill -USR1 "$pid"
kill -USR1 "$pid"
wait "$pid"
code=$?
[ "$code" = 210 ] && pass || fail "exit code $code instead of 210 after two SIGUSR1 during evaluation"
[ -f "$work/warned/latest_checkpointed_iteration.txt" ] && pass || fail "no checkpoint after a signal during evaluation"
# The evaluation counts as a whole, so that those after a resume see the samples they would have seen.
expect 0 "600000" "$BEVATRON" checkpoint inspect "$work/warned"
grep "600000" "$work/out" | grep -q "consumed_valid_samples" && pass || fail "samples of an evaluation that was cut short"

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
