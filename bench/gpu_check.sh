#!/usr/bin/env bash
# Builds Bevatron with CUDA and tests the GPU backend, on a machine with an NVIDIA GPU and a CUDA toolkit:
#   bench/gpu_check.sh [BUILD_FOLDER]        (build/gpu by default)
# Builds the program and the tests of ops/, runs them and those that compare whole models of every family with transformers,
# then runs the CUDA tests with small shapes under compute-sanitizer (out-of-bounds and misaligned accesses, reads of
# uninitialized memory, races in shared memory). Needs only a compiler, CMake, OpenBLAS and CUDA; compression, Unicode tables
# and MPI are optional. Installs nothing. Exits 0 if everything passed. Environment:
#   GPU_READY=1              build nothing: BUILD_FOLDER holds the programs and the module, from another machine; tests that
#                            are not there are left out
#   GPU_CHECK_ARCHS=…        architectures to compile for (default: that of this GPU)
#   GPU_CHECK_MEMCHECK=0     skip compute-sanitizer
#   GPU_CHECK_TESTS=0        skip the plain runs of the tests before it
#   GPU_CHECK_SECONDS=180    limit of one part under compute-sanitizer
#   GPU_CHECK_TOOLS=…        its tools (racecheck memcheck initcheck synccheck)
#   GPU_CHECK_LOGS=FOLDER    keep its output there
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

# shown FILE: what a program wrote that has run already, and its status.
shown() {
    cat "$1.plain"
    return "$(cat "$1.code")"
}

# stamp START: each line of stdin, with the seconds since START before it.
stamp() {
    local line
    while IFS= read -r line; do printf '%4d %s\n' $((SECONDS - $1)) "$line"; done
}

