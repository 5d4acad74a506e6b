#!/usr/bin/env bash
# bench/gpu.sh and bench/gpu_goals.sh on a machine without a GPU: small scripts stand in for cmake, nvidia-smi, python3, bevatron, the tests
# and llm.c. A program that fails, hangs or runs out of memory must only cost its own cell of the table, and two must
# never have the GPU at once. Nothing here depends on the speed of the machine: hanging programs are ended by their own
# limit.
# tier: all
set -u
bench=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../bench" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failed=0
cases=0
mkdir -p "$root"/{bin,build/gpu/bench,build/gpu/tests,llmc/build}
cp -r "$bench" "$root/bench"
export ROOT=$root PATH=$root/bin:$PATH CUDA_HOME=$root

# script PATH: reads it from stdin and adds the common part.
# shellcheck disable=SC2016  # the scripts' variables, not ours
script() {
    {
        echo '#!/usr/bin/env bash'
        # The GPU is a folder that only one can create. A killed program does not remove it: its owner is checked.
        echo 'take() { until mkdir "$ROOT/gpu" 2>/dev/null; do
            kill -0 "$(cat "$ROOT/gpu/owner" 2>/dev/null)" 2>/dev/null && echo "$1 found the GPU taken" >>"$ROOT/clash"
            rm -rf "$ROOT/gpu"; done; echo $$ >"$ROOT/gpu/owner"; }'
        echo 'give() { rm -rf "$ROOT/gpu"; }'
        cat
    } >"$root/$1"
    chmod +x "$root/$1"
}
script bin/cmake <<'END'
[ -z "${NO_BUILD:-}" ] || { echo "error: no compiler"; exit 1; }
END
script bin/nvidia-smi <<'END'
case $* in
*memory.used*) printf '%s\n' 100000 120000 ;;
*memory.total*) echo 140000 ;;
*) echo "a GPU" ;;
esac
END
script bin/uname <<'END'
echo "${MACHINE:-x86_64}"
END
script bin/python3 <<'END'
case $1 in
-c) exit "${NO_TORCHAO:-0}" ;;
*llmc_files.py) : >"$3"; exit ;;
*bench_step_peers.py)
    for name in "bevatron fp32" bevatron "pytorch 2.11.0 regions" "pytorch 2.11.0 regions autocast" "pytorch 2.11.0 eager bf16" \
        "pytorch 2.11.0 eager autocast" "pytorch 2.11.0 regions bf16" "matmuls fp32 OpenBLAS" "matmuls fp32 bevatron" \
        "matmuls bf16 bevatron"; do
        [ "$name" != "pytorch 2.11.0 ${CPU_FAILS:-}" ] || { echo "regions failed: it did not end within 120 s" && continue; }
        echo "{\"name\": \"$name\", \"median_s\": 1, \"tokens_per_second\": $((THREADS * ${#name})).0, \"peak_rss_mb\": 1500}"
    done
    exit
    ;;
esac
echo "PyTorch $*" >>"$ROOT/arguments"
shift
while [ $# -gt 0 ]; do
    case $1 in
    --floor | --energy | --recompute) shift ;;
    --float8) float8=$2 && shift 2 ;;
    --after) after=$2 && shift 2 ;;
    --*) shift 2 ;;
    *) break ;;
    esac
done
[ "$1" = "${NO_TORCH:-}" ] && { echo "ModuleNotFoundError: No module named 'torch'" >&2; exit 1; }
until [ -z "${after:-}" ] || [ -e "$after" ]; do
    [ -d "$ROOT" ] || exit  # the test has ended
    sleep 0.02
