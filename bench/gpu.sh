#!/usr/bin/env bash
# Builds Bevatron with CUDA, checks every operation against the CPU, and times whole training steps of several models beside
# PyTorch (compiled) and beside the floor of each step, on a machine with an NVIDIA GPU:
#   bench/gpu.sh [NAME…]        (all models by default; bench/gpu.sh list names them)
# The last thing it prints is a table of ratios. From the environment:
#   GPU_BUILD=build/gpu  GPU_ARCHS=90   where and what for to build
#   GPU_PEERS=0                         leaves PyTorch and the floor out
#   GPU_TESTS=0                         leaves the checks out
#   GPU_PARTS=0                         leaves the time by part of a step out
#   GPU_RESULTS=FOLDER                  keeps the lines of JSON and the logs there
set -u
cd "$(dirname "$0")/.." || exit 1
build=${GPU_BUILD:-build/gpu}
results=${GPU_RESULTS:-$(mktemp -d)}
mkdir -p "$results"
export PATH="${CUDA_HOME:-/usr/local/cuda}/bin:$PATH"

# name layers hidden heads sequence batch vocabulary kind
models="gpt2-124M 12 768 12 1024 64 50304 gpt
gpt2-1558M 48 1600 25 1024 16 50304 gpt
gpt3-1.3B 24 2048 16 2048 16 50304 gpt
megatron-1.7B 24 2304 24 2048 12 51200 gpt
megatron-3.6B 30 3072 32 2048 4 51200 gpt
llama-1.3B 24 2048 16 4096 8 32000 llama
llama7B-8layers 8 4096 32 4096 4 32000 llama"
if [ "${1:-}" = list ]; then
    echo "$models"
    exit 0
fi
wanted=" ${*:-$(echo "$models" | cut -d' ' -f1 | tr '\n' ' ')} "
failures=0

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=ON \
    "-DBEVATRON_CUDA_ARCHS=${GPU_ARCHS:-90}" >"$results/cmake.log" 2>&1 || { tail -n 20 "$results/cmake.log"; exit 1; }
targets=(bench_step)
[ "${GPU_TESTS:-1}" = 1 ] && targets+=(test_ops_cuda test_ops_cuda_compare)
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" >"$results/build.log" 2>&1 ||
    { tail -n 20 "$results/build.log"; exit 1; }
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
echo "built in $SECONDS s"

if [ "${GPU_TESTS:-1}" = 1 ]; then
    for test in test_ops_cuda test_ops_cuda_compare; do
        if "$build/tests/$test" >"$results/$test.log" 2>&1; then
            tail -n 1 "$results/$test.log"
        else
            failures=$((failures + 1))
            grep -i fail "$results/$test.log" | head -n 10
        fi
    done
fi

# ours layers hidden heads sequence batch vocabulary kind: the flags of train for such a model.
flags_of() {
    printf '%s ' --device cuda --bf16 --quick-weights --num-layers "$1" --hidden-size "$2" --num-attention-heads "$3" \
        --seq-length "$4" --max-position-embeddings "$4" --micro-batch-size "$5" --vocab-size "$6"
    if [ "$7" = llama ]; then
        printf '%s ' --swiglu --ffn-hidden-size $(((8 * $2 / 3 + 255) / 256 * 256)) --normalization RMSNorm \
            --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear
    fi
}

: >"$results/lines.json"
while read -r name layers hidden heads sequence batch vocabulary kind; do
    case "$wanted" in *" $name "*) ;; *) continue ;; esac
    parts=(--parts)
    [ "${GPU_PARTS:-1}" = 1 ] || parts=()
    # shellcheck disable=SC2046  # the flags are meant to be split
    timeout 120 "$build/bench/bench_step" $(flags_of "$layers" "$hidden" "$heads" "$sequence" "$batch" "$vocabulary" "$kind") \
        --steps 10 "${parts[@]}" --algorithm-cache "$results/algorithms" >"$results/$name.txt" 2>&1 ||
        { failures=$((failures + 1)); echo "$name FAILED"; tail -n 3 "$results/$name.txt"; }
    grep '^{' "$results/$name.txt" | sed "s/{/{\"config\": \"$name\", /" | tee -a "$results/lines.json"
    if [ "${GPU_PEERS:-1}" = 1 ]; then
        PYTHONUNBUFFERED=1 timeout 240 python3 bench/torch_step.py --floor "$name" "$layers" "$hidden" "$heads" "$sequence" \
            "$batch" "$vocabulary" "$kind" 2>"$results/$name.peer.log" | grep '^{' | tee -a "$results/lines.json"
    fi
done <<<"$models"

echo
awk '
function field(line, key,    at) {
    at = index(line, "\"" key "\": ")
    if (!at) return ""
    line = substr(line, at + length(key) + 4)
    gsub(/^"|[",}].*$/, "", line)
    return line
}
{
    # Names hold blanks and commas never, so a field ends at a quote, a comma or a brace.
    match($0, /"name": "[^"]*"/)
    who = substr($0, RSTART + 9, RLENGTH - 10)
    match($0, /"config": "[^"]*"/)
    config = substr($0, RSTART + 11, RLENGTH - 12)
    if (!(config in seen)) { seen[config] = 1; order[++n] = config }
    speed[config, who] = field($0, "tokens_per_second")
    memory[config, who] = field($0, "device_gb")
}
END {
    printf "%-16s %12s %14s %8s %12s %8s %8s %8s\n", "model", "ours tok/s", "PyTorch tok/s", "ratio", "floor tok/s", "ratio", "GB", "PyTorch"
    for (i = 1; i <= n; i++) {
        c = order[i]; o = speed[c, "bevatron"]; p = speed[c, "PyTorch compiled"]; f = speed[c, "floor"]
        printf "%-16s %12.0f %14.0f %8s %12.0f %8s %8s %8s\n", c, o, p, p ? sprintf("%.3f", o / p) : "-", f, f ? sprintf("%.3f", o / f) : "-", memory[c, "bevatron"], memory[c, "PyTorch compiled"]
    }
}' "$results/lines.json"
echo "$failures failed, $SECONDS s"
exit $((failures > 0))
