#!/usr/bin/env bash
# Nobody reads a run's output, or its reader exits: the run trains to its end.
# tier: all
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0
    --threads 1 --device cpu)

# run NAME FLAG…: writes its exit code to a file, since a shell pipeline returns that of its reader.
run() {
    timeout -k 5 900 "$BEVATRON" train "${model[@]}" --save "$work/$1" "${@:2}"
    echo $? >"$work/$1.code"
}
has_ended() { [ -s "$work/$1.code" ]; }
ranks=1
$BEVATRON version | grep -q "MPI.*yes" && ranks="1 2"

for n in $ranks; do
    # A reader of three lines.
    run "head$n" --nproc "$n" --train-iters 40 2>&1 | head -n 3 >/dev/null
    within 900 has_ended "head$n"
    [ "$(cat "$work/head$n.code")" = 0 ] && [ -d "$work/head$n/iter_0000040" ] && pass || fail "head ended $n ranks"

    # A reader that is gone before the first line.
    { sleep 0.2 && run "gone$n" --nproc "$n" --train-iters 40; } 2>&1 | true
    within 900 has_ended "gone$n"
    [ "$(cat "$work/gone$n.code")" = 0 ] && [ -d "$work/gone$n/iter_0000040" ] && pass || fail "no reader ended $n ranks"

    # A reader that opens a pipe and reads nothing; a pipe holds 64 KiB, and the output has about 100.
    mkfifo "$work/pipe$n"
    sleep 100000 <"$work/pipe$n" &
    reader=$!
    run "full$n" --nproc "$n" --train-iters 400 >"$work/pipe$n" 2>"$work/out"
    [ "$(cat "$work/full$n.code")" = 0 ] && [ -d "$work/full$n/iter_0000400" ] && pass || fail "a full pipe stopped $n ranks"
    kill "$reader" 2>/dev/null
    wait "$reader" 2>/dev/null
done

# mpirun gives its ranks a terminal and reads it more slowly than a fast run writes: every line arrives.
if command -v mpirun >/dev/null; then
    bash tests/parallel/mpirun.sh 1 "$BEVATRON" train "${model[@]}" --global-batch-size 1 --train-iters 20000 >"$work/lines" 2>"$work/out"
    [ "$(grep -c "lm loss" "$work/lines")" = 20000 ] && pass ||
        fail "of 20000 lines $(grep -c "lm loss" "$work/lines") arrived: $(grep "missing" "$work/lines" | head -n 1)"
fi
finish
