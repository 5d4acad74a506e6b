// How much more host memory this process can allocate, for callers that can manage with less.
#ifndef BASE_MEMORY_ROOM_H
#define BASE_MEMORY_ROOM_H

#include <stdint.h>

// The minimum of the machine's memory, the control groups' limit (a container's) and the rest of `ulimit -v`. The first
// two are split among `processes` of the machine. UINT64_MAX if nothing is known.
uint64_t memory_room(int processes);
// Like memory_room, with other places for the kernel's files: /proc/meminfo, /sys/fs/cgroup and /proc/self/cgroup.
struct memory_files {
    const char *proc, *cgroups, *membership;
};
uint64_t memory_room_in(const struct memory_files *files, int processes);

// The host memory that this process holds now (its resident set), in bytes; 0 if unknown.
uint64_t memory_resident(void);

#endif
