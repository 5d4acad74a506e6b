#!/usr/bin/env bash
# An mpirun that is killed together with its ranks leaves shared memory and its session folder. The next start removes
# them, but nothing of a run that goes on, and nothing that another program left.
# tier: all
# cost: 3
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts MPI
mpirun --version | grep -q "Open MPI" || { echo "SKIP not Open MPI"; exit 77; }
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1)
# start NAME: a run of two ranks without end; $mpirun and $ranks are its processes, $segments its shared memory.
start() {
    in_background "$work/$1.log" "$BEVATRON" train --nproc 2 "${model[@]}" --train-iters 1000000
    launcher=$!
    await_text "iteration        1/" "$work/$1.log" || fail "$1 does not start"
    mpirun=$(pgrep -P "$launcher" -x mpirun)
    mapfile -t ranks < <(pgrep -P "$mpirun")
    segments=$(grep -ho '/dev/shm/vader_segment[^ ]*' "/proc/${ranks[0]}/maps" | sort -u)
}
start going
# It need not compute meanwhile.
kill -STOP "${ranks[@]}"
going=$launcher kept=$segments stopped=("${ranks[@]}")
start killed
if [ -z "$segments" ]; then
    kill -9 "${stopped[@]}"
    kill "$going" "$launcher"
    echo "SKIP these ranks use no shared memory"
    exit 77
fi
session=$(ls -d "$TMPDIR"/ompi.*/pid."$mpirun")
# None of them may notice that another one has gone, and clean up. Children go first: the kernel wakes stopped processes
# whose parent has ended, by SIGHUP and SIGCONT.
kill -STOP "${ranks[@]}" "$mpirun" "$launcher"
kill -9 "${ranks[@]}" "$mpirun" "$launcher"
wait "$launcher" 2>/dev/null
within 900 eval '! kill -0 "${ranks[@]}" 2>/dev/null' || fail "killed ranks do not end"
# shellcheck disable=SC2086  # one per word
ls $segments "$session" >/dev/null && pass || fail "a killed mpirun left nothing to test with"
other=/dev/shm/vader_segment.$(hostname).$(id -u).$$.0
echo x >"$other"

expect 0 "removed what mpirun (process $mpirun) left when it was killed: 2 shared-memory segments and its session folder" \
    "$BEVATRON" train --nproc 2 "${model[@]}" --train-iters 1
for path in $segments "$session"; do [ ! -e "$path" ] && pass || fail "$path is still there"; done
for path in $kept "$other"; do [ -e "$path" ] && pass || fail "$path was removed"; done
rm -f "$other"
# The file by which its ranks were known to have connected, too.
[ "$(ls "$TMPDIR" | grep -c "^bevatron-ranks")" = 1 ] && pass || fail "not the file of one run: $(ls "$TMPDIR")"
kill -CONT "${stopped[@]}"
kill "$going"
wait "$going"
# A run that ends by itself leaves no note.
expect 0 "iteration        1/" "$BEVATRON" train --nproc 2 "${model[@]}" --train-iters 1
grep -q "removed what" "$work/out" && fail "something was left" || pass
[ -z "$(ls "$TMPDIR"/bevatron-mpi-*)" ] && pass || fail "notes are left: $(ls "$TMPDIR"/bevatron-mpi-*)"

# Ranks note it before MPI starts, by the job's number.
mpirun --allow-run-as-root --oversubscribe -n 1 env | grep -q '^PMIX_NAMESPACE=[0-9]*$' && pass || fail "Open MPI does not tell the job's number"
finish
