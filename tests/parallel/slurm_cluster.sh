#!/usr/bin/env bash
# A Slurm cluster on this machine, for tests: slurm_cluster.sh up FOLDER [NODES] | down FOLDER.
# The nodes, two by default, are slurmd of the same host with their own port and folders; munge, its key and all state are in
# FOLDER.
# `up` prints the variables to set.
set -eu
export PATH=$PATH:/usr/sbin:/sbin
action=$1
folder=$2
nodes=${3:-2}
. "$(dirname "${BASH_SOURCE[0]}")/../free_port.sh"

# Daemons take a while to end, and write into the folder until then; after a minute they are killed.
stop() {
    local file process processes=()
    for file in "$folder"/slurmd-*.pid "$folder/slurmctld.pid" "$folder/munge/pid"; do
        [ -s "$file" ] && processes+=("$(cat "$file")")
    done
    # Steps outlive their daemons; those of this cluster were started with its configuration.
    for process in /proc/[0-9]*; do
        [ "$(cat "$process/comm" 2>/dev/null)" = slurmstepd ] || continue
        { tr '\0' '\n' <"$process/environ" | grep -qxF "SLURM_CONF=$folder/slurm.conf"; } 2>/dev/null || continue
        processes+=("${process#/proc/}")
    done
    kill "${processes[@]}" 2>/dev/null || true
    for _ in $(seq 600); do
        kill -0 "${processes[@]}" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 "${processes[@]}" 2>/dev/null || true
}

if [ "$action" = down ]; then
    stop
    exit 0
fi

me=$(id -un)
host=$(hostname -s)
mkdir -p "$folder"/munge "$folder"/state "$folder"/spool "$folder"/log
for ((n = 1; n <= nodes; n++)); do mkdir -p "$folder/tmp/n$n"; done
chmod 755 "$folder" "$folder/munge"
head -c 1024 /dev/urandom >"$folder/munge/key"
chmod 600 "$folder/munge/key"
munged --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" \
    --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"

# TmpFS per node: otherwise the PMIx plugins of both nodes would use the same folder. cred_expire is how long a requeued
# job waits. On a busy machine daemons answer late: with Slurm's default timeouts (2 s to connect, 10 to answer) a slow
# node counts as down; and a job that has ended must not be forgotten (after 300 s) before a test asks how.
cat >"$folder/slurm.conf" <<EOF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmUser=$me
SlurmdUser=$me
AuthInfo=socket=$folder/munge/socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld
SlurmdLogFile=$folder/log/slurmd-%n
TmpFS=$folder/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0
SlurmdParameters=config_overrides
KillWait=15
MinJobAge=3600
TCPTimeout=30
MessageTimeout=60
BatchStartTimeout=120
JobRequeue=1
MaxArraySize=100
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF
for ((n = 1; n <= nodes; n++)); do
    echo "NodeName=n$n NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=4 RealMemory=1000 State=UNKNOWN"
done >>"$folder/slurm.conf"
printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$folder/cgroup.conf"
export SLURM_CONF=$folder/slurm.conf
slurmctld -f "$SLURM_CONF"
for ((n = 1; n <= nodes; n++)); do slurmd -N "n$n" -f "$SLURM_CONF"; done
for _ in $(seq 2000); do
    [ "$(sinfo -h -o %t 2>/dev/null)" = idle ] && break
    sleep 0.1
done
if [ "$(sinfo -h -o %t)" != idle ]; then
    sinfo >&2
    tail -n 5 "$folder"/log/* >&2
    stop
    exit 1
fi
echo "export SLURM_CONF=$SLURM_CONF"
