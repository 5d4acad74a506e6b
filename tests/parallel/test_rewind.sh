#!/usr/bin/env bash
# Going back and skipping batches, at a NaN and at a loss spike: the weights are those of a run that was told to skip the
# same iterations, to the bit, on one rank and on four; also if the run is stopped and resumed. A bit that flips on one
# rank is found before the next save, the rank is named, and the run resumes from the last verified checkpoint.
# tier: all
# cost: 40
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
needs_parts MPI
model=(--mock-data --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0
    --threads 1 --device cpu)
train() { "$BEVATRON" train "${model[@]}" "$@"; }
same() { # A B ITERATION WHAT
    local file folder
    folder=iter_$(printf %07d "$3")
    for file in "$work/$1/$folder"/*.safetensors; do
        expect_same "$file" "$work/$2/$folder/${file##*/}" "$4"
    done
}
# said TEXT: it is in the output of the last command.
said() { grep -q -- "$1" "$work/out" && pass || fail "no \"$1\""; }
state() { grep -q "\"$2\": $3" "$work/$1/state.json" && pass || fail "no $2 $3 in $1/state.json"; }

# ---- iterations that are skipped on request ----

expect 2 '--iterations-to-skip takes iterations (7) and ranges of them (7-9), not "9-7"' train --train-iters 5 --iterations-to-skip 9-7
expect 2 "--nan-policy rewind-and-skip needs --save" train --train-iters 5 --nan-policy rewind-and-skip
expect 0 "skipping iterations 5 to 7" train --train-iters 12 --save "$work/skipped" --iterations-to-skip 9 5-6 7 --save-interval 6
state skipped/iter_0000012 skipped_train_samples 16
state skipped/iter_0000012 adam_step 8
[ "$(losses "$work/out" | cut -d' ' -f1 | tr '\n' ' ')" = "1 2 3 4 8 10 11 12 " ] && pass || fail "other iterations are logged"
# Stopped in the middle of a span, and resumed without the flag: the checkpoint remembers.
expect 0 "exiting program at iteration 6" train --train-iters 12 --save "$work/resumed" --iterations-to-skip 9 5-7 --exit-interval 6
expect 0 "at iteration 6" train --train-iters 12 --save "$work/resumed" --load "$work/resumed"
same skipped resumed 12 "a resumed run that skips"
expect 0 "" train --train-iters 12 --save "$work/plain"
cmp -s "$work/plain/iter_0000012/model.safetensors" "$work/skipped/iter_0000012/model.safetensors" && fail "nothing was skipped" || pass

# ---- NaN ----

for n in 1 4; do
    expect 0 "" train --nproc $n --train-iters 12 --save "$work/told$n" --iterations-to-skip 8
    expect 0 "went back to iteration 6; iterations 8 to 8 are skipped (attempt 1 of 3)" train --nproc $n --train-iters 12 \
        --save "$work/nan$n" --save-interval 3 --nan-policy rewind-and-skip --allow-injected-faults --inject nan:rank=$((n - 1)):step=8
    same told$n nan$n 12 "after a NaN, $n ranks"
    grep -q '"event":"nan"' "$work/nan$n/metrics.jsonl" && grep -q '"event":"rewind"' "$work/nan$n/metrics.jsonl" && pass ||
        fail "no events"
done
# Stopped after it went back: the resumed run skips the same.
expect 0 "went back to iteration 6" train --train-iters 12 --save "$work/half" --save-interval 3 --nan-policy rewind-and-skip \
    --allow-injected-faults --inject nan:step=8 --exit-interval 9
expect 0 "" train --train-iters 12 --save "$work/half" --load "$work/half"
same told1 half 12 "resumed after a NaN"
# A checkpoint in the fallback is as good; and one there that was given up is not resumed from.
rewind=(--nan-policy rewind-and-skip --allow-injected-faults)
both=(--save "$work/both" --save-fallback "$work/spare")
expect 0 "went back to iteration 6; iterations 8 to 8 are skipped (attempt 1 of 3)" train --train-iters 12 "${both[@]}" \
    --save-interval 3 "${rewind[@]}" --inject nan:step=8 --inject enospc:step=6:phase=write
