#!/usr/bin/env bash
# Builds Bevatron with CUDA, checks every operation against the CPU, and times whole training steps of several models, in
# bf16 and fp8, beside PyTorch (compiled), the floor of each step, and llm.c, on a machine with an NVIDIA GPU:
#   bench/gpu.sh [NAME…]        (all models by default; bench/gpu.sh list names them, flags NAME prints one's flags)
#   bench/gpu.sh build          only builds
# A row is printed as soon as its model is done, the whole table last, also when the script is stopped. A model that fails
# or hangs does not stop the others. PyTorch starts during the build, does not touch the GPU before its turn, and keeps its
# compiled code (TORCHINDUCTOR_CACHE_DIR). Environment:
#   GPU_BUILD=build/gpu  GPU_ARCHS=…    build folder and architectures (default: that of this GPU)
#   GPU_TARGETS="…"                     build these, too
#   GPU_READY=1                         build nothing: GPU_BUILD holds the programs, from another machine
#   GPU_PEERS=0                         skip PyTorch and the floor
#   GPU_FLOOR=0                         skip the floor
#   GPU_LOAD=1                          time the floor also at the power limit, with joules: 20 s per model
#   GPU_FP8=0 or NAMES                  skip fp8, which needs a GPU of capability 8.9, or time it for some models
#   GPU_TESTS=0                         skip the checks
#   GPU_PARTS=0                         skip the time by part of a step
#   GPU_DROPOUT=RATE                    use dropout, drawn by cuDNN in attention, in both programs; the floor has none
#   GPU_AGAIN=1                         time ours again after PyTorch; the mean of both counts
#   GPU_RESULTS=FOLDER                  keep the lines of JSON and the logs there
#   GPU_ALGORITHMS=FILE                 keep the matmul algorithms there; default: choose them again
#   GPU_SECONDS=N                       start nothing that could not end within N seconds of the start
#   GPU_PEER_SECONDS=300                limit for PyTorch per model; its first compilation takes a minute or two
#   LLMC=FOLDER                         time llm.c too, with its source in this folder (bench/llmc.sh)
set -u
cd "$(dirname "$0")/.." || exit 1

# name layers hidden heads sequence batch vocabulary kind
models="gpt2-124M 12 768 12 1024 64 50304 gpt
gpt2-1558M 48 1600 25 1024 16 50304 gpt
gpt3-1.3B 24 2048 16 2048 16 50304 gpt
megatron-1.7B 24 2304 24 2048 12 51200 gpt
megatron-3.6B 30 3072 32 2048 4 51200 gpt
llama-1.3B 24 2048 16 4096 8 32000 llama
llama7B-8layers 8 4096 32 4096 4 32000 llama"
# flags_of layers hidden heads sequence batch vocabulary kind: the flags of train for such a model.
flags_of() {
    printf '%s ' --device cuda --bf16 --quick-weights --num-layers "$1" --hidden-size "$2" --num-attention-heads "$3" \
        --seq-length "$4" --max-position-embeddings "$4" --micro-batch-size "$5" --vocab-size "$6" \
        --hidden-dropout "${GPU_DROPOUT:-0}" --attention-dropout "${GPU_DROPOUT:-0}" --fast-attention-dropout
    if [ "$7" = llama ]; then
        printf '%s ' --swiglu --ffn-hidden-size $(((8 * $2 / 3 + 255) / 256 * 256)) --normalization RMSNorm \
            --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear
    fi
}

if [ "${1:-}" = flags ]; then
    read -ra model < <(grep "^${2:-} " <<<"$models") && flags_of "${model[@]:1}"
    exit
fi
if [ "${1:-}" = list ]; then
    echo "$models"
    exit 0
fi
only_build=0
[ "${1:-}" != build ] || { only_build=1 && set -- gpt2-124M; }
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(echo "$models" | cut -d' ' -f1)
for name in "${names[@]}"; do
    grep -q "^$name " <<<"$models" || { echo "gpu.sh: there is no model $name; bench/gpu.sh list names them" >&2; exit 2; }
done

build=${GPU_BUILD:-build/gpu}
results=${GPU_RESULTS:-$(mktemp -d)}
algorithms=${GPU_ALGORITHMS:-$results/algorithms}
end=$((SECONDS + ${GPU_SECONDS:-1000000}))
failures=0
running=
declare -A peers=()
mkdir -p "$results"
: >"$results/lines.json"
export PATH="${CUDA_HOME:-/usr/local/cuda}/bin:$PATH" PYTHONUNBUFFERED=1

