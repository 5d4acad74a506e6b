#!/usr/bin/env bash
# The same run on 1, 2 and 4 data-parallel ranks: the losses agree within 1e-6, with dropout, and a checkpoint can be
# resumed with another number of ranks.
# tier: all
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

train=("$BEVATRON" train --mock-data --vocab-size 97 --num-layers 2 --hidden-size 48 --num-attention-heads 3
    --seq-length 33 --max-position-embeddings 40 --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --min-lr 1e-4
    --lr-decay-style linear --log-interval 1 --eval-interval 10 --eval-iters 1 --threads 1 --device cpu
    --hidden-dropout 0.1 --attention-dropout 0.1)

# largest_difference A B: relative difference of the losses; fails if the iterations differ.
largest_difference() {
    paste "$1" "$2" | awk '{ if ($1 != $3) bad = 1; d = ($2 - $4) / $2; if (d < 0) d = -d; if (d > m) m = d; n++ }
        END { if (bad || n != 10) print 1; else printf "%.9f\n", m }'
}

expect 0 "iteration       10/      10" "${train[@]}" --train-iters 10 --save "$work/one" --save-interval 5
losses "$work/out" >"$work/losses.1"
for ranks in 2 4; do
    expect 0 "iteration       10/      10" bash tests/parallel/mpirun.sh "$ranks" "${train[@]}" --train-iters 10
    losses "$work/out" >"$work/losses.$ranks"
    difference=$(largest_difference "$work/losses.1" "$work/losses.$ranks")
    echo "$ranks ranks: largest relative difference of a loss $difference"
    awk -v d="$difference" 'BEGIN { exit !(d <= 1e-6) }' && pass || fail "$ranks ranks differ by $difference"
done

# Five iterations on one rank, five more on two.
expect 0 "at iteration 5" bash tests/parallel/mpirun.sh 2 "${train[@]}" --train-iters 10 --load "$work/one" --ckpt-step 5
{ head -n 5 "$work/losses.1"; losses "$work/out"; } >"$work/losses.mixed"
difference=$(largest_difference "$work/losses.1" "$work/losses.mixed")
awk -v d="$difference" 'BEGIN { exit !(d <= 1e-6) }' && pass || fail "resumed on two ranks differs by $difference"

# A lost rank ends the job at once; test_faults.sh tests hangs.
in_background "$work/out" bash tests/parallel/mpirun.sh 2 "${train[@]}" --train-iters 1000000
launcher=$!
await_text "iteration        2/"
victim=$(pgrep -P "$launcher" -f "bevatron train" | tail -n 1)
kill -9 "$victim"
wait "$launcher" && fail "a killed rank was not noticed" || pass

# Scripts for GPUs request NCCL; ranks on CPUs say once that this has no effect, and train.
expect 0 "note: --distributed-backend nccl has no effect on CPUs" bash tests/parallel/mpirun.sh 2 "${train[@]}" \
    --train-iters 2 --distributed-backend nccl
[ "$(grep -c "has no effect on CPUs" "$work/out")" = 1 ] && pass || fail "a note of each rank"
expect 0 "iteration        2/       2" "${train[@]}" --train-iters 2 --distributed-backend nccl

# A bad flag on several ranks ends all of them, with the right exit code.
expect 2 "no-such-flag" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train --no-such-flag
finish
