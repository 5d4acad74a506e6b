#!/usr/bin/env bash
# How long a lost rank costs: 4 ranks under `launch local`, one of them killed, from the kill to the next iteration that
# the run completes, and how many iterations are repeated; from checkpoints in memory and from disk.
#   bench/restart.sh [build/release] [ROUNDS]
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
bevatron=${1:-build/release}/bevatron
rounds=${2:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=(--mock-data --num-layers 2 --hidden-size 128 --num-attention-heads 4 --seq-length 64 --vocab-size 4000
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0
    --threads 1 --device cpu --train-iters 100000 --save-interval 20)

last() { grep -oE "iteration +[0-9]+/" "$work/out" | tail -n 1 | tr -dc 0-9; }
count() { grep -cE "iteration +[0-9]+/" "$work/out"; }

# ranks FOLDER: the innermost processes of the run.
ranks() {
    local process
    for process in $(pgrep -f -- "--save $1 .*--nproc" 2>/dev/null); do
        tr '\0' '\n' <"/proc/$process/cmdline" 2>/dev/null | grep -q -e '^launch$' -e '^mpirun$' && continue
        pgrep -P "$process" >/dev/null || echo "$process"
    done
}

# measure NAME FLAGS…
measure() {
    local name=$1 launcher round victim lines before start resumed
    shift
    : >"$work/out"
    "$bevatron" launch local -n 4 --max-restarts 1000 "${model[@]}" --save "$work/$name" "$@" >"$work/out" 2>&1 &
    launcher=$!
    for ((round = 1; round <= rounds; round++)); do
        # Between two checkpoints on disk.
        while before=$(last) && [ "${before:-0}" -lt $((30 * round)) ] || [ $(($(last) % 20)) -lt 8 ]; do sleep 0.05; done
        victim=$(ranks "$work/$name" | shuf -n 1)
        lines=$(wc -l <"$work/out")
        before=$(last)
        start=$(date +%s.%N)
        kill -9 "$victim"
        until tail -n +$((lines + 1)) "$work/out" | grep -q "starting again"; do sleep 0.01; done
        until tail -n +$((lines + 1)) "$work/out" | sed '1,/starting again/d' | grep -qE "iteration +[0-9]+/"; do sleep 0.01; done
        resumed=$(tail -n +$((lines + 1)) "$work/out" | sed '1,/starting again/d' | grep -oE "iteration +[0-9]+/" | head -n 1 | tr -dc 0-9)
        printf '%-8s round %d: %5.1f s, %d iterations repeated\n' "$name" "$round" \
            "$(echo "$(date +%s.%N) - $start" | bc)" $((before - resumed + 1))
    done
    kill "$launcher"
    wait "$launcher"
    grep -E "checkpoints in host memory" "$work/out" | tail -n 2
}

measure memory --checkpoint-in-memory
measure disk