# failed WHAT STATUS WHY: where a status is that of a limit, that is why.
failed() {
    local why=$3
    case $2 in 124 | 137 | 142) why="did not end in time; $3" ;; esac
    failures=$((failures + 1))
    echo "FAILED: $1, status $2: $(cut -c1-300 <<<"$why")"
}

# enough SECONDS WHAT: whether so much time is left; says what is left out.
enough() {
    [ $((end - SECONDS)) -ge "$1" ] && return 0
    echo "left out: $2, $((end - SECONDS)) s before the end"
    return 1
}

# limit SECONDS: as long, but not beyond the end.
limit() {
    local left=$((end - SECONDS))
    [ $left -gt 0 ] || left=1
    echo $(($1 < left ? $1 : left))
}

# Some seconds of steps each, so that the counter of energy has something to count.
steps_of() {
    [ "$1" = gpt2-124M ] && echo 40 || echo 10
}

# Every peer imports PyTorch now and waits for its file.
start_peers() {
    local name more=()
    [ "${GPU_FLOOR:-1}" = 1 ] && more+=(--floor)
    [ "${GPU_LOAD:-0}" = 1 ] && more+=(--load)
    for name in "${names[@]}"; do
        rm -f "$results/$name.go"
        # shellcheck disable=SC2046  # the shape is meant to be split
        timeout -k 5 "$(limit 1000000)" python3 bench/torch_step.py "${more[@]}" --energy --steps "$(steps_of "$name")" \
            --dropout "${GPU_DROPOUT:-0}" --after "$results/$name.go" --limit "${GPU_PEER_SECONDS:-300}" $(grep "^$name " <<<"$models") \
            >"$results/$name.peer" 2>"$results/$name.peer.log" </dev/null &
        peers[$name]=$!
    done
}

# run_for SECONDS COMMAND…: in the background, so that a signal to this script is not kept waiting.
run_for() {
    local code=0
    timeout -k 5 "$(limit "$1")" "${@:2}" &
    running=$!
    wait "$running" 2>/dev/null || code=$?
    running=
    return "$code"
}

# A signal may come while a function's output goes to a log: the table goes where the script's goes.
finish() {
    # shellcheck disable=SC2086  # there may be none
    kill "${peers[@]}" $running 2>/dev/null
    {
        echo
        awk -f bench/gpu_lines.awk -f bench/gpu_table.awk "$results/lines.json" | tee "$results/table.txt"
        echo "$failures failed, $SECONDS s"
    } >&3
}

build_all() {
    local generator=() targets
    [ "${GPU_READY:-0}" = 0 ] || { [ -x "$build/bevatron" ] && return 0; echo "error: GPU_READY is set, but $build/bevatron does not exist"; return 1; }
    read -ra targets <<<"bevatron ${GPU_TARGETS:-}"
    command -v ninja >/dev/null && generator=(-G Ninja)
    [ "${GPU_TESTS:-1}" = 1 ] && targets+=(test_ops_cuda test_ops_cuda_compare test_ops_cuda_cudnn)
    cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=ON \
        "-DBEVATRON_CUDA_ARCHS=${GPU_ARCHS:-$(bench/gpu_arch.sh)}" >"$results/cmake.log" 2>&1 || { tail -n 20 "$results/cmake.log"; return 1; }
    cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" >"$results/build.log" 2>&1 ||
        { tail -n 20 "$results/build.log"; return 1; }
}

run_tests() {
    local test
    for test in test_ops_cuda test_ops_cuda_compare test_ops_cuda_cudnn; do
        enough 30 $test || continue
        if run_for 300 "$build/tests/$test" >"$results/$test.log" 2>&1; then
            echo "$test: $(tail -n 1 "$results/$test.log")"
        else
            failed "$test" $? "$(tail -n 1 "$results/$test.log")"
            grep -i fail "$results/$test.log" | head -n 10
        fi
    done
}

