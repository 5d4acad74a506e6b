#!/usr/bin/env bash
# Saves that fail: the run continues, tries again and succeeds once there is space; --save-fallback; the last save; what
# a process may not write at all. A preloaded library has no space for files of checkpoints while another file exists.
# tier: all
# cost: 10
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
broken=$(dirname "$BEVATRON")/tests/libslow_files.so
[ -f "$broken" ] || { echo "skipped: no $broken"; exit 77; }

train=("$BEVATRON" train --mock-data --vocab-size 30 --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8
    --max-position-embeddings 8 --micro-batch-size 1 --lr 1e-3 --lr-decay-iters 9 --log-interval 1 --eval-iters 0 --device cpu
    --threads 1 --override-opt_param-scheduler)

# Runs in the background without space for paths that contain $1, until `mend` is called.
begin() {
    local where=$1
    shift
    : >"$work/full"
    BROKEN_WHILE=$work/full BROKEN_WRITES=$where LD_PRELOAD=$broken in_background "$work/out" "${train[@]}" --save "$work/run" "$@"
    process=$!
}
mend() { rm "$work/full"; }
leftovers() { find "$work/run" "$work/spare" -name '*.tmp.*' 2>/dev/null; }
last_line() { grep -c "iteration .*lm loss" "$work/out"; }
is_further() { [ "$(last_line)" -gt "$1" ]; }
# failed N: so many attempts have failed; how long the run waits for the next depends on how busy the machine is.
has_failed() { [ "$(grep -c "was not saved" "$work/out")" -ge "$1" ]; }
failed() { within 900 has_failed "$1" && pass || fail "fewer than $1 saves have failed"; }

# recover FLAGS…: a full disk that empties again.
recover() {
    local seen
    begin model.safe --save-interval 2 --train-iters 1000000 "$@"
    await_text "warning: the checkpoint of iteration 2 was not saved: .*No space left on device.*training continues, the next"
    seen=$(last_line)
    within 900 is_further "$seen" && pass || fail "training does not continue ($*)"
    failed 2
    mend
    await_text "successfully saved checkpoint from iteration"
    kill -TERM "$process"
    end_of "$process"
    [ "$code" = 210 ] && pass || fail "exit code $code instead of 210 ($*)"
    [ -z "$(leftovers)" ] && pass || fail "a failed save left $(leftovers)"
    "$BEVATRON" checkpoint verify "$work/run" >>"$work/out" 2>&1 && pass || fail "the checkpoints are whole ($*)"
    grep -q '"event":"unsaved","text":"the checkpoint of iteration 2 was not saved: ' "$work/run/metrics.jsonl" && pass ||
        fail "the event is missing ($*)"
}

# fall_back FLAGS…: the other folder gets the checkpoint, and the run is resumed from there.
fall_back() {
    local at
    begin /run/iter --save-interval 2 --train-iters 1000000 --save-fallback "$work/spare" "$@"
    await_text "trying $work/spare (--save-fallback)"
    await_text "successfully saved checkpoint from iteration .* to $work/spare "
    kill -TERM "$process"
    end_of "$process"
    [ "$code" = 210 ] && pass || fail "exit code $code instead of 210 ($*)"
    [ -z "$(leftovers)" ] && pass || fail "a failed save left $(leftovers)"
    at=$(cat "$work/spare/latest_checkpointed_iteration.txt")
    [ ! -e "$work/run/latest_checkpointed_iteration.txt" ] && pass || fail "--save has a checkpoint, too ($*)"
    expect 2 "resume their run with --load $work/run" "${train[@]}" --save "$work/run" --save-fallback "$work/spare" --train-iters 1
    expect 2 "of another run, that of --save $work/run" "${train[@]}" --save "$work/other" --load "$work/other" \
        --save-fallback "$work/spare" --train-iters 1
    expect 0 "the latest checkpoint of the run, of iteration $at, is in $work/spare (--save-fallback)" "${train[@]}" \
        --save "$work/run" --load "$work/run" --save-fallback "$work/spare" --train-iters $((at + 2)) "$@"
    grep -q "loading checkpoint from $work/spare at iteration $at" "$work/out" && pass || fail "the folder is not named ($*)"
    # Now that --save works again, its checkpoint is the newer one.
    expect 0 "loading checkpoint from $work/run at iteration $((at + 2))" "${train[@]}" --save "$work/run" --load "$work/run" \
        --save-fallback "$work/spare" --train-iters $((at + 4)) "$@"
}

