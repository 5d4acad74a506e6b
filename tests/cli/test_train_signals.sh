#!/usr/bin/env bash
# A run that is killed, warned by a signal or out of time: it saves, exits with the code that asks for another run, and
# resumes with the bits of an uninterrupted one.
# tier: all
# cost: 5
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/cli/train.sh || exit

expect 0 "iteration       20/      20" \
    "$BEVATRON" train "${model[@]}" --threads 2 --train-iters 20 --save "$work/straight" --save-interval 20

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
# A signal ends ranks in the middle of an iteration of minutes, too.
in_background "$work/out" "$BEVATRON" train "${model[@]}" --nproc 2 --train-iters 10 --global-batch-size 4000000
pid=$!
await_text "before the start of training step"
kill -TERM "$pid"
wait "$pid"
code=$?
[ "$code" = 143 ] && pass || fail "exit code $code instead of 143 after SIGTERM to two ranks without --save"
grep -q "stopped by SIGTERM; nothing is saved without --save" "$work/out" && pass || fail "ranks that save nothing finish the iteration"
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

# Files that ask a run to save and to end.
mkdir "$work/triggers"
log=$work/long
in_background "$log" "$BEVATRON" train "${model[@]}" --train-iters 100000000 --trigger-path "$work/triggers" \
    --kill-switch-path "$work/stop" --save "$work/long-run" --save-interval 100000000 && running=$!
await_text "iteration        2/" "$log"
touch "$work/triggers/save"
within 900 test ! -e "$work/triggers/save" && pass || fail "a file that asks for a checkpoint is ignored"
ls "$work/long-run"/iter_*/model.safetensors >/dev/null 2>&1 && pass || fail "no checkpoint though a file asked for one"
# One that cannot be removed asks once.
saved() { [ "$(grep -c "successfully saved checkpoint" "$log")" = "$1" ]; }
within 900 saved 1 || fail "the checkpoint is not announced"
mkdir "$work/triggers/save"
await_text "it counts no more until you remove it" "$log"
seen=$(losses "$log" | wc -l)
is_beyond() { [ "$(losses "$log" | wc -l)" -gt $((seen + 20)) ]; }
within 900 is_beyond && saved 2 && pass || fail "a folder instead of a file asks again and again"
touch "$work/triggers/exit"
end_of "$running"
[ "$code" = 0 ] && pass || fail "a run that a file has ended does not exit with 0"
grep -q "exiting program, as the file of --trigger-path asks" "$log" && pass || fail "a file does not end the run"
finish
