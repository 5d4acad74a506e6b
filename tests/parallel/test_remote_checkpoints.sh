#!/usr/bin/env bash
# --save-to and --load s3:// of several ranks (tests/net/object_server.h): sharded checkpoints are copied while the ranks
# train; ranks that were killed in the middle of a copy continue from the last whole one, after their disk is lost too,
# with the losses of a run that was never stopped. All ranks load the iteration that rank 0 chose, whatever their own
# machine finds.
# tier: all
# beside: ranks
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh
needs_parts CURL MPI
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "skipped: not Open MPI"; exit 77; }
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
[ "$(id -u)" = 0 ] && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

mkdir -p "$work/s3/bucket" "$work/old/bucket"
serve_objects "$work/s3"
export XDG_CACHE_HOME=$work/cache

flags=(train --mock-data --tokenizer-type NullTokenizer --vocab-size 30 --num-layers 2 --hidden-size 16 --num-attention-heads 2
    --seq-length 8 --max-position-embeddings 8 --micro-batch-size 1 --global-batch-size 4 --train-iters 12 --lr 1e-3 --log-interval 1
    --eval-iters 0 --device cpu --threads 1 --tensor-model-parallel-size 2 --use-distributed-optimizer --distributed-timeout-minutes 5)
own=(--save "$work/run" --save-interval 2 --save-to s3://bucket/run --load s3://bucket/run)
ranks() { local count=$1 && shift && mpirun --oversubscribe --bind-to none -n "$count" "$BEVATRON" "$@"; }
last() { losses "$1" | tail -n 1; }
copy=$work/s3/bucket/run

expect 0 "iteration       12/" ranks 4 "${flags[@]}"
losses "$work/out" >"$work/reference"
[ "$(wc -l <"$work/reference")" = 12 ] && pass || fail "no losses"

expect 0 "copied the checkpoint of iteration 6 to s3://bucket/run" ranks 4 "${flags[@]}" "${own[@]}" --exit-interval 6
[ "$(cat "$copy/latest_checkpointed_iteration.txt")" = 6 ] && pass || fail "the marker is not at 6"
expect 0 "" "$BEVATRON" checkpoint verify "$copy"
[ "$(ls "$copy/iter_0000006" | grep -c safetensors)" -gt 1 ] && pass || fail "the checkpoint is not sharded: $(ls "$copy/iter_0000006")"
# Killed in the middle of a copy: requests that are never answered hold it up, not the training. The start needs fewer than
# twelve requests, and the copies of 8, 10 and 12 many more.
{ for _ in {1..12}; do echo ok; done; for _ in {1..40}; do echo stall; done; } >"$work/s3/.faults"
is_held_up() { [ "$(grep -c stall "$work/s3/.faults")" -lt 40 ]; }
in_background "$work/killed" mpirun --oversubscribe --bind-to none -n 4 "$BEVATRON" "${flags[@]}" "${own[@]}"
pid=$!
await_text "iteration       12/" "$work/killed"
within 900 is_held_up || fail "no request was left unanswered"
for process in $(pgrep -P $pid); do kill -9 "$process"; done
end_of $pid
[ "$code" != 0 ] && pass || fail "a killed run ended well"
: >"$work/s3/.faults"

# The disk is lost as well. The same command continues from the copy, to the bit.
rm -rf "$work/run"
at=$(cat "$copy/latest_checkpointed_iteration.txt")
[ "$at" -lt 12 ] && pass || fail "the copy of iteration 12 was not held up"
expect 0 "" "$BEVATRON" checkpoint verify "$copy/iter_$(printf %07d "$at")"
expect 0 "downloading the checkpoint of iteration $at from s3://bucket/run" ranks 4 "${flags[@]}" "${own[@]}"
[ "$(grep -c "downloading the checkpoint" "$work/out")" = 1 ] && pass || fail "downloaded more than once"
losses "$work/out" >"$work/resumed"
tail -n $((12 - at)) "$work/reference" >"$work/expected"
expect_same "$work/expected" "$work/resumed" "losses after a kill"
[ "$(cat "$copy/latest_checkpointed_iteration.txt")" = 12 ] && pass || fail "the marker is not at 12"
expect 0 "" "$BEVATRON" checkpoint verify "$copy"
# Another layout takes it too, through the cache.
expect 0 "loading checkpoint from" ranks 2 "${flags[@]}" --train-iters 13 --override-opt_param-scheduler --load s3://bucket/run --tensor-model-parallel-size 1
grep -q "iteration       13/" "$work/out" && pass || fail "two ranks did not continue"

# Two machines that find different iterations, because a copy ends in between: rank 1's server still has 6 as the latest.
start_objects "$work/old"
cp -r "$work/s3/bucket" "$work/old/"
printf 6 >"$work/old/bucket/run/latest_checkpointed_iteration.txt"
more=("${flags[@]}" --train-iters 13 --override-opt_param-scheduler --load s3://bucket/run --checkpoint-cache-path cache)
machines() {
    mkdir -p "$work/a" "$work/b"
    mpirun --oversubscribe --bind-to none -n 1 -wdir "$work/a" "$BEVATRON" "$@" : \
        -n 1 -wdir "$work/b" env AWS_ENDPOINT_URL="$address" "$BEVATRON" "$@"
}
expect 0 "iteration       13/" machines "${more[@]}"
for machine in a b; do
    [ "$(ls "$work/$machine"/cache/run-*)" = 12 ] && pass ||
        fail "machine $machine has $(ls "$work/$machine"/cache/run-*)"
done
expect 0 "" machines generate --prompt "1 2 3" --max-new-tokens 2 --device cpu --threads 1 --tensor-model-parallel-size 2 \
    --load s3://bucket/run --checkpoint-cache-path cache
# What is missing for rank 0 is missing for all, and said once.
expect 216 "there is no checkpoint of bevatron in s3://bucket/nothing" ranks 2 "${flags[@]}" --load s3://bucket/nothing --exit-on-missing-checkpoint
[ "$(grep -c "there is no checkpoint of bevatron" "$work/out")" = 1 ] && pass || fail "said more than once"
# A download that fails on one machine ends all ranks with its message.
rm -r "$work/b/cache" "$work"/old/bucket/run/iter_0000012
expect 216 "there is no complete checkpoint of iteration 12" machines "${more[@]}"
finish
