#!/usr/bin/env bash
# Commands that read the checkpoints of a run that goes on and keeps only the last one: they never find them missing. Then
# links in the folder of --save, which are not followed, and modes of files without a mask.
# tier: all
# cost: 4
. tests/cli/common.sh || exit
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1)

seq -s ' ' 1 40 >"$work/text"
in_background "$work/log" "$BEVATRON" train "${model[@]}" --train-iters 1000000 --save "$work/run" --save-interval 1 --keep-last 1
run=$!
await_text "iteration        2/" "$work/log" || fail "the run does not start"
for i in 1 2 3 4; do
    expect 0 "perplexity" "$BEVATRON" evaluate --load "$work/run" --text "$work/text" --threads 1
    expect 0 "whole" "$BEVATRON" checkpoint verify "$work/run"
    expect 0 "(latest)" "$BEVATRON" checkpoint inspect "$work/run"
    expect 0 "" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/converted-$i"
    expect 0 "" "$BEVATRON" checkpoint reshard --input "$work/run" --output "$work/resharded-$i"
    expect 0 "run" "$BEVATRON" board --text --logdir "$work/run"
done
kill "$run"
wait "$run"
[ $? = 210 ] && pass || fail "the run that was read did not end well: $(tail -n 3 "$work/log")"
grep -q "an old checkpoint is kept" "$work/log" && fail "$(grep "an old checkpoint is kept" "$work/log")" || pass

# A second run on the same folder stops.
in_background "$work/log" "$BEVATRON" train "${model[@]}" --train-iters 1000000 --save "$work/busy"
run=$!
await_text "iteration        2/" "$work/log" || fail "the run does not start"
expect 2 "another run (process $run on $(hostname)) is writing to $work/busy" "$BEVATRON" train "${model[@]}" --train-iters 2 --save "$work/busy" --load "$work/busy"
kill "$run"
wait "$run"

# Links.
expect 0 "" "$BEVATRON" train "${model[@]}" --train-iters 3 --exit-interval 1 --save "$work/linked"
printf 1 >"$work/marker-target"
: >"$work/metrics-target"
ln -sf "$work/marker-target" "$work/linked/latest_checkpointed_iteration.txt"
ln -sf "$work/metrics-target" "$work/linked/metrics.jsonl"
expect 0 "metrics.jsonl for writing: it is a symbolic link; remove it, or name the file itself" \
    "$BEVATRON" train "${model[@]}" --train-iters 3 --save "$work/linked" --load "$work/linked" --metrics-file "$work/linked/metrics.jsonl"
[ "$(cat "$work/marker-target")" = 1 ] && pass || fail "the marker's link was followed"
[ ! -s "$work/metrics-target" ] && pass || fail "the link of the metrics was followed"
[ ! -L "$work/linked/latest_checkpointed_iteration.txt" ] && [ "$(cat "$work/linked/latest_checkpointed_iteration.txt")" = 3 ] && pass ||
    fail "the marker is $(ls -l "$work/linked")"
"$BEVATRON" train "${model[@]}" --train-iters 1 --metrics-file /dev/stdout 2>"$work/out" | grep -q '"kind"' && pass || fail "metrics to a pipe"

# Modes.
for mask in 000 022; do
    (umask $mask && "$BEVATRON" train "${model[@]}" --train-iters 1 --save "$work/mask-$mask" --tensorboard-dir "$work/mask-$mask/tb" >"$work/out" 2>&1) && pass || fail "umask $mask"
    others=$(find "$work/mask-$mask" -perm /022)
    [ -z "$others" ] && pass || fail "umask $mask: others may write $others"
done
(umask 002 && "$BEVATRON" train "${model[@]}" --train-iters 1 --save "$work/mask-group" >"$work/out" 2>&1) && pass || fail "umask 002"
[ "$(stat -c %a "$work/mask-group/iter_0000001")" = 775 ] && pass || fail "umask 002 does not let the group write"
finish
