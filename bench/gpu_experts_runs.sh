#!/usr/bin/env bash
# Trains tiny mixtures of experts in fp8 on the GPU and, emulated, on the CPU, and compares the losses of 20 steps:
#   bench/gpu_experts_runs.sh BEVATRON
# On the GPU, recompute and a run without CUDA graphs must not change a digit. Exits 0 if all losses agree.
set -u
program=${1:?usage: bench/gpu_experts_runs.sh BEVATRON}
failures=0

# losses DEVICE FLAG…: one a line.
losses() {
    local device=$1
    shift
    "$program" train --device "$device" --mock-data --vocab-size 500 --num-layers 2 --hidden-size 64 --seq-length 64 \
        --num-attention-heads 4 --max-position-embeddings 64 --micro-batch-size 4 --global-batch-size 8 --bf16 \
        --fp8-format hybrid --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 96 --moe-aux-loss-coeff 1e-2 \
        --normalization RMSNorm --position-embedding-type rope --hidden-dropout 0 --attention-dropout 0 --lr 1e-3 \
        --train-iters 20 --log-interval 1 --eval-iters 0 "$@" 2>&1 | sed -n 's/.*lm loss: \([0-9.E+-]*\).*/\1/p'
}

# judge NAME MOST A B: the largest relative difference of two lists of 20 losses is at most MOST.
judge() {
    paste -d' ' <(printf '%s\n' "$3") <(printf '%s\n' "$4") | awk -v name="$1" -v most="$2" '
        NF == 2 { d = ($1 - $2) / $2; d = d < 0 ? -d : d; worst = d > worst ? d : worst; last = $1; count++ }
        END { bad = count != 20 || worst > most
              printf "%-44s %2d losses, last %.6f, off by %.1e at most%s\n", name, count, last, worst, bad ? ": FAILED" : ""
              exit bad }' || failures=$((failures + 1))
}

swiglu="--swiglu --disable-bias-linear"
# Flags, and those of runs that must be equal to the bit.
while IFS='|' read -r flags again; do
    # shellcheck disable=SC2086  # flags
    on_gpu=$(losses cuda $flags)
    # shellcheck disable=SC2086  # flags
    judge "${flags/$swiglu/SwiGLU}" 2e-3 "$on_gpu" "$(losses cpu $flags)"
    while read -r more; do
        # shellcheck disable=SC2086  # flags
        [ -z "$more" ] || judge "  $more" 0 "$(losses cuda $flags $more)" "$on_gpu"
    done < <(tr ';' '\n' <<<"$again")
done <<EOF
$swiglu|--no-cuda-graph;--recompute-granularity selective --recompute-modules moe_act;--recompute-granularity full --recompute-method uniform --recompute-num-layers 1
$swiglu --moe-expert-capacity-factor 1.0|--recompute-granularity full --recompute-method uniform --recompute-num-layers 1
$swiglu --fp8-recipe tensorwise|--no-cuda-graph
--activation gelu|--recompute-granularity selective --recompute-modules moe_act
EOF
echo "$failures failed"
exit $((failures > 0))
