#!/usr/bin/env bash
# Tests GPU features that no test of an operation reaches, on a machine with a GPU:
#   bench/gpu_features.sh [BUILD_FOLDER] [PART…]        (build/gpu and all parts by default)
#   recordings   replayed steps print the same as steps launched call by call, to the last digit
#   kept         keeping or recomputing activations changes no bit of losses and weights
#   float8       fp8 matmuls in a pipeline beside one rank
#   algorithms   ranks without a file of algorithms agree on what they time; the next run reads it
#   text         ranks that share a model generate the text of one rank
#   lost         the other ranks of a pipeline end when one is killed
#   memory       a few whole steps of every family under compute-sanitizer's memcheck
#   deterministic   two runs have the same bits, with timed matmuls and cuDNN's attention
#   libraries    without each library that is loaded at run time: an error that names it, or a warning and a run
#   full         a run that has no room says what it needs, on one rank and on two; one that just fits trains
# FEATURES_ONLY=TEXT selects cases with TEXT in their name ("no dropout") of recordings, kept and deterministic. In 16 bits and
# without dropout attention is cuDNN's, otherwise ours: both are tested. FEATURES_DEVICE=cpu tests the script without a GPU.
# Ranks share the GPU and communicate over MPI through the host. Prints a line per check; exits 0 if all passed.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/gpu}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- recordings kept float8 algorithms text lost memory deterministic libraries full
export BEVATRON=$PWD/$build/bevatron
. tests/cli/common.sh
. tests/parallel/layouts.sh
export XDG_CACHE_HOME=$work/cache

small=(--mock-data --tokenizer-type NullTokenizer --vocab-size 997 --make-vocab-size-divisible-by 8 --hidden-size 256
    --num-attention-heads 4 --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-interval 8
    --eval-iters 1 --device "${FEATURES_DEVICE:-cuda}")
length=(--train-iters 20)
no_dropout=(--attention-dropout 0 --hidden-dropout 0)

# is_wanted NAME
is_wanted() { [[ $1 == *"${FEATURES_ONLY:-}"* ]]; }

# numbers FILE: what a run printed of each iteration, without times.
numbers() {
    grep -oE "iteration +[0-9]+/|learning rate: [^|]*|(lm|sop) loss: [^|]*|loss scale: [^|]*|grad norm: [^|]*|lm loss value: [^|]*" \
        "$1"
}

# differ A B: the largest relative difference of a loss of two outputs.
differ() {
    paste -d' ' <(grep -oE "lm loss: [^|]*" "$1") <(grep -oE "lm loss: [^|]*" "$2") | awk '
        { d = $3 / $6 - 1; d = d < 0 ? -d : d; most = d > most ? d : most } END { printf "%.2g", (NR >= 20 ? most : 9) }'
}

below() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'
}

ranks_of() {
    bash tests/parallel/mpirun.sh "$@"
}

# replays NAME FLAGS…
replays() {
    local name=$1 skipped
    is_wanted "$1" || return 0
    shift
    expect 0 "iteration       15/" "$BEVATRON" train "${small[@]}" "${length[@]}" --deterministic-mode "$@" --no-cuda-graph
    numbers "$work/out" >"$work/plain"
    expect 0 "iteration       15/" "$BEVATRON" train "${small[@]}" "${length[@]}" --deterministic-mode "$@"
    numbers "$work/out" >"$work/replayed"
    expect_same "$work/plain" "$work/replayed" "recordings: $name"
    skipped=$(grep -oE "number of skipped iterations: +[0-9]+" "$work/out" | awk '{ n += $NF } END { print n + 0 }')
    echo "recordings: $name: $(wc -l <"$work/plain") numbers, $(cmp -s "$work/plain" "$work/replayed" && echo equal ||
        echo DIFFERENT), $skipped iterations skipped, last $(grep "lm loss:" "$work/replayed" | tail -n 1)"
}

