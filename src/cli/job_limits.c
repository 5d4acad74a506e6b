// See job_limits.h.
#include "cli/job_limits.h"

#include "base/error.h"
#include "base/host_limits.h"
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

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
