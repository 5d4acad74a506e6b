#!/usr/bin/env bash
# syscalls.sh FOLDER [RANKS:RANK…]: kills one rank at every system call of a save that changes a file, on one and on two
# ranks (or e.g. 4:3, the last of four), with and without --async-save. After each kill one process must load the checkpoint before or the new one, train, and save, and
# nothing may be left of the broken save. Writes FOLDER/syscalls.csv; STRIDE=7 takes every seventh call only.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
folder=${1:?folder}
shift
BEVATRON=$(realpath "${BEVATRON:-build/release/bevatron}")
killer=$(dirname "$BEVATRON")/tests/kill_at_call
[ -x "$killer" ] || { echo "test-syscalls: $killer is not built"; exit 1; }
mkdir -p "$folder" || exit 1
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
results=$folder/syscalls.csv
echo "ranks,rank,save,calls,killed,old,new,failed" >"$results"

model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50 --tokenizer-type NullTokenizer
    --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --lr-decay-iters 9 --log-interval 1 --eval-iters 0 --threads 1 --device cpu
    --save "$work/run" --keep-last 1)

# train_killed RANKS RANK N FLAGS…: resumes at iteration 3 and saves at 6; that rank dies at call N of the save.
train_killed() {
    local ranks=$1 rank=$2 n=$3
    shift 3
    rm -rf "$work/run"
    cp -r "$work/base-$ranks" "$work/run"
    timeout -k 5 300 bash tests/parallel/mpirun.sh "$ranks" bash -c '
        rank=$0 n=$1 killer=$2 work=$3
        shift 3
        [ "$OMPI_COMM_WORLD_RANK" = "$rank" ] || exec "$@"
        exec "$killer" "$work/run/" iter_0000006 "$n" "$work/count" "$@"' "$rank" "$n" "$killer" "$work" \
        "$BEVATRON" train "${model[@]}" --load "$work/run" --train-iters 6 --ckpt-writers "$ranks" --use-distributed-optimizer \
        "$@" >"$work/log" 2>&1 </dev/null
    local code=$?
    # mpirun may end before its ranks; what a live process writes is not removed.
    while pgrep -f -- "$work/run" >/dev/null; do sleep 0.05; done
    return "$code"
}
# Sets $found to the iteration that one process resumes from; fails unless all is well then.
resumes() {
    "$BEVATRON" checkpoint verify "$work/run" >"$work/verify" 2>&1 || return 1
    "$BEVATRON" train "${model[@]}" --load "$work/run" --train-iters 7 >"$work/resumed" 2>&1 || return 1
    found=$(sed -nE 's/.*loaded checkpoint from .* at iteration ([0-9]+).*/\1/p' "$work/resumed" | head -n 1)
    [ -e "$work/run/iter_0000007" ] && [ -z "$(find "$work/run" -name '*.tmp.*')" ]
}

# every_call RANKS RANK SAVE FLAGS…
failures=0
every_call() {
    local ranks=$1 rank=$2 save=$3 calls n killed=0 old=0 new=0 failed=0
    shift 3
    rm -f "$work/count"
    train_killed "$ranks" "$rank" 0 "$@" && calls=$(cat "$work/count") || {
        echo "test-syscalls: a run without a kill fails"
        tail -n 5 "$work/log"
        exit 77
    }
    # The number may vary a little: removals are in the background.
    for ((n = 1; n <= calls + 20; n += ${STRIDE:-1})); do
        train_killed "$ranks" "$rank" "$n" "$@" && break
        killed=$((killed + 1))
        found=
        if ! resumes || { [ "$found" != 3 ] && [ "$found" != 6 ]; }; then
            failed=$((failed + 1))
            echo "FAIL rank $rank of $ranks, $save, call $n: resumed from \"$found\""
            tail -n 2 "$work/verify" "$work/resumed"
            cp -r "$work/run" "$folder/failed-$ranks-$rank-$save-$n"
        fi
        old=$((old + (found == 3)))
        new=$((new + (found == 6)))
    done
    echo "$ranks,$rank,$save,$calls,$killed,$old,$new,$failed" >>"$results"
    echo "rank $rank of $ranks, $save save: $calls calls, killed $killed times: $old times the old checkpoint, $new times the new one, $failed failures"
    failures=$((failures + failed))
}

[ $# -gt 0 ] || set -- 1:0 2:0 2:1
for ranks in $(printf '%s\n' "${@%:*}" | sort -u); do
    rm -rf "$work/run"
    bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "${model[@]}" --train-iters 3 --ckpt-writers "$ranks" --use-distributed-optimizer >"$work/log" 2>&1 </dev/null ||
        { echo "test-syscalls: the first run fails"; tail -n 5 "$work/log"; exit 1; }
    mv "$work/run" "$work/base-$ranks"
done
for place; do
    every_call "${place%:*}" "${place#*:}" plain
    every_call "${place%:*}" "${place#*:}" async --async-save
done
[ "$failures" = 0 ]