# near NAME FLAGS FLAGS…: a run with the first flags and one without them have nearly the same losses; for what
# --deterministic-mode does not do, where attention's gradients are added up in any order. A backward pass with other masks
# than the forward pass moves them by 1.5e-4 and more. Attention is all cuDNN's.
near() {
    local name=$1 words most
    is_wanted "$1" || return 0
    read -ra words <<<"$2"
    shift 2
    expect 0 "iteration       15/" "$BEVATRON" train "${small[@]}" "${length[@]}" "$@" "${words[@]}"
    cp "$work/out" "$work/plain"
    expect 0 "iteration       15/" "$BEVATRON" train "${small[@]}" "${length[@]}" "$@"
    most=$(differ "$work/plain" "$work/out")
    echo "recordings: $name, ${words[*]}: largest relative difference of a loss $most"
    below "$most" 1e-5 && ! grep -qE "slower kernel|kernels of our own" "$work/out" && pass || fail "recordings: $name"
}

part_recordings() {
    local how
    local gpt=(--num-layers 4 --seq-length 256 --max-position-embeddings 256)
    local bert=(--num-layers 4 --seq-length 256 --max-position-embeddings 256 --model bert --norm-placement post
        --num-token-types 2)
    local t5=(--num-layers 2 --seq-length 256 --max-position-embeddings 256 --model t5 --decoder-seq-length 64
        --position-embedding-type relative)
    replays "gpt bf16" "${gpt[@]}" --bf16
    replays "gpt bf16, one micro-batch a step" "${gpt[@]}" --bf16 --micro-batch-size 4
    replays "gpt bf16, full recompute" "${gpt[@]}" --bf16 --recompute-granularity full
    replays "gpt fp32" "${gpt[@]}"
    replays "gpt fp16 with overflows" "${gpt[@]}" --fp16 --initial-loss-scale 268435456
    replays "gpt fp16 with overflows, one micro-batch" "${gpt[@]}" --fp16 --initial-loss-scale 268435456 --micro-batch-size 4
    replays "gpt fp8" "${gpt[@]}" --bf16 --fp8-format hybrid
    replays "gpt fp8, measured scales" "${gpt[@]}" --bf16 --fp8-format hybrid --fp8-recipe tensorwise --micro-batch-size 4
    replays "gpt fp8, history of 5" "${gpt[@]}" --bf16 --fp8-format hybrid --fp8-amax-history-len 5 --fp8-amax-compute-algo max \
        --micro-batch-size 4
    replays "bert bf16" "${bert[@]}" --bf16
    replays "bert fp16 with overflows" "${bert[@]}" --fp16 --initial-loss-scale 268435456
    replays "t5 bf16" "${t5[@]}" --bf16
    replays "t5 bf16, one micro-batch a step" "${t5[@]}" --bf16 --micro-batch-size 4
    replays "gpt bf16, no dropout" "${gpt[@]}" --bf16 "${no_dropout[@]}"
    replays "bert bf16, no dropout" "${bert[@]}" --bf16 "${no_dropout[@]}"
    replays "t5 bf16, no dropout" "${t5[@]}" --decoder-seq-length 128 --bf16 "${no_dropout[@]}"
    replays "gpt bf16, documents, no dropout" "${gpt[@]}" --bf16 --reset-attention-mask "${no_dropout[@]}"
    near "gpt bf16, no dropout, any order" --no-cuda-graph "${gpt[@]}" --bf16 "${no_dropout[@]}"
    near "gpt fp16, no dropout, any order" --no-cuda-graph "${gpt[@]}" --fp16 --loss-scale 4096 "${no_dropout[@]}"
    near "bert bf16, no dropout, any order" --no-cuda-graph "${bert[@]}" --bf16 "${no_dropout[@]}"
    for how in --no-cuda-graph "--recompute-granularity selective" "--recompute-granularity full"; do
        near "gpt bf16, fast dropout" "$how" "${gpt[@]}" --bf16 --fast-attention-dropout
        near "bert bf16, fast dropout" "$how" "${bert[@]}" --bf16 --fast-attention-dropout
    done
    local length=(--train-samples 100 --rampup-batch-size 2 2 30 --global-batch-size 8)
    replays "gpt, batches that grow" "${gpt[@]}" --bf16
    replays "bert, batches that grow" "${bert[@]}" --bf16
}