done
take "PyTorch of $1"
case $1 in
"${PEER_FULL:-}") give; echo "OutOfMemoryError: CUDA out of memory" >&2; exit 1 ;;
"${PEER_HANGS:-}") kill -ALRM $$; sleep 1000 ;;
esac
give
[ -z "${float8:-}" ] || {
    echo "{\"name\": \"torchao $float8\", \"config\": \"$1\", \"tokens_per_second\": 5${#float8}000.0, \"device_gb\": 45}"
    exit
}
echo "{\"name\": \"PyTorch compiled\", \"config\": \"$1\", \"tokens_per_second\": 50000.0, \"device_gb\": 60.5, \"joules_per_token\": 0.012}"
echo "{\"name\": \"floor\", \"config\": \"$1\", \"tokens_per_second\": 80000.0}"
END
script build/gpu/bevatron <<'END'
[[ "$*" == *"${OURS_FAILS:-nothing}"* ]] && { echo "bevatron bench step: no room for the activations" >&2; exit 1; }
echo "bevatron $*" >>"$ROOT/arguments"
case $1 in
tokenizer | preprocess) exit ;;
train)
    [[ "$*" == *fp8* ]] && last=${FP8_LOSS:-3.006} || last=3.000
    [[ "$*" == *reset-attention-mask* ]] && ms=200 || ms=100
    awk -v ms=$ms -v last=$last 'BEGIN {
        for (i = 1; i <= 500; i++)
            print " iteration " i "/ 500 | elapsed time per iteration (ms): " ms ".0 | lm loss: " (i == 1 ? 9.0 : last) " | loss scale: 1.0 | grad norm: '"${NORM:-12.5}"' |" }'
    echo " validation loss at the end of training on validation set | lm loss value: $last |"
    exit
    ;;
esac
take "bevatron $*"
[[ "$*" == *fp8* ]] && speed=80000.0 || speed=60000.0
[[ "$*" =~ --micro-batch-size\ ([0-9]+) ]] && batch=${BASH_REMATCH[1]}
give
echo "{\"name\": \"bevatron\", \"step_s\": 0.5, \"tokens_per_second\": $speed, \"device_gb\": 50.25," \
    "\"flags\": {\"bf16\":\"true\",\"micro-batch-size\":\"${batch:-}\"}, \"joules_per_token\": 0.01}"
