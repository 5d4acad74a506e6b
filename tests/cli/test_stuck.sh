#!/usr/bin/env bash
# Files that do not answer: an fsync that does not return, while training waits and in the background; a read of data;
# pipes where files should be; a dataset that is truncated under a run. Each ends with its exit code and a sentence that
# names the file. Limits of a process: open files, what it may write, and the memory of its control group.
# tier: all
# cost: 10
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
is_sanitized && { echo "skipped: nothing can be preloaded"; exit 77; }
slow=$(dirname "$BEVATRON")/tests/libslow_files.so
[ -f "$slow" ] || { echo "skipped: no $slow"; exit 77; }

model=(--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --max-position-embeddings 8 --micro-batch-size 1
    --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu --threads 1)
train=("$BEVATRON" train --mock-data --vocab-size 30 "${model[@]}")

# ---- a file system that does not answer ----

host=$(uname -n)
has_said() {
    local text
    for text in "$@"; do grep -Eq -- "$text" "$work/out" || return; done
}
# stuck TEXT… -- COMMAND…: it ends by itself with 212 and says each text; LIMIT stands for three seconds. A busy machine
# may take as long for something else: then for a minute.
stuck() {
    local texts=() text minutes
    while [ "$1" != -- ]; do
        texts+=("$1")
        shift
    done
    shift
    for minutes in 0.05 1; do
        "${@//LIMIT/$minutes}" >"$work/out" 2>&1
        code=$?
        [ "$code" = 212 ] && has_said "${texts[@]}" && break
    done
    [ "$code" = 212 ] && pass || fail "exit code $code instead of 212"
    for text in "${texts[@]}"; do
        has_said "$text" && pass || fail "no \"$text\""
    done
}
# An fsync takes an hour.
save_slowly() {
    rm -rf "$work/run"
    SLOW_SYNCS=model.safe SLOW_SECONDS=3600 LD_PRELOAD=$slow "${train[@]}" --save "$work/run" --train-iters 1000000 --save-interval 2 "$@"
}
wait_for_sync() {
    stuck "warning: still saving the checkpoint after iteration 2, [0-9]+ s, rank 0 on $host, syncing .*/model.safetensors" \
        "saving the checkpoint after iteration 2: nothing was completed for [0-9]+ s, longer than --save-timeout-minutes allows, on rank 0" \
        -- save_slowly --save-timeout-minutes LIMIT
    grep -q '"event":"hang"' "$work/run/metrics.jsonl" && pass || fail "no event"
}
wait_for_sync_in_background() {
    stuck "still saving a checkpoint in the background after iteration [0-9]+, [0-9]+ s, rank 0 on $host, syncing .*/model.safetensors" \
        "longer than --save-timeout-minutes allows" -- save_slowly --save-timeout-minutes LIMIT --async-save
}
# With 0 there is no limit, and a slow one is no reason to end.
wait_out() {
    SLOW_SYNCS=model.safe SLOW_SECONDS=2 SLOW_TIMES=1 LD_PRELOAD=$slow "${train[@]}" --save "$work/run" --train-iters 2 \
        --save-timeout-minutes 0 >"$work/out" 2>&1
    [ $? = 0 ] && pass || fail "a slow fsync ended the run"
}
# The checkpoint is read back: the read of a file of tensors takes an hour.
load_stuck() {
    "${train[@]}" --save "$work/run" --train-iters 2 >"$work/out" 2>&1 || fail "no checkpoint to load"
    stuck "still loading the checkpoint, [0-9]+ s, rank 0 on $host, reading .*/(model|optimizer).safetensors" \
        "longer than --load-timeout-minutes allows" \
        -- env SLOW_READS=safetensors SLOW_SECONDS=3600 LD_PRELOAD="$slow" "${train[@]}" --load "$work/run" --train-iters 4 \
        --override-opt_param-scheduler --load-timeout-minutes LIMIT
}
# A single rank that hangs, in an iteration and before the first.
hang_alone() {
    stuck "still training after iteration 2, [0-9]+ s, rank 0 on $host" \
        "training after iteration 2: nothing was completed for [0-9]+ s, longer than --step-timeout-minutes allows" \
        -- "${train[@]}" --train-iters 1000000 --step-timeout-minutes LIMIT --allow-injected-faults --inject hang:step=3
    "${train[@]}" --save "$work/run" --train-iters 2 >"$work/out" 2>&1 || fail "no checkpoint to load"
    stuck "longer than --(start|load)-timeout-minutes allows, on rank 0" -- "${train[@]}" --load "$work/run" --train-iters 9 \
        --start-timeout-minutes LIMIT --load-timeout-minutes LIMIT --allow-injected-faults --inject hang:phase=load
}
beside alone hang_alone
beside sync wait_for_sync
beside sync.async wait_for_sync_in_background
beside slow wait_out
beside load load_stuck
gather

# ---- pipes where files should be ----

# They have no writer, so waiting for one would take forever.
printf '{"text": "the cat sat on the mat and the cat ate"}\n' >"$work/a.jsonl"
for _ in $(seq 400); do cat "$work/a.jsonl"; done >"$work/text.jsonl"
"$BEVATRON" tokenizer train --input "$work/text.jsonl" --vocab-size 270 --output-prefix "$work/t" >"$work/out" 2>&1 || fail "no tokenizer"
tokenizer=(--vocab-file "$work/t-vocab.json" --merge-file "$work/t-merges.txt")
"$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/d" "${tokenizer[@]}" --append-eod >"$work/out" 2>&1 ||
    fail "no dataset"