# keeps NAME FLAGS…: where nothing is asked to be computed again, results of norms and activations are kept, given room.
# mlp_act is not here: it takes the GELU of a rounded number.
keeps() {
    local name=$1 how words
    is_wanted "$1" || return 0
    shift
    for how in "" "selective layernorm" "selective core_attn" "selective core_attn layernorm" "full"; do
        read -ra words <<<"${how:+--recompute-granularity ${how/ / --recompute-modules }}"
        rm -rf "$work/saved"
        expect 0 "iteration       20/" "$BEVATRON" train "${small[@]}" "${length[@]}" --deterministic-mode "$@" "${words[@]}" \
            --save "$work/saved" --save-interval 20
        numbers "$work/out" >"$work/numbers"
        if [ -z "$how" ]; then
            rm -rf "$work/kept"
            mv "$work/saved" "$work/kept"
            mv "$work/numbers" "$work/kept.numbers"
            continue
        fi
        expect_same "$work/kept.numbers" "$work/numbers" "kept: $name, $how"
        "$COMPARE_WEIGHTS" --masters "$work/kept/iter_0000020" "$work/saved/iter_0000020" 0 >"$work/out" 2>&1 && pass ||
            fail "kept: $name, $how: weights differ"
        echo "kept: $name beside $how: $(wc -l <"$work/numbers") numbers, $(cmp -s "$work/kept.numbers" "$work/numbers" &&
            echo equal || echo DIFFERENT); $(tail -n 1 "$work/out")"
    done
}

part_kept() {
    local gpt=(--num-layers 4 --seq-length 256 --max-position-embeddings 256)
    local llama=("${gpt[@]}" --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
        --untie-embeddings-and-output-weights)
    [ -x "$COMPARE_WEIGHTS" ] || { fail "kept: there is no $COMPARE_WEIGHTS; build compare_weights"; return; }
    keeps "gpt bf16" "${gpt[@]}" --bf16
    keeps "gpt bf16, one micro-batch a step" "${gpt[@]}" --bf16 --micro-batch-size 4
    keeps "llama bf16, one micro-batch a step" "${llama[@]}" --bf16 --micro-batch-size 4
    keeps "llama fp16" "${llama[@]}" --fp16 --initial-loss-scale 4096
    keeps "gpt fp8" "${gpt[@]}" --bf16 --fp8-format hybrid
    keeps "gpt fp8, measured scales" "${gpt[@]}" --bf16 --fp8-format hybrid --fp8-recipe tensorwise
    keeps "gpt bf16, no dropout" "${gpt[@]}" --bf16 "${no_dropout[@]}"
    keeps "llama bf16, no dropout" "${llama[@]}" --bf16 "${no_dropout[@]}"
}

part_float8() {
    local model=(--num-layers 4 --seq-length 256 --max-position-embeddings 256 --bf16 --fp8-format hybrid) recipe layout most
    for recipe in delayed tensorwise; do
        expect 0 "iteration       20/" "$BEVATRON" train "${small[@]}" "${length[@]}" "${model[@]}" --fp8-recipe $recipe
        cp "$work/out" "$work/one"
        for layout in "--pipeline-model-parallel-size 2" \
            "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2" "--tensor-model-parallel-size 2"; do
            # shellcheck disable=SC2086
            expect 0 "iteration       20/" ranks_of 2 "$BEVATRON" train "${small[@]}" "${length[@]}" "${model[@]}" --fp8-recipe $recipe $layout
            most=$(differ "$work/one" "$work/out")
            echo "float8: $recipe $layout: largest relative difference of a loss $most"
            below "$most" 5e-3 && pass || fail "float8: $recipe $layout"
        done
    done
}

# Products of 8.6e9 multiplications and more, so that they are timed.
part_algorithms() {
    local model=(--num-layers 4 --seq-length 1024 --max-position-embeddings 1024 --hidden-size 1024 --bf16
        --eval-iters 0) layout file=$XDG_CACHE_HOME/bevatron/products first most
    # The last: ranks whose slices of the vocabulary differ.
    for layout in "--pipeline-model-parallel-size 2" "--tensor-model-parallel-size 2" "--use-distributed-optimizer" \
        "--tensor-model-parallel-size 2 --vocab-size 9973 --make-vocab-size-divisible-by 1"; do
        rm -rf "$XDG_CACHE_HOME"
        # shellcheck disable=SC2086
        expect 0 "iteration       20/" timeout 100 bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${small[@]}" "${length[@]}" "${model[@]}" \
            $layout
        cp "$work/out" "$work/cold"
        [ -s "$file" ] && pass || fail "algorithms: $layout: no file was written"
        cp "$file" "$work/products"
        first=$(sort "$file" | uniq -d | wc -l)
        # shellcheck disable=SC2086
        expect 0 "iteration       20/" timeout 100 bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${small[@]}" "${length[@]}" "${model[@]}" \
            $layout
        expect_same "$work/products" "$file" "algorithms: $layout: the second run times nothing"
        most=$(differ "$work/cold" "$work/out")
        below "$most" 1e-3 && [ "$first" = 0 ] && pass || fail "algorithms: $layout: the second run is another"
        echo "algorithms: $layout: $(($(wc -l <"$file") - 1)) products in the file; the next run's losses within $most"
    done
    rm -rf "$XDG_CACHE_HOME"
    expect 0 "iteration       20/" timeout 100 "$BEVATRON" train "${small[@]}" "${length[@]}" "${model[@]}" --nproc 2
    [ -s "$file" ] && pass || fail "algorithms: --nproc 2"
}

