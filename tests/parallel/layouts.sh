# Sourced by tests that run the program on some layouts of ranks: a table of axes, and the comparison of a run with that
# of one rank. All layouts are tested without the program, see tests/layouts. Needs tests/cli/common.sh.
: "${COMPARE_WEIGHTS:=$(dirname "$BEVATRON")/tests/compare_weights}"

# Axis, the values tested, and the flag for a value other than the first one ("%" is the value).
axes=(
    "tp   1 2 4 8                  --tensor-model-parallel-size %"
    "pp   1 2 4 8                  --pipeline-model-parallel-size %"
    "cp   1 2 4 8                  --context-parallel-size %"
    "dp   1 2 4 8                  "
    "ep   1 2 4 8                  --expert-model-parallel-size %"
    "etp  tp 1 2 4                 --expert-tensor-parallel-size %"
    "vp   1 2 4                    --num-virtual-stages-per-pipeline-rank %"
    "zb   no yes                   --pipeline-schedule zero-bubble"
    "sp   no yes                   --sequence-parallel"
    "zero no yes                   --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-num-buckets 7"
    "re   none selective full      --recompute-granularity %"
)

layers=8
# Without a larger epsilon, gradients that are only rounding (of key biases) would move weights by whole learning rates.
training=(--mock-data --hidden-size 32 --num-attention-heads 8 --seq-length 32 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 16 --lr 1e-3
    --adam-eps 1e-3 --clip-grad 0.5 --log-interval 1 --eval-interval 10 --eval-iters 1 --threads 1 --log-params-norm
    --hidden-dropout 0.1 --attention-dropout 0.1 --train-iters 20 --save-interval 20 --no-save-optim)

# model_flags MODEL: sets the array `model`.
model_flags() {
    case $1 in
    gpt) model=(--num-layers $layers) ;;
    llama) model=(--num-layers $layers --swiglu --normalization RMSNorm --position-embedding-type rope
        --untie-embeddings-and-output-weights --disable-bias-linear --ffn-hidden-size 64) ;;
    bert) model=(--num-layers $layers --model bert --norm-placement post --num-token-types 2) ;;
    t5) model=(--num-layers $((layers / 2)) --model t5 --decoder-seq-length 16 --position-embedding-type relative) ;;
    umt5) model=(--num-layers $((layers / 2)) --model t5 --decoder-seq-length 16 --position-embedding-type relative
        --relative-attention-per-layer) ;;
    esac
}

# layout "tp=2 sp=yes": axes that are not given have their first value. Sets `ranks` and the array `flags`.
layout() {
    local axis name values flag value
    ranks=1
    flags=()
    for axis in "${axes[@]}"; do
        read -r name values <<<"${axis%%  --*}"
        flag=${axis#*  --}
        value=${values%% *}
        case " $1 " in *" $name="*) value=${1##*"$name="} value=${value%% *} ;; esac
        case $name in tp | pp | cp | dp) ranks=$((ranks * value)) ;; esac
        [ "$name" = dp ] || [ "$value" = "${values%% *}" ] || flags+=($(echo "--${flag//%/$value}"))
    done
}

# run MODEL LAYOUT: trains; the log of each iteration, without times, goes to $work/log, the weights to $work/saved.
run() {
    model_flags "$1"
    layout "$2"
    rm -rf "$work/saved"
    expect 0 "iteration       20/" bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "${training[@]}" "${model[@]}" \
        "${flags[@]}" --save "$work/saved"
    grep -oE "iteration +[0-9]+/|lm loss: [^|]*|sop loss: [^|]*|grad norm: [^|]*|params norm: [^|]*|lm loss value: [^|]*" \
        "$work/out" >"$work/log"
}

# run_first MODEL: on one rank, as the reference for the others.
run_first() {
    run "$1" ""
    mv "$work/log" "$work/$1.log"
    mv "$work/saved" "$work/$1.saved"
}

# run_same MODEL LAYOUT: losses and weights equal those of one rank within one part in a hundred thousand. Norms are
# printed with three decimals.
run_same() {
    run "$1" "$2"
    paste -d' ' "$work/$1.log" "$work/log" | awk '{
            n = NF / 2; d = $n - $NF; d = d < 0 ? -d : d; most = 1e-5 * $n + 0.001 * ($1 == "grad" || $1 == "params")
            bad = bad || ($n + 0 == $n && d > most); rows++
        } END { exit bad || rows < 60 }' && [ "$(wc -l <"$work/$1.log")" = "$(wc -l <"$work/log")" ] && pass ||
        fail "$1 with $2: losses differ"
    "$COMPARE_WEIGHTS" "$work/$1.saved/iter_0000020" "$work/saved/iter_0000020" 1e-5 >"$work/out" 2>&1 && pass ||
        fail "$1 with $2: weights differ"
}
