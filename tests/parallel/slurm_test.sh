# For tests against a real Slurm cluster on this machine. Sourced, after tests/cli/common.sh, with the number of nodes (2
# by default): skips the test where there is no Slurm, starts the cluster, and stops it when the test ends.
if ! command -v slurmctld >/dev/null && ! [ -x /usr/sbin/slurmctld ]; then
    echo "SKIP no Slurm on this machine; apt install slurm-wlm munge, or make test-slurm"
    exit 77
fi
needs_parts MPI
settings=$(bash tests/parallel/slurm_cluster.sh up "$work/slurm" "${1:-2}") || { echo "FAIL no cluster"; exit 1; }
eval "$settings"
trap 'scancel -u "$(id -un)" 2>/dev/null; bash tests/parallel/slurm_cluster.sh down "$work/slurm"; rm -rf "$work" 2>/dev/null || { sleep 1; rm -rf "$work"; }' EXIT
# All nodes are this host: they must not share memory segments, and waiting ranks must let others run.
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1

state() { scontrol show job "$1" 2>/dev/null | grep -o 'JobState=[A-Z]*' | sort -u; }
# One request to slurmctld: without an answer, it is repeated.
has_ended() {
    state "$1" >"$work/state"
    [ -s "$work/state" ] && ! grep -Eqv 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE|BOOT)' "$work/state"
}
