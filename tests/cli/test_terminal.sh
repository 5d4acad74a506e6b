#!/usr/bin/env bash
# A run on a terminal: a view at the bottom that leaves nothing behind, short lines above it, Ctrl-C that is answered at
# once; what a terminal cannot show is not drawn; one that stalls, is on hold or goes away stops no run. What is piped is
# as it was without a terminal.
# tier: all
# cost: 12
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh
terminal=$(dirname "$BEVATRON")/tests/terminal
export TERM=xterm LC_ALL=C.UTF-8
unset NO_COLOR
train=("$BEVATRON" train --mock-data --tokenizer-type NullTokenizer --vocab-size 32 --make-vocab-size-divisible-by 1
    --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 --micro-batch-size 1
    --lr 1e-3 --eval-iters 0 --device cpu --threads 1)
short=("${train[@]}" --train-iters 20 --log-interval 10)
endless=("${train[@]}" --train-iters 1000000000 --log-interval 1000000)

# seen CODE SIZE FILE ACTION… -- COMMAND…: on a terminal of SIZE; what stands on it at the end is in FILE.
seen() {
    local code=$1 got
    shift
    "$terminal" "$@" >"$work/out" 2>&1 </dev/null
    got=$?
    [ "$got" = 77 ] && { echo "skipped: no pseudo-terminals here"; exit 77; }
    cp "$2" "$work/out"
    [ "$got" = "$code" ] && pass || fail "exit code $got instead of $code: $*"
}
has() { grep -qF -- "$2" "$1" && pass || { cp "$1" "$work/out"; fail "no \"$2\" in $1"; }; }
lacks() { grep -qF -- "$2" "$1" && { cp "$1" "$work/out"; fail "\"$2\" in $1"; } || pass; }
escape=$'\033['
drawn=$'\033[J'  # behind the last line of a view

# The view, and the lines above it; it is gone at the end.
seen 0 80x24 "$work/screen" -w ETA -w "$drawn" -s "$work/view" -- "${short[@]}"
has "$work/view" "] 1/20   5%  ETA"
grep -qE '^loss [0-9.]+.*tokens/s  lr .*e-0[0-9]' "$work/view" && pass || fail "the facts of the view: $(cat "$work/view")"
grep -qE '^[0-9:]{8}  iteration 20/20  lm loss [0-9.]+  lr ' "$work/screen" && pass || fail "a short line for 80 columns"
lacks "$work/screen" "ETA"
lacks "$work/screen" "elapsed time per iteration"
has "$work/screen.raw" "${escape}2m"

# Narrow windows, and one that changes: nothing wraps, there is one view.
# What was being drawn when the size changed may come after it, so the second view counts.
seen 210 100x12 "$work/screen" -w ETA -w ETA -r 40x12 -w ETA -w ETA -w "$drawn" -s "$work/view" -t '\003' -- "${endless[@]}" --train-iters 9000000 \
    --save "$work/narrow"
grep -E 'ETA|tokens/s|memory' "$work/view" | grep -qE '.{41}' && fail "a line of the view is too wide" || pass
[ "$(grep -c ETA "$work/view")" = 1 ] && pass || { cp "$work/view" "$work/out"; fail "one view after the window has changed"; }

# During an iteration that takes hours, too. Without --save, Ctrl-C does not wait for it.
seen 130 100x12 "$work/screen" -w ETA -w "$drawn" -r 40x12 -w "[=========>        ] 1/2  50%  ETA" -w "$drawn" -s "$work/view" -t '\003' \
    -- "${train[@]}" --global-batch-size 10000001 --rampup-batch-size 1 10000000 1 --train-samples 20000002
grep -E 'ETA|loss ' "$work/view" | tail -n 2 | grep -qE '.{41}' && fail "the view is wider than the window" || pass
lacks "$work/screen" "50%  ETA"

# Terminals that do less.
TERM=dumb seen 0 200x24 "$work/screen" -- "${short[@]}"
lacks "$work/screen.raw" "$escape"
has "$work/screen" "iteration       20/      20 | consumed samples:"
NO_COLOR=1 seen 0 80x24 "$work/screen" -w ETA -- "${short[@]}"
lacks "$work/screen.raw" "${escape}2m"
seen 0 80x24 "$work/screen" -w ETA -- env LC_ALL=C.ISO-8859-1 "${train[@]}" --train-iters 200 --log-interval 100
LC_ALL=C grep -q "$(printf '\342\226')" "$work/screen.raw" && fail "blocks in a locale without them" || pass
seen 0 200x24 "$work/screen" -- "${short[@]}" --no-live-view
has "$work/screen" "iteration       20/      20 | consumed samples:"
lacks "$work/screen.raw" "ETA"

