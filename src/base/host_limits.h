// What the machine and the control groups leave to this process: memory, for callers that can manage with less, and
// the files from which limits are read.
#ifndef BASE_HOST_LIMITS_H
#define BASE_HOST_LIMITS_H

#include <stdint.h>

// The minimum of the machine's memory, the control groups' limit (a container's) and the rest of `ulimit -v`. The first
// two are split among `processes` of the machine. UINT64_MAX if nothing is known.
uint64_t host_memory_room(int processes);
// Like host_memory_room, with other places for the kernel's files: /proc/meminfo, /sys/fs/cgroup and /proc/self/cgroup.
struct host_files {
    const char *proc, *cgroups, *membership;
};
uint64_t host_memory_room_in(const struct host_files *files, int processes);

// The host memory that this process holds now (its resident set), in bytes; 0 if unknown.
uint64_t host_memory_resident(void);

// The control groups of this process. Their limits take precedence over the machine's size.

// Visits the folder of this process's group and its parents, up to `root` (/sys/fs/cgroup), for groups of version 2.
// `membership` names the group (/proc/self/cgroup).
void cgroup_visit(const char *root, const char *membership, void (*visit)(void *context, const char *folder),
                  void *context);
// Version 1: visits the folders of one controller ("memory"), below root/controller. A container's group is often
// mounted as the root there.
struct cgroup_old {
    const char *root, *membership, *controller;
};
void cgroup_visit_old(const struct cgroup_old *group, void (*visit)(void *context, const char *folder), void *context);
// Reads up to two numbers from folder/name and returns their count. "max" and missing files give none.
int cgroup_read_numbers(const char *folder, const char *name, int64_t numbers[2]);
// The number after "key " at the beginning of a line of folder/name; 0 if there is none.
int64_t cgroup_read_key(const char *folder, const char *name, const char *key);

#endif
