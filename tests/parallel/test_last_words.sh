#!/usr/bin/env bash
# What a run of several ranks says when one of them crashes or is killed: which it was and where, in the log and in the
# metrics; and the last line is ours, not mpirun's.
# tier: all
# cost: 2
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts MPI
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1 --train-iters 20)
# The launcher needs a moment to find its ranks before one of them ends; on a busy machine a longer one.
# ends_named CODE TEXT FAULT FLAGS…: the last fault of rank 1; its message must name rank 1 and have the text.
ends_named() {
    local code=$1 text=$2 fault=$3 pause
    shift 3
    for pause in 0.5 3 20; do
        rm -rf "$work/run"
        expect "$code" "injecting the fault $fault" "$BEVATRON" train --nproc 2 "${model[@]}" "$@" --allow-injected-faults \
            --inject "slow:rank=1:step=2:phase=forward:seconds=$pause" --inject "$fault"
        grep -qE "^error: bevatron: .*rank 1 \(process [0-9]+\) .*on $(hostname) $text" "$work/out" && pass && return
    done
    fail "rank 1 is not named: $(tail -n 1 "$work/out")"
}
place="at iteration 3, forward, rank 1 on $(hostname)"
ends_named 139 "was ended by signal 11" segv:rank=1:step=3:phase=forward --save "$work/run"
grep -qF "this process was ended by signal 11 (SIGSEGV) $place" "$work/out" && pass || fail "the place is not named"
last_line "$work/out" | grep -q "^error: bevatron: .* was ended by signal 11" && pass || fail "the last line is another one"
grep -q "\"event\":\"failed\",\"text\":\"rank 1 was ended by signal 11 (SIGSEGV) $place\"" "$work/run/metrics.jsonl" && pass ||
    fail "the metrics do not name the place: $(tail -n 2 "$work/run/metrics.jsonl")"
# A rank that is killed says nothing itself.
ends_named 211 "was killed, and the others were stopped" kill:rank=1:step=3:phase=forward
finish
