#!/usr/bin/env bash
# Times training steps in fp8 beside steps in bf16 and, if torchao is installed, beside its float8 training (compiled), on
# a machine with an NVIDIA GPU:
#   bench/gpu_fp8.sh BEVATRON [MODEL…]        (gpt3-1.3B and llama7B-8layers; bench/gpu.sh list names them)
# Prints tokens per second, the ratio to bf16 and memory. Environment:
#   FP8_ROUNDS=2                      rounds; every round times bf16 and each kind of fp8 in turn
#   FP8_KINDS="plain output …"        kinds of fp8: plain, output (--fp8-output-proj), fast (with --fp8-fast-input-gradients
#                                     too), or the name of a --fp8-recipe
#   FP8_PARTS=1                       prints the time by part of a step too
#   FP8_PEERS="tensorwise rowwise"    recipes of torchao; empty for none
set -u
cd "$(dirname "$0")/.." || exit 1
program=${1:?usage: bench/gpu_fp8.sh BEVATRON [MODEL…]}
shift
[ $# -gt 0 ] || set -- gpt3-1.3B llama7B-8layers
algorithms=$(mktemp)
trap 'rm -f "$algorithms"' EXIT

# of KEY JSON: a number of a line of JSON.
of() {
    grep -o "\"$1\": [0-9.]*" <<<"$2" | grep -o '[0-9.]*$'
}

# report NAME JSON BASE: a row; BASE is bf16's tokens per second.
report() {
    awk -v name="$1" -v speed="$(of tokens_per_second "$2")" -v gb="$(of device_gb "$2")" -v base="$3" 'BEGIN {
            if (!speed) { print name ": no result"; exit }
            printf "%-40s %9.0f tokens/s  %6.2f GB", name, speed, gb
            if (base) printf "  %.3f x bf16", speed / base
            print "" }'
}

# flags_of_kind KIND: what such a run adds to the flags of bf16.
flags_of_kind() {
    case $1 in
        bf16) ;;
        plain) echo --fp8-format hybrid ;;
        output) echo --fp8-format hybrid --fp8-output-proj ;;
        fast) echo --fp8-format hybrid --fp8-output-proj --fp8-fast-input-gradients ;;
        *) echo --fp8-format hybrid --fp8-recipe "$1" ;;
    esac
}

for model in "$@"; do
    read -ra flags < <(bench/gpu.sh flags "$model")
    for round in $(seq "${FP8_ROUNDS:-2}"); do
        base=
        for kind in bf16 ${FP8_KINDS:-plain output}; do
            # shellcheck disable=SC2046  # flags
            line=$("$program" bench step --steps 10 --algorithm-cache "$algorithms" "${flags[@]}" $(flags_of_kind "$kind"))
            [ -n "$base" ] || base=$(of tokens_per_second "$line")
            report "$model, bevatron $kind, round $round" "$line" "$base"
        done
    done
    for kind in ${FP8_PARTS:+bf16 ${FP8_KINDS:-plain output}}; do
        echo "$model, bevatron $kind, by part:"
        # shellcheck disable=SC2046  # flags
        "$program" bench step --steps 5 --parts --algorithm-cache "$algorithms" "${flags[@]}" $(flags_of_kind "$kind")
    done
    python3 -c 'import torchao.float8' 2>/dev/null || { echo "$model: torchao is not installed; skipped"; continue; }
    read -ra shape < <(bench/gpu.sh list | grep "^$model ")
    for recipe in ${FP8_PEERS-tensorwise rowwise}; do
        report "$model, torchao $recipe" "$(python3 bench/torch_step.py --float8 "$recipe" "${shape[@]}" | head -n 1)" "$base"
    done
done
