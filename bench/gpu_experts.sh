#!/usr/bin/env bash
# Tests the operations of mixtures of experts on a GPU and times them, on a machine with an NVIDIA GPU and a CUDA toolkit:
#   bench/gpu_experts.sh [BUILD_FOLDER]        (build/gpu by default)
# Builds what it needs, runs the cases of experts in fp32, bf16, fp16 and fp8 (EXPERTS_MEMCHECK=1: under compute-sanitizer,
# too), compares runs in fp8 with the CPU's (bench/gpu_losses.sh), then times layers of several sizes in bf16,
# fp8 and fp8 by blocks, the last one with all rows on few experts. Exits 0 if all tests passed.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/gpu}
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=ON \
    "-DBEVATRON_CUDA_ARCHS=${GPU_CHECK_ARCHS:-$(bench/gpu_arch.sh)}" >/dev/null &&
    cmake --build "$build" --parallel "$(nproc)" --target test_ops_cuda test_ops_cuda_compare \
        bench_experts bevatron || exit 1

failures=0
"$build/tests/test_ops_cuda" recordings_of_experts || failures=$((failures + 1))
"$build/tests/test_ops_cuda_compare" compare_experts || failures=$((failures + 1))
# Those of fp8 run once.
cases="fp32_quantize_slots fp32_quantize_experts fp32_grouped_float8 fp32_sort_slots_aligned fp32_quantize_parts_blocks"
cases="$cases fp32_quantize_slots_blocks fp32_quantize_experts_blocks fp32_grouped_blocks"
for name in route balance sort_slots sum_slots gather_slots expert_activation grouped_matmul; do
    cases="$cases fp32_$name bf16_$name fp16_$name"
done
for name in $cases; do
    "$build/tests/test_ops_cuda" "$name" || failures=$((failures + 1))
    [ "${EXPERTS_MEMCHECK:-0}" = 0 ] ||
        compute-sanitizer --error-exitcode 9 "$build/tests/test_ops_cuda" "$name" >/dev/null || failures=$((failures + 1))
done
bench/gpu_losses.sh "$build/bevatron" experts gates || failures=$((failures + 1))
echo "$failures failed"

# Tokens, hidden size, width of an expert, experts, chosen.
bench=$build/bench/bench_experts
for dtype in bf16 fp8 blockwise; do
    "$bench" cuda $dtype 16384 2048 768 128 8 20
    "$bench" cuda $dtype 16384 4096 14336 8 2 5
    "$bench" cuda $dtype 16384 2048 1024 64 8 20
    "$bench" cuda $dtype 4096 7168 2048 256 8 5
    SPREAD=one "$bench" cuda $dtype 16384 2048 1024 64 8 20
done
exit $((failures > 0))
