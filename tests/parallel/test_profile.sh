#!/usr/bin/env bash
# --profile on one, two and four ranks: spans of a track are apart or within each other, iterations take as long as the
# log says, the numbers of the run stay the same. Timers, reports of stragglers, and a rank that is stopped again and
# again is named with its cause.
# tier: all
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
needs_parts MPI
check=$(dirname "$BEVATRON")/tests/check_trace

model=(--mock-data --vocab-size 97 --make-vocab-size-divisible-by 1 --num-layers 4 --hidden-size 64
    --num-attention-heads 4 --seq-length 32 --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --log-interval 1
    --eval-iters 1 --threads 1 --device cpu --train-iters 6)
window=(--profile --profile-step-start 2 --profile-step-end 5)

# weights FOLDER: the checksums of what the last checkpoint holds.
weights() { (cd "$1/iter_0000006" && find . -name '*.safetensors' | sort | xargs sha256sum); }

# profile NAME RANKS FLAGS…: the trace of iterations 3 to 5 is whole, and what is trained is the same without it. What a
# busy machine does between two items counts for none of them: one of several runs has hardly any of that.
profile() {
    local name=$1 ranks=$2 share tries
    shift 2
    bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "${model[@]}" "$@" --save "$work/$name.plain" \
        >"$work/$name.plain.out" 2>&1
    for tries in 1 2 3 4 5 6 7 8; do
        rm -rf "${work:?}/$name"
        expect 0 "the profile is in $work/$name/trace.json" bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train \
            "${model[@]}" "$@" --save "$work/$name" "${window[@]}"
        share=$("$check" "$work/$name"/trace.json* "$ranks" 3 5 "$work/$name/metrics.jsonl") || break
        [ "$share" -lt 85 ] || break
    done
    echo "$name: $share"
    [ "${share:-x}" -ge 85 ] 2>/dev/null && [ "$share" -le 100 ] && pass || fail "$name: items fill $share % of a step"
    losses "$work/$name.plain.out" >"$work/a"
    losses "$work/out" >"$work/b"
    [ -s "$work/a" ] || fail "$name: no losses"
    expect_same "$work/a" "$work/b" "$name: losses with and without a profile"
    weights "$work/$name.plain" >"$work/a"
    weights "$work/$name" >"$work/b"
    [ -s "$work/a" ] || fail "$name: no weights"
    expect_same "$work/a" "$work/b" "$name: weights with and without a profile"
    [ -z "$(find "$work/$name" -name 'trace-rank-*')" ] && pass || fail "$name: files of ranks are left"
}
profile one 1
profile data 2 --overlap-grad-reduce --ddp-num-buckets 4 --use-distributed-optimizer --overlap-param-gather
profile stages 2 --pipeline-model-parallel-size 2 --timing-log-level 2 --save-interval 4 --eval-interval 4
for timer in forward-backward forward-compute backward-compute batch-generator all-grads-sync optimizer evaluate \
    save-checkpoint; do
    grep -qE "^    $timer \.+: \([0-9.]+, [0-9.]+\)$" "$work/out" && pass || fail "no timer $timer"
done
# One stage sends forward, the other backward: of each timer only one rank has any time.
grep -qE "^    forward-(recv|send) \.+: \(([0-9.]+), \2\)$" "$work/out" && pass || fail "messages of one stage"
zcat -f "$work"/stages/trace.json* | grep -q '"name":"save-checkpoint"' && pass || fail "no save in the trace"
zcat -f "$work"/stages/trace.json* | grep -q '"name":"evaluate"' && pass || fail "no evaluation in the trace"
profile tensor 4 --tensor-model-parallel-size 2 --sequence-parallel --timing-log-level 1 --timing-log-option all
grep -qE "^     rank  3: [0-9.]+$" "$work/out" && pass || fail "no timers of rank 3"
grep -q "forward-compute" "$work/out" && fail "a timer of level 2 at level 1" || pass

# Some ranks, a run that ends before its profile does, and a folder that cannot be written.
expect 0 "events of 1 rank;" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${model[@]}" --profile \
    --profile-step-end 100 --profile-step-start 4 --profile-ranks 1 --profile-dir "$work/some/where"
