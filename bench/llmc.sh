#!/usr/bin/env bash
# Builds llm.c with cuDNN's attention in bf16, and times its GPT-2 steps:
#   bench/llmc.sh build FOLDER                                  FOLDER is llm.c's source
#   bench/llmc.sh time FOLDER NAME LAYERS HIDDEN HEADS SEQUENCE BATCH…
# The largest batch that fits counts, so give the larger ones first. One line of JSON for each way of fusing GELU into the
# matmuls; speed is the mean over all but the first steps. From the environment:
#   CUDNN_FRONTEND=FOLDER/../cudnn-frontend/include   headers that llm.c needs    GPU_ARCHS=…   architectures to compile
#   LLMC_STEPS=20  LLMC_GELU="1 0 2"  LLMC_SECONDS=90   steps, ways of fusing, how long one run may take
#   LLMC_LOGS=FOLDER                                  keeps what it prints
set -u
here=$(cd "$(dirname "$0")" && pwd)
command=${1:-} folder=$(cd "${2:-.}" 2>/dev/null && pwd) || { echo "llmc.sh: there is no folder $2" >&2; exit 1; }
program=$folder/build/train_gpt2cu
export PATH="${CUDA_HOME:-/usr/local/cuda}/bin:$PATH"

# NVML's library comes with the driver; a toolkit has a stub of it to link with.
build() {
    local headers=${CUDNN_FRONTEND:-$folder/../cudnn-frontend/include} stubs=${CUDA_HOME:-/usr/local/cuda}/lib64/stubs
    local flags=(--use_fast_math -std=c++17 -O3 "-arch=sm_${GPU_ARCHS:-$("$here/gpu_arch.sh")}" -DENABLE_CUDNN -DENABLE_BF16 "-I$headers")
    local libraries=(-lcublas -lcublasLt -lcudnn -lnvrtc -lcuda) nvml attention
    [ -x "$program" ] && return 0
    cd "$folder" && mkdir -p build || return 1
    nvcc "${flags[@]}" -c llmc/cudnn_att.cpp -o build/attention.o &
    attention=$!
    nvcc "${flags[@]}" -c train_gpt2.cu -o build/train.o
    wait $attention
    for nvml in -lnvidia-ml -l:libnvidia-ml.so.1 "-Xlinker --unresolved-symbols=ignore-all"; do
        # shellcheck disable=SC2086  # the last one is two words
        nvcc "${flags[@]}" build/train.o build/attention.o -o "$program" "-L$stubs" "${libraries[@]}" $nvml && return 0
    done
    return 1
}

# run NAME LAYERS HIDDEN HEADS SEQUENCE BATCH GELU: one line of JSON, or failure.
run() {
    local log=$logs/llmc-$1-$6-$7.txt
    timeout -k 5 "${LLMC_SECONDS:-90}" stdbuf -oL "$program" -i "$work/tokens.bin" -j "$work/tokens.bin" -v 1000000 -m 1 \
        -s 0 -x "$steps" -l 0.0001 -c 0.1 -e "$work/weights.bin" -b "$6" -t "$5" -r 0 -ge "$7" >"$log" 2>&1
    code=$?
    awk -v name="$1" -v tokens=$(($5 * $6)) -v batch="$6" -v gelu="$7" '
        /^device memory usage:/ { memory = $4 * 1048576 / 1e9 }
        /^step +[0-9]+\/[0-9]+ / && match($0, /[0-9.]+ ms/) {
            if (++n > 3) { sum += substr($0, RSTART, RLENGTH - 3); counted++ }
        }
        END {
            if (!counted) exit 1
            printf "{\"name\": \"llm.c\", \"config\": \"%s\", \"step_s\": %.5f, ", name, sum / counted / 1e3
            printf "\"tokens_per_second\": %.1f, \"device_gb\": %.2f, ", tokens * counted / sum * 1e3, memory
            printf "\"micro_batch\": %d, \"gelu_fusion\": %d, \"steps\": %d}\n", batch, gelu, counted
        }' "$log" && return 0
    echo "llm.c $1, micro-batch $6: status $code: $(tail -n 2 "$log" | tr '\n' ' ' | cut -c1-200)" >&2
    return 1
}

time_model() {
    local name=$1 layers=$2 hidden=$3 heads=$4 length=$5 batch gelu done=0
    shift 5
    [ -x "$program" ] || { echo "llmc.sh: $program is not built; run bench/llmc.sh build $folder" >&2; return 1; }
    work=$(mktemp -d) steps=${LLMC_STEPS:-20}
    trap 'rm -rf "$work"' EXIT
    trap 'exit 143' INT TERM
    logs=${LLMC_LOGS:-$work}
    mkdir -p "$logs"
    python3 "$here/llmc_files.py" weights "$work/weights.bin" "$layers" "$hidden" "$heads" "$length" 50304 &&
        python3 "$here/llmc_files.py" tokens "$work/tokens.bin" 8000000 50257 || return 1
    for batch in "$@"; do
        for gelu in ${LLMC_GELU:-1 0 2}; do
            run "$name" "$layers" "$hidden" "$heads" "$length" "$batch" "$gelu" || break
            done=$((done + 1))
        done
        [ "$done" = 0 ] || break
    done
    [ "$done" -gt 0 ]
}

case $command in
build) build ;;
time)
    shift 2
    [ $# -ge 6 ] || { sed -n '3,4s/^# *//p' "$0" >&2; exit 2; }
    time_model "$@"
    ;;
*)
    sed -n '3,4s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
