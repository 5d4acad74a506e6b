// How many processors this process may keep busy: its affinity mask, cut down by the CPU quota of its control group,
// because a container with two processors' worth of time on a machine of 64 must not start 64 threads.
#include "base/pool.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL_FILE_BYTES = 1 << 16 };

// The mask of a large machine does not fit the fixed cpu_set_t, so its size is tried upward.
static int processors_in_mask(void) {
    for (int most = 1024; most <= 1 << 20; most *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)most);
        int result = sched_getaffinity(0, bytes, set);
        int count = result == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < 1 << 20 ? (int)online : 1;
}

// "QUOTA PERIOD" in microseconds out of a file of control groups version 2; "max" and missing files give no limit.
static int quota_in_folder(const char *folder, int limit) {
    struct buffer text = {0};
    char *path = file_join(folder, "cpu.max");
    int64_t quota, period;
    if (file_read_all(path, SMALL_FILE_BYTES, &text) == 0 &&
        sscanf(buffer_string(&text), "%" SCNd64 " %" SCNd64, &quota, &period) == 2 && quota > 0 && period > 0) {
        int64_t processors = (quota - 1) / period + 1;
        if (processors < limit)
            limit = (int)processors;
    }
    buffer_free(&text);
    free(path);
    return limit;
}

// Every group from ours up to the root may set a quota; the smallest holds.
static int processors_in_quota(int limit) {
    static const char root[] = "/sys/fs/cgroup";
    struct buffer groups = {0};
    if (file_read_all("/proc/self/cgroup", SMALL_FILE_BYTES, &groups) < 0) {
        error_clear();
        return limit;
    }
    const char *line = strstr(buffer_string(&groups), "0::/");
    size_t length = line ? strcspn(line + 3, "\n") : 0;
    char *folder = memory_printf("%s%.*s", root, (int)length, line ? line + 3 : "");
    while (strlen(folder) >= strlen(root)) {
        limit = quota_in_folder(folder, limit);
        char *parent = file_parent(folder);
        free(folder);
        folder = parent;
    }
    free(folder);
    buffer_free(&groups);
    error_clear();
    return limit;
}

int pool_available_processors(void) {
    return processors_in_quota(processors_in_mask());
}
