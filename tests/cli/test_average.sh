#!/usr/bin/env bash
# checkpoint average as a user calls it: what it writes can be evaluated, converted and trained on; hostile flags.
# cost: 3
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

model=(--mock-data --vocab-size 97 --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 17
    --max-position-embeddings 20 --micro-batch-size 2 --lr 1e-3 --lr-warmup-iters 0 --device cpu --threads 1
    --eval-iters 0 --log-interval 1 --ffn-hidden-size 40 --position-embedding-type rope --normalization RMSNorm --swiglu
    --disable-bias-linear --untie-embeddings-and-output-weights)
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" --bf16 --train-iters 6 --save "$work/run" --save-interval 2
average=("$BEVATRON" checkpoint average --input)
expect 0 "the average of 3 checkpoints → $work/a, iteration 6" "${average[@]}" "$work/run" --last 3 --output "$work/a"
expect 0 "the average of 3 checkpoints" "${average[@]}" "$work/run" --ckpt-step 6 2 4 --output "$work/b"
expect_same "$work/a/iter_0000006/model.safetensors" "$work/b/iter_0000006/model.safetensors" "--last 3 and --ckpt-step"
[ ! -e "$work/a/iter_0000006/optimizer.safetensors" ] && pass || fail "an average has an optimizer"
expect 0 "iter_0000006: whole" "$BEVATRON" checkpoint verify "$work/a"
expect 0 "validation loss" "$BEVATRON" train "${model[@]}" --train-iters 1 --load "$work/a" --finetune --skip-train --eval-iters 1
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/a" --output "$work/hf" --family llama
expect 0 "iteration        1/       1" "$BEVATRON" train "${model[@]}" --train-iters 1 --load "$work/a" --finetune
expect 0 "fp32" "${average[@]}" "$work/run" --last 2 --output "$work/c" --dtype fp32 --help

expect 2 "an average needs at least two checkpoints" "${average[@]}" "$work/run" --output "$work/d"
expect 2 "--ckpt-step x is not an iteration" "${average[@]}" "$work/run" --ckpt-step x --output "$work/d"
expect 216 "there is no checkpoint" "${average[@]}" "$work/run" --ckpt-step 2 3 --output "$work/d"
expect 1 "has 3 checkpoints, not 4" "${average[@]}" "$work/run" --last 4 --output "$work/d"
expect 2 "exclude each other" "${average[@]}" "$work/run" --last 2 --ckpt-step 2 --output "$work/d"
expect 2 "give the checkpoints" "$BEVATRON" checkpoint average --output "$work/d"
expect 1 "is a model of another program" "${average[@]}" "$work/run" "$work/hf" --last 2 --output "$work/d"
expect 1 "is named twice" "${average[@]}" "$work/run" "$work/run/iter_0000006" --last 2 --output "$work/d"
expect 1 "--output" "${average[@]}" "$work/run" --last 2 --output "$work/a"
expect 0 "iteration        2/       2" "$BEVATRON" train "${model[@]}" --hidden-size 24 --train-iters 2 --save "$work/other"
expect 1 "different models: --hidden-size" "${average[@]}" "$work/run" "$work/other" --output "$work/d"
expect 0 "iteration        2/       2" "$BEVATRON" train "${model[@]}" --num-experts 4 --moe-router-topk 2 --train-iters 2 \
    --moe-router-score-function sigmoid --moe-router-enable-expert-bias --save "$work/biased" --save-interval 1
expect 0 "the average of 2 checkpoints" "${average[@]}" "$work/biased" --last 2 --output "$work/balanced"
expect 0 "iteration        1/       1" "$BEVATRON" train "${model[@]}" --num-experts 4 --moe-router-topk 2 --train-iters 1 \
    --moe-router-score-function sigmoid --moe-router-enable-expert-bias --load "$work/balanced" --finetune
printf x | dd of="$work/run/iter_0000004/model.safetensors" bs=1 seek=2000 conv=notrunc status=none
expect 1 "its bytes have changed" "${average[@]}" "$work/run" --last 2 --output "$work/d"
[ ! -e "$work/d" ] && pass || fail "a refused average leaves something"
finish