part_text() {
    local ranks model words=(--num-layers 4 --seq-length 64 --max-position-embeddings 64 --init-method-std 0.3)
    for model in "" --bf16; do
        rm -rf "$work/saved"
        # shellcheck disable=SC2086
        expect 0 "iteration       20/" "$BEVATRON" train "${small[@]}" "${length[@]}" "${words[@]}" $model --save "$work/saved" --save-interval 20
        for ranks in 1 2; do
            ranks_of $ranks "$BEVATRON" generate --load "$work/saved" --device cuda --tensor-model-parallel-size $ranks \
                --prompt "1 2 3" --greedy --max-new-tokens 40 >"$work/text.$ranks" 2>"$work/out" || fail "text: $ranks ranks"
        done
        "$BEVATRON" generate --load "$work/saved" --device cpu --prompt "1 2 3" --greedy --max-new-tokens 40 \
            >"$work/text.cpu" 2>"$work/out" || fail "text: cpu"
        echo "text${model:+ $model}: $(tr '\n' ' ' <"$work/text.2" | cut -c1-100)"
        expect_same "$work/text.1" "$work/text.2" "text: two ranks write what one does"
        expect_same "$work/text.1" "$work/text.cpu" "text: the CPU writes what the GPU does"
    done
}

# A rank of two is killed after some iterations: the run ends, within seconds, and not with success.
part_lost() {
    local launcher victim layout start code
    for layout in "--pipeline-model-parallel-size 2" "--tensor-model-parallel-size 2"; do
        : >"$work/out"
        # shellcheck disable=SC2086
        bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${small[@]}" --num-layers 4 --seq-length 256 --max-position-embeddings 256 \
            --bf16 --train-iters 1000000 --eval-iters 0 $layout >"$work/out" 2>&1 &
        launcher=$!
        for _ in $(seq 300); do grep -q "iteration        9/" "$work/out" && break; sleep 0.1; done
        victim=$(pgrep -P "$launcher" -f "bevatron train" | tail -n 1)
        start=$SECONDS
        kill -9 "$victim" || fail "lost: $layout: no rank to kill"
        (sleep 60 && kill -9 "$launcher") >/dev/null 2>&1 &
        wait "$launcher"
        code=$?
        kill $! 2>/dev/null
        echo "lost: $layout: ended $((SECONDS - start)) s after, status $code"
        [ "$code" != 0 ] && [ $((SECONDS - start)) -lt 30 ] && ! pgrep -P "$launcher" >/dev/null && pass || fail "lost: $layout"
    done
}

# checked NAME FLAGS…: starts five steps, an evaluation among them, under memcheck.
checked() {
    local name=$1
    shift
    (timeout 150 compute-sanitizer --tool memcheck --error-exitcode 9 --report-api-errors no "$BEVATRON" train \
        "${small[@]}" --seq-length 64 --max-position-embeddings 64 --train-iters 5 --eval-interval 4 "$@" >"$work/memory-$name" 2>&1
        echo $? >"$work/memory-$name.code") &
}

