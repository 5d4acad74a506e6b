#!/usr/bin/env bash
# launch local as a supervisor: a run that makes no progress is ended and restarted, with one rank and with two; it
# survives unrelated failures within one save interval, and gives up after a fault that recurs at the same iteration.
# tier: all
# cost: 60
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0
    --threads 1 --device cpu)
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
ranks=1
"$BEVATRON" version | grep -q "MPI *yes" && command -v mpirun >/dev/null && ranks="1 2"

# The training processes below the launcher: the innermost ones of this program.
trainers() {
    local process
    for process in $(pgrep -f -- "--save $1 .*--nproc" 2>/dev/null); do
        tr '\0' '\n' <"/proc/$process/cmdline" 2>/dev/null | grep -q -e '^launch$' -e '^mpirun$' && continue
        pgrep -P "$process" >/dev/null || echo "$process"
    done
}
saved() { [ -d "$1/iter_$(printf %07d "$2")" ]; }

for n in $ranks; do
    # All ranks are stopped: none of them can report it. The first attempt does not end before that, since one of its
    # iterations takes minutes.
    run=$work/still$n
    expect 0 "" "$BEVATRON" train "${model[@]}" --train-iters 300 --save "$work/whole$n" --nproc "$n"
    in_background "$work/out" "$BEVATRON" launch local -n "$n" --max-restarts 100 --progress-timeout-minutes 0.3 "${model[@]}" --train-iters 300 \
        --save "$run" --save-interval 20 --allow-injected-faults --inject slow:step=30:seconds=300
    launcher=$!
    within 900 saved "$run" 20 || fail "no checkpoint"
    kill -STOP $(trainers "$run")
    await_text "the run has completed nothing for"
    end_of "$launcher"
    [ "$code" = 0 ] && pass || fail "exit code $code of a run of $n ranks that stood still"
    grep -Eq "the run failed with code 212 at iteration [0-9]+; starting again from iteration [0-9]+ \(restart 1 of 100" \
        "$work/out" && pass || fail "the restart is not told"
    grep -q "iteration -1" "$work/out" && fail "iteration -1" || pass
    expect_same "$work/whole$n/iter_0000300/model.safetensors" "$run/iter_0000300/model.safetensors" "weights, $n ranks"
    [ -z "$(ls -A "$TMPDIR" | grep -v "^bevatron-mpi-")" ] && pass || fail "files are left in TMPDIR: $(ls -A "$TMPDIR")"
done

# Three kills at different iterations before the first checkpoint, then none: the run finishes.
expect 0 "restart 3 of 5" "$BEVATRON" launch local -n 1 --max-restarts 5 "${model[@]}" --train-iters 60 --save "$work/kills" \
    --save-interval 60 --allow-injected-faults --inject kill:step=20 --inject kill:step=30 --inject kill:step=40
saved "$work/kills" 60 && pass || fail "no checkpoint after three unrelated failures"

# The same fault at the same place.
expect 217 "failed 3 times before its first iteration without a new checkpoint" "$BEVATRON" launch local -n 1 \
    "${model[@]:1}" --data-path "$work/none" --train-iters 5 --save "$work/never" --max-restarts 9
finish
