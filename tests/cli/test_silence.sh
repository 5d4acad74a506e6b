#!/usr/bin/env bash
# Commands that wait or take long: they report what they are doing after two seconds, and a signal ends them at once.
# tier: all
# cost: 5
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
model=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --device cpu --threads 1)
run=("$BEVATRON" train "${model[@]}" --micro-batch-size 1 --lr 1e-3 --train-iters 2 --eval-iters 0 --log-interval 1)
mock=("${run[@]}" --mock-data --vocab-size 50)

for i in 1 2 3 4 5 6 7 8; do echo "{\"text\": \"the quick brown fox number $i jumps over the lazy dog and runs away again\"}"; done >"$work/t.jsonl"
"$BEVATRON" tokenizer train --input "$work/t.jsonl" --vocab-size 280 --output-prefix "$work/t" >"$work/out" 2>&1 || fail "tokenizer train"
tokenizer=(--vocab-file "$work/t-vocab.json" --merge-file "$work/t-merges.txt")

# An evaluation, slow text.
in_background "$work/long" "${mock[@]}" --eval-interval 1 --eval-iters 1000000000
long=$!
mkfifo "$work/pipe"
"$BEVATRON" tokenizer encode "${tokenizer[@]}" <"$work/pipe" >"$work/encoded" 2>&1 &
encoding=$!
"$BEVATRON" tokenizer decode "${tokenizer[@]}" <"$work/pipe" >"$work/decoded" 2>&1 &
decoding=$!
exec {pipe}>"$work/pipe"
await_text "^evaluating: .* of 1.*G iterations, .* so far" "$work/long"
await_text "^encoding standard input: .* so far" "$work/encoded"
await_text "^decoding standard input: .* so far" "$work/decoded"
exec {pipe}>&-
kill -9 $long
for process in $encoding $decoding; do
    end_of $process
    [ $code = 0 ] && pass || fail "a tokenizer that is given nothing ends with $code"
done
wait $long 2>/dev/null

rm "$work/pipe"
awk 'BEGIN { for (i = 0; i < 300; i++) printf "{\"text\": \"%d %d %d\"}\n", i, i * 7, i * 31 }' >"$work/in.jsonl"
null=(--tokenizer-type NullTokenizer --vocab-size 60000)
# Stopped in the middle, even while the input is silent: the temporary files are removed, and it dies of the signal.
for signal in TERM INT; do
    mkfifo "$work/pipe"
    "$BEVATRON" preprocess --input - --output-prefix "$work/stopped" "${null[@]}" <"$work/pipe" >"$work/out" 2>&1 &
    pid=$!
    exec 3>"$work/pipe"
    cat "$work/in.jsonl" >&3
    within 900 [ -e "$work/stopped.unfinished/data.0.bin" ] && pass || fail "no temporary file before SIG$signal"
    sleep 0.5  # time to reach the silence
    # A background process of a script ignores SIGINT unless it sets a handler; ours must keep it ignored, as with
    # nohup.
    [ "$signal" = INT ] && grep -qE '^SigIgn:.*[2367abef]$' "/proc/$pid/status" 2>/dev/null && kill -TERM "$pid"
    kill -"$signal" "$pid" 2>/dev/null
    wait "$pid"
    code=$?
    exec 3>&-
    [ "$code" -gt 128 ] && pass || fail "exit code $code after SIG$signal"
    grep -q "stopped by" "$work/out" && pass || fail "nothing said about SIG$signal"
    [ -z "$(find "$work" -name 'stopped*')" ] && pass || fail "SIG$signal left $(find "$work" -name 'stopped*')"
    rm -f "$work/pipe"
done
finish
