#!/usr/bin/env bash
# --checkpoint-in-memory: a rank that is killed in any phase, also while it copies to memory, costs at most two
# iterations; the restarted run reads nothing from disk, and its weights are those of a run that was not disturbed, to
# the bit.
# tier: all
# cost: 15
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts MPI
model=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 1
    --eval-interval 5 --threads 1 --device cpu --train-iters 20)
# apart COMMAND…: beside others, with its own TMPDIR, in which two mpirun would share a folder; nothing is left there.
apart() {
    export TMPDIR=$work/tmp
    mkdir "$TMPDIR"
    "$@"
    [ -z "$(ls -A "$TMPDIR" | grep -v "^bevatron-mpi-")" ] && pass || fail "files are left in TMPDIR: $(ls -A "$TMPDIR")"
}

# At most one iteration that was logged is computed again, beside the one that was interrupted.
check_lost() {
    awk '
        /iteration +[0-9]+\// { match($0, /iteration +[0-9]+/); n = substr($0, RSTART + 9, RLENGTH - 9) + 0; last = n }
        /loaded checkpoint from host memory at iteration/ {
            match($0, /at iteration [0-9]+/); from = substr($0, RSTART + 13, RLENGTH - 13) + 0
            if (last - from > 1) { print "resumed from " from " after " last; bad = 1 }
        }
        END { exit bad }' "$work/out" && pass || fail "$1: more than two iterations were lost"
}

# kills NAME "FAULT…" RANKS FLAGS…: every fault kills the run once.
kills() {
    local name=$1 fault faults=() ranks=$3 file
    for fault in $2; do faults+=(--inject "$fault"); done
    shift 3
    expect 0 "" "$BEVATRON" train "${model[@]}" "$@" --save "$work/whole" --nproc "$ranks"
    expect 0 "in host memory (restart 1 of 100" "$BEVATRON" launch local -n "$ranks" --max-restarts 100 "${model[@]}" \
        "$@" --save "$work/run" --checkpoint-in-memory --allow-injected-faults "${faults[@]}"
    [ "$(grep -c "loaded checkpoint from host memory" "$work/out")" = $((${#faults[@]} / 2)) ] && pass ||
        fail "$name: not every restart resumed from memory"
    grep -q "loading checkpoint from $work/run" "$work/out" && fail "$name: the disk was read" || pass
    grep -q "the restarted run has completed iteration" "$work/out" && pass || fail "$name: no time to resume is told"
    check_lost "$name"
    for file in "$work"/whole/iter_0000020/*.safetensors "$work/whole/iter_0000020/state.json"; do
        expect_same "$file" "$work/run/iter_0000020/${file##*/}" "$name"
    done
}

beside one apart kills one "kill:step=3:phase=memory:call=1 segv:step=6:phase=memory:call=2 kill:step=9:phase=memory:call=3
    kill:step=12:phase=optimizer kill:step=15:phase=evaluate kill:step=20:phase=save" 1 --fp16
beside replicas apart kills replicas "kill:rank=1:step=5:phase=memory:call=2 kill:rank=0:step=9:phase=reducescatter
    kill:rank=3:step=13:phase=weights" 4 --use-distributed-optimizer --bf16 --overlap-grad-reduce --overlap-param-gather
beside stages apart kills stages "kill:rank=0:step=4:phase=memory:call=2 kill:rank=1:step=8:phase=memory:call=3
    kill:rank=1:step=12:phase=receive" 2 --pipeline-model-parallel-size 2

# The checkpoint on disk is newer, because memory is written rarely. A run that fails at one place again is started from
# disk, and is given up if that does not help.
supervised() { "$BEVATRON" launch local -n 1 "${model[@]}" --allow-injected-faults --checkpoint-in-memory "$@"; }
disk() {
    expect 0 "loading checkpoint from $work/rare at iteration 4" supervised --save "$work/rare" --save-interval 4 \
        --checkpoint-in-memory-interval 3 --inject kill:step=6:phase=step
    expect 217 "failed 3 times at iteration 6 without a new checkpoint, with code 137; giving up" supervised --save "$work/stuck" \
        --save-interval 4 --max-restarts 9 --inject kill:step=6:phase=step:every-start
    [ "$(grep -c "loaded checkpoint from host memory at iteration 5" "$work/out")" = 1 ] &&
        [ "$(grep -c "loading checkpoint from $work/stuck at iteration 4" "$work/out")" = 1 ] && pass ||
        fail "memory is not given up for the disk"
}
beside disk apart disk
# A signal while the supervisor waits before an attempt, or while that starts, does not lose what is in memory only.
signal_between() {
    in_background "$work/log" "$BEVATRON" launch local -n 1 "${model[@]}" --allow-injected-faults --checkpoint-in-memory --checkpoint-in-memory-interval 4 \
        --save "$work/between" --save-interval 100 --inject kill:step=6:phase=step --inject kill:step=7:phase=step \
        --inject slow:step=8-20:seconds=2
    local process=$!
    within 900 waits_again || fail "no third attempt"
    kill -TERM "$process"
    end_of "$process"
    [ "$code" = 210 ] && [ -n "$(ls -d "$work"/between/iter_* 2>/dev/null)" ] && pass || {
        fail "the signal lost what was in memory, exit code $code"
        cat "$work/log"
    }
}
waits_again() { [ "$(grep -c "starting again from iteration 4 in host memory" "$work/log")" -ge 2 ]; }
beside between apart signal_between
gather

expect 2 "needs a launcher that outlives the ranks" "$BEVATRON" train "${model[@]}" --checkpoint-in-memory
expect 0 "host memory of a rank for --checkpoint-in-memory: 0.00 GB" "$BEVATRON" train "${model[@]}" \
    --checkpoint-in-memory --dry-run
expect 2 "works with launch local and" "$BEVATRON" launch slurm --nodes 1 --ntasks-per-node 1 --time 1 --dry-run \
    --container-image x "${model[@]}" --save run --checkpoint-in-memory
# More than any machine has: refused before anything is taken.
expect 214 "--checkpoint-in-memory needs" prlimit --as=$((3 << 30)) "$BEVATRON" launch local -n 1 "${model[@]}" \
    --num-layers 8 --hidden-size 1024 --checkpoint-in-memory
finish