part_memory() {
    local name code
    command -v compute-sanitizer >/dev/null || export PATH=$PATH:/usr/local/cuda/bin
    command -v compute-sanitizer >/dev/null || { echo "memory: left out, there is no compute-sanitizer on PATH"; return; }
    checked gpt --num-layers 2 --bf16
    checked one --num-layers 2 --bf16 --micro-batch-size 4
    checked odd --num-layers 2 --bf16 --micro-batch-size 4 --hidden-size 258 --num-attention-heads 3 --seq-length 61
    checked fp32 --num-layers 2 --recompute-granularity full
    checked fp16 --num-layers 2 --fp16 --initial-loss-scale 4096
    checked float8 --num-layers 2 --bf16 --fp8-format hybrid
    checked llama --num-layers 2 --bf16 --swiglu --normalization RMSNorm --position-embedding-type rope \
        --untie-embeddings-and-output-weights --disable-bias-linear --group-query-attention --num-query-groups 2
    checked bert --num-layers 2 --bf16 --model bert --norm-placement post --num-token-types 2
    checked t5 --num-layers 2 --bf16 --model t5 --decoder-seq-length 16 --position-embedding-type relative
    local plain=(--num-layers 2 --bf16 --seq-length 128 --max-position-embeddings 128 "${no_dropout[@]}")
    checked gpt-plain "${plain[@]}"
    checked bert-plain "${plain[@]}" --model bert --norm-placement post --num-token-types 2
    checked t5-plain "${plain[@]}" --model t5 --seq-length 256 --max-position-embeddings 256 --decoder-seq-length 128 \
        --position-embedding-type relative
    wait
    for name in gpt one odd fp32 fp16 float8 llama bert t5 gpt-plain bert-plain t5-plain; do
        code=$(cat "$work/memory-$name.code")
        cp "$work/memory-$name" "$work/out"
        echo "memory: $name: status $code, $(grep -c "lm loss:" "$work/out") steps,$(grep "ERROR SUMMARY" "$work/out" | tr -d =)"
        [ "$code" = 0 ] && grep -q "ERROR SUMMARY: 0 errors" "$work/out" && grep -q "iteration        5/" "$work/out" && pass ||
            fail "memory: $name"
    done
}

# trained FLAGS…: saves weights and optimizer in $work/saved. No product is remembered from the run before.
trained() {
    rm -rf "$work/saved" "$XDG_CACHE_HOME"
    expect 0 "iteration       10/" "$BEVATRON" train "${small[@]}" "${large[@]}" "$@" --save "$work/saved" --save-interval 10
}

# same_bits NAME FLAGS…: two runs with --deterministic-mode have the same losses and masters to the bit.
same_bits() {
    local name=$1
    is_wanted "$1" || return 0
    shift
    trained "$@" --deterministic-mode
    numbers "$work/out" >"$work/first.numbers"
    rm -rf "$work/first"
    mv "$work/saved" "$work/first"
    trained "$@" --deterministic-mode
    numbers "$work/out" >"$work/numbers"
    expect_same "$work/first.numbers" "$work/numbers" "deterministic: $name"
    "$COMPARE_WEIGHTS" --masters "$work/first/iter_0000010" "$work/saved/iter_0000010" 0 >"$work/out" 2>&1 && pass ||
        fail "deterministic: $name: weights differ"
    echo "deterministic: $name: $(wc -l <"$work/numbers") numbers, $(cmp -s "$work/first.numbers" "$work/numbers" && echo equal ||
        echo DIFFERENT); $(tail -n 1 "$work/out")"
}

# Products of 2e9 multiplications and more, which are timed without that mode, and cuDNN's attention. What two runs without it
# have in common is only said: where they are equal, the others prove little.
part_deterministic() {
    local large=(--num-layers 2 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024
        --train-iters 10 --eval-interval 5 "${no_dropout[@]}")
    [ -x "$COMPARE_WEIGHTS" ] || { fail "deterministic: there is no $COMPARE_WEIGHTS; build compare_weights"; return; }
    same_bits "gpt bf16" --bf16
    same_bits "gpt fp8" --bf16 --fp8-format hybrid
    same_bits "bert bf16" --bf16 --model bert --norm-placement post --num-token-types 2
    is_wanted "gpt bf16 without it" || return 0
    trained --bf16
    rm -rf "$work/first"
    mv "$work/saved" "$work/first"
    trained --bf16
    "$COMPARE_WEIGHTS" --masters "$work/first/iter_0000010" "$work/saved/iter_0000010" 1e9 >"$work/out" 2>&1
    echo "deterministic: gpt bf16 without it: $(tail -n 1 "$work/out")"
}

# free_bytes: what is free on the GPU, before a process opens it.
free_bytes() {
    echo $(($(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits | head -n 1) << 20))
}

