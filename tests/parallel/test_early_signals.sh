#!/usr/bin/env bash
# A signal before training begins, while data is indexed, a checkpoint verified or ranks connect, ends a run like a
# later one: with the exit code that asks for another run, on all ranks, and with nothing half-written.
# tier: all
# beside: ranks
# cost: 90
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "skipped: not Open MPI"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
slow=$(dirname "$BEVATRON")/tests/libslow_files.so
[ -f "$slow" ] || { echo "skipped: no $slow"; exit 77; }

tokenizer=(--tokenizer-type NullTokenizer --vocab-size 1000)
awk 'BEGIN { for (i = 0; i < 200; i++) { printf "{\"text\": \""; for (k = 0; k < 20; k++) printf "%d ", (i * 31 + k) % 900
    print "\"}" } }' >"$work/text.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/data" "${tokenizer[@]}" --append-eod \
    --workers 1
train=("$BEVATRON" train --data-path "$work/data_text_document" "${tokenizer[@]}" --num-layers 2 --hidden-size 32
    --num-attention-heads 4 --seq-length 16 --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --log-interval 1
    --eval-iters 0 --threads 1 --data-cache-path "$work/cache" --save-interval 1000000)
expect 0 "successfully saved checkpoint from iteration       4" "${train[@]}" --train-iters 4 --save "$work/before"

# stop SIGNAL PATTERN COMMAND…: sends the signal to the command as soon as PATTERN is in its output; $code is its exit
# code.
stop() {
    local signal=$1 pattern=$2 process
    shift 2
    in_background "$work/out" env --default-signal=INT "$@"
    process=$!
    await_text "$pattern"
    sleep 0.5
    kill "-$signal" "$process"
    wait "$process"
    code=$?
}

# What is printed before the run reaches the place, and what is slow there: the index is written, the checkpoint
# verified.
for place in "datasets target sizes|SLOW_WRITES=sample_index" "number of parameters|SLOW_READS=safetensors"; do
    for ranks in 1 2; do
        for signal in TERM INT USR1; do
            rm -rf "$work/run" "$work/cache"
            cp -r "$work/before" "$work/run"
            find "$work/run" -type f ! -name metrics.jsonl -exec sha256sum {} + | sort >"$work/sums.before"
            stop $signal "${place%%|*}" env "${place#*|}" SLOW_SECONDS=20 LD_PRELOAD="$slow" "${train[@]}" --train-iters 100000 \
                --nproc $ranks --load "$work/run" --save "$work/run" --override-opt_param-scheduler
            [ "$code" = 210 ] && pass || fail "exit code $code instead of 210: SIG$signal, $ranks ranks, ${place#*|}"
            grep -q "stopped by .*SIG$signal.* before the end" "$work/out" && pass || fail "SIG$signal is not said (${place#*|})"
            grep -q "iteration        5/" "$work/out" && fail "it trained nevertheless" || pass
            find "$work/run" -type f ! -name metrics.jsonl -exec sha256sum {} + | sort >"$work/sums.after"
            expect_same "$work/sums.before" "$work/sums.after" "the checkpoint after SIG$signal"
            [ -z "$(find "$work/run" "$work/cache" -name '*.tmp.*' 2>/dev/null)" ] && pass || fail "leftovers after SIG$signal"
        done
    done
done
# Without a folder to save in, the exit code does not ask for another run, and the checkpoint is not called damaged.
rm -rf "$work/cache"
stop TERM "number of parameters" env SLOW_READS=safetensors SLOW_SECONDS=20 LD_PRELOAD="$slow" "${train[@]}" \
    --train-iters 4 --load "$work/before"
[ "$code" = 143 ] && pass || fail "exit code $code instead of 143 without --save"
grep -qi "damaged\|falling back" "$work/out" && fail "a proof that was cut short is called damage" || pass

# At any time between the start of the launcher and the first iterations, with or without `launch local`.
for case in "0 train" "0.05 train" "0.1 train" "0.2 train" "0.3 train" "0.4 train" "0.6 train" "0 launch local" \
    "0.02 launch local" "0.05 launch local" "0.1 launch local" "0.2 launch local" "0.4 launch local"; do
    read -r delay command <<<"$case"
    rm -rf "$work/run" "$work/cache"
    # shellcheck disable=SC2086
    in_background "$work/out" "$BEVATRON" $command "${train[@]:2}" --train-iters 1000000 --nproc 2 --save "$work/run"
    launcher=$!
    until pgrep -P "$launcher" >/dev/null; do sleep 0.01; done
    sleep "$delay"
    kill -TERM "$launcher"
    wait "$launcher"
    code=$?
    [ "$code" = 210 ] && pass || fail "exit code $code instead of 210 after SIGTERM to $command $delay s after the start"
    [ -z "$(find "$work/run" "$work/cache" -name '*.tmp.*' 2>/dev/null)" ] && pass || fail "leftovers after $command, $delay s"
