// See host_limits.h. A missing or unreadable file sets no limit and is not an error.
#include "base/host_limits.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SMALL_FILE_BYTES = 1 << 16 };

// From root/path up to the root.
static void visit_up(const char *root, const char *path, size_t length,
                     void (*visit)(void *context, const char *folder), void *context) {
    char *folder = memory_printf("%s%.*s", root, (int)length, path);
    while (strlen(folder) >= strlen(root)) {
        visit(context, folder);
        char *parent = file_parent(folder);
        free(folder);
        folder = parent;
    }
    free(folder);
}

void cgroup_visit(const char *root, const char *membership, void (*visit)(void *context, const char *folder),
                  void *context) {
    struct buffer groups = {0};
    if (file_read_all(membership, SMALL_FILE_BYTES, &groups) < 0) {
        error_clear();
        return;
    }
    const char *line = strstr(buffer_string(&groups), "0::/");
    visit_up(root, line ? line + 3 : "", line ? strcspn(line + 3, "\n") : 0, visit, context);
    buffer_free(&groups);
}

void cgroup_visit_old(const struct cgroup_old *group, void (*visit)(void *context, const char *folder), void *context) {
    struct buffer groups = {0};
    if (file_read_all(group->membership, SMALL_FILE_BYTES, &groups) < 0)
        error_clear();
    // "4:memory:/a/b", or several controllers: "3:cpu,cpuacct:/a".
    const char *path = "", *line = buffer_string(&groups);
    size_t length = strlen(group->controller);
    for (; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *list = strchr(line, ':'), *end = list ? strchr(list + 1, ':') : NULL;
        for (const char *at = list; at && end && at < end; at = strpbrk(at + 1, ",:"))
            if (strncmp(at + 1, group->controller, length) == 0 && strchr(",:", at[1 + length]) && at[1 + length])
                path = end + 1;
    }
    char *root = file_join(group->root, group->controller);
    visit_up(root, path, strcmp(path, "/") == 0 ? 0 : strcspn(path, "\n"), visit, context);
    free(root);
    buffer_free(&groups);
}

int cgroup_read_numbers(const char *folder, const char *name, int64_t numbers[2]) {
    struct buffer text = {0};
    char *path = file_join(folder, name);
    int count = 0;
    if (file_read_all(path, SMALL_FILE_BYTES, &text) == 0)
        count = sscanf(buffer_string(&text), "%" SCNd64 " %" SCNd64, &numbers[0], &numbers[1]);
    error_clear();
    buffer_free(&text);
    free(path);
    return count > 0 ? count : 0;
}

int64_t cgroup_read_key(const char *folder, const char *name, const char *key) {
    struct buffer text = {0};
    char *path = file_join(folder, name);
    int64_t number = 0;
    size_t length = strlen(key);
    if (file_read_all(path, SMALL_FILE_BYTES, &text) == 0)
        for (const char *line = buffer_string(&text); line; line = strchr(line, '\n')) {
            line += *line == '\n';
            if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == ':'))
                number = strtoll(line + length + 1, NULL, 10);
        }
    error_clear();
    buffer_free(&text);
    free(path);
    return number;
}

// Room for more memory. Pages of files that were not touched lately count as free in a control group, as in the
// kernel's own MemAvailable: reading a dataset fills every container's page cache.

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

uint64_t host_memory_room_in(const struct host_files *files, int processes) {
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

uint64_t host_memory_room(int processes) {
    return host_memory_room_in(
        &(struct host_files){.proc = "/proc", .cgroups = "/sys/fs/cgroup", .membership = "/proc/self/cgroup"},
        processes);
}

uint64_t host_memory_resident(void) {
    int64_t pages[2];
    return cgroup_read_numbers("/proc", "self/statm", pages) == 2 ? (uint64_t)(pages[1] * sysconf(_SC_PAGESIZE)) : 0;
}
