#!/usr/bin/env bash
# The program is replaced while it runs, as in an upgrade: failed ranks are restarted from the file that is running, and
# a run that is asked to stop saves.
# tier: all
# cost: 15
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
needs_parts MPI
program=$work/bin/bevatron
mkdir "$work/bin"
cp "$BEVATRON" "$program"
printf '#!/bin/sh\necho "the new version"\nexit 77\n' >"$work/new"
chmod +x "$work/new"

in_background "$work/out" "$program" launch local -n 2 --max-restarts 2 --mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
    --seq-length 16 --vocab-size 50 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 \
    --log-interval 1 --eval-iters 0 --threads 1 --device cpu --train-iters 10000000 --save "$work/run" --save-interval 5
launcher=$!
await_text "successfully saved checkpoint from iteration       5"
cp "$work/new" "$work/bin/next" && mv "$work/bin/next" "$program"
# A rank is a process whose program file is gone and which has a rank's place.
ranks() {
    local process
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe" 2>/dev/null)" = "$program (deleted)" ] &&
            tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -q '^OMPI_COMM_WORLD_RANK=' && echo "${process#/proc/}"
    done
}
two_ranks() { [ "$(ranks | wc -l)" = 2 ]; }
within 900 two_ranks || fail "no two ranks"
[ "$(ps -o comm= -p "$(ranks | head -n 1)")" = bevatron ] && pass || fail "a rank has another name"
kill -9 "$(ranks | head -n 1)"
await_text "restart 1 of 2"
restarted() { [ "$(grep -c "before the start of training step" "$work/out")" = 2 ]; }
within 900 restarted && pass || fail "the ranks were not started again"
within 900 two_ranks && pass || fail "no two ranks after the restart"
kill -TERM "$launcher"
end_of "$launcher"
[ "$code" = 210 ] && pass || fail "exit code $code of a run that was asked to stop"
grep -q "successfully saved checkpoint" "$work/out" && ! grep -q "the new version" "$work/out" && pass ||
    fail "another program ran"
finish
