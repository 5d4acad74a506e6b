// The control groups this process is in, whose limits count more than what the machine has. Internal to this folder.
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdint.h>

// Visits the folder of our group and those above it, up to `root` (/sys/fs/cgroup), where groups are of version 2;
// `membership` names ours (/proc/self/cgroup).
void cgroup_visit(const char *root, const char *membership, void (*visit)(void *context, const char *folder),
                  void *context);
// Reads up to two numbers out of folder/name; how many there were. "max" and missing files give none.
int cgroup_read_numbers(const char *folder, const char *name, int64_t numbers[2]);
// The number behind "key " at the beginning of a line of folder/name; 0 where there is none.
int64_t cgroup_read_key(const char *folder, const char *name, const char *key);

#endif
