#!/usr/bin/env bash
# preflight on several ranks: bandwidth against a required one, clocks that differ, one verdict for all.
# tier: all
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
$BEVATRON version | grep -q "MPI.*yes" || { echo "SKIP a build without MPI"; exit 77; }
expect 0 "over 2 ranks (mpi)" "$BEVATRON" preflight --nproc 2 --bytes 65536
grep -q "ok .* clocks .*within" "$work/out" && pass || fail "no word about the clocks"
[ "$(grep -c " shm " "$work/out")" = 1 ] && pass || fail "a machine is looked at once, not by every rank"
expect 1 "100000.00 are asked for" "$BEVATRON" preflight --nproc 2 --bytes 65536 --min-busbw 100000
expect 0 "over 4 ranks (mpi)" bash tests/parallel/mpirun.sh 4 "$BEVATRON" preflight --bytes 65536

# One rank's clock is 100 seconds ahead; at least 90 of them are detected, however much the ranks are delayed meanwhile.
cat >"$work/ahead.c" <<'C'
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    long status = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME)
        now->tv_sec += 100;
    return (int)status;
}
C
if ${CC:-cc} -shared -fPIC -o "$work/ahead.so" "$work/ahead.c" 2>"$work/out"; then
    options=()
    mpirun --version 2>/dev/null | grep -q "Open MPI" && options=(--oversubscribe --bind-to none --allow-run-as-root)
    ranks=(-n 1 "$BEVATRON" preflight --bytes 65536 : -n 1 env LD_PRELOAD="$work/ahead.so" "$BEVATRON" preflight --bytes 65536)
    expect 1 "clocks differ by " env OMPI_MCA_mpi_yield_when_idle=1 mpirun "${options[@]}" "${ranks[@]}"
    awk '/clocks differ by/ { sub(/.*differ by /, ""); exit !($1 > 90e3 && $1 < 110e3) }' "$work/out" && pass || fail "by how much"
else
    echo "SKIP clocks that differ: no C compiler"
fi
finish
