#!/usr/bin/env bash
# Compares learning in different number formats, on a machine with a GPU: 500 steps of GPT-2 124M, 8 x 1024 tokens each, in
# bf16, then in fp16 with a dynamic loss scale, with fp8 matmuls and with Adam's moments in bf16 and fp8, from the same
# weights on the same batches:
#   bench/gpu_learning.sh [BUILD_FOLDER] [RUN…]        (build/gpu and all runs by default)
#   bf16 fp16 fp8-delayed fp8-tensorwise fp8-output (the output layer, too) fp8-fast (with fast input gradients, too)
#   moments-bf16 moments-fp8
# Prints the mean loss of the last tenth of the steps and the validation loss of each. Fails if the former is more than 1 % away
# from that of the first run, or the latter more than 1 % above it. Environment:
#   STEPS=500           steps of a run
#   DATA=PREFIX         a dataset (.bin and .idx, ids below 50257) instead of the demo's stories, which are generated and
#                       tokenized here, enough for one epoch
#   LEARNING_FLAGS=…    more flags of all runs
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/gpu}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- bf16 fp16 fp8-delayed fp8-tensorwise moments-bf16 moments-fp8
bevatron=$build/bevatron steps=${STEPS:-500} data=${DATA:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
[ -x "$bevatron" ] || { echo "gpu_learning.sh: there is no $bevatron" >&2; exit 1; }
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache}

# A token is four bytes of stories; a part is for validation.
make_data() {
    "$build/make_stories" --megabytes $((2 + steps * 40 / 1000)) --seed 1 >"$work/stories.jsonl" &&
        "$bevatron" tokenizer train --input "$work/stories.jsonl" --vocab-size 2048 --output-prefix "$work/stories" &&
        "$bevatron" preprocess --input "$work/stories.jsonl" --output-prefix "$work/stories" --append-eod \
            --tokenizer-type GPT2BPETokenizer --vocab-file "$work/stories-vocab.json" \
            --merge-file "$work/stories-merges.txt" --workers "$(nproc)"
}
if [ -z "$data" ]; then
    make_data >"$work/data.log" 2>&1 || { tail -n 5 "$work/data.log"; exit 1; }
    data=$work/stories_text_document
fi

# The vocabulary is GPT-2's whatever the text, so that the model is.
train=("$bevatron" train --preset gpt2-124m --vocab-size 50257 --data-path "$data" --data-cache-path "$work/index"
    --split 96,4,0 --attention-dropout 0 --hidden-dropout 0 --micro-batch-size 8 --global-batch-size 8 --lr 6e-4
    --min-lr 6e-5 --lr-decay-style cosine --lr-warmup-iters $((steps / 10)) --weight-decay 0.1 --adam-beta2 0.95
    --clip-grad 1.0 --train-iters "$steps" --log-interval 1 --eval-interval 1000000 --eval-iters 10 --device cuda)

# run NAME: the loss of every step that was not skipped into $work/NAME; of that and the output come the row's numbers,
# first loss, mean of the last, validation, skipped steps, last loss scale.
run() {
    local name=$1 format code=0 start=$SECONDS
    case $name in
    bf16) format=(--bf16) ;;
    fp16) format=(--fp16 --initial-loss-scale 65536 --loss-scale-window 100) ;;
    moments-*) format=(--bf16 --exp-avg-dtype "${name#moments-}" --exp-avg-sq-dtype "${name#moments-}") ;;
    fp8-output) format=(--bf16 --fp8-format hybrid --fp8-output-proj) ;;
    fp8-fast) format=(--bf16 --fp8-format hybrid --fp8-output-proj --fp8-fast-input-gradients) ;;
    fp8-*) format=(--bf16 --fp8-format hybrid --fp8-recipe "${name#fp8-}") ;;
    *) echo "gpu_learning.sh: there is no run $name" >&2; return 1 ;;
    esac
    # shellcheck disable=SC2086
    "${train[@]}" "${format[@]}" ${LEARNING_FLAGS:-} >"$work/$name.log" 2>&1 || code=$?
    took=$((SECONDS - start))
    sed -nE 's/.*iteration +([0-9]+)\/.*lm loss: ([^ ]+) .*/\1 \2/p' "$work/$name.log" >"$work/$name"
    numbers=$(awk -v steps="$steps" '
        FILENAME ~ /\.log$/ {
            if (match($0, /skipped iterations: +[0-9]+/)) { n = split(substr($0, RSTART, RLENGTH), word, " "); skipped += word[n] }
            if (match($0, /loss scale: +[0-9.]+/)) { n = split(substr($0, RSTART, RLENGTH), word, " "); scale = word[n] }
            if (match($0, /validation set.*value: [^ ]+/)) { n = split(substr($0, RSTART, RLENGTH), word, " "); valid = word[n] }
            next
        }
        first == "" { first = $2 }
        { last = $1 } $1 > steps - steps / 10 { sum += $2; count++ }
        END { if (valid == "" || last != steps || count * 20 < steps) exit 1
              printf "%.4f %.4f %.4f %d %.0f\n", first, sum / count, valid, skipped, scale }' "$work/$name.log" "$work/$name") ||
        code=${code/#0/1}
    [ "$code" = 0 ] && return 0
    echo "$name FAILED, status $code"
    tail -n 5 "$work/$name.log"
    return 1
}

echo "$steps steps; mean of the last $((steps / 10)); the distance is from $1"
printf '%-16s %8s %9s %9s %11s %9s %8s %11s %6s\n' "" first last distance validation distance skipped "loss scale" s
wanted=$1
for name in "$@"; do
    run "$name" || { failures=$((failures + 1)); continue; }
    [ "$name" != "$wanted" ] || reference=$numbers
    # A run that has learned nothing is near any other: the loss must have fallen by a third.
    awk -v name="$name" -v took="$took" -v row="$numbers" -v reference="${reference:-$numbers}" '
        BEGIN { split(row, a, " "); split(reference, b, " "); last = a[2] / b[2] - 1; valid = a[3] / b[3] - 1
                printf "%-16s %8s %9s %+7.2f %% %11s %+7.2f %% %8s %11s %6d\n", name, a[1], a[2], 100 * last, a[3], 100 * valid,
                    a[4], a[5], took
                exit !(last * last < 0.0001 && valid < 0.01 && a[2] < a[1] * 2 / 3) }' ||
        { echo "$name is too far from $wanted or has not learned"; failures=$((failures + 1)); }
done
echo "$failures failed"
exit $((failures > 0))