[ -d "$work/spare/iter_0000006" ] && pass || fail "the fallback has no checkpoint"
same told1 both 12 "after a NaN, from the fallback"
rm -r "$work/both" "$work/spare"
expect 210 "to $work/spare in" train --train-iters 12 "${both[@]}" --save-interval 5 --allow-injected-faults \
    --inject term:step=7 --inject enospc:step=7:phase=write
expect 213 "went back to iteration 5" train --train-iters 12 "${both[@]}" --load "$work/both" --save-interval 5 "${rewind[@]}" \
    --rewind-iterations 2 --max-rewinds 1 --inject nan:step=8 --inject nan:step=9
said "loading checkpoint from $work/spare at iteration 7"
expect 0 "loading checkpoint from $work/both at iteration 5" train --train-iters 12 "${both[@]}" --load "$work/both"
# Back at the start, with a checkpoint of what was given up: the start is saved, and a restart takes that one.
expect 137 "went back to iteration 0; iterations 1 to 4 are skipped" train --train-iters 12 --save "$work/zero" --save-interval 3 \
    "${rewind[@]}" --rewind-iterations 4 --inject nan:step=4 --inject kill:step=3:phase=save:call=2
expect 0 "loading checkpoint from $work/zero at iteration 0" train --train-iters 12 --save "$work/zero" --load "$work/zero"
expect 0 "" train --train-iters 12 --save "$work/told_start" --iterations-to-skip 1-4
same told_start zero 12 "resumed at the start"
# A start that no folder takes does not end the run, which saves later.
expect 0 "the checkpoint of iteration 0 was not saved" train --train-iters 12 --save "$work/full" --save-interval 3 "${rewind[@]}" \
    --rewind-iterations 4 --inject nan:step=4 --inject enospc:step=0:times=all
same told_start full 12 "after a start that could not be saved"
# Without a checkpoint the run starts over; a second NaN nearby makes it go back further.
expect 0 "went back to iteration 0; iterations 2 to 2 are skipped (attempt 1 of 3)" train --train-iters 12 --save "$work/start" \
    --nan-policy rewind-and-skip --allow-injected-faults --inject nan:step=2 --inject nan:step=3
said "went back to iteration 0; iterations 1 to 3 are skipped (attempt 2 of 3)"
expect 0 "" train --train-iters 12 --save "$work/told0" --iterations-to-skip 1-3
same told0 start 12 "from the start"
expect 0 "its update was skipped (--nan-policy)" train --train-iters 6 --nan-policy skip --allow-injected-faults --inject nan:step=3
# It is told where it was seen first: in the loss of a rank, or in its gradients before they were summed.
expect 213 "at iteration 4; the weights were not changed; first seen in the loss of rank 1 on $(uname -n). Resume" train --nproc 4 \
    --train-iters 6 --allow-injected-faults --inject nan:rank=1:step=3:phase=weights
for layout in "" "--use-distributed-optimizer --overlap-grad-reduce" "--bf16 --grad-reduce-in-bf16" "--num-layers 4 --pipeline-model-parallel-size 4" \
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"; do
    # shellcheck disable=SC2086
    expect 213 "at iteration 3; the weights were not changed; first seen in the gradients of rank 1 on $(uname -n). Resume" \
        train --nproc 4 --train-iters 6 $layout --allow-injected-faults --inject nan:rank=1:step=3
done
# A rank that alone has another result does not wait for the others, which continue: all end, and the rank is named.
expect 218 "of iteration 3 is finite on some ranks only: rank 2 ($(uname -n)) differs from the others" train --nproc 4 \
    --train-iters 6 --distributed-timeout-minutes 1 --allow-injected-faults --inject nan:rank=2:step=3:phase=results
# What does not go away ends the run.
expect 213 "after going back 2 times" train --train-iters 30 --fp16 --loss-scale 1e30 --save "$work/never" \
    --nan-policy rewind-and-skip --max-rewinds 2
expect 213 "after 10 skipped updates in a row" train --train-iters 30 --fp16 --loss-scale 1e30 --nan-policy skip

# ---- loss spikes ----

