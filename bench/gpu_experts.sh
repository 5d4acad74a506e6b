#!/usr/bin/env bash
# Tests the operations of mixtures of experts on a GPU and times them, on a machine with an NVIDIA GPU and a CUDA toolkit:
#   bench/gpu_experts.sh [BUILD_FOLDER]        (build/gpu by default)
# Builds what it needs, runs the cases of experts in fp32, bf16 and fp16 (EXPERTS_MEMCHECK=1: under compute-sanitizer, too),
# then times layers of several sizes in bf16, the last one with all rows on few experts. Exits 0 if all tests passed.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/gpu}
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=ON \
    "-DBEVATRON_CUDA_ARCHS=${GPU_CHECK_ARCHS:-$(bench/gpu_arch.sh)}" >/dev/null &&
    cmake --build "$build" --parallel "$(nproc)" --target test_ops_cuda test_ops_cuda_compare \
        bench_experts || exit 1

failures=0
"$build/tests/test_ops_cuda" recordings_of_experts || failures=$((failures + 1))
"$build/tests/test_ops_cuda_compare" compare_experts || failures=$((failures + 1))
for name in route balance sort_slots sum_slots gather_slots expert_activation grouped_matmul; do
    for dtype in fp32 bf16 fp16; do
        "$build/tests/test_ops_cuda" "${dtype}_$name" || failures=$((failures + 1))
        [ "${EXPERTS_MEMCHECK:-0}" = 0 ] ||
            compute-sanitizer --error-exitcode 9 "$build/tests/test_ops_cuda" "${dtype}_$name" >/dev/null ||
            failures=$((failures + 1))
    done
done
echo "$failures failed"

# Tokens, hidden size, width of an expert, experts, chosen.
bench=$build/bench/bench_experts
"$bench" cuda bf16 16384 2048 768 128 8 20
"$bench" cuda bf16 16384 4096 14336 8 2 5
"$bench" cuda bf16 16384 2048 1024 64 8 20
"$bench" cuda bf16 4096 7168 2048 256 8 5
SPREAD=one "$bench" cuda bf16 16384 2048 1024 64 8 20
exit $((failures > 0))
