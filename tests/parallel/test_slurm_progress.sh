#!/usr/bin/env bash
# A real Slurm cluster on this machine: all ranks of a job are suspended, so none of them can say anything. The job script
# notices within the deadline and two seconds, ends the step with code 212, and the job is requeued and ends with the
# weights of one that was not disturbed. The same for ranks that hang before their first iteration, which are started again
# in the same allocation.
# tier: all
# label: slow
# beside: ranks
# cost: 40
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/slurm_test.sh || exit

job=(--nodes 2 --ntasks-per-node 2 --shared --mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2
    --seq-length 16 --vocab-size 50 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3
    --log-interval 1 --eval-iters 0 --threads 1 --save-interval 5 --train-iters 12 --use-distributed-optimizer)
submit() { "$BEVATRON" launch slurm --logs "$work/logs-$1" "${job[@]}" --save "$work/$1" "${@:2}" 2>>"$work/out"; }
await() { within 900 has_ended "$1" || fail "job $1 does not end: $(squeue -j "$1" 2>&1 | tail -n 1)"; }

# hangs NAME SECONDS FAULT: with this deadline. A busy machine may take as long to start the ranks: then there is a longer
# one. The log says how long the ranks completed nothing: at most two seconds longer than the deadline.
hangs() {
    local name=$1 seconds=$2
    rm -rf "${work:?}/$name" "$work/logs-$name"
    number=$(submit "$name" --progress-timeout-minutes "$(awk -v s="$seconds" 'BEGIN { print s / 60 }')" --allow-injected-faults --inject "$3")
    await "$number"
    cat "$work/logs-$name"/*-"$number".log >"$work/out" 2>/dev/null
    [ "$(grep -c "completed nothing" "$work/out")" = 1 ] && [ "$(state "$number")" = JobState=COMPLETED ] &&
        noticed=$(sed -n 's/.*completed nothing for \([0-9]*\) s.*/\1/p' "$work/out") && [ "$noticed" -le $((seconds + 2)) ]
}
# equal NAME: the weights are those of the undisturbed job.
equal() {
    local file
    for file in "$work"/whole/iter_0000012/*.safetensors; do
        expect_same "$file" "$work/$1/iter_0000012/${file##*/}" "weights of $1"
    done
}

whole=$(submit whole)
await "$whole"
[ "$(state "$whole")" = JobState=COMPLETED ] && pass || fail "the undisturbed job: $(state "$whole")"

hangs stopped 10 stop:rank=all:step=8 || hangs stopped 60 stop:rank=all:step=8 && pass || fail "all ranks stopped: $(state "$number")"
grep -q "completed nothing for [0-9]* s after iteration 7; ending it (--progress-timeout-minutes)" "$work/out" && pass || fail "no word of the hang"
grep -q "the ranks ended with code 212" "$work/out" && pass || fail "the step did not end with code 212"
scontrol show job "$number" | grep -q "Restarts=1" && pass || fail "the job was not requeued once"
equal stopped

hangs early 10 stop:rank=all:phase=rendezvous || hangs early 60 stop:rank=all:phase=rendezvous && pass || fail "ranks stopped at their start: $(state "$number")"
scontrol show job "$number" | grep -q "Restarts=0" && pass || fail "the job was put back in the queue"
equal early
finish