data=("$BEVATRON" train "${model[@]}" "${tokenizer[@]}" --split 100,0,0 --train-iters 2)
ends=(timeout -k 1 600)
for part in bin idx; do
    rm -f "$work"/p.*
    cp "$work/d_text_document.bin" "$work/p.bin" && cp "$work/d_text_document.idx" "$work/p.idx"
    rm "$work/p.$part" && mkfifo "$work/p.$part"
    "${ends[@]}" "${data[@]}" --data-path "$work/p" >"$work/out" 2>&1
    code=$?
    [ "$code" -gt 0 ] && [ "$code" -lt 124 -o "$code" = 215 ] && grep -q "p.$part: it is a pipe (FIFO), not a regular file" "$work/out" &&
        pass || fail "exit code $code, or a wrong message, for .$part as a pipe"
done
"${train[@]}" --save "$work/run" --train-iters 2 >"$work/out" 2>&1 || fail "no checkpoint"
rm "$work/run/latest_checkpointed_iteration.txt" && mkfifo "$work/run/latest_checkpointed_iteration.txt"
expect 0 "is a pipe (FIFO), not a regular file" "${ends[@]}" "${train[@]}" --load "$work/run" --train-iters 3 --override-opt_param-scheduler
mkfifo "$work/pipe"
expect 216 "pipe is a file; give the folder of the checkpoints with --load" "${ends[@]}" "${train[@]}" --load "$work/pipe" --train-iters 3
# A pipe with a writer is read.
mkfifo "$work/vocabulary"
cat "$work/t-vocab.json" >"$work/vocabulary" &
expect 0 "" "${ends[@]}" "$BEVATRON" tokenizer inspect --vocab-file "$work/vocabulary" --merge-file "$work/t-merges.txt"
wait

# ---- a dataset that shrinks under the run ----

cp "$work/d_text_document.bin" "$work/shrinks.bin" && cp "$work/d_text_document.idx" "$work/shrinks.idx"
in_background "$work/out" "${data[@]}" --data-path "$work/shrinks" --train-iters 10000000
process=$!
await_text "iteration        1/"
truncate -s 100 "$work/shrinks.bin"
end_of "$process"
[ "$code" = 215 ] && pass || fail "exit code $code instead of 215 after the dataset was truncated"
grep -Eq "shrinks.bin was truncated to 100 bytes while it was in use, and byte [0-9]+ is gone; restore the file" "$work/out" && pass ||
    fail "the truncated file is not named"

# ---- the launcher itself ----

# It looks for checkpoints, too, when no rank is there to say anything.
if command -v mpirun >/dev/null && "$BEVATRON" version | grep -q "MPI *yes"; then
    "${train[@]}" --save "$work/launched" --train-iters 2 >"$work/out" 2>&1 || fail "no checkpoint"
    stuck "still looking for the newest checkpoint, [0-9]+ s, the launcher on $host, reading .*launched/iter_0000002/manifest.json" \
        "looking for the newest checkpoint: nothing was completed for [0-9]+ s, longer than --load-timeout-minutes allows, on the launcher" -- \
        env SLOW_READS=manifest.json SLOW_SECONDS=1800 LD_PRELOAD="$slow" "$BEVATRON" launch local -n 1 "${train[@]:2}" --save "$work/launched" \
        --load-timeout-minutes LIMIT --train-iters 3 --override-opt_param-scheduler
fi

# ---- limits of the process ----

# The signal of a file that may not grow ends a process without a message. The signal is not ignored by the shell here.
expect 1 "raise the file size limit (ulimit -f)" bash -c 'ulimit -f 1; exec "$@"' - "$BEVATRON" preprocess --input "$work/text.jsonl" \
    --output-prefix "$work/limited" "${tokenizer[@]}"
if command -v mpirun >/dev/null && "$BEVATRON" version | grep -q "MPI *yes"; then
    few=(bash -c 'ulimit -n 32; exec "$@"' -)
    expect 0 "" "${few[@]}" "${train[@]}" --train-iters 2 --save "$work/few"
    expect 1 "this process may open 32 files, but starting 2 ranks takes about" "${few[@]}" "${train[@]}" --train-iters 2 --nproc 2 --global-batch-size 2
    # Starting again would not help.
    expect 1 "this process may open 32 files, but starting 2 ranks takes about" "${few[@]}" "$BEVATRON" launch local -n 2 "${train[@]:2}" \
        --train-iters 2 --global-batch-size 2 --save "$work/few"
    grep -q "starting" <(grep -v "may open 32 files" "$work/out") && fail "it is started again" || pass
fi

# The kernel kills who uses more memory than a control group has; what is said before that is the last word of a rank
# alone. A launcher outlives its ranks and tells why they are gone.
large=("${train[@]}" --hidden-size 1024 --train-iters 2)
group=(bash tests/cli/memory_group.sh 120000000)
"${group[@]}" true 2>/dev/null
if [ $? = 77 ]; then
    echo "no memory limits: control groups cannot be made here"
else
    "${group[@]}" "${large[@]}" >"$work/out" 2>&1
    [ $? = 137 ] && has_said "the step needs 0\.[0-9]+ GB, but only 0\.[0-9]+ GB of host memory is available; .* the OOM killer may end this run" &&
        pass || fail "a rank in a small control group ends without a word"
    if command -v mpirun >/dev/null && "$BEVATRON" version | grep -q "MPI *yes"; then
        expect 211 "the OOM killer killed it: this job's control group is limited to 0.12 GB of memory; raise the limit" "${group[@]}" \
            "${large[@]}" --nproc 2 --global-batch-size 2
    fi
fi
finish
