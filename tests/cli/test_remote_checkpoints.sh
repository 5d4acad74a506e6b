#!/usr/bin/env bash
# train --save-to and --load with checkpoints in S3 (tests/net/object_server.h): a run that lost its disk resumes from
# there with the same losses, failures to copy do not stop training, and no secret is written.
# tier: all
# cost: 6
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts CURL

root=$work/s3
mkdir -p "$root/bucket"
serve_objects "$root" 3
export XDG_CACHE_HOME=$work/cache

train=("$BEVATRON" train --mock-data --tokenizer-type NullTokenizer --vocab-size 30 --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8
    --max-position-embeddings 8 --micro-batch-size 1 --train-iters 8 --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu
    --threads 1)
generate=("$BEVATRON" generate --prompt "1 2 3" --max-new-tokens 2 --device cpu --threads 1)
last() { losses "$1" | tail -n 1; }

expect 0 "successfully saved" "${train[@]}" --save "$work/reference"
reference=$(last "$work/out")
[ -n "$reference" ] && pass || fail "no losses"

# The same command starts, resumes on another machine, and has nothing left to do.
own=(--save "$work/run" --save-interval 2 --keep-last 2 --save-to s3://bucket/run/ --load s3://bucket/run)
expect 0 "copied the checkpoint of iteration 4 to s3://bucket/run" "${train[@]}" "${own[@]}" --exit-interval 4
expect 0 "" "$BEVATRON" checkpoint verify "$root/bucket/run"
rm -rf "$work/run"
expect 0 "downloading the checkpoint of iteration 4 from s3://bucket/run" "${train[@]}" "${own[@]}"
[ "$(last "$work/out")" = "$reference" ] && pass || fail "another loss after resuming from S3: $(last "$work/out"), not $reference"
[ "$(cat "$root/bucket/run/latest_checkpointed_iteration.txt")" = 8 ] && pass || fail "the marker is not at 8"
[ "$(ls -d "$root"/bucket/run/iter_*/manifest.json | wc -l)" = 2 ] && pass || fail "not two checkpoints: $(ls "$root/bucket/run")"
expect 0 "" "$BEVATRON" checkpoint verify "$root/bucket/run"
# An earlier iteration of the copy can be resumed too.
expect 0 "loading checkpoint from" "${train[@]}" "${own[@]}" --ckpt-step 6
[ "$(last "$work/out")" = "$reference" ] && pass || fail "another loss after resuming from iteration 6"
# A checkpoint that could not be copied is copied at the next start.
rm -rf "$root/bucket/run"
expect 0 "copied the checkpoint of iteration 8" "${train[@]}" "${own[@]}"

# Other commands load it through a cache, which the second one finds filled.
expect 0 "downloading" "${generate[@]}" --load s3://bucket/run
: >"$root/.log"
expect 0 "" "${generate[@]}" --load s3://bucket/run
grep -q 'run/iter_.*safetensors?' "$root/.log" && fail "the weights were downloaded again" || pass
expect 0 "loading checkpoint from" "${train[@]}" --train-iters 10 --override-opt_param-scheduler --load s3://bucket/run --save "$work/other" --checkpoint-cache-path "$work/elsewhere"
ls -d "$work"/elsewhere/run-*/8/iter_0000008 >/dev/null && pass || fail "no --checkpoint-cache-path"
expect 216 "there is no checkpoint of bevatron in s3://bucket/nothing" "${generate[@]}" --load s3://bucket/nothing
expect 0 "no checkpoint in s3://bucket/nothing: the run starts from random weights" "${train[@]}" --load s3://bucket/nothing

# Failures: before training they end the command, later they are warnings, and for the last checkpoint they set the exit
# code.
expect 2 "holds checkpoints of another run, up to iteration 8" "${train[@]}" --save "$work/new" --save-to s3://bucket/run
# Launchers always add --load SAVE: an empty disk, or one that is behind, does not replace the copy.
before=$(find "$root/bucket/run" -type f -exec sha256sum {} + | sort)
expect 2 "up to iteration 8, and --save $work/new holds none; resume that run with --load s3://bucket/run" \
    "${train[@]}" --save "$work/new" --load "$work/new" --save-to s3://bucket/run --keep-last 1
expect 0 "" "${train[@]}" --save "$work/behind" --exit-interval 4
expect 2 "up to iteration 8, --save $work/behind only up to iteration 4; resume from the copy with --load s3://bucket/run" \
    "${train[@]}" --save "$work/behind" --load "$work/behind" --save-to s3://bucket/run --keep-last 1
[ "$(find "$root/bucket/run" -type f -exec sha256sum {} + | sort)" = "$before" ] && pass || fail "the copies of another run changed"
# The same disk resumes.
expect 0 "nothing is left to train" "${train[@]}" --save "$work/run" --load "$work/run" --save-to s3://bucket/run --keep-last 2
# A run that went back, and was killed before the copy followed.
printf 6 >"$work/run/latest_checkpointed_iteration.txt"
expect 0 "copied the checkpoint of iteration 8" "${train[@]}" --save "$work/run" --load "$work/run" --save-to s3://bucket/run --keep-last 2
[ "$(last "$work/out")" = "$reference" ] && pass || fail "another loss after going back"
# A run that went back to a checkpoint in the fallback: what it gave up is not the latest copy.
spare=(--save "$work/back" --save-fallback "$work/spare" --save-to s3://bucket/back --save-interval 4 --allow-injected-faults)
expect 0 "copied the checkpoint of iteration 2" "${train[@]}" "${spare[@]}" --exit-interval 2
expect 210 "copied the checkpoint of iteration 6" "${train[@]}" "${spare[@]}" --load "$work/back" --inject enospc:step=4 --inject term:step=6
expect 0 "went back to iteration 4; iterations 5 to 7 are skipped" "${train[@]}" "${spare[@]}" --load "$work/back" \
    --nan-policy rewind-and-skip --rewind-iterations 2 --inject nan:step=7 --inject enospc:step=8
[ "$(cat "$root/bucket/back/latest_checkpointed_iteration.txt")" = 2 ] && pass || fail "the latest copy is one that was given up"
AWS_ACCESS_KEY_ID=AKIDOTHER expect 1 "--save-to: cannot read s3://bucket/" "${train[@]}" --save "$work/new" --save-to s3://bucket/new
expect 2 "--save-to needs --save" "${train[@]}" --save-to s3://bucket/new
expect 2 "give a folder, and the address with --save-to" "${train[@]}" --save s3://bucket/new
for _ in 1 2 3 4; do echo ok; done >"$root/.faults"
for _ in $(seq 40); do echo 405; done >>"$root/.faults"
expect 1 "iteration 8 was not copied to s3://bucket/fails" "${train[@]}" --save "$work/fails" --save-to s3://bucket/fails
[ "$(last "$work/out")" = "$reference" ] && pass || fail "another loss with failing copies"
: >"$root/.faults"
ls "$root/bucket/fails/latest_checkpointed_iteration.txt" >/dev/null 2>&1 && fail "a marker without a checkpoint" || pass
expect 0 "copied the checkpoint of iteration 8" "${train[@]}" --save "$work/fails" --load "$work/fails" --save-to s3://bucket/fails

grep -rl "very-secret" "$work" --exclude-dir=none && fail "a secret was written" || pass
exec {hold}>&-
finish
