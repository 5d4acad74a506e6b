#!/usr/bin/env bash
# A file system slower than the deadline of collectives does not end a run: ranks wait for files without a deadline,
# whatever is slow: the tensors, the manifest, the removal of an old checkpoint. A rank that is lost meanwhile ends it.
# tier: all
# beside: ranks
# cost: 40
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
slow=$(dirname "$BEVATRON")/tests/libslow_files.so
[ -f "$slow" ] || { echo "skipped: no $slow"; exit 77; }

train=(bash tests/parallel/mpirun.sh 2 env LD_PRELOAD="$slow" "$BEVATRON" train --mock-data --num-layers 2 --hidden-size 32
    --num-attention-heads 4 --seq-length 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --tokenizer-type
    NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1
    --tensor-model-parallel-size 2 --train-iters 2 --save-interval 1 --keep-last 1)

# A rank that a busy machine does not run for a whole deadline is rightly given up. Hence deadlines of six seconds and
# of a minute: the test succeeds with the first, or with one that no machine exceeds. One slow file takes longer than
# either.
deadlines=(0.1 1)
longer_than() { awk -v minutes="$1" 'BEGIN { print 80 * minutes }'; }

# wait_out SETTING [FLAG]: in every process the first such file operation is slow.
wait_out() {
    local minutes setting=$1
    shift
    for minutes in "${deadlines[@]}"; do
        rm -rf "$work/run"
        env SLOW_TIMES=1 SLOW_SECONDS="$(longer_than "$minutes")" "$setting" "${train[@]}" --save "$work/run" \
            --distributed-timeout-minutes "$minutes" "$@" >"$work/out" 2>&1
        code=$?
        [ "$code" = 212 ] || break
    done
    [ "$code" = 0 ] && grep -q "successfully saved checkpoint from iteration       2" "$work/out" && pass ||
        fail "exit code $code: $setting $*"
    # The trial save before the first iteration writes no manifest, so this one is slow in a save.
    [ "$setting $*" != "SLOW_WRITES=manifest.json " ] || grep -q "saving the checkpoint: .* so far" "$work/out" && pass || fail "a long save is silent"
    [ "$(find "$work/run" -name 'iter_*' | wc -l)" = 1 ] && pass || fail "the old checkpoint is removed ($setting $*)"
}
beside tensors wait_out SLOW_WRITES=model.safe
beside manifest wait_out SLOW_WRITES=manifest.json
beside removal wait_out SLOW_REMOVALS=/model.safe
beside manifest.async wait_out SLOW_WRITES=manifest.json --async-save
beside removal.async wait_out SLOW_REMOVALS=/model.safe --async-save
# Going back: the first rank looks for a checkpoint while the other one waits.
beside back wait_out SLOW_READS=iter_0000001/state.json --nan-policy rewind-and-skip --allow-injected-faults --inject nan:step=2
gather

# lose MINUTES SIGNAL RANK FLAGS…: sends the signal to a rank in the middle of a save that would take half an hour, with
# that deadline; $code is the run's exit code, 137 if it did not end by itself.
is_saving() { [ -n "$(find "$work/run" -name 'model.safe*' 2>/dev/null)" ]; }
saves_or_ended() { is_saving || has_gone "$launcher"; }
lose() {
    local minutes=$1 signal=$2 rank=$3 launcher process victim=
    shift 3
    rm -rf "$work/run"
    SLOW_SECONDS=1800 SLOW_WRITES=model.safe in_background "$work/out" "${train[@]}" --save "$work/run" --distributed-timeout-minutes "$minutes" "$@"
    launcher=$!
    within 900 saves_or_ended || fail "no save begins"
    # By itself a save may be as slow as it likes.
    sleep "$(longer_than "$minutes")"
    for process in $(pgrep -P "$launcher" -f "bevatron train"); do
        tr '\0' '\n' <"/proc/$process/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$rank" && victim=$process
    done 2>/dev/null
    [ -n "$victim" ] && kill "-$signal" "$victim"
    end_of "$launcher"
    [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null
}
lose_one() {
    local minutes
    for minutes in "${deadlines[@]}"; do
        lose "$minutes" KILL 1
        [ "$code" = 212 ] || break
    done
    [ "$code" != 0 ] && [ "$code" != 137 ] || grep -q "exited on signal 9" "$work/out" && pass ||
        fail "exit code $code after a rank was lost during a save"
}
# A stopped rank is noticed by the others, both the one that writes and the one that waits.
is_named() { grep -qE "(missing|lost or stuck): rank $1 on [^ ,]+ \(left no record in [^,()]*\)( \(iteration [^()]*\))?$" "$work/named"; }
stop_one() {
    local minutes
    for minutes in "${deadlines[@]}"; do
        lose "$minutes" STOP "$@"
        grep -E "longer than --distributed-timeout" "$work/out" | head -n 1 >"$work/named"
        is_named "$1" && break
    done
    [ "$code" = 212 ] && pass || fail "exit code $code instead of 212 after a rank stood still during a save ($*)"
    is_named "$1" && pass || fail "rank $1 is named ($*)"
    [ "${2:-}" = --async-save ] || grep -q "heartbeat from some ranks during saving a checkpoint" "$work/named" && pass ||
        fail "what they did is said ($*)"
}

if mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    beside killed lose_one
    beside stopped.0 stop_one 0
    beside stopped.1 stop_one 1
    beside stopped.0.async stop_one 0 --async-save
    beside stopped.1.async stop_one 1 --async-save
    gather
fi
finish