echo "part   calls"
END
script llmc/build/train_gpt2cu <<'END'
while [ $# -gt 0 ]; do [ "$1" = -b ] && batch=$2; shift; done
[ "$batch" -le "${LLMC_FITS:-64}" ] || { echo "out of memory"; exit 1; }
echo "device memory usage: 1000 MiB / 2000 MiB"
for i in 1 2 3 4 5; do echo "step    $i/5 | loss 1.0 (+nanz)| lr 1.00e-04 | $((i < 4 ? 9999 : 512)).00 ms | 1 tok/s"; done
END
script build/gpu/make_stories <<'END'
echo "{}"
END
for test in test_ops_cuda test_ops_cuda_compare test_ops_cuda_cudnn; do
    script build/gpu/tests/$test <<'END'
echo "3 passed, ${TESTS_FAIL:-0} failed, 0 skipped"
exit "${TESTS_FAIL:-0}"
END
done

# run CODE VARIABLES… -- MODELS…: the script's exit code; its output goes to $root/out.
run() {
    local code=$1 got=0 variables=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1") && shift; done
    rm -rf "$root/results" "$root/clash" "$root/gpu"
    env "GPU_RESULTS=$root/results" "${variables[@]}" bash "$root/bench/gpu.sh" "${@:2}" >"$root/out" 2>&1 </dev/null || got=$?
    cases=$((cases + 1))
    [ "$got" = "$code" ] && [ ! -e "$root/clash" ] && return
    echo "FAIL ${variables[*]}: exit code $got, expected $code"
    cat "$root/out" "$root/clash" 2>/dev/null
    failed=$((failed + 1))
}

# says REGEX: somewhere in the output, with runs of spaces as one.
says() {
    cases=$((cases + 1))
    tr -s ' ' <"$root/out" | grep -qE -- "$1" && return
    echo "FAIL no \"$1\" in:"
    cat "$root/out"
    failed=$((failed + 1))
}

run 0 "LLMC=$root/llmc" LLMC_FITS=16 GPU_FP8=gpt2-1558M -- gpt2-1558M llama-1.3B
says '^test_ops_cuda: 3 passed'
# 16 x 1024 tokens in 512 ms, after the larger batch did not fit.
says '^gpt2-1558M 60000 50000 1.200 \| 80000 1.333 1.600 \| 32000 1.875 \| 80000 0.750 \| 50.2 50.2 60.5 \| 10.00 10.00 12.00$'
says '^llama-1.3B 60000 50000 1.200 \| - - - \| - - \| 80000 0.750'
says '^0 failed'

run 1 NO_TORCH=gpt2-124M PEER_FULL=gpt3-1.3B PEER_HANGS=megatron-1.7B "OURS_FAILS=--num-layers 30" GPU_AGAIN=1 --
says '^FAILED: gpt2-124M, PyTorch, status 1: ModuleNotFoundError'
says '^FAILED: gpt3-1.3B, PyTorch, status 1: OutOfMemoryError'
says '^FAILED: megatron-1.7B, PyTorch, status 142: did not end in time'
says '^FAILED: megatron-3.6B, bevatron fp8, status 1: bevatron bench step: no room'
says '^gpt3-1.3B 60000 - - \| 80000 1.333 - \|'
says '^megatron-3.6B - 50000 - \| - - - \| - - \| 80000 - \| - - 60.5 \|'
says '^llama7B-8layers 60000 50000 1.200 \|'
says '^6 failed'

run 1 TESTS_FAIL=2 GPU_PEERS=0 GPU_FP8=0 -- gpt2-124M
says '^FAILED: test_ops_cuda, status 2: 3 passed, 2 failed'
says '^gpt2-124M 60000 - - \| - - - \|'
run 0 GPU_SECONDS=0 GPU_TESTS=0 -- gpt2-124M
says '^left out: gpt2-124M, bevatron, '
says '^left out: gpt2-124M, PyTorch, '
# Both programs are told the rate, and ours also who draws.
rm "$root/arguments"
run 0 GPU_DROPOUT=0.25 GPU_TESTS=0 GPU_FP8=0 -- gpt2-124M
mv "$root/arguments" "$root/out"
says '^PyTorch .* --dropout 0.25 '
says '^bevatron .* --hidden-dropout 0.25 --attention-dropout 0.25 --fast-attention-dropout '
run 1 NO_BUILD=1 -- gpt2-124M
says '^error: no compiler'
run 2 -- gpt2-124
says 'there is no model gpt2-124;'

# goals CODE VARIABLES… -- ARGUMENTS…: as run, of bench/gpu_goals.sh.
goals() {
    local code=$1 got=0 variables=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1") && shift; done
    rm -rf "$root/clash" "$root/gpu"
    env "GOALS=$root/goals" "${variables[@]}" bash "$root/bench/gpu_goals.sh" "${@:2}" >"$root/out" 2>&1 </dev/null || got=$?
    cases=$((cases + 1))
    [ "$got" = "$code" ] && [ ! -e "$root/clash" ] && return
    echo "FAIL goals ${variables[*]}: exit code $got, expected $code"
    cat "$root/out" "$root/clash" 2>/dev/null
    failed=$((failed + 1))
}

goals 0 "LLMC=$root/llmc" LLMC_FITS=16 -- build speed fp8 dropout long documents learning experts llmc cpu16
says '^speed gpt2-124M bevatron PyTorch compiled \| 60000 50000 1.200 \| 50.2 60.5 0.831 \| 10.00 12.00 0.833 \| memory <= 0.85 met$'
says '^speed gpt2-124M bevatron floor \| 60000 80000 0.750 .* speed >= 0.95 MISSED$'
says '^large megatron-1.7B bevatron floor \| - - - .* not measured$'
says '^llmc gpt2-1558M bevatron llm.c, batch of 16 \| 60000 32000 1.875 '
says '^fp8 gpt3-1.3B bevatron fp8 fast bevatron \| 80000 60000 1.333 .* speed >= 1.50 MISSED$'
says '^fp8 gpt3-1.3B bevatron fp8 output bevatron \| 80000 60000 1.333 '
# The faster recipe counts.
says '^fp8 gpt3-1.3B bevatron fp8 fast torchao tensorwise \| 80000 510000 0.157 \| 50.2 45.0 1.117 \| 10.00 - - \| speed >= 1.40 MISSED$'
says '^learning 500 steps bevatron fp8 fast bevatron \| 3.0060 3.0000 1.002 \| +\| +\| loss <= 1.003 met$'
says '^dropout gpt2-124M bevatron dropout bevatron \| 60000 60000 1.000 .* speed >= 0.92 met$'
says '^long 131072 tokens bevatron PyTorch compiled \| 60000 50000 1.200 .* met$'
says '^documents 16 of 2,048 bevatron packed bevatron separate \| 163840 327680 0.500 .* MISSED$'
says '^experts mixtral-8x7B-2layers bevatron fp8 bevatron \| 80000 60000 1.333 '
# The floor is the better of the two libraries.
says '^cpu16 16 threads bevatron fp32 matmuls fp32 OpenBLAS \| 208 336 0.619 \| 1.5 1.5 1.000 \| - - - \| speed >= 0.8696 MISSED$'
# In bf16 PyTorch counts in bf16 only, and the fastest of it.
says '^cpu16 16 threads bevatron pytorch bf16 autocast regions \| 128 496 0.258 .* speed >= 1.5 MISSED$'
says '^cpu16 16 threads bevatron matmuls bf16 bevatron \| 128 336 0.381 '
says ' not measured$'
# llm.c is compared with ours of its batch, or not at all.
goals 0 "LLMC=$root/llmc" -- llmc
says '^llmc gpt2-124M bevatron llm.c, batch of 64 \| 60000 128000 0.469 '
says '^llmc gpt2-1558M bevatron beside llm.c llm.c, batch of 32 \| 60000 64000 0.938 '
goals 0 "LLMC=$root/llmc" "OURS_FAILS=--micro-batch-size 32" -- llmc
says '^llmc gpt2-1558M bevatron, batch of 32 llm.c, batch of 32 \| - 64000 - .* not measured$'
# Parts of an earlier call stay in the table; a part without its peer loses only that.
goals 0 NO_TORCHAO=1 -- large fp8
says '^left out: torchao'
says '^fp8 gpt3-1.3B bevatron fp8 fast torchao tensorwise, torchao rowwise \| 80000 - - '
says '^speed gpt2-124M bevatron PyTorch compiled \| 60000 50000 '
says '^large megatron-3.6B bevatron floor \| 60000 80000 '
goals 0 GOALS_SECONDS=0 -- dropout
says '^left out: gpt2-124M, bevatron dropout, '
says '^dropout gpt2-124M bevatron dropout bevatron \| - - - '
# What is above a bound by less than the table shows is above it.
mkdir "$root/near"
printf '{"config": "500 steps", "name": "%s", "loss": %s}\n' bevatron 3.0000 "bevatron fp8" 3.0104 >"$root/near/learning.json"
goals 0 -- table "$root/near"
says '^learning 500 steps bevatron fp8 bevatron \| 3.0104 3.0000 1.003 .* MISSED$'
# A peer that did not end, or whose line has no figure, neither makes others slower nor lets a goal be met.
printf '{"config": "16 threads", "name": "%s", "tokens_per_second": %s}\n' bevatron 900.0 "pytorch bf16 regions" 500.0 \
    "pytorch bf16 eager" 300.0 "pytorch bf16 autocast eager" 200.0 >"$root/near/cpu16.json"
printf '{"config": "32768 tokens", "name": "%s", "tokens_per_second": %s}\n' bevatron 110.0 "PyTorch compiled" 100.0 \
    "PyTorch compiled" null >"$root/near/long.json"
goals 0 -- table "$root/near"
says '^cpu16 16 threads bevatron pytorch bf16 regions \| 900 500 1.800 .* not measured: pytorch bf16 autocast regions$'
says '^long 32768 tokens bevatron PyTorch compiled \| 110 100 1.100 .* MISSED$'
says '^0 of [0-9]+ goals met, 2 missed,'
goals 0 -- table "$root/goals"
says '^large megatron-3.6B bevatron floor \| 60000 80000 '
goals 0 -- host aarch64
says '^left out: aarch64, '
says '^host 524288 tokens bevatron this GPU \| 5242880 - - \| 125.8 146.8 0.857 \| - - - \| memory <= 1 met$'
# A run that fits and computes nonsense does not count, nor does one of fewer layers.
goals 0 NORM=11000000 -- host
says '^FAILED: host, status 0, norm of gradients 11000000$'
says '^host 524288 tokens bevatron this GPU \| - - - .* not measured$'
goals 0 HOST_LAYERS=3 MACHINE=aarch64 -- host aarch64
says '^host 524288 tokens bevatron this GPU \| - - - .* not measured$'
says '^aarch64 2 threads bevatron fp32 pytorch regions \| 26 [0-9]+ .* speed >= 1.29 MISSED$'
# Loss that is far away is reported once as such, and is not half as large for it.
goals 0 FP8_LOSS=5.5 -- learning
says '^fp8-delayed is too far from bf16 or has not learned$'
says '^learning 500 steps bevatron fp8 bevatron \| 5.5000 3.0000 1.833 .* MISSED$'
goals 2 -- everything
says 'unknown part everything;'

echo "$((cases - failed)) passed, $failed failed"
[ "$failed" = 0 ]
