#!/usr/bin/env bash
# Runs the same training on the CPU and on the GPU and compares the loss curves:
#   bench/gpu_curve.sh [BUILD_FOLDER] [ITERATIONS] [PART…]        (build/gpu, 200 and all parts by default)
#   curves     the demo's model on a dataset of its stories: on the CPU in fp32 and bf16, then with CUDA in both, and with MPI on
#              two ranks that share the GPU through host memory; also without dropout, where bf16 attention on the GPU is cuDNN's
#   families   20 iterations each of a GPT, a Llama, a BERT and a T5 without dropout, on the CPU in fp32, then with CUDA in fp32,
#              bf16 and fp16
# Prints the largest relative difference of a loss and fails if it is above 1e-4 in fp32. The two CPU runs show the effect of
# bf16 itself: the steep part of the curve amplifies rounding like any small disturbance. So in bf16 the means of 20 losses are
# compared, within 2 %, and those of single iterations are only printed. The GPU rounds more (the weights of attention). In the
# families' 20 iterations, whose rate is low, each loss counts: within 5e-3 in bf16 and 1e-3 in fp16, where the formats alone,
# on the CPU, account for 1.5e-3 and 9e-5. Runs go side by side, those on the CPU with a part of its threads.
# CURVE_DEVICE=cpu tests the script without a GPU.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/gpu} iterations=${2:-200} vocabulary=2048
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- curves families
bevatron=$build/bevatron gpu=${CURVE_DEVICE:-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
cpu=(--device cpu --threads $((($(nproc) + 2) / 3)))

# curve NAME command…: keeps iteration and loss of every line.
curve() {
    local name=$1 start=$SECONDS
    shift
    if ! "$@" >"$work/$name.log" 2>&1 </dev/null; then
        echo "$name FAILED"
        tail -n 5 "$work/$name.log"
        return 1
    fi
    sed -nE 's/.*iteration +([0-9]+)\/.*lm loss: ([^ ]+) .*/\1 \2/p' "$work/$name.log" >"$work/$name.losses"
    sed -nE 's/.*validation set \| lm loss value: ([^ ]+) .*/validation \1/p' "$work/$name.log" >>"$work/$name.losses"
    echo "$name: $((SECONDS - start)) s, first $(head -n 1 "$work/$name.losses"), last $(tail -n 2 "$work/$name.losses" | tr '\n' ' ')"
    mv "$work/$name.losses" "$work/$name"
}

# means FILE: of every 20 losses.
means() {
    awk '$1 != "validation" { sum += $2; if (++n % 20 == 0) { print n, sum / 20; sum = 0 } } $1 == "validation"' "$1"
}

# compare NAME REFERENCE BOUND FILTER: the filter is cat or means.
compare() {
    [ -f "$work/$1" ] && [ -f "$work/$2" ] &&
        paste <("$4" "$work/$2") <("$4" "$work/$1") | awk -v bound="$3" -v name="$1 beside $2" -v of="$4" '
            { d = ($2 - $4) / $2; if (d < 0) d = -d; if ($1 != $3) bad = 1; if (d > most) { most = d; where = $1 } n++ }
            END { printf "%s: largest relative difference %.2e at %s of %d%s\n", name, most, where, n,
                      of == "means" ? " means of 20" : ""
                  exit bad || n < 2 || most > bound }' || { echo "$1 differs from $2"; failures=$((failures + 1)); }
}

part_curves() {
    local train plain ranks=
    "$build/make_stories" --megabytes 2 --seed 1 >"$work/stories.jsonl" &&
        "$bevatron" tokenizer train --input "$work/stories.jsonl" --vocab-size $vocabulary --output-prefix "$work/stories" &&
        "$bevatron" preprocess --input "$work/stories.jsonl" --output-prefix "$work/stories" --append-eod \
            --tokenizer-type GPT2BPETokenizer --vocab-file "$work/stories-vocab.json" \
            --merge-file "$work/stories-merges.txt" --workers "$(nproc)" || exit 1
    train=("$bevatron" train --vocab-size "$vocabulary" --data-path "$work/stories_text_document"
        --data-cache-path "$work/cache" --split 98,2,0
        --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128
        --attention-dropout 0.1 --hidden-dropout 0.1 --make-vocab-size-divisible-by 64 --micro-batch-size 4
        --global-batch-size 8 --lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine --lr-warmup-iters $((iterations / 10)) --clip-grad 1.0
        --train-iters "$iterations" --log-interval 1 --eval-interval 1000 --eval-iters 5)
    plain=("${train[@]}" --attention-dropout 0 --hidden-dropout 0)
    command -v mpirun >/dev/null && "$bevatron" version | grep -q "MPI *yes" && ranks=yes
    curve cpu "${train[@]}" "${cpu[@]}" &
    curve cpu-bf16 "${train[@]}" "${cpu[@]}" --bf16 &
    curve cpu-plain "${plain[@]}" "${cpu[@]}" &
    curve cuda-fp32 "${train[@]}" --device "$gpu"
    curve cuda-bf16 "${train[@]}" --device "$gpu" --bf16
    curve cuda-bf16-plain "${plain[@]}" --device "$gpu" --bf16
    [ -z "$ranks" ] || curve cuda-2-ranks bash tests/parallel/mpirun.sh 2 "${train[@]}" --device "$gpu"
    wait
    compare cuda-fp32 cpu 1e-4 cat
    [ -z "$ranks" ] || compare cuda-2-ranks cpu 1e-4 cat
    compare cpu-bf16 cpu 2e-2 means
    compare cuda-bf16 cpu-bf16 2e-2 means
    compare cuda-bf16 cpu 2e-2 means
    compare cuda-bf16-plain cpu-plain 2e-2 means
    echo "Single iterations, which have no bound:"
    compare cpu-bf16 cpu 1e9 cat
    compare cuda-bf16 cpu 1e9 cat
    compare cuda-bf16-plain cpu-plain 1e9 cat
    cmp -s "$work/cpu" "$work/cuda-fp32" && echo "(cpu and cuda-fp32 are equal to the last digit printed)"
}

# family NAME FLAGS…: its four runs. A constant loss scale, so that no step is skipped.
family() {
    local name=$1 train
    shift
    train=("$bevatron" train --mock-data --tokenizer-type NullTokenizer --vocab-size 997 --make-vocab-size-divisible-by 8
        --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 256 --max-position-embeddings 256
        --attention-dropout 0 --hidden-dropout 0 --micro-batch-size 2 --global-batch-size 4 --lr 3e-4 --clip-grad 1.0
        --train-iters 20 --log-interval 1 --eval-interval 1000 --eval-iters 2 "$@")
    curve "$name-cpu" "${train[@]}" "${cpu[@]}" &
    curve "$name-fp32" "${train[@]}" --device "$gpu"
    curve "$name-bf16" "${train[@]}" --device "$gpu" --bf16
    curve "$name-fp16" "${train[@]}" --device "$gpu" --fp16 --loss-scale 4096
    wait
}

part_families() {
    local name
    family gpt &
    family llama --swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights \
        --disable-bias-linear --group-query-attention --num-query-groups 2 &
    family bert --model bert --norm-placement post --num-token-types 2 &
    family t5 --model t5 --num-layers 2 --decoder-seq-length 128 --position-embedding-type relative &
    wait
    for name in gpt llama bert t5; do
        compare "$name-fp32" "$name-cpu" 1e-4 cat
        compare "$name-bf16" "$name-cpu" 5e-3 cat
        compare "$name-fp16" "$name-cpu" 1e-3 cat
    done
}

for part in "$@"; do
    "part_$part"
done
echo "$failures failed"
exit $((failures > 0))
