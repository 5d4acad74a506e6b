#!/usr/bin/env bash
# Compares fp8 recipes with bf16 on a CPU, which emulates them: 500 steps of a small GPT, 16 x 64 tokens each, from the
# same weights on the same batches:
#   bench/fp8_recipes.sh BEVATRON TEXT.jsonl [RECIPE…]        (blockwise mxfp8; delayed and tensorwise take much longer)
# Prints the mean training loss of the last 50 steps and the validation loss of each run, and how far it is from bf16's,
# for each seed of SEEDS="1 2 3". A run by blocks takes some minutes on a core.
set -u
program=$(realpath "${1:?usage: bench/fp8_recipes.sh BEVATRON TEXT.jsonl [RECIPE…]}") text=$(realpath "${2:?which text?}")
shift 2
[ $# -gt 0 ] || set -- blockwise mxfp8
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

# losses SEED FLAGS…: the two losses.
losses() {
    "$program" train --model gpt --num-layers 2 --hidden-size 128 --num-attention-heads 4 --seq-length 64 \
        --max-position-embeddings 64 --vocab-size 2048 --data-path "$text" --tokenizer-type auto --data-cache-path "$work" \
        --split 96,4,0 --micro-batch-size 16 --global-batch-size 16 --lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine \
        --lr-warmup-iters 50 --weight-decay 0.1 --clip-grad 1 --train-iters 500 --log-interval 50 --bf16 \
        --eval-interval 1000000 --eval-iters 50 --device cpu --threads 1 --seed "$@" >"$work/log" 2>&1 ||
        tail -n 3 "$work/log" >&2
    sed -nE 's/.*iteration +500\/.*lm loss: ([^ ]+) .*/\1/p; s/.*validation set.*lm loss value: ([^ ]+) .*/\1/p' "$work/log" |
        tr '\n' ' '
}

printf '%5s %-11s %10s %9s %11s %9s\n' seed recipe training distance validation distance
for seed in ${SEEDS:-1 2 3}; do
    read -r training validation <<<"$(losses "$seed")"
    printf '%5s %-11s %10.4f %9s %11.4f\n' "$seed" bf16 "$training" "" "$validation"
    for recipe in "$@"; do
        format=e4m3
        case $recipe in delayed | tensorwise) format=hybrid ;; esac
        read -r trained found <<<"$(losses "$seed" --fp8-format "$format" --fp8-recipe "$recipe")"
        awk -v seed="$seed" -v recipe="$recipe" -v a="$trained" -v b="$found" -v x="$training" -v y="$validation" 'BEGIN {
            printf "%5s %-11s %10.4f %8.2f%% %11.4f %8.2f%%\n", seed, recipe, a, 100 * (a / x - 1), b, 100 * (b / y - 1) }'
    done
done
