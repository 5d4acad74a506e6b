#!/usr/bin/env bash
# Samples over time: texts from the weights of the moment, the same that `generate` makes of a checkpoint, in metrics.jsonl
# and on the console; training is the same to the bit with and without them. And the JSON of generate and evaluate.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh
model=(--tokenizer-type NullTokenizer --vocab-size 97 --make-vocab-size-divisible-by 1 --num-layers 2 --hidden-size 32
    --num-attention-heads 4 --seq-length 16 --max-position-embeddings 32 --device cpu --threads 2)
train=("$BEVATRON" train "${model[@]}" --mock-data --micro-batch-size 2 --global-batch-size 4 --lr 1e-2 --init-method-std 0.5
    --hidden-dropout 0.1 --attention-dropout 0.1 --train-iters 6 --save-interval 6 --eval-interval 3 --eval-iters 1 --log-interval 1)

expect 0 "iteration" "${train[@]}" --save "$work/plain"
grep -o "lm loss: [^ ]*" "$work/out" >"$work/plain_losses"
expect 0 " sample at iteration 6 | " "${train[@]}" --save "$work/sampled" --sample-interval 2 --sample-prompt "1 2 3" "8 9" --sample-tokens 24
grep -o "lm loss: [^ ]*" "$work/out" >"$work/sampled_losses"
expect_same "$work/plain_losses" "$work/sampled_losses" "losses with and without samples"
for file in $(cd "$work/plain" && find . -name '*.safetensors'); do
    expect_same "$work/plain/$file" "$work/sampled/$file" "weights and optimizer with and without samples"
done
[ "$(grep -c '"kind":"sample"' "$work/sampled/metrics.jsonl")" = 6 ] && pass || fail "six samples in metrics.jsonl"
grep -qE '^\{"kind":"sample","time":[0-9.]+,"iteration":2,"prompt":"1 2 3","text":"[^"]+"\}$' "$work/sampled/metrics.jsonl" &&
    pass || fail "a line of kind sample"

# What generate makes of the checkpoint.
for prompt in "1 2 3" "8 9"; do
    sample=$(sed -nE "s/.*\"iteration\":6,\"prompt\":\"$prompt\",\"text\":\"(.*)\"\}$/\1/p" "$work/sampled/metrics.jsonl")
    expect 0 "$prompt$sample" "$BEVATRON" generate --load "$work/sampled" --device cpu --threads 2 --prompt "$prompt" --max-new-tokens 24 \
        --temperature 0.8
    [ -n "$sample" ] && pass || fail "no sample of \"$prompt\""
done

# Without a prompt a document begins; the likeliest tokens; a resumed run continues.
expect 0 ' sample at iteration 8 | "" | "' "${train[@]}" --train-iters 8 --load "$work/sampled" --save "$work/sampled" --sample-interval 4 \
    --sample-temperature 0 --override-opt_param-scheduler

# Refused with the reason.
expect 2 "--sample-interval belongs to --model gpt, models that continue a text" "${train[@]}" --model t5 --decoder-seq-length 8 --sample-interval 2
expect 2 "--sample-interval does not work with --context-parallel-size" "${train[@]}" --context-parallel-size 2 --sample-interval 2
expect 0 "--sample-prompt has no effect without --sample-interval" "${train[@]}" --sample-prompt x
expect 215 "--sample-prompt \"4711\": byte 0" "${train[@]}" --sample-interval 2 --sample-prompt 4711

# generate --json: one object per sample, the text without its prompt.
expect 0 '' "$BEVATRON" generate --load "$work/sampled" --device cpu --prompt "1 2 3" --max-new-tokens 5 --num-samples 2 --greedy --json
grep -v '^{' "$work/out" >"$work/said"
grep '^{' "$work/out" >"$work/objects"
[ "$(wc -l <"$work/objects")" = 2 ] && pass || fail "an object for each sample"
grep -qE '^\{"prompt":"1 2 3","text":" [0-9 ]+","sample":0,"seed":1234,"prompt_tokens":3,"tokens":5,"is_ended":false,"seconds":[0-9.e-]+\}$' \
    "$work/objects" && pass || fail "the members of an object"
text=$(sed -nE 's/.*"sample":1.*/&/p' "$work/objects" | sed -nE 's/.*"text":"([^"]*)".*/\1/p')
expect 0 "1 2 3$text" "$BEVATRON" generate --load "$work/sampled" --device cpu --prompt "1 2 3" --max-new-tokens 5 --greedy
printf '4 5\n\n6\n' | "$BEVATRON" generate --load "$work/sampled" --device cpu --max-new-tokens 3 --json 2>/dev/null >"$work/objects"
[ "$(grep -c '^{"prompt":' "$work/objects")" = 3 ] && pass || fail "an object for each line of standard input"

# evaluate: the batch that is chosen gives the result of any other; its JSON has the same members.
seq 1 900 | awk '{ printf "%d ", $1 % 90 }' >"$work/text.txt"
loss() { sed -nE 's/.*"loss": ?([0-9.e+-]+).*/\1/p' "$work/out"; }
expect 0 '"perplexity":' "$BEVATRON" evaluate --load "$work/sampled" --device cpu --text "$work/text.txt" --json
chosen=$(loss)
grep -qE '^\{"loss":[0-9.]+,"perplexity":[0-9.]+,"tokens":899,"samples":57,"words":900,"word_perplexity":[0-9.]+\}$' "$work/out" &&
    pass || fail "the members of evaluate's JSON"
expect 0 '"perplexity":' "$BEVATRON" evaluate --load "$work/sampled" --device cpu --text "$work/text.txt" --json --micro-batch-size 1
awk -v a="$chosen" -v b="$(loss)" 'BEGIN { exit !(a > 0 && a / b < 1.000001 && b / a < 1.000001) }' && pass ||
    fail "loss $chosen of the chosen batch, $(loss) of single samples"
finish
