// A thread that polls descriptors of processes. See ranks.h.
#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/host_limits.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/interrupt.h"
#include "cli/ranks.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOK_MS = 20, MOST_NAMED = 4, ENVIRONMENT_BYTES = 1 << 22 };

struct watched_rank {
    int rank;
    pid_t process;
};

struct ranks_watch {
    struct ranks_watch_options options;
    struct watched_rank *ranks;  // (count)
    struct pollfd *polls;        // (count + 1) the last one ends the watch
    int count;
    int ends[2];  // a pipe: closing the writer ends the watch
    pthread_t thread;
    char text[128];
};

// The rank of a process from its launcher's variables; -1 if there is none.
static int rank_of(pid_t process) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK="};
    OWNED_BY(buffer_free) struct buffer all = {0};
    char path[64];
    int rank = -1;
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)process);
    if (file_read_all(path, ENVIRONMENT_BYTES, &all) < 0)
        error_clear();
    buffer_append_byte(&all, '\0');
    for (const char *at = all.data; rank < 0 && at < all.data + all.length; at += strlen(at) + 1)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strncmp(at, names[i], strlen(names[i])) == 0)
                rank = (int)strtol(at + strlen(names[i]), NULL, 10);
    return rank;
}

// Opens all ranks that exist.
static void find_ranks(struct ranks_watch *watch) {
    OWNED pid_t *found = NULL;
    int count = process_list_below(watch->options.mpirun, watch->options.program, &found);
    watch->ranks = memory_alloc(sizeof *watch->ranks * (size_t)(count + 1));
    watch->polls = memory_alloc(sizeof *watch->polls * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        int rank = rank_of(found[i]);
        int file = rank < 0 ? -1 : (int)syscall(SYS_pidfd_open, found[i], 0);
        if (file < 0)
            continue;
        watch->ranks[watch->count] = (struct watched_rank){rank, found[i]};
        watch->polls[watch->count++] = (struct pollfd){.fd = file, .events = POLLIN};
    }
    watch->polls[watch->count] = (struct pollfd){.fd = watch->ends[0], .events = POLLIN};
}

static void name_ended(struct ranks_watch *watch) {
    int named = 0;
    size_t length = 0;
    for (int i = 0; i < watch->count && named < MOST_NAMED; i++) {
        if (!watch->polls[i].revents || length >= sizeof watch->text)
            continue;
        length += (size_t)snprintf(watch->text + length, sizeof watch->text - length, "%srank %d (process %ld)",
                                   named++ ? " or " : "", watch->ranks[i].rank, (long)watch->ranks[i].process);
    }
}

static void *watch_ranks(void *argument) {
    struct ranks_watch *watch = argument;
    struct pollfd end = {.fd = watch->ends[0], .events = POLLIN};
    bool is_ready = false;
    while (!is_ready && poll(&end, 1, LOOK_MS) == 0)
        is_ready = watch->options.is_ready(watch->options.mark);
    if (!is_ready)
        return NULL;
    find_ranks(watch);
    // If one is missing, it may be the first that ended.
    if (watch->count == watch->options.nproc && poll(watch->polls, (nfds_t)watch->count + 1, -1) > 0)
        name_ended(watch);
    return NULL;
}

struct ranks_watch *ranks_watch_start(const struct ranks_watch_options *options) {
    struct ranks_watch *watch = memory_alloc(sizeof *watch);
    *watch = (struct ranks_watch){.options = *options};
    if (pipe2(watch->ends, O_CLOEXEC) < 0) {
        free(watch);
        return NULL;
    }
    if (thread_start(&watch->thread, watch_ranks, watch))
        return watch;
    close(watch->ends[0]);
    close(watch->ends[1]);
    free(watch);
    return NULL;
}

void ranks_watch_end(struct ranks_watch *watch, char *text, size_t size) {
    text[0] = '\0';
    if (!watch)
        return;
    close(watch->ends[1]);
    pthread_join(watch->thread, NULL);
    snprintf(text, size, "%s", watch->text);
    for (int i = 0; i < watch->count; i++)
        close(watch->polls[i].fd);
    close(watch->ends[0]);
    free(watch->ranks);
    free(watch->polls);
    free(watch);
}

// ---- limits of a job ----

// Counts of the OOM killer and limits, as the kernel and the control groups have them.

static const struct host_files system_files = {
    .proc = "/proc", .cgroups = "/sys/fs/cgroup", .membership = "/proc/self/cgroup"};

// Measured with Open MPI 4.1.4 on aarch64, 2026-11-16: mpirun has 30 files open for two ranks and 36 for four, a rank
// 17; mpirun has 4 threads and each rank 5. There are more while they start. Its shared memory is in files of 4 MiB:
// four ranks hang at their start if they may write files of 3 MB, and run with 5 MB.
enum { FILES_BESIDES = 40, FILES_PER_RANK = 6, PROCESSES_BESIDES = 6, PROCESSES_PER_RANK = 5, FILE_BYTES = 8 << 20 };

