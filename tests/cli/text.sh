# shellcheck shell=bash disable=SC2034,SC2154  # names of the scripts that source it
# A made text and the flags of a run on it. Sourced after common.sh.
# words FIRST LINES: lines of text.
words() {
    awk -v first="$1" -v lines="$2" 'BEGIN { split("the a one black white cat dog ran sat slept home away under over", w, " ")
        for (i = 0; i < lines; i++) { line = ""
            for (k = 0; k < 8; k++) line = line w[(first + i * 5 + k * (i % 3 + 1)) % 14 + 1] (k < 7 ? " " : ".")
            print line } }'
}
as_json() { sed 's/.*/{"text": "&"}/'; }
mkdir "$work/data"
text=$work/data/books.jsonl
words 1 400 | as_json >"$text"
size=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --threads 1 --log-interval 1)
short=(--micro-batch-size 2 --lr 1e-3 --train-iters 2 --eval-iters 0)
own=(--tokenizer-type auto --vocab-size 300)
train=("$BEVATRON" train "${size[@]}" "${short[@]}")
losses() { grep -o "iteration .*lm loss: [^|]*" "$1" | sed 's/elapsed[^|]*|//'; }
cache=$work/data/.bevatron-cache
datasets() { find "$cache" -name data_text_document.bin | wc -l; }