zcat -f "$work"/some/where/trace.json* >"$work/trace"
grep -q '"name":"rank 1 on ' "$work/trace" && ! grep -q '"name":"rank 0 on ' "$work/trace" && pass || fail "rank 1 alone"
grep -q '"iteration 6"' "$work/trace" && pass || fail "the last iteration is in the profile"
expect 0 "cannot" "$BEVATRON" train "${model[@]}" "${window[@]}" --profile-dir /proc/none
grep -q "iteration        6/" "$work/out" && pass || fail "the run ended with its profile"
expect 2 "leaves no iteration after --profile-step-start 5" "$BEVATRON" train "${model[@]}" --profile \
    --profile-step-start 5 --profile-step-end 5
expect 2 "is not the number of a rank" "$BEVATRON" train "${model[@]}" --profile --profile-ranks first
expect 2 "the ranks of this run are 0 to 0" "$BEVATRON" train "${model[@]}" --profile --profile-ranks 1
expect 0 "straggler report at iteration        6 | slowest: rank " bash tests/parallel/mpirun.sh 2 "$BEVATRON" train \
    "${model[@]}" --log-straggler --straggler-minmax-count 2
grep -qE "slowest: rank [01] on [^ ]+ [0-9.]+ ms, rank [01] on .* \| fastest: rank [01] on [^ ]+ [0-9.]+ ms, rank " "$work/out" && pass || fail "two ranks each"

# A switch: the report starts off, a request turns it on, another one off. A loop-back address only.
port=$(free_port)
in_background "$work/switched" "$BEVATRON" train "${model[@]}" --train-iters 1000000 --log-interval 1 --log-straggler --disable-straggler-on-startup \
    --straggler-ctrlr-port "$port"
run=$!
await_text "iteration        3/" "$work/switched" || fail "the run does not start"
grep -q "straggler report at" "$work/switched" && fail "the report is on" || pass
ask_switch() {
    exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET / HTTP/1.1\r\n\r\n' >&3 && cat <&3 >"$work/out"
    exec 3>&-
}
ask_switch
grep -q "straggler report: on" "$work/out" && pass || fail "the switch does not answer"
await_text "straggler report at" "$work/switched" || fail "the report does not start"
ask_switch
grep -q "straggler report: off" "$work/out" && pass || fail "the switch does not turn back"
printf '%04X' "$port" >"$work/hex"
grep -qE "^ *[0-9]+: 0100007F:$(cat "$work/hex") " /proc/net/tcp && ! grep -qE "^ *[0-9]+: 00000000:$(cat "$work/hex") " /proc/net/tcp && pass || fail "the port is open to others"
kill "$run"
wait "$run"

# A rank whose data comes late.
expect 0 "of a step late: it waits for data" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${model[@]}" \
    --train-iters 20 --log-interval 10 --save "$work/late" --log-straggler --allow-injected-faults \
    --inject slow:rank=1:step=2-20:phase=data:times=all:seconds=0.1
grep -q '"slow":{"rank":1,"host":"[^"]*","cause":"data"' "$work/late/metrics.jsonl" && pass || fail "the metrics do not name the data"

# A rank that is stopped for most of the time holds up the others: its host is to blame.
stop_and_go() {
    while kill -STOP "$1" 2>/dev/null; do
        sleep 0.3
        kill -CONT "$1" 2>/dev/null
        sleep 0.1
    done
}
if mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    in_background "$work/out" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${model[@]}" --train-iters 10000000 --log-interval 10 \
        --save "$work/stopped" --log-straggler
    launcher=$!
    await_text "iteration       10/"
    victim=
    for process in $(pgrep -P "$launcher" -f "bevatron train"); do
        tr '\0' '\n' <"/proc/$process/environ" | grep -qx "OMPI_COMM_WORLD_RANK=1" && victim=$process
    done 2>/dev/null
    [ -n "$victim" ] && pass || fail "no rank 1"
    stop_and_go "$victim" &
    stopper=$!
    await_text '"slow":{"rank":1,"host":"[^"]*","cause":"host"' "$work/stopped/metrics.jsonl"
    await_text "rank 1 on [^ ]* is .* of a step late: its process is not running"
    kill "$stopper" 2>/dev/null
    wait "$stopper" 2>/dev/null
    kill -CONT "$victim"
    kill -TERM "$victim"
    end_of "$launcher"
fi
finish
