#!/bin/bash
# bevatron bench step and bench matmul on the CPU: every kind of model makes a step and has its matmuls, flags without
# effect are refused, and the output can be parsed.
# shellcheck source=tests/cli/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh" || exit
small=(--device cpu --threads 1 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2
    --vocab-size 256)

# prints COUNT PATTERN COMMAND…: COUNT lines of its output match.
prints() {
    local count=$1 pattern=$2
    shift 2
    "$@" >"$work/out" 2>&1 </dev/null || fail "exit code $?: $*"
    [ "$(grep -cE -- "$pattern" "$work/out")" = "$count" ] && pass || fail "not $count lines of $pattern: $*"
}

for dtype in "" --bf16 --fp16; do
    # shellcheck disable=SC2086  # no flag for fp32
    prints 1 '^\{"name": "bevatron", "step_s": [0-9.]+, "median_s": [0-9.]+, .*"loss": [3-8]\.[0-9]+\}$' \
        "$BEVATRON" bench step "${small[@]}" --steps 2 $dtype
done
expect 0 '"loss"' "$BEVATRON" bench step "${small[@]}" --steps 1 --preset llama-7b --ffn-hidden-size 128 --quick-weights
expect 0 '"loss"' "$BEVATRON" bench step "${small[@]}" --steps 1 --preset bert-base --ffn-hidden-size 128
expect 0 '"loss"' "$BEVATRON" bench step "${small[@]}" --steps 1 --preset t5-small --kv-channels 16 --ffn-hidden-size 128 \
    --encoder-num-layers 1 --decoder-num-layers 1 --decoder-seq-length 16
expect 0 'only NVIDIA GPUs have an energy counter' "$BEVATRON" bench step "${small[@]}" --steps 1 --energy
expect 0 '"loss"' "$BEVATRON" bench step "${small[@]}" --steps 1 --global-batch-size 2
expect 2 '--global-batch-size 8 is not one micro-batch of 2' "$BEVATRON" bench step "${small[@]}" --global-batch-size 8
prints 1 '^matmul 64 x 64 x 256 +2 .* [0-9]+%$' "$BEVATRON" bench step "${small[@]}" --steps 1 --parts
grep -qE '^adam +2 ' "$work/out" && grep -qE '^step +[0-9.]+$' "$work/out" && pass || fail "no Adam or no step"
expect 2 '--pairs needs a GPU' "$BEVATRON" bench step "${small[@]}" --pairs 1

prints 15 '^(qkv|proj|fc1|fc2|head) .* [0-9]+\.[0-9]+ ' "$BEVATRON" bench matmul "${small[@]}" --dtype fp32 --rounds 1
expect 0 'qkv          weight gradient        192        64        64      2' \
    "$BEVATRON" bench matmul "${small[@]}" --dtype bf16 --rounds 1
prints 3 '^\{"layer": "given", "product": "forward", "m": 48, "n": 32, "k": 17, .*"tflops": [0-9.]+\}$' \
    "$BEVATRON" bench matmul --device cpu --m 48 --n 32 --k 17 --rounds 1 --json
expect 0 'weight gradient' "$BEVATRON" bench matmul --device cpu --m 3 --n 5 --k 7 --pass weight-gradient --dtype fp16
expect 0 'cross kv' "$BEVATRON" bench matmul "${small[@]}" --rounds 1 --dtype fp32 --preset t5-small --kv-channels 16 \
    --ffn-hidden-size 128 --encoder-num-layers 1 --decoder-num-layers 1 --decoder-seq-length 16
expect 1 'does not support fp8 matmuls' "$BEVATRON" bench matmul --device cpu --m 16 --n 16 --k 16 --dtype fp8
expect 2 'give all of --m, --n and --k' "$BEVATRON" bench matmul --device cpu --m 16
finish
