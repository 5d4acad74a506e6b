#!/usr/bin/env bash
# Faults while several ranks train: a damaged checkpoint, a full disk on one rank, a stopped rank. The run ends with a
# message that names the rank and the file, continues, or resumes from the checkpoint before.
# tier: all
# cost: 25
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

train=(bash tests/parallel/mpirun.sh 4 "$BEVATRON" train --mock-data --num-layers 2 --hidden-size 32
    --num-attention-heads 4 --seq-length 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --tokenizer-type
    NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1
    --train-iters 8 --save-interval 2 --ckpt-writers 4 --use-distributed-optimizer)
# Changes the middle byte of a file.
damage() {
    local at=$(($(stat -c %s "$1") / 2))
    printf '\377' | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}

# ---- a damaged checkpoint ----

expect 0 "successfully saved checkpoint from iteration       4" "${train[@]}" --exit-interval 4 --save "$work/run"
file=$work/run/iter_0000004/optimizer-00003-of-00004.safetensors
damage "$file"
expect 0 "FALLING BACK to the checkpoint of iteration 2" "${train[@]}" --exit-interval 4 --load "$work/run"
grep -q "rank [0-3]: $file has the right size but not the SHA-256" "$work/out" && pass || fail "the file is named"
grep -qE 'the first damage is in tensor "exp_avg[a-z_.0-9]+", bytes [0-9]+ to [0-9]+ of the file' "$work/out" && pass ||
    fail "the tensor is named"
grep -q "iteration        3/" "$work/out" && pass || fail "it goes on from iteration 2"
expect 216 "optimizer-00003-of-00004.safetensors" "${train[@]}" --exit-interval 4 --load "$work/run" --ckpt-step 4
[ "$(grep -c "cannot be used" "$work/out")" = 1 ] && pass || fail "one rank says it"

# The same if the first rank, which reports it, is slow to end the others.
cat >"$work/late.c" <<'C'
#include <unistd.h>
int PMPI_Abort(void *ranks, int code);
int MPI_Abort(void *ranks, int code) {
    sleep(8);
    return PMPI_Abort(ranks, code);
}
C
if mpirun --version 2>/dev/null | grep -q "Open MPI" && ${CC:-cc} -shared -fPIC -o "$work/late.so" "$work/late.c" 2>/dev/null; then
    expect 216 "cannot be used" "${train[@]:0:3}" env LD_PRELOAD="$work/late.so" "${train[@]:3}" --exit-interval 4 \
        --load "$work/run" --ckpt-step 4
    [ "$(grep -c "cannot be used" "$work/out")" = 1 ] && pass || fail "one rank says it, though it is late"
else
    echo "skipped: a first rank that is late (no C compiler, or not Open MPI)"
fi

# ---- a disk without space for one rank's files ----

