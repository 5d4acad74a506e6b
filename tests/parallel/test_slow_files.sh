#!/usr/bin/env bash
# A file system that is slower than the deadline of collectives ends no run: who waits for files waits without one,
# whatever is slow: the tensors, the manifest, the removal of an old checkpoint. A rank that is lost meanwhile ends it.
# beside: others
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
slow=$(dirname "$BEVATRON")/tests/libslow_files.so
[ -f "$slow" ] || { echo "skipped: no $slow"; exit 77; }

train=(bash tests/parallel/mpirun.sh 2 env LD_PRELOAD="$slow" "$BEVATRON" train --mock-data --num-layers 2 --hidden-size 32
    --num-attention-heads 4 --seq-length 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --tokenizer-type
    NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1
    --tensor-model-parallel-size 2 --distributed-timeout-minutes 0.05 --train-iters 2 --save-interval 1
    --keep-last 1)

export SLOW_SECONDS=4
for case in SLOW_WRITES=model.safe SLOW_WRITES=manifest.json SLOW_REMOVALS=/model.safe "SLOW_WRITES=manifest.json --async-save" \
    "SLOW_REMOVALS=/model.safe --async-save"; do
    read -r what mode <<<"$case"
    # shellcheck disable=SC2086
    expect 0 "successfully saved checkpoint from iteration       2" env "$what" "${train[@]}" --save "$work/run" $mode
    [ "$(find "$work/run" -name 'iter_*' | wc -l)" = 1 ] && pass || fail "the old checkpoint is removed ($case)"
    rm -r "$work/run"
done

# lose SIGNAL RANK FLAGS…: that signal to a rank in the middle of a save that would take two minutes; what the run ends
# with is in $code, 137 where it did not end by itself.
lose() {
    local signal=$1 rank=$2 launcher watchdog
    shift 2
    rm -rf "$work/run"
    SLOW_SECONDS=120 SLOW_WRITES=model.safe "${train[@]}" --save "$work/run" "$@" >"$work/out" 2>&1 &
    launcher=$!
    for _ in $(seq 300); do [ -n "$(find "$work/run" -name 'model.safe*' 2>/dev/null)" ] && break; sleep 0.1; done
    # By itself a save is as slow as it likes.
    sleep 4
    for process in $(pgrep -P "$launcher" -f "bevatron train"); do
        tr '\0' '\n' <"/proc/$process/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$rank" && kill "-$signal" "$process"
    done
    (sleep 60 && kill -9 "$launcher") >/dev/null 2>&1 &
    watchdog=$!
    wait "$launcher"
    code=$?
    kill "$watchdog" 2>/dev/null
}

if mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    lose KILL 1
    [ "$code" != 0 ] && [ "$code" != 137 ] || grep -q "exited on signal 9" "$work/out" && pass ||
        fail "exit code $code after a rank was lost during a save"
    # A rank that stands still is noticed by the others, the one that writes and the one that waits.
    for case in "0" "1" "0 --async-save" "1 --async-save"; do
        # shellcheck disable=SC2086
        lose STOP $case
        [ "$code" = 212 ] && pass || fail "exit code $code instead of 212 after a rank stood still during a save ($case)"
        grep -E "longer than --distributed-timeout" "$work/out" | head -n 1 >"$work/said"
        grep -qE "lost or stuck: rank ${case%% *} on [^ ,]+ \(left no record in [^,]*\)$" "$work/said" && pass ||
            fail "rank ${case%% *} is named ($case)"
        case $case in
        *async*) ;;
        *) grep -q "worked with files (saving a checkpoint)" "$work/said" && pass || fail "what they did is said ($case)" ;;
        esac
    done
fi
finish
