#!/usr/bin/env bash
# Starting ranks: --nproc gives the same as mpirun, ranks with other flags than rank 0 are refused by name, and
# inconsistent launchers are reported.
# tier: all
# beside: ranks
# cost: 40
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
train=("$BEVATRON" train --mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16
    --vocab-size 50 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --train-iters 4
    --log-interval 1 --eval-iters 0 --threads 1)

losses() { grep -o 'lm loss: [^|]*' "$1"; }
expect 0 "iteration        4/" bash tests/parallel/mpirun.sh 2 "${train[@]}"
losses "$work/out" >"$work/by_mpirun"
expect 0 "iteration        4/" "${train[@]}" --nproc 2
losses "$work/out" >"$work/by_nproc"
cmp -s "$work/by_mpirun" "$work/by_nproc" && [ -s "$work/by_nproc" ] && pass || fail "--nproc 2 and mpirun -n 2 differ"
expect 0 "iteration        4/" "${train[@]}" --nproc=3 --global-batch-size 3
expect 2 "--nproc takes a whole number" "${train[@]}" --nproc many
expect 2 "--nproc 1025 is not a number of ranks from 1 to 1024" "${train[@]}" --nproc 1025
# The last line is ours, not a banner of mpirun; if mpirun starts no ranks, it prints the reason itself.
expect 1 "does not exist" "${train[@]:0:2}" --data-path "$work/none" "${train[@]:3}" --nproc 2
last_line "$work/out" | grep -q "error: bevatron: rank 0: cannot open dataset $work/none" && pass ||
    fail "the last line is not our error"
expect 2 "cannot be shared" "${train[@]}" --tensor-model-parallel-size 3 --nproc 2
last_line "$work/out" | grep -q "ranks are not a multiple of tensor" && pass || fail "the last line is not our error"
mkdir "$work/bin" "$work/tmp"
printf '#!/bin/sh\necho "mpirun $1" >>"%s"\n[ "$1" = --quiet ] || echo "no slots left" >&2\nexit 3\n' "$work/calls" \
    >"$work/bin/mpirun"