done

# begin COMMAND…: starts it with more iterations than it will do; returns once it has a child. No sleep here: the first
# millisecond matters.
begin() {
    rm -rf "$work/run" "$work/cache"
    in_background "$work/out" env --default-signal=INT,HUP setsid "$BEVATRON" "$@" "${train[@]:2}" --train-iters 1000000 --save "$work/run"
    launcher=$!
    local child=
    until [ -n "$child" ]; do
        kill -0 "$launcher" || return
        read -r child 2>/dev/null <"/proc/$launcher/task/$launcher/children"
    done
}

# ended CODE WHAT: the exit code, and no process left behind.
ended() {
    wait "$launcher"
    code=$?
    [ "$code" = "$1" ] && pass || fail "exit code $code instead of $1: $2"
    within 900 nobody_is_left && pass || fail "a process is left: $2"
}
nobody_is_left() { ! pgrep -f -- "--save $work/run" >/dev/null; }

for signal in TERM HUP TERM INT; do
    begin launch local --nproc 2
    kill "-$signal" "$launcher"
    ended 210 "SIG$signal to launch local as soon as it has a child"
done

# Later it saves; Ctrl-C, which goes to the whole process group, counts as one signal.
trains() { await_text "iteration  *2/"; }
for case in "HUP|launch local --nproc 2|" "HUP|launch local|" "HUP|train --nproc 2|" "INT|launch local|-" "INT|launch local --nproc 2|-"; do
    IFS='|' read -r signal command group <<<"$case"
    # shellcheck disable=SC2086
    begin $command
    trains
    kill "-$signal" -- "$group$launcher"
    ended 210 "SIG$signal to $command"
    [ -s "$work/run/latest_checkpointed_iteration.txt" ] && pass || fail "no checkpoint after SIG$signal to $command"
done

# twice SECONDS FIRST SECOND CODE COMMAND…: the second signal comes in the middle of a save that takes that many
# seconds.
is_saving() { [ -n "$(find "$work/run" -name 'model.safe*' 2>/dev/null)" ]; }
twice() {
    local seconds=$1 first=$2 second=$3 expected=$4
    shift 4
    SLOW_WRITES=model.safe SLOW_SECONDS=$seconds LD_PRELOAD="$slow" begin "$@"
    trains
    kill "-$first" "$launcher"
    within 900 is_saving || fail "no save after SIG$first"
    kill "-$second" "$launcher"
    wait "$launcher"
    code=$?
    case " $expected " in *" $code "*) pass ;; *) fail "exit code $code instead of $expected: SIG$first, SIG$second, $*" ;; esac
}
# A second signal does not wait for a save of ten minutes.
twice 600 TERM INT 130 launch local
twice 3 USR1 TERM 210 launch local
grep -q "successfully saved checkpoint" "$work/out" && pass || fail "SIGTERM after SIGUSR1 ended the save"

# Ranks that we start ourselves: a second signal is passed on while the first one still waits for them to be ready.
MASTER_PORT=$(free_port)
export MASTER_ADDR=127.0.0.1 MASTER_PORT PET_NNODES=2 PET_NODE_RANK=0
begin train --nproc 1
read -r rank <"/proc/$launcher/task/$launcher/children"
kill -STOP "$rank"
# Until all of its threads stand still, one of them could take the first signal.
stands_still() { ! grep -h '^State:' "/proc/$rank/task"/*/status | grep -qv stopped; }
within 900 stands_still || fail "the rank does not stop"
kill -TERM "$launcher"
sleep 0.5
kill -INT "$launcher"
both_wait() { [ $((16#$(awk '/^ShdPnd/ { print $2 }' "/proc/$rank/status") & 0x4002)) = $((0x4002)) ]; }
within 900 both_wait && pass || fail "both signals reach the rank: $(grep ShdPnd "/proc/$rank/status")"
kill -KILL "$rank"
ended 211 "a rank that was killed"
finish