has_ended() { ! pgrep -f -- "$1" >/dev/null; }

# refused NAME COMMAND…: ends with 214 and says, once, what is missing and what would help.
refused() {
    local name=$1 start=$SECONDS
    shift
    expect 214 "no room for the weights, gradients and optimizer, " timeout 100 "$@" --metrics-file "$work/full.jsonl"
    grep -q "GB are free.*it would fit .*with --" "$work/out" && pass || fail "full: $name: no flags that would help"
    [ "$(grep -c "no room for" "$work/out")" = 1 ] && pass || fail "full: $name: not said once"
    within 100 has_ended "$work/full.jsonl" && pass || fail "full: $name: a rank is left"
    echo "full: $name: ended after $((SECONDS - start)) s: $(grep -m 1 -o "no room for the.*" "$work/out" | cut -c1-240)"
}

# fits SIZE BYTES FLAGS…: whether micro-batches of this size leave the context, and the fiftieth that is held for libraries.
fits() {
    local size=$1 bytes=$2 need
    shift 2
    need=$("$BEVATRON" train "$@" --micro-batch-size "$size" --global-batch-size "$size" --dry-run 2>&1 |
        sed -n 's/^memory of a rank: \([0-9.]*\) GB.*/\1/p')
    awk -v need="${need:-1e9}" -v bytes="$bytes" 'BEGIN { exit !(need * 1e9 <= (bytes - 1.2e9) * 0.975) }'
}

# 192 layers that keep only their inputs: most of the memory is activations, in tensors of fewer than 2^31 elements.
part_full() {
    local large=(--num-layers 24 --hidden-size 8192 --num-attention-heads 64 --seq-length 1024 --max-position-embeddings 1024 --bf16
        --train-iters 2 --eval-iters 0)
    local deep=("${small[@]}" "${no_dropout[@]}" --num-layers 192 --hidden-size 512 --num-attention-heads 8 --seq-length 512
        --max-position-embeddings 512 --bf16 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
        --train-iters 2 --eval-iters 0)
    local bytes most=1 step=256 start
    [ "${FEATURES_DEVICE:-cuda}" = cuda ] || { echo "full: left out, the CPU is promised more than it has"; return; }
    refused "one rank" "$BEVATRON" train "${small[@]}" "${large[@]}"
    refused "two ranks" "$BEVATRON" train "${small[@]}" "${large[@]}" --nproc 2
    bytes=$(free_bytes)
    while [ "$step" -gt 0 ]; do
        fits $((most + step)) "$bytes" "${deep[@]}" && most=$((most + step)) || step=$((step / 2))
    done
    start=$SECONDS
    expect 0 "iteration        2/" timeout 200 "$BEVATRON" train "${deep[@]}" --micro-batch-size "$most" --global-batch-size "$most"
    grep -q "lm loss: nan" "$work/out" && fail "full: not finite" || pass
    echo "full: micro-batches of $most in $((bytes / 1000000)) MB: $(grep -o "memory: weights.*" "$work/out"); two steps in $((SECONDS - start)) s"
}

# without NAME CODE TEXT: a short run that cannot find the library.
without() {
    expect "$2" "$3" env "BEVATRON_$1_LIBRARY=/nonexistent/library" timeout 200 "$BEVATRON" train "${small[@]}" "${no_dropout[@]}" \
        --num-layers 2 --seq-length 128 --max-position-embeddings 128 --bf16 --train-iters 3
    echo "libraries: without $1: $(grep -m 1 -E "error|warning|iteration  " "$work/out" | cut -c1-200)"
}

part_libraries() {
    [ "${FEATURES_DEVICE:-cuda}" = cuda ] || { echo "libraries: left out, the CPU needs none of them"; return; }
    ldd "$BEVATRON" | grep -E "libcuda|cublas|cudnn|nccl|nvrtc|libmpi" && fail "libraries: the program is linked with them" || pass
    expect 0 "" "$BEVATRON" version
    grep -q "missing" "$work/out" && echo "libraries: $(grep missing "$work/out")"
    without DRIVER 1 "libcuda"
    without CUBLASLT 1 "cuBLASLt"
    without CUDNN 0 "iteration        3/"
    without NVRTC 0 "iteration        3/"
    without NCCL 0 "iteration        3/"
}

for part in "$@"; do
    "part_$part"
done
finish