# ours NAME WHO FLAGS…: one line more, under that name.
ours() {
    local name=$1 who=$2 log=$results/$1-${2// /-}.txt more=(--energy)
    shift 2
    enough 20 "$name, $who" || return 0
    [ "${GPU_PARTS:-1}" = 1 ] && more+=(--parts)
    run_for 120 "$build/bevatron" bench step "$@" --steps "$(steps_of "$name")" "${more[@]}" --algorithm-cache "$algorithms" \
        >"$log" 2>&1 || failed "$name, $who" $? "$(tail -n 1 "$log")"
    grep '^{' "$log" | sed "s/^{\"name\": \"bevatron\"/{\"config\": \"$name\", \"name\": \"$who\"/" >>"$results/lines.json"
}

# The GPU is PyTorch's from here until it ends.
peer() {
    local name=$1 pid=${peers[$1]:-} code=0
    [ -n "$pid" ] || return 0
    if ! enough 25 "$name, PyTorch"; then
        kill "$pid" 2>/dev/null
        unset "peers[$name]"
        return 0
    fi
    : >"$results/$name.go"
    wait "$pid" 2>/dev/null || code=$?
    unset "peers[$name]"
    grep '^{' "$results/$name.peer" >>"$results/lines.json"
    grep -q '"PyTorch compiled"' "$results/$name.peer" ||
        failed "$name, PyTorch" $code "$(tail -n 1 "$results/$name.peer.log")"
}

# llm.c has the two models of GPT-2; the larger one also with the batch of its authors' figure. Ours is timed with the
# batch that llm.c ended up with, if it is not the model's.
llmc() {
    local batches=$6 batch flags
    case $1 in gpt2-124M) ;; gpt2-1558M) batches="32 16" ;; *) return 0 ;; esac
    enough 40 "$1, llm.c" || return 0
    # shellcheck disable=SC2086  # batches are words
    LLMC_SECONDS=$(limit 80) LLMC_LOGS=$results/llmc run_for 240 bench/llmc.sh time "$LLMC" "${@:1:5}" $batches \
        >"$results/$1.llmc" 2>"$results/$1.llmc.log" || failed "$1, llm.c" $? "$(tail -n 1 "$results/$1.llmc.log")"
    cat "$results/$1.llmc" >>"$results/lines.json"
    batch=$(grep -oE '"micro_batch": [0-9]+' "$results/$1.llmc" | tail -n 1 | grep -oE '[0-9]+$')
    [ "${batch:-$6}" != "$6" ] || return 0
    read -ra flags <<<"$(flags_of "${@:2:4}" "$batch" "${@:7}")"
    ours "$1" "bevatron beside llm.c" "${flags[@]}"
}

# with_shape FUNCTION NAME: calls it with what the list has of the model.
with_shape() {
    local words
    read -ra words < <(grep "^$2 " <<<"$models")
    "$1" "${words[@]}"
}

in_bf16() {
    local flags
    read -ra flags <<<"$(flags_of "${@:2}")"
    ours "$1" bevatron "${flags[@]}"
    peer "$1"
    [ "${GPU_AGAIN:-0}" = 1 ] && ours "$1" bevatron "${flags[@]}"
    awk -v only="$1" -f bench/gpu_lines.awk -f bench/gpu_table.awk "$results/lines.json"
}

in_8_bits() {
    local flags
    read -ra flags <<<"$(flags_of "${@:2}")"
    ours "$1" "bevatron fp8" "${flags[@]}" --fp8-format hybrid
}

if [ $only_build = 1 ]; then
    build_all || exit 1
    echo "built in $SECONDS s"
    exit 0
fi
[ "${GPU_PEERS:-1}" = 1 ] && start_peers
exec 3>&1
trap finish EXIT
trap 'exit 130' INT TERM
[ -n "${LLMC:-}" ] && { bench/llmc.sh build "$LLMC" >"$results/llmc-build.log" 2>&1 & llmc_build=$!; }
build_all || exit 1
[ -z "${LLMC:-}" ] || wait "$llmc_build" || failed "llm.c's build" $? "$(tail -n 1 "$results/llmc-build.log")"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
echo "built in $SECONDS s"
[ "${GPU_TESTS:-1}" = 1 ] && run_tests
awk -f bench/gpu_lines.awk -f bench/gpu_table.awk /dev/null
default_fp8=1
[ "$(bench/gpu_arch.sh)" -ge 89 ] || default_fp8=0
# What matters most first, since time may end.
for name in "${names[@]}"; do with_shape in_bf16 "$name"; done
for name in "${names[@]}"; do
    case " ${GPU_FP8:-$default_fp8} " in " 1 " | *" $name "*) with_shape in_8_bits "$name" ;; esac
done
if [ -n "${LLMC:-}" ]; then
    for name in "${names[@]}"; do with_shape llmc "$name"; done
fi
[ "$failures" = 0 ]
