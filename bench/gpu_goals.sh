#!/usr/bin/env bash
# Measures every goal for speed, memory and energy beside its peer, and prints one table: tokens per second, gigabytes and
# millijoules per token of both, their ratios, and whether the goal is met. On a machine with an NVIDIA GPU:
#   bench/gpu_goals.sh PART…                all parts of a call share one limit
#   bench/gpu_goals.sh table [FOLDER…]      only prints the table, of parts that were measured in several calls
#   bench/gpu_goals.sh list                 names the parts, with the seconds that each takes
# Every call builds what has changed, and prints the whole table of all parts in its folder; goals that were not measured
# have "-".
# Environment:
#   GOALS=build/goals           folder of the results: a PART.json each, table.txt and logs; copy the former away if the machine is not kept
#   GOALS_SECONDS=540           start nothing that could not end within so many seconds of the start
#   GPU_BUILD=build/gpu         build folder; with GPU_READY=1 its programs are used as they are
#   GPU_PEERS=0                 time ours only
#   TORCHAO=FOLDER              an unpacked torchao, where it cannot be installed
#   LLMC=FOLDER                 llm.c's source, for the part llmc
#   CPU_LIMIT=120               seconds for one run of PyTorch on the CPU; a compilation that takes longer is given up
#   HOST_LAYERS=32              layers of the part host; 6 GB of host memory each
#   DATA=PREFIX                 a dataset for the part learning (bench/gpu_learning.sh)
set -u
cd "$(dirname "$0")/.." || exit 1
# name, seconds on an H200 as estimated, what it measures
parts="build 240 nothing: the first call on a machine builds for this long
speed 300 gpt2-124M gpt2-1558M gpt3-1.3B llama7B-8layers in bf16, PyTorch, floor
large 250 megatron-1.7B megatron-3.6B llama-1.3B in bf16, PyTorch, floor
fp8 350 fp8 of four kinds, bf16, torchao
dropout 150 dropout 0.1 with our own masks
long 220 sequences of 32,768 and 131,072 tokens, PyTorch
host 1500 a Llama of 7B on 524,288 tokens: whether it fits, with the inputs of its layers in host memory (200 GB)
documents 60 packed documents beside separate sequences
learning 160 the loss of 500 steps in fp8 and bf16
experts 140 mixtures of experts, PyTorch
llmc 200 GPT-2 beside llm.c (LLMC)
cpu16 300 GPT-2 124M on 16 threads, PyTorch, matmuls alone in OpenBLAS and ours
cpu2 450 the same on 2 threads
aarch64 450 the same on an aarch64 CPU"
folder=${GOALS:-build/goals} build=${GPU_BUILD:-build/gpu}
program=$build/bevatron
end=$((SECONDS + ${GOALS_SECONDS:-540}))
# Only one part times llm.c.
source=${LLMC:-}
unset LLMC
export PYTHONPATH=${TORCHAO:-}${TORCHAO:+:}${PYTHONPATH:-} PYTHONUNBUFFERED=1

table() {
    local files=() from
    for from in "$@"; do mapfile -t -O "${#files[@]}" files < <(find "$from" -maxdepth 2 -name '*.json' | sort); done
    awk -f bench/gpu_lines.awk -f bench/gpu_goals.awk bench/gpu_goals.txt "${files[@]}"
}

# enough SECONDS WHAT: whether so much time is left; says what is left out.
enough() {
    [ $((end - SECONDS)) -ge "$1" ] && return 0
    echo "left out: $2, $((end - SECONDS)) s before the end"
    return 1
}

# add PART CONFIG: the lines of JSON on stdin, under that name.
add() {
    grep '^{' | sed "s/\"config\": \"[^\"]*\", //; s/^{/{\"config\": \"$2\", /" >>"$folder/$1.json"
}

