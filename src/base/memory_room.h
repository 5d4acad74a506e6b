// How much more host memory this process can take, for callers that can manage with less.
#ifndef BASE_MEMORY_ROOM_H
#define BASE_MEMORY_ROOM_H

#include <stdint.h>

// The minimum of what the machine has, what the control groups allow (a container's limit) and what `ulimit -v` leaves.
// The first two are split among `processes` of the machine. UINT64_MAX if nothing is known.
uint64_t memory_room(int processes);
// The same with other places for the kernel's files: /proc/meminfo, /sys/fs/cgroup and /proc/self/cgroup.
struct memory_files {
    const char *proc, *cgroups, *membership;
};
uint64_t memory_room_in(const struct memory_files *files, int processes);

// The bytes of host memory that this process holds now (its resident set); 0 if that is unknown.
uint64_t memory_resident(void);

#endif
