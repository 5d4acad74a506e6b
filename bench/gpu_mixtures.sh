#!/usr/bin/env bash
# Times training steps of mixtures of experts in bf16 beside PyTorch (compiled, grouped matmuls over sorted rows), on a
# machine with an NVIDIA GPU:
#   bench/gpu_mixtures.sh BEVATRON [MODEL…]       (all by default; bench/gpu_mixtures.sh list names them, flags
#                                           NAME prints one's flags)
# Prints milliseconds, the ratio, memory, and the share of our step that routing and permutation take. MIXTURE_PEERS=0
# leaves PyTorch out; MIXTURE_FP8=1 times our steps in fp8 too; MIXTURE_PARTS=1 prints all parts of our steps;
# MIXTURE_FLAGS has further flags for ours; MIXTURE_LINES=FILE keeps the lines of JSON.
set -u
cd "$(dirname "$0")/.." || exit 1
# name layers hidden heads sequence batch vocabulary experts chosen width
models="qwen3-30B-A3B-4layers 4 2048 16 4096 8 32000 128 8 768
mixtral-8x7B-2layers 2 4096 32 4096 4 32000 8 2 14336
olmoe-1B-7B-8layers 8 2048 16 4096 8 50304 64 8 1024"
program=${1:?usage: bench/gpu_mixtures.sh BEVATRON [MODEL…]}
shift
if [ "$program" = list ]; then
    echo "$models"
    exit 0
fi

# flags_of layers hidden heads sequence batch vocabulary experts chosen width: the flags of train for such a model.
flags_of() {
    printf '%s ' --device cuda --bf16 --quick-weights --num-layers "$1" --hidden-size "$2" --num-attention-heads "$3" \
        --seq-length "$4" --max-position-embeddings "$4" --micro-batch-size "$5" --vocab-size "$6" --num-experts "$7" \
        --moe-router-topk "$8" --ffn-hidden-size "$9" --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.01 \
        --swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights \
        --disable-bias-linear --hidden-dropout 0 --attention-dropout 0
}
if [ "$program" = flags ]; then
    read -ra model < <(grep "^${1:-} " <<<"$models") && flags_of "${model[@]:1}"
    exit
fi
[ $# -gt 0 ] || mapfile -t names < <(cut -d' ' -f1 <<<"$models")
[ $# -eq 0 ] || names=("$@")

# of KEY JSON: a number of a line of JSON.
of() {
    grep -o "\"$1\": [0-9.]*" <<<"$2" | grep -o '[0-9.]*$'
}

# time_ours FLAG…: what our program prints about steps of the model.
time_ours() {
    local flags
    read -ra flags < <(flags_of "$layers" "$hidden" "$heads" "$sequence" "$batch" "$vocabulary" "$experts" "$chosen" "$width")
    # shellcheck disable=SC2086  # MIXTURE_FLAGS are words
    out=$("$program" bench step --steps 10 --parts "${flags[@]}" ${MIXTURE_FLAGS:-} "$@" 2>&1)
    [ "${MIXTURE_PARTS:-0}" = 0 ] || printf '%s\n' "$out" >&2
    printf '%s\n' "$out"
}

# keep NAME JSON: a line of the file, with the model's name and the program's.
keep() {
    [ -z "${MIXTURE_LINES:-}" ] || grep '^{' <<<"$2" | sed "s/\"config\": \"[^\"]*\", //; s/^{\"name\": \"bevatron\"/{\"name\": \"$1\"/
        s/^{/{\"config\": \"$name\", /" >>"$MIXTURE_LINES"
}

for name in "${names[@]}"; do
    read -r _ layers hidden heads sequence batch vocabulary experts chosen width < <(grep "^$name " <<<"$models") ||
        { echo "gpu_mixtures.sh: there is no model $name; bench/gpu_mixtures.sh list names them" >&2; exit 2; }
    out=$(time_ours)
    ours=$(grep '^{' <<<"$out")
    [ -n "$ours" ] || { printf '%s: no result: %s\n' "$name" "$(tail -n 1 <<<"$out")"; continue; }
    keep bevatron "$ours"
    # The router's matmuls are those with as many rows or columns as there are experts.
    share=$(awk -v experts="$experts" '
        /^all / { all = $(NF - 1) }
        /^(route_|balance_|sort_slots|gather_slots|quantize_slots|sum_slots|slot_bias)/ { part += $3 }
        /^matmul / && ($2 == experts || $4 == experts || $6 == experts) { part += $(NF - 3) }
        END { if (all > 0) printf "%.1f", 100 * part / all }' <<<"$out")
    peer=
    [ "${MIXTURE_PEERS:-1}" = 0 ] ||
        peer=$(python3 bench/torch_step.py --energy --experts "$experts" --chosen "$chosen" --width "$width" "$name" "$layers" \
            "$hidden" "$heads" "$sequence" "$batch" "$vocabulary" llama 2>/dev/null | head -n 1)
    keep PyTorch "$peer"
    awk -v name="$name" -v ours="$(of step_s "$ours")" -v peer="$(of step_s "$peer")" -v tokens=$((batch * sequence)) \
        -v share="$share" -v less="$(of device_gb "$ours")" -v more="$(of device_gb "$peer")" 'BEGIN {
            printf "%-24s bevatron %6.1f ms, %6.0f tokens/s, %5.1f GB, routing and permutation %s %%", name, 1e3 * ours,
                tokens / ours, less, share
            if (peer) printf "; PyTorch %6.1f ms, %5.1f GB; ratio %.3f", 1e3 * peer, more, peer / ours
            print "" }'
    [ "${MIXTURE_FP8:-0}" = 0 ] && continue
    eighth=$(time_ours --fp8-format hybrid | grep '^{')
    keep "bevatron fp8" "$eighth"
    awk -v name="$name" -v ours="$(of step_s "$ours")" -v eighth="$(of step_s "$eighth")" -v memory="$(of device_gb "$eighth")" \
        'BEGIN { if (eighth) printf "%-24s in fp8   %6.1f ms, %5.1f GB, %.3f times as fast as in bf16\n", name, 1e3 * eighth,
            memory, ours / eighth }'
done
