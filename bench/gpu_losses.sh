#!/usr/bin/env bash
# Compares losses of 20 steps of tiny models on the GPU with those of other runs that must agree:
#   bench/gpu_losses.sh BEVATRON [PART…]        (all parts by default)
#   experts   mixtures of experts in fp8, and in fp8 on the CPU, which emulates it
#   gates     the same with the gates, biases and sinks of gpt-oss
#   latent    the same of latent attention, in every recipe that the GPU has
#   tokens    --calculate-per-token-loss --eod-mask-loss with micro-batches of 16 and of 2
#   keys      several ranks that share a head of keys and values, and one rank; ranks share the GPU and send through the host
# On the GPU, recompute and a run without CUDA graphs must not change a digit. Exits 0 if all losses agree.
set -u
program=${1:?usage: bench/gpu_losses.sh BEVATRON [PART…]}
shift
[ $# -gt 0 ] || set -- experts gates latent tokens keys
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
data=(--mock-data)
device=${LOSSES_DEVICE:-cuda}

# losses DEVICE FLAG…: one a line.
losses() {
    local device=$1
    shift
    "$program" train --device "$device" "${data[@]}" --vocab-size 500 --num-layers 2 --hidden-size 64 --seq-length 64 \
        --num-attention-heads 4 --max-position-embeddings 64 --micro-batch-size 4 --global-batch-size 8 --bf16 \
        --normalization RMSNorm --position-embedding-type rope --hidden-dropout 0 --attention-dropout 0 --lr 1e-3 \
        --train-iters 20 --log-interval 1 --eval-iters 0 "$@" 2>&1 | tee "$work/out.$device" |
        sed -n 's/.*lm loss: \([0-9.E+-]*\).*/\1/p'
}

# judge NAME MOST A B: the largest relative difference of two lists of 20 losses is at most MOST.
judge() {
    paste -d' ' <(printf '%s\n' "$3") <(printf '%s\n' "$4") | awk -v name="$1" -v most="$2" '
        NF == 2 { d = ($1 - $2) / $2; d = d < 0 ? -d : d; worst = d > worst ? d : worst; last = $1; count++ }
        END { bad = count != 20 || worst > most
              printf "%-44s %2d losses, last %.6f, off by %.1e at most%s\n", name, count, last, worst, bad ? ": FAILED" : ""
              exit bad }' && return
    failures=$((failures + 1))
    grep -hE "error|rror:" "$work"/out.* | head -n 3
}

# beside_cpu NAME FLAGS AGAIN…: in fp8 here and on the CPU; with each of AGAIN, the digits are the same.
beside_cpu() {
    local name=$1 flags=$2 here more
    shift 2
    # shellcheck disable=SC2086  # flags
    losses cpu --fp8-format hybrid $flags >"$work/cpu" &
    # shellcheck disable=SC2086  # flags
    here=$(losses "$device" --fp8-format hybrid $flags)
    for more in "$@"; do
        # shellcheck disable=SC2086  # flags
        judge "  $more" 0 "$(losses "$device" --fp8-format hybrid $flags $more)" "$here"
    done
    wait
    judge "$name" 2e-3 "$here" "$(cat "$work/cpu")"
}

full="--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
selective="--recompute-granularity selective --recompute-modules"
swiglu="--swiglu --disable-bias-linear"
mixture="--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 96 --moe-aux-loss-coeff 1e-2"

part_experts() {
    beside_cpu "SwiGLU" "$mixture $swiglu" --no-cuda-graph "$selective moe_act" "$full"
    beside_cpu "SwiGLU, capacity" "$mixture $swiglu --moe-expert-capacity-factor 1.0" "$full"
    beside_cpu "SwiGLU, tensorwise" "$mixture $swiglu --fp8-recipe tensorwise" --no-cuda-graph
    beside_cpu "GELU" "$mixture --activation gelu" "$selective moe_act"
}

# Limits that gates of so small a model reach.
part_gates() {
    local gates="--quick-geglu --glu-linear-offset 1 --activation-func-clamp-value 0.4"
    beside_cpu "gates with biases, sinks" "$mixture $gates --softmax-type learnable" --no-cuda-graph "$full"
    beside_cpu "gates, tensorwise" "$mixture $gates --disable-bias-linear --fp8-recipe tensorwise" "$selective moe_act"
}

# Latents whose widths are not multiples of 128, like DeepSeek-V3's.
part_latent() {
    local latent="--multi-latent-attention --qk-head-dim 32 --qk-pos-emb-head-dim 32 --v-head-dim 32 $swiglu"
    local both="$latent --q-lora-rank 96 --kv-lora-rank 48 --qk-layernorm"
    beside_cpu "latents" "$both" --no-cuda-graph "$selective mla_up_proj" "$selective mla_up_proj core_attn" "$full"
    beside_cpu "latents, tensorwise" "$both --fp8-recipe tensorwise" "$selective mla_up_proj"
    beside_cpu "no latent of queries, no norms" "$latent --kv-lora-rank 48" "$selective mla_up_proj"
    beside_cpu "latents, experts" "$both $mixture --moe-layer-freq [0,1] --moe-shared-expert-intermediate-size 96" \
        "$selective mla_up_proj moe_act"
    beside_cpu "latents, blockwise" "$both --fp8-recipe blockwise --hidden-size 128 --ffn-hidden-size 256" \
        "$selective mla_up_proj"
}

# Documents of 1 to 60 tokens: samples differ in how many of their tokens end a document.
part_tokens() {
    local flags="--global-batch-size 16 $swiglu" data=(--data-path "$work/text_text_document" --tokenizer-type NullTokenizer --split "1,0,0")
    local mean="--calculate-per-token-loss --eod-mask-loss" all few
    awk 'BEGIN { for (d = 0; d < 2000; d++) { n = d % 300 < 150 ? 1 + d % 4 : 20 + d % 41; s = ""
                 for (i = 0; i < n; i++) s = s (i ? " " : "") (d * 7 + i * i * 13) % 499; printf "{\"text\": \"%s\"}\n", s } }' >"$work/text.jsonl"
    "$program" preprocess --input "$work/text.jsonl" --output-prefix "$work/text" --tokenizer-type NullTokenizer \
        --vocab-size 500 --append-eod >"$work/out.text" 2>&1
    # shellcheck disable=SC2086  # flags
    all=$(losses "$device" $flags $mean --micro-batch-size 16)
    # shellcheck disable=SC2086  # flags
    few=$(losses "$device" $flags $mean --micro-batch-size 2)
    judge "per-token loss, micro-batches of 2" 1e-4 "$few" "$all"
    # shellcheck disable=SC2086  # flags
    few=$(losses "$device" $flags --eod-mask-loss --micro-batch-size 2)
    [ "$few" != "$all" ] || { echo "a mean over micro-batches has the same losses: FAILED" && failures=$((failures + 1)); }
}

part_keys() {
    local flags="--group-query-attention --num-query-groups 1 --qk-layernorm $swiglu" one how
    # shellcheck disable=SC2086  # flags
    one=$(losses "$device" $flags)
    for how in "--nproc 2 --tensor-model-parallel-size 2" "--nproc 4 --tensor-model-parallel-size 4 --sequence-parallel" \
        "--nproc 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel"; do
        # shellcheck disable=SC2086  # flags
        judge "one head of keys, $how" 1e-3 "$(losses "$device" $flags $how --distributed-backend mpi)" "$one"
    done
}

for part in "$@"; do
    "part_$part"
done
echo "$failures failed"
exit $((failures > 0))