chmod +x "$work/bin/mpirun"
expect 3 "no slots left" env PATH="$work/bin:$PATH" TMPDIR="$work/tmp" "${train[@]}" --nproc 2
[ "$(cat "$work/calls")" = "mpirun --quiet
mpirun -n" ] && [ -z "$(ls -A "$work/tmp")" ] && pass || fail "mpirun is called otherwise: $(cat "$work/calls")"
printf '#!/bin/sh\ntouch "$BEVATRON_RANKS_MARK"\nexit 137\n' >"$work/bin/mpirun"
expect 211 "error: bevatron: a rank was killed" env PATH="$work/bin:$PATH" "${train[@]}" --nproc 2
# Without shared memory they use TCP.
expect 0 "iteration        4/" env OMPI_MCA_btl_vader_backing_directory="$work/nowhere" OMPI_MCA_btl_sm_backing_directory="$work/nowhere" \
    "${train[@]}" --nproc 2
losses "$work/out" >"$work/by_tcp"
cmp -s "$work/by_mpirun" "$work/by_tcp" && pass || fail "ranks without shared memory compute something else"
# The flag does the same in a file, and so does --dry-run, which starts nothing.
printf 'nproc: 2\n' >"$work/run.yaml"
expect 0 "iteration        4/" "${train[@]}" --config "$work/run.yaml"
losses "$work/out" >"$work/by_file"
cmp -s "$work/by_mpirun" "$work/by_file" && pass || fail "nproc in a file and mpirun -n 2 differ"
grep -q "using world size: 2," "$work/out" && pass || fail "nproc in a file starts no ranks"
expect 0 "note: nproc in a --config file has no effect" bash tests/parallel/mpirun.sh 2 "${train[@]}" --config "$work/run.yaml"
grep -q "using world size: 2," "$work/out" && pass || fail "nproc in a file and a launcher's ranks"
expect 0 "iteration        4/" "$BEVATRON" launch local --nproc 1 "${train[@]:1}" --config "$work/run.yaml"
expect 216 "no folder $work/nowhere" "$BEVATRON" generate --load "$work/nowhere" --config "$work/run.yaml"
printf 'dry-run: true\n' >>"$work/run.yaml"
for more in "" "--nproc 2"; do
    expect 0 "number of parameters: 5616" "${train[@]}" --config "$work/run.yaml" $more
    grep -Eq "^  world_size \.+ 2$" "$work/out" && pass || fail "a dry run that was asked for in a file counts no ranks"
    grep -q "iteration  " "$work/out" && fail "a dry run that was asked for in a file trains" || pass
done
expect 0 "iteration        4/" "${train[@]}" --config <(cat "$work/run.yaml") --dry-run=false --nproc 1
for more in "" --dry-run; do
    expect 2 "launcher has already started the ranks" bash tests/parallel/mpirun.sh 2 "${train[@]}" --nproc 2 $more
    [ "$(grep -c "already started the ranks" "$work/out")" = 1 ] && pass || fail "one rank says that ranks are there ($more)"
done

# Every collective is correct, on two ranks and on three.
for ranks in 2 3; do
    expect 0 "$ranks ranks, mpi" "$BEVATRON" bench collectives --nproc $ranks --min-bytes 12 --max-bytes 50000 --iters 2
    awk '/^(all|red|bro|send)/ { n += $NF == 0 } END { exit n != 42 }' "$work/out" && pass || fail "wrong elements, $ranks ranks"
done
expect 2 "need at least two ranks" "$BEVATRON" bench collectives
# nccl-tests' options have the same meaning; a message smaller than one element per rank is measured once.
expect 0 "3 ranks, mpi" "$BEVATRON" bench collectives -b 8 -f 2 -e 0.25K -n 2 -w 1 -c 1 -g 3
awk '/^all_reduce/ { sizes = sizes " " $2 } END { exit sizes != " 8 16 32 64 128 256" }' "$work/out" && pass || fail "-b -e -f"
awk '/^all_gather/ { sizes = sizes " " $2 } END { exit sizes != " 12 24 36 72 132 264" }' "$work/out" && pass || fail "parts"
expect 0 "3 ranks, mpi" "$BEVATRON" bench collectives --operation broadcast -b 1K -i 1K -e 3K -n1 -c 0 --ngpus 3
awk '/^broadcast/ { sizes = sizes " " $2 } END { exit sizes != " 1024 2048 3072" }' "$work/out" && pass || fail "-i"
expect 2 "give --step-factor or --step-bytes, not both" "$BEVATRON" bench collectives -f 2 -i 8 -g 2
expect 2 "unknown flag -t; flags begin with two dashes, except -b -e -f -i -n -w -c -g" "$BEVATRON" bench collectives -t 1

# Two ranks of one run with different flags, as after a half-edited script.
options=()
mpirun --version 2>/dev/null | grep -q "Open MPI" && options=(--oversubscribe --bind-to none --allow-run-as-root)
expect 1 "rank 1 was started with --lr 0.002" mpirun "${options[@]}" -n 1 "${train[@]}" : -n 1 "${train[@]}" --lr 0.002

# Flags that only one rank has, and that it cannot use, are reported by that rank.
expect 2 "[rank 1] error: bevatron: unknown flag --bogus" mpirun "${options[@]}" -n 1 "${train[@]}" : -n 1 "${train[@]}" \
    --bogus
expect 2 "[rank 1] error: bevatron: --hidden-size 16" mpirun "${options[@]}" -n 1 "${train[@]}" : -n 1 "${train[@]}" \
    --num-attention-heads 3

# A signal to the command reaches the ranks, which save and exit; the exit code is theirs. The same with `launch local`.
for command in "train" "launch local"; do
    for signal in TERM INT USR1; do
        rm -rf "$work/stopped"
        # A shell's background jobs ignore SIGINT unless told otherwise.
        # shellcheck disable=SC2086
        in_background "$work/out" env --default-signal=INT "$BEVATRON" $command "${train[@]:2}" --nproc 2 --train-iters 1000000 --save "$work/stopped" \
            --save-interval 1000000
        launcher=$!
        await_text "iteration        3/"
        kill -$signal "$launcher"
        wait "$launcher"
        code=$?
        [ "$code" = 210 ] && pass || fail "$command --nproc 2 with SIG$signal: exit code $code instead of 210"
        grep -q "exiting program after receiving SIG$signal" "$work/out" && pass || fail "$command: the ranks heard no SIG$signal"
        [ -s "$work/stopped/latest_checkpointed_iteration.txt" ] && pass || fail "$command: no checkpoint after SIG$signal"
    done
done

# A killed rank counts as a lost peer.
in_background "$work/out" "${train[@]}" --nproc 2 --train-iters 1000000 --seed 4711
launcher=$!
await_text "iteration        3/"
mpirun=$(pgrep -P "$launcher")
kill -9 "$(pgrep -P "$mpirun" -f "train .*--seed 4711" | head -n 1)"
wait "$launcher"
code=$?
[ "$code" = 211 ] && pass || fail "--nproc 2 with a rank that is killed: exit code $code instead of 211"

# A killed launcher leaves no ranks behind, whether mpirun or the command that started it.
none_is_left() { ! pgrep -f -- "--save $work/left" >/dev/null; }
for victim in mpirun command; do
    in_background "$work/out" "${train[@]}" --nproc 2 --train-iters 1000000 --save "$work/left" --save-interval 1000000
    launcher=$!
    await_text "iteration        3/"
    [ $victim = mpirun ] && kill -9 "$(pgrep -P "$launcher")" || kill -9 "$launcher"
    wait "$launcher" 2>/dev/null
    code=$?
    [ $victim = command ] || { [ "$code" = 211 ] && pass || fail "exit code $code instead of 211 after mpirun was killed"; }
    within 900 none_is_left && pass || fail "somebody is left after the $victim was killed: $(pgrep -af -- "--save $work/left")"
done

# An mpirun that pauses while its ranks finish, as on a busy machine, does not take them for crashed.
cat >"$work/farewell.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
static int is_end;
int PMPI_Finalize(void);
int MPI_Finalize(void) {
    is_end = 1;
    return PMPI_Finalize();
}
int PMIx_Finalize(const void *information, size_t count) {
    void *library = dlopen("libpmix.so.2", RTLD_LAZY);
    int (*next)(const void *, size_t) = library ? (int (*)(const void *, size_t))dlsym(library, "PMIx_Finalize") : NULL;
    pid_t mpirun = getppid();
    if (is_end && kill(mpirun, SIGSTOP) == 0 && fork() == 0) {
        sleep(3);
        kill(mpirun, SIGCONT);
        _exit(0);
    }
    return next ? next(information, count) : -1;
}
C
if [ ${#options[@]} -gt 0 ] && ${CC:-cc} -shared -fPIC -o "$work/farewell.so" "$work/farewell.c" -ldl 2>"$work/out"; then
    expect 0 "iteration        4/" bash tests/parallel/mpirun.sh 2 env LD_PRELOAD="$work/farewell.so" "${train[@]}"
else
    echo "skipped: an mpirun that stands still (no C compiler, or not Open MPI)"
fi

# The launcher of another MPI starts ranks that do not find each other.
expect 2 "the launcher has started 2 ranks, but MPI finds 1" env OMPI_COMM_WORLD_SIZE=2 "${train[@]}"

# Ranks not started by MPI need GPUs; the message says what to do instead.
expect 2 "MASTER_ADDR is not set" env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 "${train[@]}"
MASTER_PORT=$(free_port)
export MASTER_ADDR=127.0.0.1 MASTER_PORT WORLD_SIZE=2
RANK=1 LOCAL_RANK=1 "${train[@]}" >/dev/null 2>&1 &
expect 1 "start them with mpirun or srun --mpi=pmix" env RANK=0 LOCAL_RANK=0 "${train[@]}"
wait
# Nobody has given these two a secret, and they share no folder that they know of: that is said, once. On one machine,
# or with a folder to save in, they find one; a stranger who knows where they meet does not.
[ "$(grep -c "this job has no secret" "$work/out")" = 1 ] && pass || fail "a job without a secret does not say so"
mkdir "$work/shared"
for how in "LOCAL_WORLD_SIZE=2" "BEVATRON_JOB_TOKEN=drawn" "--save $work/shared"; do
    MASTER_PORT=$(free_port)
    variables=("TMPDIR=$work/shared")
    flags=()
    # shellcheck disable=SC2206
    [[ $how == --* ]] && flags=($how) || variables+=("$how")
    in_background "$work/other" env RANK=1 LOCAL_RANK=1 "${variables[@]}" "${train[@]}" "${flags[@]}"
    expect 1 "start them with mpirun or srun --mpi=pmix" env RANK=0 LOCAL_RANK=0 "${variables[@]}" "${train[@]}" "${flags[@]}"
    wait
    grep -q "has no secret" "$work/out" && fail "$how is not taken for a secret" || pass
    grep -q "start them with mpirun" "$work/other" && pass || fail "the other rank with $how: $(cat "$work/other")"
done
[ -z "$(find "$work/shared" -name '.bevatron-ranks*')" ] && pass || fail "a secret is left behind"
MASTER_PORT=$(free_port)
in_background "$work/other" env RANK=1 LOCAL_RANK=1 BEVATRON_JOB_TOKEN=guessed "${train[@]}"
stranger=$!
in_background "$work/out" env RANK=0 LOCAL_RANK=0 BEVATRON_JOB_TOKEN=drawn "${train[@]}"
hub=$!
wait $stranger
await_text "another job (its token or secret differs)" "$work/other"
kill -TERM $hub
wait $hub
unset WORLD_SIZE
# In a job that numbers machines, each machine starts its own ranks.
MASTER_PORT=$(free_port)
export PET_NNODES=2
PET_NODE_RANK=1 "${train[@]}" --nproc 2 >/dev/null 2>&1 &
expect 1 "start them with mpirun" env PET_NODE_RANK=0 "${train[@]}" --nproc 2
wait
finish