# The last save: tried again for a while, then the run fails and says what is lost; or there is space in time.
end_badly() {
    local minutes
    # A busy machine may have time for one attempt only: then the limit is longer.
    for minutes in 0.02 0.5; do
        rm -rf "$work/run"
        begin model.safe --train-iters 3 --last-save-minutes "$minutes" "$@"
        end_of "$process"
        has_failed 2 && break
    done
    [ "$code" = 1 ] && pass || fail "exit code $code instead of 1 ($*)"
    grep -q "error: bevatron: iterations 1 to 3 are not saved (--last-save-minutes): .*No space left on device" "$work/out" && pass ||
        fail "what is not saved is not said ($*)"
    has_failed 2 && pass || fail "the last save is not tried again ($*)"
}
end_well() {
    begin model.safe --train-iters 3 "$@"
    await_text "iteration 3 was not saved: .*; the next attempt is in .*(--last-save-minutes)"
    mend
    end_of "$process"
    [ "$code" = 0 ] && pass || fail "exit code $code instead of 0 ($*)"
    "$BEVATRON" checkpoint verify "$work/run" >>"$work/out" 2>&1 && pass || fail "the checkpoint is whole ($*)"
}
at_most_one() { [ "$(find "$work/run" -name 'iter_???????' | wc -l)" -le 1 ]; }
# The marker alone cannot be written: what earlier attempts have completed does not stay.
mark_nothing() {
    begin /latest_checkpointed --save-interval 2 --train-iters 1000000 "$@"
    await_text "iter_[0-9]* is complete .*, but not marked as the latest"
    failed 3
    # The next attempt replaces what the one before it has left; for a moment there are both.
    within 900 at_most_one && pass || fail "failed saves have left: $(ls "$work/run")"
    mend
    await_text "successfully saved checkpoint from iteration"
    kill -TERM "$process"
    end_of "$process"
    [ "$code" = 210 ] && pass || fail "exit code $code instead of 210 ($*)"
    # Of the failed attempts nothing stays.
    for left in "$work/run"/iter_*; do
        grep -q "successfully saved checkpoint from iteration *$((10#${left##*_})) " "$work/out" && pass || fail "$left was not removed ($*)"
    done
}
# A rank is lost while the disk is full: the restarted run has iterations that are in host memory only, so it continues and
# saves once there is space, also if it ends meanwhile because saves fail for too long. The disk is full from the moment that the fault is recorded.
lose_rank() {
    BROKEN_WHILE=$work/full_disk/injected-faults.txt BROKEN_WRITES=full_disk LD_PRELOAD=$broken in_background "$work/out" "$BEVATRON" launch local \
        "${train[@]:2}" --train-iters 1000000 --save "$work/full_disk" --save-interval 4 --checkpoint-in-memory \
        --max-restarts 1000 --save-retry-minutes 0.02 --allow-injected-faults --inject kill:step=7
    process=$!
    await_text "warning: the checkpoint of iteration 6 was not saved: .* are free.*training continues, the next attempt"
    await_text "iteration  *20/"
    await_text "the run failed with code 1 at iteration [0-9]*; starting again from iteration [0-9]* in host memory"
    rm "$work/full_disk/injected-faults.txt"
    await_text "successfully saved checkpoint from iteration  *[0-9][0-9]"
    kill -TERM "$process"
    end_of "$process"
    [ "$code" = 210 ] && pass || fail "exit code $code instead of 210 after a lost rank"
    grep -q "loaded checkpoint from host memory at iteration 6" "$work/out" && ! grep -q "loading checkpoint from" "$work/out" &&
        pass || fail "what was in memory is lost"
}
# With 0 the first failure ends the run.
end_at_once() {
    begin model.safe --train-iters 1000000 --save-interval 2 --save-retry-minutes 0
    end_of "$process"
    [ "$code" = 1 ] && grep -q "error: bevatron: iterations 1 to 2 are not saved (--save-retry-minutes): " "$work/out" && pass ||
        fail "exit code $code, or the wrong message"
}

is_sanitized && { echo "skipped: nothing can be preloaded"; exit 77; }
beside recover recover
beside recover.async recover --async-save
beside fallback fall_back
beside fallback.async fall_back --async-save
gather
beside badly end_badly
beside badly.async end_badly --async-save
beside well end_well --async-save
beside lost lose_rank
beside once end_at_once
beside marker mark_nothing
beside marker.async mark_nothing --async-save
gather

# A checkpoint that is complete but not marked stays until the next one is complete.
for call in 5 6 7 8 9; do
    rm -rf "$work/unmarked"
    expect 137 "" "${train[@]}" --train-iters 100 --save "$work/unmarked" --save-interval 3 --allow-injected-faults \
        --inject eio:step=3:phase=write:call=$call --inject kill:step=4-90000:phase=write
    grep -q "iter_0000003 is complete" "$work/out" && break
done
grep -q "iter_0000003 is complete" "$work/out" && pass || fail "no marker failed"
expect 0 "at iteration 3" "${train[@]}" --train-iters 4 --save "$work/unmarked" --load "$work/unmarked"

# A supervisor counts the checkpoints in the fallback.
expect 0 "starting again from iteration 2 (restart 1 of 3" "$BEVATRON" launch local "${train[@]:2}" --train-iters 5 \
    --save-interval 2 --save "$work/lost" --save-fallback "$work/found" --allow-injected-faults --inject kill:step=4 \
    --inject enospc:step=2:phase=write
expect 0 "starting again from iteration 2 (restart 1 of 10" "$BEVATRON" launch decide --state "$work/state" --save "$work/none" \
    --save-fallback "$work/found" --exit-code 211

# Nothing may be written at all: said before the first iteration. The signal would end the process without a message.
expect 1 "raise the limit (ulimit -f)" bash -c 'ulimit -f 8; exec "$@"' - "${train[@]}" --hidden-size 64 --train-iters 4 --save "$work/limited"
grep -q "iteration        1/" "$work/out" && fail "an iteration before a save that cannot succeed" || pass

expect 2 "--save-fallback needs --save" "${train[@]}" --train-iters 1 --save-fallback "$work/spare"
expect 2 "must be another folder" "${train[@]}" --train-iters 1 --save "$work/x" --save-fallback "$work//x"
finish
