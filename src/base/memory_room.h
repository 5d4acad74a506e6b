// How much more host memory this process can take: for those who can do with less.
#ifndef BASE_MEMORY_ROOM_H
#define BASE_MEMORY_ROOM_H

#include <stdint.h>

// The least of what the machine has, what the control groups allow (a container's limit) and what `ulimit -v` leaves.
// All processes of the machine share the first two. UINT64_MAX where nothing is known.
uint64_t memory_room(void);
// The same, with the kernel's files in other places: /proc/meminfo, /sys/fs/cgroup and /proc/self/cgroup.
struct memory_files {
    const char *proc, *cgroups, *membership;
};
uint64_t memory_room_in(const struct memory_files *files);

#endif