# Space for one checkpoint and some files of the next: the last writer finds none. There must be space for one, and
# enough bytes, which a run checks before it begins.
small=$work/small
mkdir "$small"
if mount -t tmpfs -o size=64m,nr_inodes=64 tmpfs "$small" 2>/dev/null; then
    trap 'umount "$small"; rm -rf "$work"' EXIT
    for mode in "" --async-save; do
        rm -rf "$small"/*
        # shellcheck disable=SC2086
        expect 0 "successfully saved checkpoint from iteration       2" "${train[@]}" --exit-interval 2 --save "$small/run" $mode
        files=$(find "$small/run/iter_0000002" -type f | wc -l)
        free=$(df --output=iavail "$small" | tail -n 1)
        for ((i = 0; i < free - 2 * files + 2; i++)); do : >"$small/full.$i"; done
        # shellcheck disable=SC2086
        expect 1 "iterations 5 to 6 are not saved (--last-save-minutes)" "${train[@]}" --exit-interval 6 --load "$small/run" \
            --save "$small/run" --last-save-minutes 0 $mode
        grep -qE "error: .*rank [0-3]: .*iter_0000006.*safetensors.*No space left" "$work/out" && pass ||
            fail "rank and file are named"
        [ "$(grep -c "error: .*No space left" "$work/out")" = 1 ] && pass || fail "one rank says it"
        [ -z "$(find "$small/run" -name '*.tmp.*')" ] && pass || fail "nothing half-written is left"
        expect 0 "" "$BEVATRON" checkpoint verify "$small/run/iter_0000004"
        # No space at all.
        rm "$small/full.0"
        for ((i = 1; i <= files; i++)); do : >"$small/more.$i"; done 2>/dev/null
        # shellcheck disable=SC2086
        expect 1 "No space left on device" "${train[@]}" --exit-interval 6 --load "$small/run" --save "$small/run" $mode
        grep -q "iteration        5/" "$work/out" && fail "an iteration before a save that cannot succeed" || pass
        rm -f "$small"/more.*
        # Some space at the start, none for a while, then enough: the run continues on all ranks.
        # shellcheck disable=SC2086
        in_background "$work/out" "${train[@]}" --load "$small/run" --save "$small/run" --train-iters 1000000 --override-opt_param-scheduler \
            --keep-last 1 $mode
        launcher=$!
        fill() { for ((i = 0; i < 64; i++)); do : >"$small/full.$i"; done 2>/dev/null; }
        await_text "iteration        5/"
        until_full() { fill; grep -q "was not saved: rank .*No space left on device.*training continues" "$work/out"; }
        within 900 until_full || fail "no save fails"
        rm -f "$small"/full.*
        seen=$(grep -c "successfully saved" "$work/out")
        saved_again() { [ "$(grep -c "successfully saved" "$work/out")" -gt "$seen" ]; }
        within 900 saved_again && pass || fail "no save succeeds after one has failed"
        kill -USR1 "$launcher"
        end_of "$launcher"
        [ "$code" = 210 ] && pass || fail "exit code $code instead of 210 after a disk was full for a while"
        [ "$(grep -c "warning: the checkpoint .* was not saved" "$work/out")" -lt 20 ] && pass || fail "all ranks warn"
        [ -z "$(find "$small/run" -name '*.tmp.*')" ] && pass || fail "nothing half-written is left"
        rm -rf "$small/run"
        # shellcheck disable=SC2086
        expect 0 "successfully saved checkpoint from iteration       4" "${train[@]}" --exit-interval 4 --save "$small/run" $mode
        # shellcheck disable=SC2086
        expect 0 "successfully saved checkpoint from iteration       6" "${train[@]}" --exit-interval 6 --load "$small/run" \
            --save "$small/run" $mode
    done
else
    echo "skipped: a full disk (no right to mount one)"
fi

# ---- a folder of --save that one machine does not share ----

cat >"$work/apart.sh" <<'EOF'
if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 2 ]; then
    exec unshare -m bash -c 'mount -t tmpfs tmpfs "$0" && exec "$@"' "$APART" "$@"
fi
exec "$@"
EOF
mkdir "$work/apart"
if unshare -m mount -t tmpfs tmpfs "$work/apart" 2>/dev/null; then
    APART=$work/apart expect 1 "rank 2: --save must be a folder that all nodes share" "${train[@]:0:3}" bash "$work/apart.sh" \
        "${train[@]:3}" --save "$work/apart"
    grep -q "iteration        1/" "$work/out" && fail "an iteration before a save that cannot succeed" || pass
else
    echo "skipped: a folder that is not shared (no right to mount one)"
fi

# ---- a stopped rank ----

# hang MINUTES VICTIM FLAGS…: that rank stops in its fourth iteration; the others have that deadline. $work/named has the
# message of the first rank that gives up.
hang() {
    local minutes=$1 victim=$2
    shift 2
    rm -rf "$work/hung"
    "${train[@]}" --distributed-timeout-minutes "$minutes" --save "$work/hung" --save-interval 1000000 \
        --allow-injected-faults --inject "stop:rank=$victim:step=4:phase=backward" "$@" >"$work/out" 2>&1
    code=$?
    grep -E "longer than --distributed-timeout" "$work/out" | head -n 1 >"$work/named"
}

# Which ranks are reported to have left no record, in the group or in the whole run.
silent() {
    {
        grep -oE "rank [0-9]+ on [^ ,]+ \(left no record" "$work/named"
        sed -n 's/ (iteration [0-9]*,.*//; s/.*without a record: //p' "$work/named"
    } | grep -oE "rank [0-9]+" | sort -u | tr '\n' ' '
}

# stand_still FLAGS…: the first rank that gives up names the stopped one, and no other as silent. A rank that a busy
# machine does not run for some seconds is silent, too: then the deadline is longer.
stand_still() {
    local come named record minutes
    for minutes in 0.1 0.3 1; do
        hang "$minutes" 2 "$@"
        [ "$(silent)" = "rank 2 " ] && break
    done
    [ "$code" = 212 ] && pass || fail "exit code $code instead of 212 after a hang ($*)"
    # They may wait in any collective, even in one between two stages ("activations, stage 0 to 1").
    grep -qE 'collective "[^"]+" in group "[^"]+"' "$work/named" && pass || fail "the collective is not named ($*)"
    [ "$(silent)" = "rank 2 " ] && pass || fail "\"$(silent)\" instead of rank 2 is silent ($*)"
    # If all share one group, each of the three others has arrived or is named. A rank may be one collective behind when
    # another stops in the middle of it: then it lacks what that one had still to send.
    come=$(sed -nE 's/.* ([0-3]) other ranks arrived; missing: .*/\1/p' "$work/named")
    named=$(sed 's/.*missing: //' "$work/named" | grep -oE "rank [0-3] on [^ ,]+ \((left no record|waits for)" | wc -l)
    [ $# -gt 0 ] || [ "$((come + named))" = 3 ] && pass || fail "those that have come are not counted"
    for record in "$work"/hung/flight-*.jsonl; do
        head -n 1 "$record" | sed 's/.*"begun"://' | grep -oE '"[a-z ]+":[0-9]+' | cut -d: -f1 | grep -v "activation" |
            sort | uniq -d | grep -q . && fail "two groups of one name in $record" || pass
    done
    grep -q '"waits for":' "$work"/hung/flight-*.jsonl && pass || fail "no flight records ($*)"
    # Where the rank was: in its message and in its record.
    grep -qE " \(iteration [0-9]+, [a-z0-9: ]+, rank [013] on $(hostname)\)$" "$work/named" && pass || fail "the message does not end with the place ($*): $(cat "$work/named")"
    head -qn 1 "$work"/hung/flight-*.jsonl | grep -qE "\"host\":\"$(hostname)\",\"iteration\":[0-9]+,\"phase\":\"[a-z0-9: ]+\"" && pass ||
        fail "no place in the flight records ($*)"
}

if mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    beside data stand_still
    beside tensor stand_still --tensor-model-parallel-size 2
    beside pipeline stand_still --pipeline-model-parallel-size 2
    gather
fi
finish
