#!/usr/bin/env bash
# launch slurm with --checkpoint-in-memory against a real Slurm cluster on this machine, two nodes with two tasks each:
# ranks that are killed are started again in the same allocation, resume from memory, of which every node has copies for
# the other, and end with the weights of a job that was not disturbed. With --spares the same holds for a lost node.
# tier: all
# label: slow
# beside: ranks
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/slurm_test.sh 3 || exit

job=(--nodes 2 --ntasks-per-node 2 --shared --mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2
    --seq-length 16 --vocab-size 50 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3
    --log-interval 1 --eval-iters 0 --threads 1 --save-interval 1000000 --train-iters 20 --use-distributed-optimizer)
submit() { "$BEVATRON" launch slurm --logs "$work/logs-$1" "${job[@]}" --save "$work/$1" "${@:2}" 2>>"$work/out"; }

whole=$(submit whole)
run=$(submit run --checkpoint-in-memory --allow-injected-faults --inject kill:rank=3:step=7:phase=memory:call=2 \
    --inject kill:rank=0:step=13:phase=optimizer)
for number in $whole $run; do
    within 900 has_ended "$number" || fail "job $number does not end: $(squeue -j "$number" 2>&1 | tail -n 1)"
    [ "$(state "$number")" = JobState=COMPLETED ] && pass || fail "job $number: $(state "$number")"
done
cat "$work"/logs-run/*-"$run".log "$work/logs-run/$run/rank-0.log" >"$work/out" 2>/dev/null
scontrol show job "$run" | grep -q "Restarts=0" && pass || fail "the job was put back in the queue"
grep -q "has a copy on another of the 2 nodes" "$work/out" && pass || fail "there are no copies on the other node"
[ "$(grep -ho "loaded checkpoint from host memory at iteration [0-9]*" "$work/logs-run/$run/rank-0.log" |
    grep -o '[0-9]*$' | tr '\n' ' ')" = "6 12 " ] && pass || fail "the job did not resume from iterations 6 and 12 in memory"
for file in "$work"/whole/iter_0000020/*.safetensors; do
    expect_same "$file" "$work/run/iter_0000020/${file##*/}" "weights"
done

# A node is lost: the spare one takes its place.
expect 2 "--spares needs --checkpoint-in-memory" "$BEVATRON" launch slurm "${job[@]}" --spares 1 --dry-run
lost=$(submit lost --spares 1 --checkpoint-in-memory --allow-injected-faults --inject stop:rank=3:step=9:phase=backward)
stands_still() { grep -qs "injecting the fault stop" "$work/logs-lost/$lost"/rank-*.log; }
within 900 stands_still || fail "the job with a spare node does not train"
node=$(grep -ho "the ranks run on [^ ]*" "$work"/logs-lost/*-"$lost".log | head -n 1 | sed 's/.*,//')
[ "$node" = n2 ] && pass || fail "the second node is \"$node\""
scontrol update nodename=n2 state=down reason=test
within 900 has_ended "$lost" || fail "job $lost does not end: $(squeue -j "$lost" 2>&1 | tail -n 1)"
cat "$work"/logs-lost/*-"$lost".log >"$work/out"
[ "$(state "$lost")" = JobState=COMPLETED ] && pass || { fail "job $lost: $(state "$lost")"; tail -n 30 "$work/out"; }
scontrol show job "$lost" | grep -q "Restarts=0" && pass || fail "the job with a spare node was put back in the queue"
grep -q "the ranks run on n1,n3 of" "$work/out" && pass || fail "the spare node is not used"
grep -q "2 ranks got their checkpoints from copies on other nodes" "$work/logs-lost/$lost/rank-0.log" && pass || fail "no copies were used"
grep -q "loaded checkpoint from host memory at iteration 8" "$work/logs-lost/$lost/rank-0.log" && pass ||
    fail "the job with a spare node did not resume from memory"
for file in "$work"/whole/iter_0000020/*.safetensors; do
    expect_same "$file" "$work/lost/iter_0000020/${file##*/}" "weights after the loss of a node"
done

keeps_none() { ! pgrep -f "launch keeper .*bevatron-memory-$run" >/dev/null; }
within 900 keeps_none && pass || fail "keepers are left behind"
finish
