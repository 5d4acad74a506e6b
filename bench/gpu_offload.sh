#!/usr/bin/env bash
# Times training steps with optimizer states in host memory beside steps with all of them on the GPU, and with Adam's
# moments in fewer bits, on a machine with an NVIDIA GPU:
#   bench/gpu_offload.sh BEVATRON [PRESET…]       (gpt3-1.3b and megatron-7.5b)
# Prints a table: milliseconds of a step, tokens/s, memory of the GPU as predicted and as the driver saw it, and
# page-locked host memory. A step is one micro-batch and one update, so the update's share shrinks with a larger MICRO.
# A row is printed as soon as it is measured. From the environment:
#   STEPS=5          steps of a run that are timed, behind four that warm up
#   MICRO=4          sequences of a step, of LENGTH=2048 tokens
#   ROWS="gpu …"     which rows, of gpu second moments all fp8 fp8-all muon muon-all; default: all of them
#   ROW_SECONDS=180  limit for a row
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

# measure PRESET NAME FLAGS…
measure() {
    local preset=$1 name=$2 code=0
    shift 2
    (while sleep 0.5; do nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits; done >"$work/used" 2>&1) &
    local watcher=$!
    timeout -k 5 "${ROW_SECONDS:-180}" "$program" bench step --steps "$steps" --device cuda --quick-weights \
        --preset "$preset" --seq-length "${LENGTH:-2048}" --bf16 --micro-batch-size "$micro" \
        --recompute-granularity full --recompute-method uniform --attention-dropout 0 --hidden-dropout 0 "$@" \
        >"$work/out" 2>"$work/errors" || code=$?
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    if [ "$code" != 0 ]; then
        echo "FAILED: $preset, $name: status $code: $(tail -n 1 "$work/errors" | cut -c1-300)"
        return
    fi
    awk -v preset="$preset" -v name="$name" -v seconds="$(of step_s)" -v predicted="$(of device_gb)" \
        -v seen="$(sort -n "$work/used" | tail -n 1)" -v tokens="$(of tokens_per_second)" -v hosted="$(of host_gb)" 'BEGIN {
            printf "| %s | %s | %.1f | %.0f | %.1f | %.1f | %.1f |\n", preset, name, 1e3 * seconds, tokens, predicted,
                seen * 1.048576e-3, hosted }'
}

# row PRESET KEY NAME FLAGS…: if ROWS names the key.
row() {
    case " ${ROWS:-$2} " in *" $2 "*) measure "$1" "${@:3}" ;; esac
}

echo "| model | states | ms a step | tokens/s | GB, predicted | GB, nvidia-smi | GB of host memory |"
echo "|---|---|---:|---:|---:|---:|---:|"
for preset in "$@"; do
    row "$preset" gpu "on the GPU"
    row "$preset" second "second moments in host memory" --optimizer-cpu-offload --optimizer-offload-fraction 0.4
    row "$preset" moments "both moments in host memory" --optimizer-cpu-offload --optimizer-offload-fraction 0.8
    row "$preset" all "all in host memory" --optimizer-cpu-offload
    row "$preset" fp8 "moments in fp8" --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8
    row "$preset" fp8-all "moments in fp8, all in host memory" --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8 --optimizer-cpu-offload
    row "$preset" muon "Muon, on the GPU" --optimizer muon
    row "$preset" muon-all "Muon, all in host memory" --optimizer muon --optimizer-cpu-offload
done
