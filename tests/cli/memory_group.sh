#!/usr/bin/env bash
# memory_group.sh BYTES COMMAND…: runs a command in a control group of version 1 or 2 that may have this much memory, and
# exits as it does; 77 if no such group can be made, which needs root.
root=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
[ -f "$root/$limit" ] || root=/sys/fs/cgroup limit=memory.max
group=$root/bevatron-test.$$
mkdir "$group" 2>/dev/null || exit 77
trap 'for try in 1 2 3 4 5; do rmdir "$group" 2>/dev/null && break; sleep 0.2; done' EXIT
echo "$1" 2>/dev/null >"$group/$limit" || exit 77
[ ! -f "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
shift
(echo "$BASHPID" >"$group/cgroup.procs" && exec "$@")