# measure PART CONFIG NAME SECONDS COMMAND…: one line more, if the command ends in time. NAME is ours, or empty for the peer's own.
measure() {
    local part=$1 config=$2 name=$3 limit=$4 left code=0 log
    shift 4
    enough 20 "$config, ${name:-peer}" || return 0
    left=$((end - SECONDS))
    log=$folder/logs/$part-$config-${name:-peer}.log
    log=${log// /-}
    timeout -k 5 $((limit < left ? limit : left)) "$@" >"$log" 2>&1 </dev/null || code=$?
    [ "$code" = 0 ] || echo "FAILED: $part, $config, ${name:-peer}, status $code: $(tail -n 1 "$log" | cut -c1-300)"
    sed "${name:+s/\"name\": \"bevatron\"/\"name\": \"$name\"/}" "$log" | add "$part" "$config"
}

# ours PART MODEL NAME FLAGS…: a step of a model of bench/gpu.sh.
ours() {
    local part=$1 model=$2 name=$3 flags steps=10
    shift 3
    [ "$model" != gpt2-124M ] || steps=40
    read -ra flags < <(bench/gpu.sh flags "$model")
    measure "$part" "$model" "$name" 120 "$program" bench step --steps $steps --energy --algorithm-cache "$folder/algorithms" "${flags[@]}" "$@"
}

# peer PART MODEL OPTIONS…: PyTorch's.
peer() {
    local part=$1 model=$2 shape
    shift 2
    [ "${GPU_PEERS:-1}" = 1 ] || return 0
    read -ra shape < <(bench/gpu.sh list | grep "^$model ")
    measure "$part" "$model" "" 240 python3 bench/torch_step.py --energy "$@" "${shape[@]}"
}

# in_bf16 PART MODEL…: bench/gpu.sh starts PyTorch before its turn, which saves its import.
in_bf16() {
    local part=$1
    shift
    GPU_RESULTS=$folder/$part GPU_ALGORITHMS=$folder/algorithms GPU_SECONDS=$((end - SECONDS)) GPU_TESTS=0 GPU_PARTS=0 GPU_FP8=0 \
        bench/gpu.sh "$@" >"$folder/logs/$part.log" 2>&1
    grep -E '^(FAILED|left out|error)' "$folder/logs/$part.log"
    mv "$folder/$part/lines.json" "$folder/$part.json"
}

# Every call has built before its parts.
part_build() { :; }

part_speed() { in_bf16 speed gpt2-124M gpt3-1.3B llama7B-8layers gpt2-1558M; }
part_large() { in_bf16 large megatron-1.7B megatron-3.6B llama-1.3B; }

part_llmc() {
    local LLMC=$source
    export LLMC
    [ -n "$LLMC" ] || { echo "left out: llm.c, because LLMC does not name its source"; return; }
    GPU_PEERS=0 in_bf16 llmc gpt2-124M gpt2-1558M
}

# fp8_kind MODEL KIND: ours in bf16 or a kind of fp8.
fp8_kind() {
    local fp8=(--fp8-format hybrid)
    case $2 in
    bf16) ours fp8 "$1" "bevatron" ;;
    plain) ours fp8 "$1" "bevatron fp8" "${fp8[@]}" ;;
    output) ours fp8 "$1" "bevatron fp8 output" "${fp8[@]}" --fp8-output-proj ;;
    fast) ours fp8 "$1" "bevatron fp8 fast" "${fp8[@]}" --fp8-output-proj --fp8-fast-input-gradients ;;
    blockwise) ours fp8 "$1" "bevatron fp8 blockwise" "${fp8[@]}" --fp8-recipe blockwise ;;
    esac
}

# Two rounds in turn, because machines drift. What has a goal comes first, since time may end: the fastest kind, and the
# better recipe of torchao, by earlier runs.
part_fp8() {
    local model kind has_torchao=${GPU_PEERS:-1}
    for model in gpt3-1.3B llama7B-8layers; do
        for kind in bf16 fast bf16 fast; do fp8_kind $model $kind; done
    done
    if [ "$has_torchao" = 1 ] && ! python3 -c 'import torchao.float8' 2>/dev/null; then
        echo "left out: torchao, which is not installed; TORCHAO=FOLDER names an unpacked one"
        has_torchao=0
    fi
    [ "$has_torchao" != 1 ] || { peer fp8 gpt3-1.3B --float8 tensorwise; peer fp8 llama7B-8layers --float8 rowwise; }
    for kind in output plain blockwise; do
        for model in gpt3-1.3B llama7B-8layers; do fp8_kind $model $kind; done
    done
    [ "$has_torchao" != 1 ] || { peer fp8 gpt3-1.3B --float8 rowwise; peer fp8 llama7B-8layers --float8 tensorwise; }
}

