// Following a job: its log is copied to stdout as it grows, through requeues and from one allocation of a chain to the
// next, until Slurm reports its end. See slurm.h.
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "cluster/slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Slurm's controller is shared by all users: after a while it is queried rarely. The file is read more often.
static const double FIRST_PAUSE = 1, LONGEST_PAUSE = 10, READ_SECONDS = 0.5, REMIND_SECONDS = 60;
// A busy controller misses a query now and then; that deserves no warning.
static const double SILENT_SECONDS = 30;

char *slurm_log_path(const struct slurm_job *job, const char *number, int64_t link) {
    return job->chain > 0 ? memory_printf("%s/%s-%s-%" PRId64 ".log", job->logs, job->name, number, link)
                          : memory_printf("%s/%s-%s.log", job->logs, job->name, number);
}

static size_t take_word(const char **at, char *word, size_t size) {
    *at += strspn(*at, " ");
    size_t length = strcspn(*at, " \n"), kept = length < size ? length : size - 1;
    memcpy(word, *at, kept);
    word[kept] = 0;
    *at += length;
    return length;
}

bool slurm_read_state(const char *text, struct slurm_state *state) {
    static const char *const endings[] = {"BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
                                          "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};
    static const char title[] = "CLUSTER: ";
    char code[16];
    *state = (struct slurm_state){0};
    if (strncmp(text, title, sizeof title - 1) == 0) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    if (take_word(&text, state->state, sizeof state->state) == 0)
        return false;
    take_word(&text, code, sizeof code);
    take_word(&text, state->reason, sizeof state->reason);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        state->has_ended = state->has_ended || strcmp(state->state, endings[i]) == 0;
    // As in wait(): 256 times the exit code, or the signal.
    long status = strtol(code, NULL, 10) & 0xffff;
    int exit_code = status >> 8 ? (int)(status >> 8) : status & 127 ? 128 + (int)(status & 127) : 0;
    bool is_good = strcmp(state->state, "COMPLETED") == 0;
    state->exit_code = !state->has_ended || is_good ? 0 : exit_code ? exit_code : EXIT_CODE_ERROR;
    return true;
}

// Whether Slurm answered. A job that it has forgotten ended in an unknown way.
static bool ask(const char *job, const char *cluster, struct slurm_state *state) {
    char *jobs = memory_printf("--jobs=%s", job), *clusters = cluster ? memory_printf("--clusters=%s", cluster) : NULL;
    const char *const command[] = {
        "squeue", "--noheader", "--states=all", jobs, "--Format=state:32,exit_code:16,reason:64", clusters, NULL};
    struct process_result result;
    bool has_answer = false;
    if (process_run(command, NULL, &result) == 0) {
        bool is_forgotten = strstr(buffer_string(&result.errors), "Invalid job id") != NULL;
        has_answer = result.exit_code == 0 && slurm_read_state(buffer_string(&result.output), state);
        if (is_forgotten)
            *state = (struct slurm_state){.state = "forgotten", .has_ended = true, .exit_code = EXIT_CODE_ERROR};
        has_answer = has_answer || is_forgotten;
        process_result_free(&result);
    }
    error_clear();
    free(jobs);
    free(clusters);
    return has_answer;
}

struct follower {
    const struct slurm_job *job;
    const char *number, *cluster;
    int64_t link;  // of a chain: the allocation whose log is read
    int file;      // -1: there is none yet
    bool has_read;
    bool has_started;  // seen in a state other than PENDING and CANCELLED
};

static int copy_rest(struct follower *follower) {
    char block[1 << 16];
    for (;;) {
        ssize_t count = read(follower->file, block, sizeof block);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        follower->has_read = true;
        if (fwrite(block, 1, (size_t)count, stdout) != (size_t)count)
            return error_set("cannot write to standard output: %s; job %s continues", strerror(errno),
                             follower->number);
    }
    return fflush(stdout) == 0
               ? 0
               : error_set("cannot write to standard output: %s; job %s continues", strerror(errno), follower->number);
}

static int open_log(const struct follower *follower, int64_t link) {
    char *path = slurm_log_path(follower->job, follower->number, link);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    return file;
}

// Copies new output. The log of a chain's next allocation begins when that of the last one is complete.
static int copy_new(struct follower *follower) {
    if (follower->file < 0 && (follower->file = open_log(follower, follower->link)) < 0)
        return 0;
    TRY(copy_rest(follower));
    while (follower->link < follower->job->chain) {
        int next = open_log(follower, follower->link + 1);
        if (next < 0)
            break;
        int status = copy_rest(follower);
        close(follower->file);
        follower->file = next;
        follower->link++;
        if (status < 0)
            return -1;
        TRY(copy_rest(follower));
    }
    return 0;
}

// Reports why a job waits, on changes and once a minute.
static void tell_wait(const struct slurm_state *state, const char *number, char *told, double *told_at) {
    if (strcmp(state->state, "PENDING") != 0) {
        told[0] = 0;
        return;
    }
    if (strcmp(told, state->reason) == 0 && clock_seconds() - *told_at < REMIND_SECONDS)
        return;
    bool has_reason = *state->reason && strcmp(state->reason, "None") != 0;
    log_info("job %s waits in the queue%s%s", number, has_reason ? ": " : "", has_reason ? state->reason : "");
    memcpy(told, state->reason, sizeof state->reason);
    *told_at = clock_seconds();
}

static void tell_end(const struct follower *follower, const struct slurm_state *state) {
    bool has_reason = *state->reason && strcmp(state->reason, "None") != 0;
    log_info("job %s has ended: %s%s%s", follower->number, state->state, has_reason ? ", " : "",
             has_reason ? state->reason : "");
    if (follower->has_read)
        return;
    if (follower->has_started)
        log_warn("the job's log cannot be read here; is %s a folder that all machines share?", follower->job->logs);
    else if (follower->job->dependency && strcmp(state->reason, "DependencyNeverSatisfied") == 0)
        log_warn("the job did not start, because job %s of --after did not succeed; mend that one, then submit both "
                 "again",
                 follower->job->dependency);
    else
        log_warn("the job was cancelled before it started");
}

static int follow(struct follower *follower, const char *last, int *exit_code) {
    struct slurm_state state = {0};
    char told[sizeof state.reason] = "";
    double asked_at = 0, told_at = 0, answered_at = clock_seconds(), pause = FIRST_PAUSE / 2;
    bool has_warned = false;
    while (!state.has_ended) {
        if (asked_at == 0 || clock_seconds() - asked_at >= pause) {
            pause = pause * 2 < LONGEST_PAUSE ? pause * 2 : LONGEST_PAUSE;
            bool has_answer = ask(last, follower->cluster, &state);
            asked_at = clock_seconds();
            // The last allocation of a chain waits while the others run.
            bool may_wait = follower->job->chain == 0 || follower->file < 0;
            if (!has_answer && !has_warned && asked_at - answered_at > SILENT_SECONDS)
                log_warn("Slurm has not answered for %.0f seconds; asking again until it does", asked_at - answered_at);
            has_warned = !has_answer && (has_warned || asked_at - answered_at > SILENT_SECONDS);
            if (has_answer) {
                answered_at = asked_at;
                follower->has_started = follower->has_started ||
                                        (strcmp(state.state, "PENDING") != 0 && strcmp(state.state, "CANCELLED") != 0);
            }
            if (has_answer && may_wait)
                tell_wait(&state, follower->number, told, &told_at);
        }
        TRY(copy_new(follower));
        if (!state.has_ended)
            clock_sleep(READ_SECONDS);
    }
    TRY(copy_new(follower));
    tell_end(follower, &state);
    *exit_code = state.exit_code;
    return 0;
}

int slurm_watch(const struct slurm_job *job, const struct slurm_ticket *ticket, int *exit_code) {
    const char *number = ticket->number;
    struct follower follower = {.job = job, .number = number, .cluster = ticket->cluster, .link = 1, .file = -1};
    // A chain is over when its last allocation is.
    char *last = job->chain > 0 ? memory_printf("%s_%" PRId64, number, job->chain) : memory_string(number);
    log_info("following the job's log; Ctrl-C stops this, not the job");
    int status = follow(&follower, last, exit_code);
    if (follower.file >= 0)
        close(follower.file);
    free(last);
    return status;
}
