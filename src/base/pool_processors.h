// The share of the machine that control groups leave to this process. Private to base/ and its tests.
#ifndef BASE_POOL_PROCESSORS_H
#define BASE_POOL_PROCESSORS_H

// Number of processors that the CPU quotas below `root` (/sys/fs/cgroup) allow, at most `limit`; `membership` names
// this process's groups (/proc/self/cgroup). A fraction of a processor counts as a whole one.
int pool_processors_in_quota(const char *root, const char *membership, int limit);

#endif
