#!/usr/bin/env bash
# What a run of several ranks says when one of them crashes: where it was, in the log and in the metrics; and the last line
# is ours, not mpirun's.
# cost: 2
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts MPI
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1 --train-iters 20)
place="at iteration 3, forward, rank 1 on $(hostname)"
expect 139 "this process was ended by signal 11 (SIGSEGV) $place" "$BEVATRON" train --nproc 2 "${model[@]}" --save "$work/run" \
    --inject segv:rank=1:step=3:phase=forward --allow-injected-faults
tail -n 1 "$work/out" | grep -q "^error: bevatron: a rank was ended by signal 11" && pass || fail "the last line is another one"
grep -q "\"event\":\"failed\",\"text\":\"rank 1 was ended by signal 11 (SIGSEGV) $place\"" "$work/run/metrics.jsonl" && pass ||
    fail "the metrics do not name the place: $(tail -n 2 "$work/run/metrics.jsonl")"
finish