# With so low a threshold what the batches happen to hold is enough.
for n in 1 4; do
    expect 0 "loss spike from iteration" train --nproc $n --train-iters 150 --save "$work/spike$n" --save-interval 10 \
        --spike-policy rewind-and-skip --spike-threshold 0.2 --rewind-iterations 4 --skip-batches 7 --max-rewinds 2
    skips=$(sed -nE 's/.*went back to iteration [0-9]+; iterations ([0-9]+) to ([0-9]+) are skipped.*/\1-\2/p' "$work/out" | sort -u)
    [ -n "$skips" ] && pass || fail "it did not go back"
    expect 0 "" train --nproc $n --train-iters 150 --save "$work/calm$n" --iterations-to-skip $skips
    same calm$n spike$n 150 "after spikes, $n ranks"
done
grep -q '"event":"spike"' "$work/spike1/metrics.jsonl" && pass || fail "no event"

# ---- a flipped bit ----

flip=(--allow-injected-faults --inject flip:rank=1:step=5)
expect 0 "" train --nproc 4 --train-iters 9 --save "$work/clean"
expect 218 "differs from the others" train --nproc 4 --train-iters 9 --save "$work/flipped" --save-interval 3 "${flip[@]}"
said "ranks: rank 1 ("
[ -d "$work/flipped/iter_0000006" ] && fail "it was saved" || pass
state flipped/iter_0000003 replicas_verified 4
expect 0 "starting again from iteration 3" "$BEVATRON" launch local -n 4 "${model[@]}" --train-iters 9 --save "$work/again" \
    --save-interval 3 "${flip[@]}"
same clean again 9 "after a flipped bit"
# Two replicas.
expect 0 "" train --nproc 2 --train-iters 9 --save "$work/clean2"
expect 218 "there is no majority" train --nproc 2 --train-iters 9 --save "$work/two" --save-interval 3 "${flip[@]}"
expect 0 "had the fault; replicas agree now, and the run continues" train --nproc 2 --train-iters 9 --save "$work/replayed" \
    --save-interval 3 --replay-check 100 "${flip[@]}"
said "replay of iteration 6: rank 1 ("
same clean2 replayed 9 "after a replay"
# Also if it is found by the last save, by one before the batch grows, or by one that repeats another that failed.
expect 0 "replay of iteration 5: rank 1 (" train --nproc 2 --train-iters 5 --save "$work/last" --replay-check 100 "${flip[@]}"
said "successfully saved checkpoint from iteration       5"
ramp=(--nproc 2 --train-samples 48 --rampup-batch-size 2 2 12)
expect 0 "" train "${ramp[@]}" --save "$work/clean3"
# One that repeats itself ends the run.
expect 218 "Replicas differ again" train --nproc 2 --train-iters 5 --save "$work/repeated" --replay-check 100 \
    --allow-injected-faults --inject flip:rank=1:step=5:times=all
expect 0 "replay of iteration 6: rank 1 (" train "${ramp[@]}" --save "$work/ramp" --replay-check 100 "${flip[@]}"
last=$(cat "$work/clean3/latest_checkpointed_iteration.txt")
same clean3 ramp "$last" "after a replay while the batch grows"
expect 0 "of iteration 40 was not saved: " train --nproc 2 --train-iters 80 --save "$work/retried" --save-interval 40 --async-save \
    --save-fallback "$work/fallback" --replay-check 100 --allow-injected-faults --inject enospc:rank=0:step=40 --inject flip:rank=1:step=41
said "had the fault; replicas agree now, and the run continues"
# A bit of a gradient that flips before it is summed is the same on all replicas afterwards.
for flags in "" "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather" \
    "--pipeline-model-parallel-size 2 --global-batch-size 8"; do
    expect 218 "iteration 5: rank 1: recomputing the gradients gave other values" train --nproc 2 \
        --train-iters 9 --save "$work/gradient" --replay-check 1 --allow-injected-faults \
        --inject flip:rank=1:step=5:phase=gradients $flags
    rm -rf "$work/gradient"
    # Computing twice changes nothing.
    expect 0 "" train --nproc 2 --train-iters 4 --save "$work/once" $flags
    expect 0 "" train --nproc 2 --train-iters 4 --save "$work/twice" --replay-check 2 $flags
    same once twice 4 "gradients computed twice, $flags"
    rm -rf "$work/once" "$work/twice"
done
finish
