#!/bin/bash
# The demo behind `make demo`: from nothing to a small language model that writes, on the CPU, in a few minutes.
# Stories are made, a tokenizer is trained on them, they become a dataset, a GPT of about a million parameters learns
# from it for about two minutes on two cores, and its text before and after is shown. Everything stays in ./demo.
#
# Settings, from the environment: DEMO_FOLDER (demo), DEMO_ITERS (iterations), DEMO_MEGABYTES (size of the corpus),
# BEVATRON and MAKE_STORIES (the two programs).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

bevatron=${BEVATRON:-build/release/bevatron}
make_stories=${MAKE_STORIES:-build/release/make_stories}
folder=${DEMO_FOLDER:-demo}
iterations=${DEMO_ITERS:-1700}
megabytes=${DEMO_MEGABYTES:-8}
prompt="Once upon a time, there was a little"

for program in "$bevatron" "$make_stories"; do
    [ -x "$program" ] || { echo "demo: $program is not built; run make first" >&2; exit 1; }
done

title() {
    printf '\n\033[1m%s\033[0m\n' "$1"
}

# Says a command before running it, so that the reader can type it again. Colours only where there is a terminal.
run() {
    local shown
    printf -v shown ' %q' "$@"
    printf '$%s\n' "$shown"
    "$@"
}
[ -t 1 ] || title() { printf '\n%s\n' "$1"; }

# A demo that is started again starts afresh, and removes nothing but what it made.
mkdir -p "$folder"
rm -rf "$folder/run" "$folder/untrained" "$folder/cache" "$folder"/stories{.jsonl,-vocab.json,-merges.txt,-tokenizer.json,_text_document}*

title "1. A corpus: $megabytes MB of small stories from a grammar"
"$make_stories" --megabytes "$megabytes" --seed 1 >"$folder/stories.jsonl"
echo "The first one of $(wc -l <"$folder/stories.jsonl"):"
"$make_stories" --stories 1 --seed 1 --plain | fold -s -w 100 | sed 's/^/    /'

title "2. A tokenizer: byte-level BPE, 2048 tokens"
run "$bevatron" tokenizer train --input "$folder/stories.jsonl" --vocab-size 2048 --output-prefix "$folder/stories"

tokenizer=(--tokenizer-type GPT2BPETokenizer --vocab-file "$folder/stories-vocab.json"
    --merge-file "$folder/stories-merges.txt")

title "3. A dataset: the stories as tokens"
run "$bevatron" preprocess --input "$folder/stories.jsonl" --output-prefix "$folder/stories" --append-eod \
    --workers "$(nproc)" "${tokenizer[@]}"

# The run as a configuration file, which flags override: small enough for two cores and two minutes.
cat >"$folder/train.yaml" <<END
tokenizer-type: GPT2BPETokenizer
vocab-file: $folder/stories-vocab.json
merge-file: $folder/stories-merges.txt
data-path: $folder/stories_text_document
split: 98,2,0

num-layers: 3
hidden-size: 128
num-attention-heads: 4
seq-length: 256
max-position-embeddings: 256
make-vocab-size-divisible-by: 64
init-method-std: 0.05
attention-dropout: 0
hidden-dropout: 0

micro-batch-size: 4
global-batch-size: 4
lr: 8e-3
min-lr: 8e-4
lr-decay-style: cosine
lr-warmup-iters: 50
weight-decay: 0.1
adam-beta2: 0.95
clip-grad: 1.0

log-interval: 50
eval-interval: 500
eval-iters: 10
save-interval: 500
END
train=("$bevatron" train --config "$folder/train.yaml")
generate=("$bevatron" generate --prompt "$prompt" --max-new-tokens 160 --temperature 0.7 --top-k 40 --seed 7)

title "4. What the model writes before it has learned anything"
"${train[@]}" --train-iters 1 --eval-iters 0 --lr 1e-9 --min-lr 0 --lr-warmup-iters 0 --save "$folder/untrained" \
    >"$folder/untrained.log" 2>&1 || { cat "$folder/untrained.log" >&2; exit 1; }
"${generate[@]}" --load "$folder/untrained" | fold -s -w 100 | sed 's/^/    /'

# On a terminal the program's live line shows how it goes, and its log goes to a file; elsewhere the log is shown too,
# without the list of all arguments.
learn() {
    printf '$ %s\n' "$*"
    if [ -t 2 ]; then
        "$@" >"$folder/train.log"
    else
        "$@" 2>&1 | tee "$folder/train.log" | sed -u '/^-* arguments -*$/,/^-* end of arguments -*$/d'
    fi
}

title "5. Training: $iterations iterations; the log is $folder/train.log"
learn "${train[@]}" --train-iters "$iterations" --save "$folder/run" --tensorboard-dir "$folder/run/tensorboard"

title "6. The loss"
run "$bevatron" board --text --logdir "$folder/run"

title "7. What the model writes now"
"${generate[@]}" --load "$folder/run" | tee "$folder/story.txt" | fold -s -w 100 | sed 's/^/    /'

title "What to try next"
cat <<END
  Another story, with a beginning of your own:
    $bevatron generate --load $folder/run --prompt "One day, a brave fox" --temperature 0.7 --top-k 40
  The same run, four times as long, with a loss that keeps falling:
    DEMO_ITERS=$((4 * iterations)) DEMO_FOLDER=$folder/long make demo
  Your own text: one JSON object a line with a "text" member, then steps 2 to 7 above with it:
    $bevatron preprocess --help
END