static void take_limit(struct job_kills *kills, const char *folder, const char *name) {
    int64_t limit[2];
    if (cgroup_read_numbers(folder, name, limit) && limit[0] >= 0 && (uint64_t)limit[0] < kills->limit_bytes)
        kills->limit_bytes = (uint64_t)limit[0];
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// A group's count includes those of the groups below it.
static void look_at_group(void *context, const char *folder) {
    struct job_kills *kills = context;
    kills->group = larger(kills->group, cgroup_read_key(folder, "memory.events", "oom_kill"));
    take_limit(kills, folder, "memory.max");
}

static void look_at_old_group(void *context, const char *folder) {
    struct job_kills *kills = context;
    kills->group = larger(kills->group, cgroup_read_key(folder, "memory.oom_control", "oom_kill"));
    take_limit(kills, folder, "memory.limit_in_bytes");
}

struct job_kills job_kills_in(const struct host_files *files) {
    const uint64_t none = (uint64_t)1 << 62;  // version 1 writes "no limit" as a huge number
    struct job_kills kills = {.limit_bytes = UINT64_MAX, .machine = cgroup_read_key(files->proc, "vmstat", "oom_kill")};
    cgroup_visit(files->cgroups, files->membership, look_at_group, &kills);
    cgroup_visit_old(&(struct cgroup_old){files->cgroups, files->membership, "memory"}, look_at_old_group, &kills);
    if (kills.limit_bytes >= none)
        kills.limit_bytes = UINT64_MAX;
    return kills;
}

struct job_kills job_kills(void) {
    return job_kills_in(&system_files);
}

void job_explain_kill(const struct job_kills *before, const struct job_kills *after, char *text, size_t size) {
    if (after->group > before->group && after->limit_bytes != UINT64_MAX)
        snprintf(text, size,
                 "the OOM killer killed it: this job's control group is limited to %.3g GB of memory; raise the limit "
                 "(Slurm: --mem; Kubernetes: the pod's memory), or use less: a smaller --micro-batch-size, fewer ranks",
                 (double)after->limit_bytes / 1e9);
    else if (after->group > before->group || after->machine > before->machine)
        snprintf(
            text, size,
            "the OOM killer killed it: the machine is out of memory; use less (a smaller --micro-batch-size, fewer "
            "ranks), or stop other programs");
    else
        snprintf(text, size,
                 "this machine's counters show no kill by the OOM killer, so SIGKILL was sent by a user, the "
                 "scheduler, or a launcher that ended the run");
}

struct process_count {
    int64_t room;
};

static void look_at_processes(void *context, const char *folder) {
    struct process_count *count = context;
    int64_t most[2], used[2];
    if (cgroup_read_numbers(folder, "pids.max", most) && cgroup_read_numbers(folder, "pids.current", used) &&
        most[0] - used[0] < count->room)
        count->room = most[0] - used[0];
}

int64_t job_process_room(const struct host_files *files) {
    struct process_count count = {.room = INT64_MAX};
    cgroup_visit(files->cgroups, files->membership, look_at_processes, &count);
    cgroup_visit_old(&(struct cgroup_old){files->cgroups, files->membership, "pids"}, look_at_processes, &count);
    return count.room;
}

int job_check_ranks(int ranks) {
    struct rlimit limit;
    rlim_t files = FILES_BESIDES + FILES_PER_RANK * (rlim_t)ranks;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        rlim_t before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        if (before < files && setrlimit(RLIMIT_NOFILE, &limit) == 0)
            before = limit.rlim_cur;
        if (before < files)
            return error_set("this process may open %ju files, but starting %d ranks takes about %ju; raise the limit "
                             "(ulimit -n %ju, or the hard limit in /etc/security/limits.conf), or start fewer ranks",
                             (uintmax_t)before, ranks, (uintmax_t)files, (uintmax_t)files);
    }
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < FILE_BYTES)
        return error_set("this process may write files of %ju bytes, but the shared memory of %d ranks takes %d; raise "
                         "the limit (ulimit -f unlimited), or start one rank",
                         (uintmax_t)limit.rlim_cur, ranks, FILE_BYTES);
    int64_t room = job_process_room(&system_files);
    int64_t needed = PROCESSES_BESIDES + PROCESSES_PER_RANK * (int64_t)ranks;
    if (room < needed)
        return error_set("the control group of this job allows %" PRId64
                         " more processes and threads (pids.max), but %d ranks need at least %" PRId64
                         "; raise that limit, or start fewer ranks",
                         room, ranks, needed);
    return 0;
}
