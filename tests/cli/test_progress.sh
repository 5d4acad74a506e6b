#!/usr/bin/env bash
# launch progress notices from outside that a run completes nothing: beside the run, where it also outlives a file system
# that does not answer, and as a probe that looks once.
# tier: all
# cost: 15
. tests/cli/common.sh || exit
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1)
export BEVATRON_LIFELINE=$work/lifeline BEVATRON_NODE_LIFELINE=$work/node
probe() { "$BEVATRON" launch progress --once --progress-timeout-minutes "$1" >"$work/out" 2>&1; }
fails() { ! probe "$1"; }

# The file of a run is made by whoever decides on restarts.
begin() { "$BEVATRON" launch decide --state "$work/state" --save "$work/run" && cp "$work/state.lifeline" "$BEVATRON_LIFELINE"; }

expect 2 "set BEVATRON_LIFELINE as it is set for the run" env -u BEVATRON_LIFELINE "$BEVATRON" launch progress
expect 2 "set BEVATRON_NODE_LIFELINE as it is set for the run" env -u BEVATRON_NODE_LIFELINE "$BEVATRON" launch progress --once

# Before a run starts, the age of the container counts, here that of the machine.
probe 1e9 && pass || fail "a run that has not started is late"
expect 212 "and has not started" "$BEVATRON" launch progress --once --progress-timeout-minutes 1e-9
probe 0 && pass || fail "no limit is a limit"
# Where the first process is hidden, the age of the machine does not count in its place.
hidden() {
    unshare -m bash -c 'mount -t proc -o hidepid=2 proc /proc 2>/dev/null || exit 77
        exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"' - "$@"
}
if [ "$(id -u)" = 0 ] && hidden test ! -r /proc/1/stat 2>/dev/null; then
    chmod 755 "$work"
    half=$(awk '{ print $1 / 120 }' /proc/uptime)
    hidden env BEVATRON_NODE_LIFELINE=/none /proc/self/fd/9 launch progress --once --progress-timeout-minutes "$half" 9<"$BEVATRON" &&
        pass || fail "a hidden first process makes the container as old as the machine"
    expect 212 "and has not started" hidden env BEVATRON_NODE_LIFELINE=/none /proc/self/fd/9 launch progress --once \
        --progress-timeout-minutes 1e-9 9<"$BEVATRON"
else
    echo "NOTE /proc cannot be mounted with hidepid here"
fi

# A run that is suspended, and continued.
is_beyond() { [ "$(losses "$work/log" | wc -l)" -gt "$1" ]; }
begin || fail "no file"
in_background "$work/log" "$BEVATRON" train "${model[@]}" --train-iters 100000000
run=$!
await_text "iteration       20/" "$work/log" || fail "the run does not start"
[ "$(stat -c %a "$BEVATRON_NODE_LIFELINE")" = 600 ] && pass || fail "others can write the node's file"
# A busy machine may suspend the run by itself.
probe 0.05 || probe 1 && pass || fail "a run that makes progress fails its probe: $(cat "$work/out")"
for seconds in 3 60; do
    in_background "$work/watched" "$BEVATRON" launch progress --progress-timeout-minutes "$(awk -v s=$seconds 'BEGIN { print s / 60 }')"
    watcher=$!
    seen=$(losses "$work/log" | wc -l)
    within 900 is_beyond $((seen + 2000)) || fail "the run does not go on"
    kill -0 "$watcher" 2>/dev/null && break
done
kill -0 "$watcher" 2>/dev/null && pass || fail "a run that makes progress was given up: $(cat "$work/watched")"
kill -STOP "$run"
started=$(date +%s%3N)
wait "$watcher"
[ $? = 212 ] && pass || fail "a suspended run was not noticed"
took=$(($(date +%s%3N) - started))
waited=$(sed -nE 's/.*the run has completed nothing for ([0-9]+) s after iteration [0-9]+; ending it.*/\1/p' "$work/watched")
[ "${waited:-0}" -ge $seconds ] && [ "$waited" -le $((seconds + 2)) ] && pass || fail "the message: $(cat "$work/watched")"
# The limit and two seconds; what a busy machine does not let the observer see counts in part only.
[ "$took" -lt $((seconds * 1000 + 2500)) ] && pass || echo "NOTE noticed after $took ms on a busy machine"
within 900 fails 0.05 && pass || fail "the probe of a suspended run succeeds"
[ -n "$(grep "completed nothing for" "$work/out")" ] && pass || fail "the probe says nothing"
kill -CONT "$run"
within 900 probe 0.05 && pass || fail "the probe of a run that continues fails"

# What cannot be read does not hold it up: the process that reads is suspended instead of blocked.
in_background "$work/watched" "$BEVATRON" launch progress --progress-timeout-minutes 0.05
watcher=$!
reader() { pgrep -P "$watcher" >"$work/reader"; }
within 900 reader || fail "nothing reads"
kill -STOP "$(cat "$work/reader")"
wait "$watcher"
[ $? = 212 ] && pass || fail "a file system that does not answer was not noticed"
gone() { ! kill -0 "$(cat "$work/reader")" 2>/dev/null; }
within 900 gone && pass || fail "the process that reads is left"

# Without a file nothing is known, so nothing is ended. It ends with whoever started it.
in_background "$work/watched" "$BEVATRON" launch progress --lifeline "$work/none" --progress-timeout-minutes 0.01
watcher=$!
# SIGTERM is 15: the bit of value 0x4000. Before it is caught the watcher would die of it.
catches_term() { [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$watcher/status") & 0x4000)) != 0 ]; }
within 900 catches_term || fail "the watcher does not begin"
sleep 3
kill "$watcher"
wait "$watcher"
[ $? = 0 ] && pass || fail "without a file: $(cat "$work/watched")"
bash -c '"$0" launch progress & echo $! >"$1/orphan"; until pgrep -P $! >/dev/null; do sleep 0.05; done; kill -9 $$' "$BEVATRON" "$work"
orphaned() { ! kill -0 "$(cat "$work/orphan")" 2>/dev/null; }
within 900 orphaned && pass || fail "it outlives the job script"
kill "$run"
wait "$run"
finish
