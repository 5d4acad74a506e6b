#!/usr/bin/env bash
# Compares Adam's moments in fp8 with those in fp32 on a CPU: 500 steps of a small GPT, 16 x 64 tokens each, from the same
# weights on the same batches:
#   bench/moments.sh BEVATRON TEXT.jsonl [DTYPE…]        (fp8 nudged)
# Prints the mean training loss of the last 50 steps and the validation loss of each run, for both usual decays of the
# second moment (BETAS="0.95 0.999") and SEEDS="1 2 3". "nudged" is fp32 from initial weights 1.0005 times as large: what
# a small disturbance of any kind does to the loss. A run takes a minute on an idle core.
set -u
program=$(realpath "${1:?usage: bench/moments.sh BEVATRON TEXT.jsonl [DTYPE…]}") text=$(realpath "${2:?which text?}")
shift 2
[ $# -gt 0 ] || set -- fp8 nudged
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

# losses BETA2 SEED DTYPE: the two losses.
losses() {
    local dtype=$3 std=0.02
    [ "$dtype" != nudged ] || dtype=fp32 std=0.02001
    "$program" train --model gpt --num-layers 3 --hidden-size 128 --num-attention-heads 4 --seq-length 64 \
        --max-position-embeddings 64 --vocab-size 2048 --data-path "$text" --tokenizer-type auto --data-cache-path "$work" \
        --split 96,4,0 --micro-batch-size 16 --global-batch-size 16 --lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine \
        --lr-warmup-iters 50 --weight-decay 0.1 --adam-beta2 "$1" --clip-grad 1 --train-iters 500 --log-interval 50 \
        --eval-interval 1000000 --eval-iters 50 --seed "$2" --device cpu --threads 1 --init-method-std $std --exp-avg-dtype "$dtype" \
        --exp-avg-sq-dtype "$dtype" >"$work/log" 2>&1 || tail -n 3 "$work/log" >&2
    sed -nE 's/.*iteration +500\/.*lm loss: ([^ ]+) .*/\1/p; s/.*validation set.*lm loss value: ([^ ]+) .*/\1/p' "$work/log" |
        tr '\n' ' '
}

printf '%-8s %5s %6s %10s %11s %9s\n' beta2 seed dtype training validation distance
for beta2 in ${BETAS:-0.95 0.999}; do
    for seed in ${SEEDS:-1 2 3}; do
        read -r training wanted <<<"$(losses "$beta2" "$seed" fp32)"
        printf '%-8s %5s %6s %10.4f %11.4f\n' "$beta2" "$seed" fp32 "$training" "$wanted"
        for dtype in "$@"; do
            read -r training found <<<"$(losses "$beta2" "$seed" "$dtype")"
            printf '%-8s %5s %6s %10.4f %11.4f %8.2f%%\n' "$beta2" "$seed" "$dtype" "$training" "$found" \
                "$(awk -v a="$found" -v b="$wanted" 'BEGIN { print 100 * (a / b - 1) }')"
        done
    done
done
