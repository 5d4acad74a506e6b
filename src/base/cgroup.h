// The control groups that this process belongs to. Their limits count for more than what the machine has. Internal to
// this folder.
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdint.h>

// Visits the folder of this process's group and those above it, up to `root` (/sys/fs/cgroup), if groups are of version
// 2. `membership` names the group (/proc/self/cgroup).
void cgroup_visit(const char *root, const char *membership, void (*visit)(void *context, const char *folder),
                  void *context);
// The same for a controller ("memory") of version 1, whose folders are below root/controller. The group of a container
// is often mounted as the root there.
struct cgroup_old {
    const char *root, *membership, *controller;
};
void cgroup_visit_old(const struct cgroup_old *group, void (*visit)(void *context, const char *folder), void *context);
// Reads up to two numbers from folder/name and returns how many there were. "max" and missing files give none.
int cgroup_read_numbers(const char *folder, const char *name, int64_t numbers[2]);
// The number after "key " at the beginning of a line of folder/name; 0 if there is none.
int64_t cgroup_read_key(const char *folder, const char *name, const char *key);

#endif
