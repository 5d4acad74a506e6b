#!/usr/bin/env bash
# Two data-parallel ranks on two cores beside one rank on one core, each rank with the same batch: tokens per second, as
# medians of the steps after the first two. Run it on a machine that does nothing else.
# usage: bench/data_parallel.sh [BEVATRON] [FLAGS…]    (flags of train, for both)
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
bevatron=${1:-build/bevatron}
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=(--mock-data --tokenizer-type NullTokenizer --vocab-size 8191 --num-layers 6 --hidden-size 256 --num-attention-heads 4
    --seq-length 256 --max-position-embeddings 256 --micro-batch-size 4 --lr 1e-4 --train-iters 7 --eval-iters 0
    --log-interval 1 --threads 1 --device cpu)
mpi=(--bind-to core --map-by core)
[ "$(id -u)" = 0 ] && mpi+=(--allow-run-as-root)

# median FILE: milliseconds of a step.
median() {
    grep -oE "elapsed time per iteration \(ms\): [0-9.]+" "$1" | awk 'NR > 2 { print $NF }' | sort -n |
        awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}
taskset -c 0 "$bevatron" train "${model[@]}" --global-batch-size 8 "$@" >"$work/one" 2>&1 || { cat "$work/one"; exit 1; }
mpirun -n 2 "${mpi[@]}" "$bevatron" train "${model[@]}" --global-batch-size 16 "$@" >"$work/two" 2>&1 || { cat "$work/two"; exit 1; }
awk -v one="$(median "$work/one")" -v two="$(median "$work/two")" 'BEGIN {
    printf "one rank: %.0f tokens/s, %.1f ms a step; two ranks: %.0f tokens/s, %.1f ms a step; %.2f times as many\n",
        8 * 256e3 / one, one, 16 * 256e3 / two, two, 2 * one / two }'