# What of one program one tool of compute-sanitizer says: a piece is every Nth of its tests, so that pieces side by side
# take a minute or two where the whole would take half an hour. Prints its verdict; fails where it found something, where
# a test failed, and where it did not end in time.
piece() {
    local tool=$1 program=$2 part=$3 log=$logs/$1-$2-${3%/*} start=$SECONDS code=0 words=()
    # cuDNN's kernels order their accesses in ways that racecheck and initcheck do not follow: they are left to NVIDIA.
    # To name ours instead does not do: cuBLASLt's partial sums are then taken for unwritten, and racecheck breaks in them.
    [ "$tool" = memcheck ] || words=("$exclude" kns=cudnn)
    # Barriers are what racecheck is slow at.
    [ "$tool" = racecheck ] && export BEVATRON_TEST_TINY=1
    BEVATRON_TEST_PART=$part timeout "$limit" compute-sanitizer --tool "$tool" --error-exitcode 9 --report-api-errors no \
        "${words[@]}" "$build/tests/$program" 2>&1 | stamp $start >"$log.times"
    code=${PIPESTATUS[0]}
    cut -c6- "$log.times" >"$log"
    # All of a piece may be too large for this: the program then ends with 77, and some versions of the tool with 255.
    grep -qE '^0 passed, 0 failed' "$log" && { [ "$code" = 77 ] || [ "$code" = 255 ]; } && code=0
    printf '%-9s %-21s %5s  %3d s  status %d: %s; %s\n' "$tool" "$program" "$part" $((SECONDS - start)) "$code" \
        "$(grep -E '^[0-9]+ passed' "$log" || echo "did not end, at $(grep -E '^  [a-z]' "$log" | tail -n 1)")" \
        "$(grep -E '^=+ (ERROR|RACECHECK) SUMMARY' "$log" | tail -n 1 | tr -d =)"
    [ "$code" = 0 ] || grep -A 3 -E '^========= (Error|Warning|Uninit|Invalid|Race|Internal)|^error|^    [^ ]+:[0-9]+:' "$log" |
        head -n 12
    echo "$code $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped/\1 + \2 + \3/p' "$log")" >"$log.done"
    return "$code"
}

# pieces TOOL PROGRAM N: adds its pieces to the list of all_pieces, where the tool is wanted.
pieces() {
    local k
    [[ " $tools " == *" $1 "* ]] || return 0
    for ((k = 1; k <= $3; k++)); do
        list+=("$1 $2 $k/$3")
    done
}

# Runs the list, as many at a time as there are processors, and counts that every test was in a piece.
all_pieces() {
    local entry failed=0 tool program part tests passed
    for entry in "${list[@]}"; do
        while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
            wait -n
        done
        # shellcheck disable=SC2086  # tool, program and part are words
        piece $entry &
    done
    wait
    for entry in "${list[@]}"; do
        read -r tool program part <<<"$entry"
        grep -q '^0 ' "$logs/$tool-$program-${part%/*}.done" 2>/dev/null || failed=$((failed + 1))
    done
    for program in "${cuda_tests[@]}"; do
        for tool in $tools; do
            ls "$logs/$tool-$program"-*.done >/dev/null 2>&1 || continue
            tests=$(($(sed -n 's/^[0-9]* //p' "$logs/$tool-$program"-*.done | grep . | paste -sd+ -)))
            passed=$(($(sed -n 's/^[0-9]* \([0-9]*\) .*/\1/p' "$logs/$tool-$program"-*.done | paste -sd+ -)))
            echo "$tool of $program: $tests tests of ${count[$program]}, $passed passed"
            # Where nothing passes, there may be no GPU.
            [ "$tests" = "${count[$program]}" ] && [ "$passed" -gt 0 ] || failed=$((failed + 1))
        done
    done
    return $((failed > 0))
}

finish() {
    [ -n "${GPU_CHECK_LOGS:-}" ] || rm -rf "${logs:-}"
    echo
    echo "== summary"
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
    printf '%s' "$summary"
    echo "$failures failed"
    exit $((failures > 0))
}

build_all() {
    local generator=()
    command -v ninja >/dev/null && generator=(-G Ninja)
    step configure cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=ON \
        "-DBEVATRON_CUDA_ARCHS=${GPU_CHECK_ARCHS:-$(bench/gpu_arch.sh)}" || finish
    step "build CUDA tests" cmake --build "$build" --parallel "$(nproc)" --target "${cuda_tests[@]}" || finish
    step "build tests" cmake --build "$build" --parallel "$(nproc)" --target "${tests[@]}"
    step "build program" cmake --build "$build" --parallel "$(nproc)" --target bevatron "${golden[@]}"
}

cuda_tests=(test_ops_cuda test_ops_cuda_compare test_ops_cuda_cudnn)
golden=(test_train_models_golden test_train_gpt_golden)
tests=()
for source in tests/ops/test_*.c; do
    name=$(basename "$source" .c)
    tests+=("test_ops_${name#test_}")
done
[ "${GPU_READY:-0}" = 1 ] || build_all

logs=${GPU_CHECK_LOGS:-$(mktemp -d)}
mkdir -p "$logs"
if [ "${GPU_CHECK_TESTS:-1}" = 1 ]; then
    # Side by side, but for those that time something. Models of every family beside transformers in fp32: logits, losses,
    # gradients and ten steps.
    together=()
    for name in "${tests[@]}" "${golden[@]}"; do
        [ -x "$build/tests/$name" ] && [ "$name" != test_ops_cuda_documents ] || continue
        [[ $name == *_golden ]] && words=(cuda) || words=()
        { code=0; "$build/tests/$name" "${words[@]}" >"$logs/$name.plain" 2>&1 || code=$?; echo $code >"$logs/$name.code"; } &
        together+=("$name")
    done
    wait
    for name in "${together[@]}"; do
        step "$name" shown "$logs/$name"
    done
    [ ! -x "$build/tests/test_ops_cuda_documents" ] || step test_ops_cuda_documents "$build/tests/test_ops_cuda_documents"
fi
if [ -x "$build/bevatron" ]; then
    step version "$build/bevatron" version
fi

if [ "${GPU_CHECK_MEMCHECK:-1}" = 1 ]; then
    if command -v compute-sanitizer >/dev/null; then
        export BEVATRON_TEST_SMALL=1
        limit=${GPU_CHECK_SECONDS:-180}
        tools=${GPU_CHECK_TOOLS:-racecheck memcheck initcheck synccheck}
        exclude=--kernel-regex-exclude  # its name up to CUDA 12
        compute-sanitizer --help 2>/dev/null | grep -q -- --kernel-name-exclude && exclude=--kernel-name-exclude
        declare -A count
        for name in "${cuda_tests[@]}"; do
            count[$name]=$("$build/tests/$name" none-of-them | sed -n 's/ tests$//p')
        done
        list=()
        # The longest first. cuDNN's kernels are not racecheck's.
        pieces racecheck test_ops_cuda 60
        pieces racecheck test_ops_cuda_compare 10
        for tool in memcheck initcheck synccheck; do
            pieces "$tool" test_ops_cuda 10
            pieces "$tool" test_ops_cuda_compare 2
            pieces "$tool" test_ops_cuda_cudnn 4
        done
        step "compute-sanitizer, ${#list[@]} pieces" all_pieces
    else
        summary+="left out             memcheck: there is no compute-sanitizer on PATH"$'\n'
    fi
fi
finish
