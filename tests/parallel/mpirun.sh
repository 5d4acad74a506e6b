#!/usr/bin/env bash
# mpirun.sh N program…: N ranks on this machine, as root or not, even more than it has cores.
ranks=$1
shift
options=(-n "$ranks")
if mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
    options+=(--oversubscribe --bind-to none)
    # It does not start if another mpirun makes or removes the folder they share at the same moment: it stays.
    mkdir -p -m 700 "${TMPDIR:-/tmp}/ompi.$(uname -n | cut -d. -f1).$(id -u)/kept"
    [ "$(id -u)" = 0 ] && options+=(--allow-run-as-root)
fi
exec mpirun "${options[@]}" "$@"