# What is piped is the same with and without a terminal behind stderr, times apart.
untimed() { sed -E 's/\[[0-9-]+ [0-9:.]+\]|datetime: .*|elapsed time per iteration \(ms\): [0-9.]+ //g' "$1"; }
seen 0 80x24 "$work/screen" -o "$work/piped" -- "${short[@]}"
"${short[@]}" >"$work/plain" 2>/dev/null </dev/null
untimed "$work/piped" >"$work/a"
untimed "$work/plain" >"$work/b"
[ -s "$work/a" ] && expect_same "$work/a" "$work/b" "stdout with and without a terminal"
lacks "$work/piped" "$escape"
# Without a terminal the first line, to the last byte of what does not change from run to run.
grep -qE '^ \[[0-9-]+ [0-9:.]+\] iteration       10/      20 \| consumed samples:           10 \| elapsed time per iteration \(ms\): [0-9.]+ \| learning rate: 5.000000E-04 \| global batch size:     1 \| lm loss: [0-9.E+-]+ \| loss scale: 1.0 \| grad norm: [0-9.]+ \| number of skipped iterations:   0 \| number of nan iterations:   0 \|$' \
    "$work/plain" && pass || { cp "$work/plain" "$work/out"; fail "Megatron's line on a pipe"; }

# Ctrl-C, once the view is whole: the kernel drops what the terminal has not taken of one that is being drawn.
seen 210 80x24 "$work/screen" -w ETA -w "$drawn" -t '\003' -- "${endless[@]}" --save "$work/saved"
tr -d '\n' <"$work/screen" >"$work/flat"
grep -qE 'finishing iteration [0-9]+, then saving; press Ctrl-C again to quit without saving' "$work/flat" && pass ||
    fail "the answer to Ctrl-C"
grep -qE '^[0-9:]{8}  iteration [0-9]+  saved' "$work/screen" && pass || fail "a short line for a checkpoint"
lacks "$work/screen" "successfully saved checkpoint"
lacks "$work/screen" "ETA"
seen 130 160x24 "$work/screen" -w ETA -w "$drawn" -t '\003' -- "${endless[@]}"
has "$work/screen" "stopping (nothing is saved without --save); press Ctrl-C again to quit at once"

# A conversation: a sign that it is one's turn, the text as it comes, and Ctrl-D.
for i in 1 2 3 4 5 6 7 8 9; do printf '{"text": "the cat sat on the mat and ate %d mice"}\n' $i; done >"$work/text.jsonl"
expect 0 "" "$BEVATRON" train --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --max-position-embeddings 8 --micro-batch-size 1 \
    --train-iters 1 --lr 1e-3 --device cpu --threads 1 --data-path "$work/text.jsonl" --split 100,0,0 --tokenizer-type auto --vocab-size 262 --save "$work/talk"
seen 0 80x24 "$work/screen" -w "Ctrl-D ends" -w "> " -t 'the cat\012' -w "the cat" -w "> " -t '\004' -- "$BEVATRON" generate --load "$work/talk" --greedy \
    --max-new-tokens 4 --device cpu --threads 1
has "$work/screen" "> the cat"

# A reader that has stopped: more than a terminal holds, and the run ends as if it were read.
seen 0 80x24 "$work/screen" -w ETA -p -- "${train[@]}" --train-iters 2500 --log-interval 1
# Closed: a run that ignores SIGHUP, as under nohup, goes on to its end; another one saves.
hold='trap "" HUP; exec "$@"'
seen 0 80x24 "$work/screen" -w ETA -h -- bash -c "$hold" - "${train[@]}" --train-iters 3000 --log-interval 1
seen 210 80x24 "$work/screen" -w ETA -h -- "${endless[@]}" --save "$work/closed"
[ -d "$work/closed" ] && [ -n "$(find "$work/closed" -name manifest.json)" ] && pass || fail "no checkpoint after the terminal was closed"
finish
