#!/usr/bin/env bash
# Builds Bevatron with CUDA and tries the GPU backend, on a machine with an NVIDIA GPU and a CUDA toolkit:
#   bench/gpu_check.sh [BUILD_FOLDER]        (build/gpu by default)
# Builds the program and the tests of ops/, runs them, then runs the CUDA tests with small shapes under compute-sanitizer
# (out-of-bounds and misaligned accesses, reads of what nobody wrote, races in shared memory). Needs nothing but a compiler, CMake, OpenBLAS and CUDA: compressions,
# Unicode tables and MPI are left out where they are missing. Nothing is installed. Exits 0 where everything passed.
# GPU_CHECK_ARCHS is the list of architectures to compile for (90 by default, which saves half the compile time);
# GPU_CHECK_MEMCHECK=0 leaves the memory checker out.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/gpu}
failures=0
summary=""

for toolkit in "${CUDA_HOME:-}" /usr/local/cuda; do
    if [ -n "$toolkit" ] && [ -x "$toolkit/bin/nvcc" ]; then
        export PATH="$toolkit/bin:$toolkit/compute-sanitizer:$PATH"
        export LD_LIBRARY_PATH="$toolkit/lib64:$toolkit/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
        break
    fi
done

# step NAME command…: runs it, times it, keeps a line for the summary. A test that skips everything exits with 77; here
# that means that no GPU could be used, and counts as a failure.
step() {
    local name=$1 start=$SECONDS code=0 outcome=ok
    shift
    echo
    echo "== $name: $*"
    "$@" || code=$?
    if [ "$code" -ne 0 ]; then
        outcome="FAILED ($code)"
        failures=$((failures + 1))
    fi
    if [ "$code" -eq 77 ]; then
        outcome=SKIPPED
    fi
    summary+=$(printf '%-12s %4d s  %s' "$outcome" $((SECONDS - start)) "$name")$'\n'
    return "$code"
}

# pieces SECONDS NAMES…: test_ops_cuda under racecheck, which is slow, side by side in pieces: each runs the tests that hold
# one of its NAMES (a,b,c). Larger shapes of slow tests and those of more than 2^31 elements are in none.
pieces() {
    local limit=$1 logs code=0 ids=() id piece
    shift
    logs=$(mktemp -d)
    for piece in "$@"; do
        # shellcheck disable=SC2086  # names of a piece are arguments
        BEVATRON_TEST_TINY=1 timeout "$limit" compute-sanitizer --tool racecheck --error-exitcode 9 --report-api-errors no \
            --kernel-regex-exclude kns=cudnn "$build/tests/test_ops_cuda" ${piece//,/ } >"$logs/$piece" 2>&1 &
        ids+=($!)
    done
    for piece in "$@"; do
        id=${ids[0]}
        ids=("${ids[@]:1}")
        wait "$id" || { code=$?; echo "$piece: status $code"; grep -v '^  ' "$logs/$piece" | head -n 12; }
        tail -n 2 "$logs/$piece"
    done
    rm -r "$logs"
    return "$code"
}

finish() {
    echo
    echo "== summary"
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
    printf '%s' "$summary"
    echo "$failures failed"
    exit $((failures > 0))
}

generator=()
if command -v ninja >/dev/null; then
    generator=(-G Ninja)
fi
step configure cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=ON \
    "-DBEVATRON_CUDA_ARCHS=${GPU_CHECK_ARCHS:-90}" || finish

tests=()
for source in tests/ops/test_*.c; do
    name=$(basename "$source" .c)
    tests+=("test_ops_${name#test_}")
done
step "build CUDA tests" cmake --build "$build" --parallel "$(nproc)" --target test_ops_cuda test_ops_cuda_compare || finish
step "build tests" cmake --build "$build" --parallel "$(nproc)" --target "${tests[@]}"
step "build program" cmake --build "$build" --parallel "$(nproc)" --target bevatron

for name in "${tests[@]}"; do
    if [ -x "$build/tests/$name" ]; then
        step "$name" "$build/tests/$name"
    fi
done
if [ -x "$build/bevatron" ]; then
    step version "$build/bevatron" version
fi

if [ "${GPU_CHECK_MEMCHECK:-1}" = 1 ]; then
    if command -v compute-sanitizer >/dev/null; then
        export BEVATRON_TEST_SMALL=1
        for name in test_ops_cuda_compare test_ops_cuda; do
            step "memcheck $name" timeout 150 compute-sanitizer --tool memcheck --error-exitcode 9 \
                --report-api-errors no "$build/tests/$name"
        done
        # cuDNN's kernels order their accesses in ways that these two do not follow: they are left to NVIDIA. To name our
        # kernels in place of theirs does not do: what cuBLASLt's wrote is then taken for unwritten, and racecheck breaks.
        for tool in racecheck initcheck; do
            step "$tool test_ops_cuda_compare" timeout 150 compute-sanitizer --tool "$tool" --error-exitcode 9 \
                --report-api-errors no --kernel-regex-exclude kns=cudnn "$build/tests/test_ops_cuda_compare"
        done
        step "racecheck test_ops_cuda" pieces 100 fp32_mat bf16_mat fp16_mat fp32_mo,fp32_n fp32_r,fp32_d,fp32_e fp32_a \
            fp32_c,fp32_s,fp32_q,fp32_t,fp32_g bf16_mo,bf16_n bf16_r,bf16_d,bf16_e bf16_c,bf16_s,bf16_q,bf16_t,bf16_g \
            bf16_a fp16_mo,fp16_q,fp16_t fp16_n,fp16_c,fp16_g fp16_r,fp16_d,fp16_e,fp16_s fp16_a repeat,streams
    else
        summary+="left out             memcheck: there is no compute-sanitizer on PATH"$'\n'
    fi
fi
finish