part_dropout() {
    local model
    for model in gpt2-124M gpt3-1.3B; do
        for _ in 1 2; do
            ours dropout $model "bevatron"
            ours dropout $model "bevatron dropout" --hidden-dropout 0.1 --attention-dropout 0.1 --fast-attention-dropout=false
        done
    done
    peer dropout gpt2-124M --dropout 0.1 --steps 40
}

part_long() {
    local length
    for length in 32768 131072; do
        measure long "$length tokens" bevatron 200 "$program" bench step --steps 2 --energy --device cuda --bf16 --quick-weights \
            --model llama --num-layers 16 --hidden-size 2048 --num-attention-heads 16 --ffn-hidden-size 5632 --vocab-size 32000 \
            --seq-length $length --max-position-embeddings $length --micro-batch-size 1 --recompute-granularity full \
            --recompute-keep-attention --algorithm-cache "$folder/algorithms"
        [ "${GPU_PEERS:-1}" = 1 ] || continue
        measure long "$length tokens" "" 200 python3 bench/torch_step.py --energy --recompute --warm 1 --steps 2 long 16 2048 16 \
            $length 1 32000 llama
    done
}

# Attention of this size had gradients with a norm of 1e7 that were wrong, so the norm of random weights' must be plausible.
# With fewer layers than a 7B has, the row is not that of the goal.
part_host() {
    local layers=${HOST_LAYERS:-32} log=$folder/logs/host.log config="524288 tokens" code=0 watcher
    enough 120 "$config" || return 0
    [ "$layers" = 32 ] || config="$config, $layers layers"
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits --loop-ms=500 >"$log.used" 2>/dev/null &
    watcher=$!
    timeout -k 5 $((end - SECONDS)) "$program" train --mock-data --device cuda --bf16 --model llama \
        --num-layers "$layers" --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008 --vocab-size 32000 \
        --seq-length 524288 --max-position-embeddings 524288 --micro-batch-size 1 --global-batch-size 1 --train-iters 1 \
        --lr 1e-4 --log-interval 1 --eval-iters 0 --recompute-granularity full --cpu-offloading \
        --optimizer-cpu-offload >"$log" 2>&1 </dev/null || code=$?
    kill $watcher 2>/dev/null
    wait $watcher 2>/dev/null
    nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits >"$log.total" 2>/dev/null
    awk -v code=$code '
        function gb(mib) { return mib * 1.048576e-3 }
        FILENAME ~ /used$/ { used = $1 > used ? $1 : used; next }
        FILENAME ~ /total$/ { total = total ? total : $1; next }
        match($0, /per iteration \(ms\): [0-9.]+/) { ms = substr($0, RSTART + 20, RLENGTH - 20) }
        match($0, /grad norm: [^ ]+/) { norm = substr($0, RSTART + 11, RLENGTH - 11) }
        END {
            if (code != 0 || norm !~ /^[0-9.e+]+$/ || norm + 0 <= 0 || norm + 0 > 1000) {
                print "FAILED: host, status " code ", norm of gradients " (norm == "" ? "not printed" : norm)
                exit
            }
            printf "{\"name\": \"bevatron\", \"tokens_per_second\": %.1f, \"device_gb\": %.2f}\n", 524288e3 / ms, gb(used)
            printf "{\"name\": \"this GPU\", \"device_gb\": %.2f}\n", gb(total)
        }' "$log.used" "$log.total" "$log" >"$log.lines"
    grep -v '^{' "$log.lines"
    add host "$config" <"$log.lines"
}

# The last row of the table: milliseconds of 16 documents in a row, and of 16 rows.
part_documents() {
    enough 40 documents || return 0
    LENGTHS=2048 bench/gpu_documents.sh "$program" >"$folder/logs/documents.log" 2>&1
    awk -F'|' '$2 + 0 == 2048 && $4 > 0 && $5 > 0 {
        printf "{\"name\": \"bevatron packed\", \"tokens_per_second\": %.1f}\n", 32768e3 / $4
        printf "{\"name\": \"bevatron separate\", \"tokens_per_second\": %.1f}\n", 32768e3 / $5
    }' "$folder/logs/documents.log" | add documents "16 of 2,048"
    [ -s "$folder/documents.json" ] || echo "FAILED: documents: $(tail -n 1 "$folder/logs/documents.log" | cut -c1-300)"
}

