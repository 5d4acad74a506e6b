// The share of the machine that control groups leave to this process. Private to base/, and open to its tests.
#ifndef BASE_POOL_PROCESSORS_H
#define BASE_POOL_PROCESSORS_H

// The processors that the CPU quotas below `root` (/sys/fs/cgroup) allow, at most `limit`; `membership` names our
// groups (/proc/self/cgroup). Parts of a processor count as a whole one.
int pool_processors_in_quota(const char *root, const char *membership, int limit);

#endif
