#!/usr/bin/env bash
# Times `evaluate --tasks hellaswag` on GPT-2 124M in bf16, on a machine with a GPU:
#   bench/gpu_tasks.sh [BUILD_FOLDER] [MICRO_BATCH_SIZE…]        (build/gpu, 16 and 64 by default)
# The weights are random, and the 10,042 documents have HellaSwag's shape but are made of words of docs/*.md: contexts of 20 to
# 90 words, four endings of 8 to 35. Prints the seconds of the whole command. TASKS_VOCAB and TASKS_MERGES name GPT-2's
# vocab.json and merges.txt; the small vocabulary of the tests cuts these words into several times as many tokens, and says so.
# TASKS_DOCUMENTS is the number of documents, TASKS_DEVICE=cpu tests the script without a GPU.
set -eu
cd "$(dirname "$0")/.."
bevatron=$PWD/${1:-build/gpu}/bevatron
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 16 64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/hellaswag"
python3 - "$work/hellaswag/validation.jsonl" "${TASKS_DOCUMENTS:-10042}" <<'EOF'
import glob
import json
import random
import sys

random.seed(1)
words = [w for name in sorted(glob.glob("docs/*.md")) for w in open(name, encoding="utf-8").read().split() if w.isalpha()]


def text(least, most):
    count = random.randint(least, most)
    first = random.randrange(len(words) - count)
    return " ".join(words[first : first + count])


with open(sys.argv[1], "w", encoding="utf-8") as out:
    for _ in range(int(sys.argv[2])):
        document = {"activity_label": text(2, 4), "ctx_a": text(18, 80) + ".", "ctx_b": text(2, 8)}
        document |= {"endings": [text(8, 35) + "." for _ in range(4)], "label": str(random.randrange(4))}
        out.write(json.dumps(document) + "\n")
EOF
tokenizer=(--vocab-file "${TASKS_VOCAB:-tests/golden/bpe/vocab.json}" --merge-file "${TASKS_MERGES:-tests/golden/bpe/merges.txt}")
[ -n "${TASKS_VOCAB:-}" ] || echo "gpu_tasks: TASKS_VOCAB and TASKS_MERGES are not given: the vocabulary of the tests, several times as many tokens"
head -c 100000 docs/flags.md | python3 -c 'import json, sys; print(json.dumps({"text": sys.stdin.read()}))' >"$work/text.jsonl"
"$bevatron" train --preset gpt2-124m "${tokenizer[@]}" --data-path "$work/text.jsonl" --split 1,0,0 --eval-iters 0 --bf16 --lr 1e-9 \
    --train-iters 1 --micro-batch-size 1 --global-batch-size 1 --device "${TASKS_DEVICE:-cuda}" --save "$work/run" --save-interval 1 >"$work/out" 2>&1 ||
    { tail -n 20 "$work/out"; exit 1; }
for size in "$@"; do
    started=$(date +%s.%N)
    "$bevatron" evaluate --load "$work/run" --device "${TASKS_DEVICE:-cuda}" --bf16 --tasks hellaswag --task-data "$work" --micro-batch-size "$size" 2>"$work/out" ||
        { tail -n 20 "$work/out"; exit 1; }
    awk -v size="$size" -v started="$started" -v ended="$(date +%s.%N)" 'BEGIN { printf "micro-batch size %d: %.1f s\n", size, ended - started }'
done