part_learning() {
    enough 130 learning || return 0
    timeout -k 5 $((end - SECONDS)) bench/gpu_learning.sh "$build" bf16 fp8-delayed fp8-output fp8-fast >"$folder/logs/learning.log" 2>&1
    # A line of words about a run, that it failed, is not its row.
    awk '/^(bf16|fp8-)/ && $3 ~ /^[0-9.]+$/ {
        name["bf16"] = "bevatron"; name["fp8-delayed"] = "bevatron fp8"; name["fp8-output"] = "bevatron fp8 output"
        name["fp8-fast"] = "bevatron fp8 fast"
        printf "{\"name\": \"%s\", \"loss\": %s}\n", name[$1], $3
    }' "$folder/logs/learning.log" | add learning "500 steps"
    grep -E 'FAILED|too far' "$folder/logs/learning.log"
}

# The model with a goal first.
part_experts() {
    local models=(mixtral-8x7B-2layers qwen3-30B-A3B-4layers olmoe-1B-7B-8layers)
    enough 60 experts || return 0
    MIXTURE_PEERS=${GPU_PEERS:-1} MIXTURE_FP8=1 MIXTURE_FLAGS=--energy MIXTURE_LINES=$folder/experts.lines \
        timeout -k 5 $((end - SECONDS)) bench/gpu_mixtures.sh "$program" "${models[@]}" >"$folder/logs/experts.log" 2>&1
    grep 'no result' "$folder/logs/experts.log"
    [ ! -f "$folder/experts.lines" ] || mv "$folder/experts.lines" "$folder/experts.json"
}

# on_cpu PART THREADS ROUNDS
on_cpu() {
    enough 60 "$2 threads" || return 0
    BEVATRON=$program THREADS=$2 ROUNDS=$3 STEPS=3 DTYPE=both MODES="eager regions" LIMIT=${CPU_LIMIT:-120} \
        timeout -k 5 $((end - SECONDS)) python3 bench/bench_step_peers.py >"$folder/logs/$1.log" 2>&1
    grep failed "$folder/logs/$1.log"
    # What multiplies in bf16 has that in front of its mode, so that the fastest of these can be found.
    sed -E 's/"name": "pytorch [^ ]* /"name": "pytorch /; s/"pytorch ([a-z]+) bf16"/"pytorch bf16 \1"/
        s/"pytorch ([a-z]+) autocast"/"pytorch bf16 autocast \1"/' "$folder/logs/$1.log" | add "$1" "$2 threads"
}
part_cpu16() { on_cpu cpu16 16 2; }
part_cpu2() { on_cpu cpu2 2 1; }
part_aarch64() {
    [ "$(uname -m)" = aarch64 ] || { echo "left out: aarch64, because this CPU is another"; return; }
    on_cpu aarch64 2 1
}

case ${1:-} in
"") sed -n '2,8s/^# //p' "$0"; exit 2 ;;
list) echo "$parts"; exit 0 ;;
table)
    shift
    [ $# -gt 0 ] || set -- "$folder"
    table "$@"
    exit 0
    ;;
esac
for part in "$@"; do
    grep -q "^$part " <<<"$parts" || { echo "gpu_goals.sh: unknown part $part; run 'bench/gpu_goals.sh list' to see them all" >&2; exit 2; }
done
mkdir -p "$folder/logs"
nvidia-smi --query-gpu=name,driver_version,power.limit --format=csv,noheader 2>/dev/null | tee "$folder/machine.txt"
GPU_TESTS=0 GPU_TARGETS="make_stories bench_floor" bench/gpu.sh build || exit 1
trap 'table "$folder" | tee "$folder/table.txt"' EXIT
trap 'exit 130' INT TERM
for part in "$@"; do
    started=$SECONDS
    rm -f "$folder/$part.json" "$folder/$part.lines"
    "part_$part"
    echo "$part: $((SECONDS - started)) s"
done
