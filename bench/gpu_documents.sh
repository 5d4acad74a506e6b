#!/usr/bin/env bash
# Times training on rows of packed documents that do not see each other (--reset-attention-mask), on any device:
#   bench/gpu_documents.sh BEVATRON [FLAGS…]
# Prints a table: tokens of a document, milliseconds of a step without the mask and with it, and of as many tokens with
# each document in a row of its own. The default model is a
# Llama of 4 layers × 2048 in bf16 with rows of 32,768 tokens. From the environment:
#   ROW=32768              tokens of a row
#   LENGTHS="32768 8192 2048 512"   tokens of a document
#   STEPS=6                steps of a run; the last three are timed
set -u
cd "$(dirname "$0")/.." || exit 1
program=${1:?usage: bench/gpu_documents.sh BEVATRON [FLAGS…]}
shift
[ $# -gt 0 ] || set -- --model llama --num-layers 4 --hidden-size 2048 --num-attention-heads 16 --ffn-hidden-size 5632 \
    --bf16 --recompute-granularity full
row=${ROW:-32768} steps=${STEPS:-6}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ms LENGTH FLAGS…: rows of this length; the mean of the last three steps' times.
ms() {
    local length=$1
    shift
    "$program" train --data-path "$work/data_text_document" --tokenizer-type NullTokenizer --vocab-size 1000 \
        --seq-length "$length" --max-position-embeddings "$length" --micro-batch-size $((row / length)) \
        --global-batch-size $((row / length)) --lr 1e-4 \
        --train-iters "$steps" --log-interval 1 --eval-iters 0 --split 1 "$@" >"$work/log" 2>&1 ||
        { tail -n 3 "$work/log" >&2; return 1; }
    grep -o "elapsed time per iteration (ms): [0-9.]*" "$work/log" | tail -n 3 |
        awk '{ sum += $NF } END { printf "%.1f", sum / NR }'
}

echo "| tokens of a document | ms a step, one text | ms a step, documents apart | ms a step, a row each |"
echo "|---:|---:|---:|---:|"
for length in ${LENGTHS:-32768 8192 2048 512}; do
    # A document ends with a token of its own.
    awk -v length_="$length" -v all="$((row * (steps + 2)))" 'BEGIN {
        srand(1)
        for (done = 0; done < all; done += length_) {
            printf "{\"text\": \""
            for (i = 1; i < length_; i++) printf "%d ", int(rand() * 900) + 1
            print "\"}"
        } }' >"$work/text.jsonl"
    "$program" preprocess --input "$work/text.jsonl" --output-prefix "$work/data" --tokenizer-type NullTokenizer \
        --vocab-size 1000 --append-eod --workers 4 >"$work/log" 2>&1 || { tail -n 3 "$work/log"; exit 1; }
    echo "| $length | $(ms "$row" "$@") | $(ms "$row" "$@" --reset-attention-mask --reset-position-ids) | $(ms "$length" "$@") |"
    rm -rf "$work"/data*
done
