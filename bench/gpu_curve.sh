#!/usr/bin/env bash
# The same run on the CPU and on the GPU: the loss curves must lie on each other.
#   bench/gpu_curve.sh [BUILD_FOLDER] [ITERATIONS]        (build/gpu and 200 by default)
# Makes a dataset of the demo's stories, trains the demo's model on it with the CPU backend in fp32 and in bf16, then with
# CUDA in both, and on two ranks that share the GPU through host memory where there is MPI. Prints the largest relative
# difference of a loss and fails where it is above 1e-4 in fp32. What bf16 itself does to the curve is between the two CPU
# runs: its steep part answers rounding as it answers any small disturbance, so with bf16 the means of 20 losses are
# compared, within 2 %. The GPU rounds more (the weights of attention).
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/gpu} iterations=${2:-200} vocabulary=2048
bevatron=$build/bevatron
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

"$build/make_stories" --megabytes 2 --seed 1 >"$work/stories.jsonl" &&
    "$bevatron" tokenizer train --input "$work/stories.jsonl" --vocab-size $vocabulary --output-prefix "$work/stories" &&
    "$bevatron" preprocess --input "$work/stories.jsonl" --output-prefix "$work/stories" --append-eod \
        --tokenizer-type GPT2BPETokenizer --vocab-file "$work/stories-vocab.json" \
        --merge-file "$work/stories-merges.txt" --workers "$(nproc)" || exit 1
prefix=$work/stories_text_document

train=("$bevatron" train --vocab-size "$vocabulary" --data-path "$prefix" --data-cache-path "$work/cache" --split 98,2,0
    --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128
    --attention-dropout 0.1 --hidden-dropout 0.1 --make-vocab-size-divisible-by 64 --micro-batch-size 4
    --global-batch-size 8 --lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine --lr-warmup-iters 20 --clip-grad 1.0
    --train-iters "$iterations" --log-interval 1 --eval-interval 1000 --eval-iters 5)

# curve NAME command…: keeps iteration and loss of every line.
curve() {
    local name=$1 start=$SECONDS
    shift
    if ! "$@" >"$work/$name.log" 2>&1; then
        echo "$name FAILED"
        tail -n 5 "$work/$name.log"
        failures=$((failures + 1))
        return 1
    fi
    sed -nE 's/.*iteration +([0-9]+)\/.*lm loss: ([^ ]+) .*/\1 \2/p' "$work/$name.log" >"$work/$name"
    sed -nE 's/.*validation loss at.*value: ([^ ]+) .*/validation \1/p' "$work/$name.log" | tail -n 1 >>"$work/$name"
    echo "$name: $((SECONDS - start)) s, first $(head -n 1 "$work/$name"), last $(tail -n 2 "$work/$name" | tr '\n' ' ')"
}

# means FILE: of every 20 losses.
means() {
    awk '$1 != "validation" { sum += $2; if (++n % 20 == 0) { print n, sum / 20; sum = 0 } } $1 == "validation"' "$1"
}

# compare NAME REFERENCE BOUND FILTER: the filter is cat or means.
compare() {
    paste <("$4" "$work/$2") <("$4" "$work/$1") | awk -v bound="$3" -v name="$1 beside $2" '
        { d = ($2 - $4) / $2; if (d < 0) d = -d; if ($1 != $3) bad = 1; if (d > most) { most = d; where = $1 } n++ }
        END { printf "%s: largest relative difference %.2e at %s of %d\n", name, most, where, n
              exit bad || n < 2 || most > bound }' || { echo "$1 differs from $2"; failures=$((failures + 1)); }
}

curve cpu "${train[@]}" --device cpu --threads "$(nproc)"
curve cpu-bf16 "${train[@]}" --device cpu --threads "$(nproc)" --bf16 && compare cpu-bf16 cpu 2e-2 means
curve cuda-fp32 "${train[@]}" --device cuda && compare cuda-fp32 cpu 1e-4 cat
curve cuda-bf16 "${train[@]}" --device cuda --bf16 && compare cuda-bf16 cpu-bf16 2e-2 means
if command -v mpirun >/dev/null && "$bevatron" version | grep -q "MPI *yes"; then
    curve cuda-2-ranks bash tests/parallel/mpirun.sh 2 "${train[@]}" --device cuda && compare cuda-2-ranks cpu 1e-4 cat
fi
cmp -s "$work/cpu" "$work/cuda-fp32" && echo "(cpu and cuda-fp32 are equal to the last digit printed)"
echo "$failures failed"
exit $((failures > 0))
