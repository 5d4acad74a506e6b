#!/usr/bin/env bash
# Times training steps with multi-head latent attention in bf16 beside PyTorch's as one writes it down (scores, softmax and
# values one after the other), compiled and not, on a machine with an NVIDIA GPU:
#   bench/gpu_mla.sh BEVATRON                 (LENGTHS="2048 4096": tokens of a sequence)
# 4 layers as DeepSeek-V2-Lite's first: 16 heads of 128 + 64 channels, a latent of 512. Prints milliseconds and memory.
set -u
cd "$(dirname "$0")/.." || exit 1
program=${1:?usage: bench/gpu_mla.sh BEVATRON}
layers=4 hidden=2048 heads=16 batch=4 vocabulary=32000 rank=512 width=5632

# of KEY JSON: a number of a line of JSON.
of() {
    grep -o "\"$1\": [0-9.]*" <<<"$2" | grep -o '[0-9.]*$'
}

# report NAME JSON OURS: a line, and how many times as long as ours it took.
report() {
    awk -v name="$1" -v seconds="$(of step_s "$2")" -v memory="$(of device_gb "$2")" -v ours="$3" 'BEGIN {
        if (!seconds) { printf "%s: no result\n", name; exit }
        printf "%-36s %7.1f ms, %5.1f GB", name, 1e3 * seconds, memory
        if (ours) printf ", %.2f times ours", seconds / ours
        print "" }'
}

for sequence in ${LENGTHS:-2048 4096}; do
    ours=$("$program" bench step --steps 10 --device cuda --bf16 --quick-weights --num-layers "$layers" --hidden-size "$hidden" \
        --num-attention-heads "$heads" --seq-length "$sequence" --max-position-embeddings "$sequence" --micro-batch-size "$batch" \
        --vocab-size "$vocabulary" --ffn-hidden-size "$width" --multi-latent-attention --kv-lora-rank "$rank" --qk-head-dim 128 \
        --qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm --swiglu --normalization RMSNorm --position-embedding-type rope \
        --untie-embeddings-and-output-weights --disable-bias-linear --hidden-dropout 0 --attention-dropout 0 2>&1)
    line=$(grep '^{' <<<"$ours")
    [ -n "$line" ] || { printf 'no result: %s\n' "$(tail -n 1 <<<"$ours")"; exit 1; }
    report "$sequence tokens, bevatron" "$line" ""
    shape=(mla "$layers" "$hidden" "$heads" "$sequence" "$batch" "$vocabulary" llama)
    for more in "" --eager; do
        peer=$(python3 bench/torch_step.py --latent "$rank" ${more:+"$more"} "${shape[@]}" 2>/dev/null | head -n 1)
        report "$sequence tokens, PyTorch${more:+ not compiled}" "$peer" "$(of step_s "$line")"
    done
done
