// Limits that the kernel and the control groups set for a job, for messages: a process killed by the OOM killer cannot
// report it, and a library that cannot open a file or start a thread may hang or crash without giving a reason.
#ifndef CLI_JOB_LIMITS_H
#define CLI_JOB_LIMITS_H

#include "base/host_limits.h"
#include <stddef.h>
#include <stdint.h>

enum { JOB_REASON_BYTES = 320 };

// Number of processes that the OOM killer has ended so far.
struct job_kills {
    int64_t group;         // in the control groups of this process
    int64_t machine;       // on the whole machine
    uint64_t limit_bytes;  // the smallest memory limit of these groups; UINT64_MAX for none
};
struct job_kills job_kills(void);
struct job_kills job_kills_in(const struct host_files *files);
// The reason for a SIGKILL, as far as the counts tell: `before` holds the counts from before the process was started.
void job_explain_kill(const struct job_kills *before, const struct job_kills *after, char *text, size_t size);

// How many more processes and threads the control groups allow (pids.max); INT64_MAX for no limit.
int64_t job_process_room(const struct host_files *files);
// To be called before ranks are started: raises the limit of open files as far as possible. -1, with a remedy, if the
// limits on files, on processes and threads or on file sizes are too low for this many ranks and their launcher.
int job_check_ranks(int ranks);

#endif
