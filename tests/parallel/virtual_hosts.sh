#!/usr/bin/env bash
# Two hosts on this machine, for tests: network namespaces with a cable between them; processes on each host have its
# own host name and /dev/shm. Needs root.
#   virtual_hosts.sh up FOLDER | down FOLDER      makes FOLDER/on, cut, mend and agent; removes all
#   FOLDER/on 1|2 command…                        runs on a host, 10.N.0.1 or 10.N.0.2 (FOLDER/network has 10.N.0)
#   FOLDER/cut, FOLDER/mend                       pulls the cable, and plugs it in again
# FOLDER/agent is for mpirun's plm_rsh_agent: "agent address command…".
set -eu
export PATH=$PATH:/usr/sbin:/sbin
action=$1
folder=$2
# Names and addresses that nothing else on this machine is likely to use.
tag=bv$((${3:-$$} % 10000))

if [ "$action" = down ]; then
    [ -f "$folder/tag" ] || exit 0
    tag=$(cat "$folder/tag")
    # Remaining processes hold the namespace; they were started by this test.
    for host in 1 2; do
        for pid in $(ip netns pids "$tag-$host" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
        ip netns del "$tag-$host" 2>/dev/null || true
    done
    exit 0
fi

mkdir -p "$folder"
network=10.$((100 + $$ % 100)).$(($$ / 100 % 250))
echo "$tag" >"$folder/tag"
echo "$network" >"$folder/network"
for host in 1 2; do ip netns add "$tag-$host"; done
ip link add cable netns "$tag-1" type veth peer name cable netns "$tag-2"
for host in 1 2; do
    ip -n "$tag-$host" addr add "$network.$host/24" dev cable
    ip -n "$tag-$host" link set cable up
    ip -n "$tag-$host" link set lo up
done

cat >"$folder/on" <<SCRIPT
#!/bin/bash
export PATH=\$PATH:/usr/sbin:/sbin
host=\$1
shift
exec ip netns exec $tag-\$host unshare --mount --uts --propagation private bash -c '
    hostname host\$0
    mount -t tmpfs tmpfs /dev/shm
    cd "\$1" && shift && exec "\$@"' "\$host" "\$PWD" "\$@"
SCRIPT
cat >"$folder/agent" <<SCRIPT
#!/bin/bash
case \$1 in *.1) host=1 ;; *.2) host=2 ;; *) echo "no host \$1" >&2; exit 255 ;; esac
shift
exec $folder/on \$host sh -c "\$*"
SCRIPT
cat >"$folder/cut" <<SCRIPT
#!/bin/bash
PATH=\$PATH:/usr/sbin:/sbin ip -n $tag-2 link set cable down
SCRIPT
cat >"$folder/mend" <<SCRIPT
#!/bin/bash
PATH=\$PATH:/usr/sbin:/sbin ip -n $tag-2 link set cable up
SCRIPT
chmod +x "$folder/on" "$folder/agent" "$folder/cut" "$folder/mend"
