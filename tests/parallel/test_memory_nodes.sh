#!/usr/bin/env bash
# Checkpoints in memory on two nodes, which are two keepers of this machine with two ranks each: when all processes of a
# node are killed, keeper included, its ranks get their state from the other node, to the bit; also if that node has
# other ranks by then, if copies were on their way, and if a node comes back with what it had before.
# tier: all
# cost: 16
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts MPI
model=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0
    --threads 1 --device cpu --use-distributed-optimizer --train-iters 24)

# keep NODE: starts a keeper and waits until ranks can find it.
declare -A keepers
keep() {
    in_background "$work/keeper-$1" "$BEVATRON" launch keeper --ranks 4 --link "$work/$1"
    keepers[$1]=$!
    within 900 test -e "$work/$1" || fail "no keeper $1"
}

# attempt FIRST SECOND: ranks 0 and 1 on the first node, 2 and 3 on the second; each rank leaves its process number. In
# three of the iterations a rank is suspended, so that processes can be killed there.
attempt() {
    bash tests/parallel/mpirun.sh 4 bash -c '
        [ "$OMPI_COMM_WORLD_RANK" -lt 2 ] && node=$1 || node=$2
        export BEVATRON_MEMORY=$0/$node
        echo $$ >"$0/rank-$OMPI_COMM_WORLD_RANK"
        shift 2
        exec "$@"' "$work" "$1" "$2" "$BEVATRON" train "${model[@]}" --save "$work/run" --checkpoint-in-memory \
        --allow-injected-faults --inject stop:rank=2:step=6:phase=alltoall \
        --inject stop:rank=1:step=12:phase=memory:call=2 --inject stop:rank=3:step=18:phase=backward >>"$work/out" 2>&1
}
# end_at N RANKS NODE: kills these ranks, and the keeper of the node unless that is empty, once the Nth fault is there.
# The suspended rank is the first: when another one ends, mpirun wakes it to end it too, and it would go on until then.
stands_still() { [ "$(grep -c "injecting the fault stop" "$work/out")" -ge "$1" ]; }
end_at() {
    local rank processes=()
    within 900 stands_still "$1" || fail "fault $1 did not fire"
    for rank in $2; do processes+=("$(cat "$work/rank-$rank")"); done
    kill -9 "${processes[@]}" ${3:+"${keepers[$3]}"}
    end_of "$run"
    [ "$code" != 0 ] && pass || fail "a run without some of its ranks ended well"
}

expect 0 "" bash tests/parallel/mpirun.sh 4 "$BEVATRON" train "${model[@]}" --save "$work/whole"
: >"$work/out"
keep a
keep b

# The second node is lost while copies are exchanged; a spare node takes its place.
attempt a b &
run=$!
end_at 1 "2 3" ""
grep -q "has a copy on another of the 2 nodes" "$work/out" && pass || fail "copies are not told"
keep c
# The first node is lost while it copies to memory; its ranks move to the spare one, whose ranks move to the node that
# was lost first. Its keeper still has older iterations, which no other rank has.
attempt a c &
run=$!
end_at 2 "1 0" a
grep -q "2 ranks got their checkpoints from copies on other nodes" "$work/out" && pass || fail "no copies were used"
# One rank is lost: nothing has to be sent.
attempt c b &
run=$!
end_at 3 3 ""
attempt c b
[ $? = 0 ] && pass || fail "the last attempt failed"
[ "$(grep -c "got their checkpoints from copies" "$work/out")" = 2 ] && pass || fail "copies were not used twice"
# Two lines of several programs may come out as one.
resumed=$(grep -oE "successfully loaded checkpoint from host memory at iteration [0-9]+" "$work/out" | grep -oE "[0-9]+$" | tr '\n' ' ')
[ "$resumed" = "5 11 17 " ] && pass || fail "the run resumed from iterations $resumed in memory, not 5, 11 and 17"
for file in "$work"/whole/iter_0000024/*.safetensors; do
    expect_same "$file" "$work/run/iter_0000024/${file##*/}" "weights"
done

# Four nodes of one rank. Two neighbours are lost, and with them all copies of one rank's state: the run says so and
# resumes from disk; so it does if all nodes are lost.
for node in d e f g; do keep $node; done
four() { # NODE… -- FLAGS…
    bash tests/parallel/mpirun.sh 4 bash -c '
        nodes=("$1" "$2" "$3" "$4")
        export BEVATRON_MEMORY=$0/${nodes[$OMPI_COMM_WORLD_RANK]}
        echo $$ >"$0/rank-$OMPI_COMM_WORLD_RANK"
        shift 5
        exec "$@"' "$work" "${@:1:5}" "$BEVATRON" train "${model[@]}" --save "$work/pair" --load "$work/pair" --save-interval 4 \
        --checkpoint-in-memory --allow-injected-faults --inject stop:rank=1:step=7:phase=backward \
        --inject stop:rank=3:step=11:phase=backward >>"$work/out" 2>&1
}
: >"$work/out"
four d e f g -- &
run=$!
end_at 1 "1 2" e
kill -9 "${keepers[f]}"
for node in h i; do keep $node; done
four d h i g -- &
run=$!
end_at 2 "3 0 1 2" d
grep -qE "warning: host memory has iteration 6, but nothing of rank 1 on [^ ]+: its state and all copies of it are lost; the run resumes from iteration 4 on disk" \
    "$work/out" && pass || fail "the loss of two neighbours is not told: $(grep "host memory" "$work/out" | tail -n 5)"
grep -q "loading checkpoint from $work/pair at iteration 4" "$work/out" && pass || fail "it does not resume from disk"
for node in g h i; do kill -9 "${keepers[$node]}"; done
for node in j k l m; do keep $node; done
four j k l m -- && pass || fail "the last attempt on new nodes failed"
grep -q "host memory has no checkpoints; the run resumes from iteration 8 on disk" "$work/out" && pass || fail "the loss of all nodes is not told"
for file in "$work"/whole/iter_0000024/*.safetensors; do
    expect_same "$file" "$work/pair/iter_0000024/${file##*/}" "weights after the loss of two neighbours"
done
for node in j k l m; do kill "${keepers[$node]}"; done

# A keeper removes its link, and takes over that of a killed one only.
expect 1 "cannot make the link" "$BEVATRON" launch keeper --ranks 4 --link "$work/b"
expect 2 "give --ranks N and --link PATH" "$BEVATRON" launch keeper
for node in b c; do
    kill "${keepers[$node]}"
    end_of "${keepers[$node]}"
    [ "$code" = 0 ] && [ ! -L "$work/$node" ] && pass || fail "a keeper left its link, or exit code $code"
done
finish
