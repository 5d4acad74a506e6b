#!/usr/bin/env bash
# Times training steps with Muon beside steps with AdamW, ours and PyTorch's (compiled, torch.optim.Muon for the blocks'
# matrices), on a machine with an NVIDIA GPU:
#   bench/gpu_muon.sh BEVATRON [MODEL…]       (llama-1.3B and gpt2-1558M; bench/gpu.sh list names them)
# Prints milliseconds of a step and what Muon's takes of AdamW's. MUON_PEERS=0 leaves PyTorch out.
set -u
cd "$(dirname "$0")/.." || exit 1
program=${1:?usage: bench/gpu_muon.sh BEVATRON [MODEL…]}
shift
[ $# -gt 0 ] || set -- llama-1.3B gpt2-1558M
muon="--optimizer muon --muon-nesterov --muon-coefficient-type simple --muon-extra-scale-factor 0.2"

# of KEY JSON: a number of a line of JSON.
of() {
    grep -o "\"$1\": [0-9.]*" <<<"$2" | grep -o '[0-9.]*$'
}

# report NAME ADAM MUON: both lines of JSON, and the ratio.
report() {
    awk -v name="$1" -v adam="$(of step_s "$2")" -v muon="$(of step_s "$3")" -v less="$(of device_gb "$2")" \
        -v more="$(of device_gb "$3")" 'BEGIN {
            if (!adam || !muon) { print name ": no result"; exit }
            printf "%-28s AdamW %7.1f ms  Muon %7.1f ms  ratio %.3f", name, 1e3 * adam, 1e3 * muon, muon / adam
            if (less) printf "  (%.1f and %.1f GB)", less, more
            print "" }'
}

for model in "$@"; do
    read -ra flags < <(bench/gpu.sh flags "$model")
    adam=$("$program" bench step --steps 10 "${flags[@]}")
    # shellcheck disable=SC2086  # flags
    report "$model, bevatron" "$adam" "$("$program" bench step --steps 10 "${flags[@]}" $muon)"
    [ "${MUON_PEERS:-1}" = 1 ] || continue
    read -ra shape < <(bench/gpu.sh list | grep "^$model ")
    adam=$(python3 bench/torch_step.py "${shape[@]}" | head -n 1)
    report "$model, PyTorch" "$adam" "$(python3 bench/torch_step.py --muon "${shape[@]}" | head -n 1)"
done
