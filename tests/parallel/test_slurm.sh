#!/usr/bin/env bash
# launch slurm against a real Slurm cluster on this machine: two nodes, two tasks each. The job trains and finishes; it
# is warned, by a signal and by its time limit, saves, is requeued and resumes with the same losses, with no repetitions
# in its log; it recovers from a killed task; a cancelled job ends with a checkpoint; a chain of short allocations, each
# of which loses its first start, ends with the bits of one long run while its log is followed; options of sbatch are
# passed on; preparation comes before training, which does not start if it failed.
# tier: all
# label: slow
# beside: ranks
# cost: 100
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/slurm_test.sh || exit

model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0
    --threads 1 --save-interval 1000000)
job=(--nodes 2 --ntasks-per-node 2 --shared --logs "$work/logs")

submit() { "$BEVATRON" launch slurm "$@" 2>"$work/out"; }
# Waits until the job has ended; its output is then in $work/out.
await() {
    within 900 has_ended "$1" || fail "job $1 does not end: $(squeue -j "$1" 2>&1 | tail -n 1)"
    cat "$work"/logs/*-"$1"*.log >"$work/out" 2>/dev/null
}
has_line() { grep -qs "$2" "$work"/logs/"$1"/rank-0.log; }
await_line() { within 900 has_line "$1" "$2" || fail "job $1 never came to \"$2\""; }
# A rank of the run that saves there, not srun or a shell, which have its command line too.
kill_rank() {
    local process
    for process in $(pgrep -f "train .*$1"); do
        [ "$(cat "/proc/$process/comm" 2>/dev/null)" = bevatron ] && kill -9 "$process" && return
    done
    return 1
}
has_restarted() { scontrol show job "$number" | grep -Eq "Restarts=[1-9]"; }
# disturb COMMAND…: if the command comes too late, when the job has already ended, another job is started.
disturb() {
    for _ in 1 2 3 4 5; do
        "$@"
        await "$number"
        has_restarted && return
    done
    fail "no job was requeued: $*"
}
losses() { grep -ho 'iteration *[0-9]*/.*lm loss: [^|]*' "$@" | sed 's/iteration *\([0-9]*\).*lm loss: /\1 /' | sort -n -u; }

# A run of four ranks on two nodes, and the same without Slurm. The folder's name would do harm if run as code.
harm=$work/$'it\'s "a" $(touch harm) `touch harm`;\n touch harm'
number=$(submit "${job[@]}" --env "HARM=$harm" "${model[@]}" --train-iters 30 --save "$harm")
await "$number"
[ -d "$harm/iter_0000030" ] && pass || fail "no checkpoint in a folder with a strange name"
[ ! -e harm ] && [ ! -e "$work/logs/harm" ] && pass || { fail "a name was run as code"; rm -f harm; }
[ "$(state "$number")" = JobState=COMPLETED ] && pass || fail "the job did not complete: $(state "$number")"
bash tests/parallel/mpirun.sh 4 "$BEVATRON" train "${model[@]}" --train-iters 30 --save "$work/local" >"$work/local.log" 2>&1
losses "$work/local.log" >"$work/want"
losses "$work"/logs/"$number"/rank-0.log >"$work/got"
[ "$(wc -l <"$work/want")" = 30 ] && pass || fail "the run without Slurm has no 30 losses"
expect_same "$work/want" "$work/got" "losses under Slurm"

# The warning before the time limit, as Slurm sends it: saved, requeued, resumed.
warn() {
    rm -rf "$work/warned"
    number=$(submit "${job[@]}" "${model[@]}" --train-iters 1200 --save "$work/warned")
    await_line "$number" "iteration       20/"
    scancel --batch --signal=USR1 "$number"
}
disturb warn
[ "$(state "$number")" = JobState=COMPLETED ] && pass || fail "a warned job did not complete: $(state "$number")"
grep -q "ended with code 210" "$work/out" && pass || fail "the warning did not reach the ranks"
scontrol show job "$number" | grep -Eq "Restarts=[1-9]" && pass || fail "the job was not requeued"
repeated=$(grep -o 'iteration *[0-9]*/ *1200' "$work/out" | sort | uniq -d | head -n 3)
[ -z "$repeated" ] && pass || fail "the log of a requeued job repeats $repeated"
bash tests/parallel/mpirun.sh 4 "$BEVATRON" train "${model[@]}" --train-iters 1200 --save "$work/long" >"$work/long.log" 2>&1
expect_same "$work/long/iter_0001200/model.safetensors" "$work/warned/iter_0001200/model.safetensors" \
    "weights after a warning and a requeue"

# A killed task ends the job's step; the job is requeued and resumes from its last checkpoint.
kill_one() {
    rm -rf "$work/killed"
    number=$(submit "${job[@]}" "${model[@]}" --train-iters 1200 --save "$work/killed" --save-interval 10)
    within 900 [ -s "$work/killed/latest_checkpointed_iteration.txt" ] || fail "no checkpoint before the kill"
    kill_rank "$work/killed"
}
disturb kill_one
[ "$(state "$number")" = JobState=COMPLETED ] && pass || fail "a job with a killed task did not complete: $(state "$number")"
expect_same "$work/long/iter_0001200/model.safetensors" "$work/killed/iter_0001200/model.safetensors" \
    "weights after a killed task"

# scancel ends it for good, and leaves a checkpoint.
number=$(submit "${job[@]}" "${model[@]}" --train-iters 1000000 --save "$work/cancelled")
await_line "$number" "iteration       20/"
scancel "$number"
await "$number"
[ "$(state "$number")" = JobState=CANCELLED ] && pass || fail "a cancelled job is $(state "$number")"
[ -s "$work/cancelled/latest_checkpointed_iteration.txt" ] && pass || fail "a cancelled job left no checkpoint"

# The signal to save and stop has no deadline, and the job is not requeued. Options of sbatch are passed on.
number=$(submit "${job[@]}" --sbatch "--mem=50 --comment='two words'" "${model[@]}" --train-iters 1000000 --save "$work/stopped" -- --nice=7)
scontrol show job "$number" >"$work/shown"
grep -q "Comment=two words" "$work/shown" && grep -q "MinMemoryNode=50M" "$work/shown" && grep -q "Nice=7" "$work/shown" && pass ||
    fail "options of sbatch did not arrive: $(cat "$work/shown")"
await_line "$number" "iteration       20/"
scancel --batch --signal=USR2 "$number"
await "$number"
grep -q "ended with code 210" "$work/out" && pass || fail "the signal to save and stop did not reach the ranks"
has_restarted && fail "a stopped job was requeued" || pass
[ -s "$work/stopped/latest_checkpointed_iteration.txt" ] && pass || fail "a stopped job left no checkpoint"

# A time limit, and Slurm's own warning: it comes on a beat of half a minute, so the run is endless and is checked when
# it has resumed for the second time. A warning before the job's shell listens ends the job, and a busy machine may not
# start four ranks within a minute: then there is another job, with a longer limit.
was_warned() { grep -qs "ended with code 210" "$work"/logs/*-"$number".log; }
has_continued() {
    was_warned && has_restarted && kept=$(cat "$work/limited/latest_checkpointed_iteration.txt" 2>/dev/null) &&
        has_line "$number" "iteration *$((kept + 20))/" && continued=yes
}
continued=no
has_continued_or_ended() { has_continued || has_ended "$number"; }
for minutes in 1 1 2 5 15; do
    rm -rf "$work/limited"
    number=$(submit "${job[@]}" --time $minutes --signal-seconds 50 "${model[@]}" --train-iters 10000000 --save "$work/limited")
    scontrol show job "$number" | grep -q "TimeLimit=00:$(printf %02d $minutes):00" && pass || fail "the time limit is another"
    within $((minutes * 60 + 240)) has_continued_or_ended
    [ $continued = yes ] && break
    echo "NOTE job $number did not continue after $minutes minutes: $(state "$number")"
    scancel "$number"
    await "$number"
done
[ $continued = yes ] && pass || fail "not continued after the time limit"
cat "$work"/logs/*-"$number".log >"$work/out"
grep -q "ended with code 210" "$work/out" && pass || fail "the time limit's warning did not reach the ranks"
scancel "$number"
await "$number"
losses "$work/out" | head -n $((kept + 20)) >"$work/got"
bash tests/parallel/mpirun.sh 4 "$BEVATRON" train "${model[@]}" --train-iters 10000000 --exit-interval $((kept + 20)) \
    --save "$work/unlimited" >"$work/unlimited.log" 2>&1
losses "$work/unlimited.log" >"$work/want"
[ "$(wc -l <"$work/want")" = $((kept + 20)) ] && pass || fail "the run without a limit has no $((kept + 20)) losses"
expect_same "$work/want" "$work/got" "losses over a time limit"

# Five allocations of 240 iterations each, against one long run. Open MPI 4.1.4 over TCP on one host loses a connection
# at the start of about one run in thirty, and more often on a busy machine (with any MPI program, measured 2026-11).
# Here the first start of every allocation is lost, but no allocation is wasted.
cat >"$work/losing" <<END
#!/bin/sh
[ "\$SLURM_STEP_ID" = 0 ] && exit 211
exec "$BEVATRON" "\$@"
END
chmod +x "$work/losing"
submit "${job[@]}" --array-chain 5 --binary "$work/losing" --watch "${model[@]}" --train-iters 1200 --exit-interval 240 --save "$work/chain" >"$work/watched"
code=$?
number=$(head -n 1 "$work/watched")
[ $code = 0 ] && pass || fail "the watched chain ended with code $code: $(cat "$work/out")"
[ "$(losses "$work/watched" | wc -l)" = 1200 ] && pass || fail "the watched chain has $(losses "$work/watched" | wc -l) losses"
"$BEVATRON" board --text --logdir "$work/chain" >"$work/board"
grep -qF "Slurm jobs ${number}_1, ${number}_2, ${number}_3, ${number}_4, ${number}_5; log $work/logs/train-$number-5.log" "$work/board" && pass ||
    fail "the board does not name the jobs: $(head -n 3 "$work/board")"
expect_same "$work/long/iter_0001200/model.safetensors" "$work/chain/iter_0001200/model.safetensors" \
    "weights after a chain of allocations"
expect_same "$work/long/iter_0001200/optimizer.safetensors" "$work/chain/iter_0001200/optimizer.safetensors" \
    "optimizer after a chain of allocations"

# Preparation, then training on its result.
for i in $(seq 200); do echo "{\"text\": \"the $i quick brown foxes jump over $i lazy dogs\"}"; done >"$work/text.jsonl"
"$BEVATRON" tokenizer train --input "$work/text.jsonl" --vocab-size 280 --output-prefix "$work/bpe" >"$work/out" 2>&1 ||
    fail "no tokenizer"
tokenizer=(--tokenizer-type GPT2BPETokenizer --vocab-file "$work/bpe-vocab.json" --merge-file "$work/bpe-merges.txt")
prepared=$(submit --shared --logs "$work/logs" preprocess --input "$work/text.jsonl" --output-prefix "$work/data" \
    --append-eod "${tokenizer[@]}")
number=$(submit "${job[@]}" --after "$prepared" --data-path "$work/data_text_document" "${tokenizer[@]}" --split 100,0,0 \
    --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 --global-batch-size 4 \
    --lr 1e-3 --train-iters 5 --log-interval 1 --eval-iters 0 --threads 1)
await "$number"
[ "$(state "$number")" = JobState=COMPLETED ] && pass || fail "training after preparation: $(state "$number")"
[ "$(losses "$work"/logs/"$number"/rank-0.log | wc -l)" = 5 ] && pass || fail "training after preparation has no 5 losses"
prepared=$(submit --shared --logs "$work/logs" preprocess --input "$work/none.jsonl" --output-prefix "$work/data2" "${tokenizer[@]}")
number=$(submit "${job[@]}" --after "$prepared" "${model[@]}" --train-iters 5)
await "$prepared"
await "$number"
[ "$(state "$number")" = JobState=CANCELLED ] && pass || fail "training after a failed preparation is $(state "$number")"
expect 1 "the job did not start, because job $prepared of --after did not succeed" "$BEVATRON" launch slurm "${job[@]}" --after "$prepared" --watch "${model[@]}" --train-iters 5
finish
