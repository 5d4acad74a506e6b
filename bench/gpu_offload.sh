#!/usr/bin/env bash
# Times training steps with optimizer states in host memory beside steps with all of them on the GPU, and with Adam's
# moments in fewer bits, on a machine with an NVIDIA GPU:
#   bench/gpu_offload.sh BEVATRON [PRESET…]       (gpt3-1.3b and megatron-7.5b)
# Prints a table: milliseconds of a step, tokens/s, memory of the GPU as predicted and as the driver saw it, and host
# memory. A step is one micro-batch and one update, so the update's share shrinks with a larger MICRO. From the environment:
#   STEPS=5      steps of a run that are timed
#   MICRO=4      sequences of a step
set -u
cd "$(dirname "$0")/.." || exit 1
program=${1:?usage: bench/gpu_offload.sh BEVATRON [PRESET…]}
shift
[ $# -gt 0 ] || set -- gpt3-1.3b megatron-7.5b
steps=${STEPS:-5} micro=${MICRO:-4}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# of KEY: a number of the JSON in $work/out.
of() {
    grep -o "\"$1\": [0-9.]*" "$work/out" | head -n 1 | grep -o '[0-9.]*$'
}

# row PRESET NAME FLAGS…
row() {
    local preset=$1 name=$2 seen
    shift 2
    local flags=(--preset "$preset" --bf16 --micro-batch-size "$micro" --recompute-granularity full
        --recompute-method uniform --attention-dropout 0 --hidden-dropout 0 "$@")
    "$program" train "${flags[@]}" --mock-data --vocab-size 50257 --train-iters 1 --dry-run >"$work/plan" 2>&1
    (while sleep 0.5; do nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits; done >"$work/used") &
    local watcher=$!
    "$program" bench step --steps "$steps" --device cuda "${flags[@]}" >"$work/out" 2>"$work/errors" ||
        echo "$preset, $name: $(tail -n 1 "$work/errors")"
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    seen=$(sort -n "$work/used" | tail -n 1)
    awk -v preset="$preset" -v name="$name" -v seconds="$(of step_s)" -v predicted="$(of device_gb)" -v seen="$seen" \
        -v tokens="$(of tokens_per_second)" -v hosted="$(grep -o '[0-9.]* GB of optimizer states in host memory' "$work/plan" |
            head -n 1 | grep -o '^[0-9.]*')" 'BEGIN {
            printf "| %s | %s | %.1f | %.0f | %.1f | %.1f | %.1f |\n", preset, name, 1e3 * seconds, tokens, predicted,
                seen * 1.048576e-3, hosted }'
}

echo "| model | states | ms a step | tokens/s | GB, predicted | GB, nvidia-smi | GB of host memory |"
echo "|---|---|---:|---:|---:|---:|---:|"
for preset in "$@"; do
    row "$preset" "on the GPU"
    row "$preset" "second moments in host memory" --optimizer-cpu-offload --optimizer-offload-fraction 0.4
    row "$preset" "both moments in host memory" --optimizer-cpu-offload --optimizer-offload-fraction 0.8
    row "$preset" "all in host memory" --optimizer-cpu-offload
    row "$preset" "moments in fp8" --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8
    row "$preset" "moments in fp8, all in host memory" --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8 --optimizer-cpu-offload
done
