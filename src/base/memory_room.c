// Room for more memory. Pages of files that were not touched lately count as free in a control group, as in the
// kernel's own MemAvailable: reading a dataset fills every container's page cache.
#include "base/memory_room.h"

#include "base/cgroup.h"
#include <sys/resource.h>
#include <unistd.h>

static uint64_t smaller(uint64_t room, int64_t limit, int64_t used) {
    uint64_t left = used < limit ? (uint64_t)(limit - used) : 0;
    return left < room ? left : room;
}

static void look_at_group(void *context, const char *folder) {
    uint64_t *room = context;
    int64_t most[2], used[2];
    if (cgroup_read_numbers(folder, "memory.max", most) && cgroup_read_numbers(folder, "memory.current", used))
        *room = smaller(*room, most[0], used[0] - cgroup_read_key(folder, "memory.stat", "inactive_file"));
}

// Version 1. "No limit" is a huge number.
static void look_at_old_group(void *context, const char *folder) {
    uint64_t *room = context;
    int64_t most[2], used[2];
    if (cgroup_read_numbers(folder, "memory.limit_in_bytes", most) &&
        cgroup_read_numbers(folder, "memory.usage_in_bytes", used))
        *room = smaller(*room, most[0], used[0] - cgroup_read_key(folder, "memory.stat", "total_inactive_file"));
}

uint64_t memory_room_in(const struct memory_files *files, int processes) {
    int64_t kilobytes = cgroup_read_key(files->proc, "meminfo", "MemAvailable"), pages[2];
    uint64_t room = kilobytes > 0 ? (uint64_t)kilobytes * 1024 : UINT64_MAX;
    cgroup_visit(files->cgroups, files->membership, look_at_group, &room);
    cgroup_visit_old(&(struct cgroup_old){files->cgroups, files->membership, "memory"}, look_at_old_group, &room);
    if (room != UINT64_MAX)
        room /= (uint64_t)processes;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur <= INT64_MAX &&
        cgroup_read_numbers(files->proc, "self/statm", pages))
        room = smaller(room, (int64_t)limit.rlim_cur, pages[0] * sysconf(_SC_PAGESIZE));
    return room;
}

uint64_t memory_room(int processes) {
    return memory_room_in(
        &(struct memory_files){.proc = "/proc", .cgroups = "/sys/fs/cgroup", .membership = "/proc/self/cgroup"},
        processes);
}

uint64_t memory_resident(void) {
    int64_t pages[2];
    return cgroup_read_numbers("/proc", "self/statm", pages) == 2 ? (uint64_t)(pages[1] * sysconf(_SC_PAGESIZE)) : 0;
}
