// Number of processors this process may keep busy: its affinity mask, reduced by the CPU quota of its control group,
// because a container with two processors' worth of time on a machine of 64 must not start 64 threads.
#include "base/pool_processors.h"

#include "base/cgroup.h"
#include "base/hash.h"
#include "base/pool.h"
#include <limits.h>
#include <sched.h>
#include <unistd.h>

// The mask of a large machine does not fit the fixed cpu_set_t, so its size is tried upward.
static void look_at_mask(struct pool_share *share) {
    for (int most = 1024; most <= 1 << 20; most *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)most);
        int result = sched_getaffinity(0, bytes, set);
        share->processors = result == 0 ? CPU_COUNT_S(bytes, set) : 0;
        share->mask = result == 0 ? (int64_t)hash_bytes(set, bytes, 0) : 0;
        CPU_FREE(set);
        if (share->processors > 0)
            return;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    share->processors = online > 0 && online < 1 << 20 ? (int)online : 1;
}

static int smaller_limit(int limit, int64_t quota, int64_t period) {
    if (quota <= 0 || period <= 0)
        return limit;
    int64_t processors = (quota - 1) / period + 1;
    return processors < limit ? (int)processors : limit;
}

// Version 2: every group from ours up to the root may set a quota; the smallest applies.
static void look_at_group(void *context, const char *folder) {
    int *limit = context;
    int64_t numbers[2];
    if (cgroup_read_numbers(folder, "cpu.max", numbers) == 2)
        *limit = smaller_limit(*limit, numbers[0], numbers[1]);
}

static void look_at_old_group(void *context, const char *folder) {
    int *limit = context;
    int64_t quota[2], period[2];
    if (cgroup_read_numbers(folder, "cpu.cfs_quota_us", quota) == 1 &&
        cgroup_read_numbers(folder, "cpu.cfs_period_us", period) == 1)
        *limit = smaller_limit(*limit, quota[0], period[0]);
}

int pool_processors_in_quota(const char *root, const char *membership, int limit) {
    cgroup_visit(root, membership, look_at_group, &limit);
    cgroup_visit_old(&(struct cgroup_old){root, membership, "cpu"}, look_at_old_group, &limit);
    return limit;
}

struct pool_share pool_find_share(void) {
    struct pool_share share = {.quota = pool_processors_in_quota("/sys/fs/cgroup", "/proc/self/cgroup", INT_MAX)};
    look_at_mask(&share);
    return share;
}

int pool_available_processors(void) {
    struct pool_share share = pool_find_share();
    return share.processors < share.quota ? share.processors : share.quota;
}
