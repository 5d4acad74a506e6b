// The control groups of this process. Their limits take precedence over the machine's size. Internal to this folder.
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdint.h>

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
