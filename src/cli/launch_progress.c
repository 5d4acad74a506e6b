// bevatron launch progress: detects, outside the ranks, that a run makes no progress, for job scripts and for probes of
// Kubernetes. It exits with code 212; its caller ends the run.
//
// A file system that does not respond must not block this, since the run may be waiting for it: separate processes,
// which are never waited for, read the run's file and write the message.
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/ranks.h"
#include "cli/stall.h"
#include "config/flag_rows.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct progress_options {
    struct flag_given given;
    char *lifeline;
    double progress_timeout_minutes;
    bool once;
};

#define FLAG_STRUCT struct progress_options

static const struct flag own_flags[] = {
    GROUP("The run"),
    TEXT("--lifeline", lifeline, NULL, "FILE",
         "file in which the run counts what it completes; default: $" RANKS_LIFELINE ", with --once "
         "$" RANKS_NODE_LIFELINE),
    REAL("--progress-timeout-minutes", progress_timeout_minutes, "60", 0, 1e9,
         "exit with code 212 if the run completes no iteration and no other work for this long; 0 to wait forever"),
    SWITCH("--once", once,
           "look once, in the container of the run: exit with 0 or 212 at once. Before the run starts, the time since "
           "the container's start counts"),
};

static const struct flag_table own_table = {FLAG_TABLE(own_flags)};

static const struct flag_command progress_command = {
    .name = "launch progress",
    .summary =
        "For job scripts and probes: exits with code 212 when a run makes no progress, and with 0 after SIGTERM.",
    .tables = &own_table,
    .table_count = 1,
    .epilogue = "Examples:\n"
                "  bevatron launch progress --progress-timeout-minutes 30 &          # in a job script, beside srun\n"
                "  bevatron launch progress --once --progress-timeout-minutes 30     # as a liveness probe\n"};

// How long to wait for a message to be written, and for a missing file before a warning.
static const double MESSAGE_SECONDS = 2, SILENT_SECONDS = 60;

// ---- beside the run ----

// Findings of the reading process, in memory that both share.
struct view {
    atomic_int_fast64_t looks;
    atomic_bool is_read;          // the last look found the file
    struct lifeline_state state;  // for messages, except the beats below
    atomic_int_fast64_t beats;
};

static void read_forever(struct view *view, const char *path) {
    for (;; clock_sleep(STALL_LOOK_SECONDS / 2)) {
        struct lifeline_state state;
        bool is_read = lifeline_read(path, &state);
        if (is_read) {
            view->state = state;
            view->beats = state.beats;
        }
        view->is_read = is_read;
        view->looks++;
    }
}

// A process that ends with this one, perhaps late if it is stuck; -1 if it cannot be started.
static pid_t fork_reader(struct view *view, const char *path) {
    pid_t own = getpid(), reader = signal_queue_fork(false);
    if (reader == 0) {
        process_end_with(own);
        read_forever(view, path);
    }
    return reader;
}

// Standard error may lead to the file system that does not respond.
static void say(const char *text) {
    pid_t writer = fork();
    if (writer == 0) {
        log_error("%s", text);
        _exit(0);
    }
    for (double end = clock_seconds() + MESSAGE_SECONDS; writer > 0 && clock_seconds() < end; clock_sleep(0.01))
        if (waitpid(writer, NULL, WNOHANG) != 0)
            return;
}

// A run without a file cannot be judged. Returns whether it has one, and warns if the file has been missing for long.
static bool has_file(const struct view *view, const char *path, double *missing_since, bool *has_warned) {
    if (view->looks == 0 || view->is_read) {
        *missing_since = clock_seconds();
        return true;
    }
    if (!*has_warned && clock_seconds() - *missing_since > SILENT_SECONDS) {
        log_warn("%s is not a file by which a run reports, so a run that hangs is not noticed from outside", path);
        *has_warned = true;
    }
    return false;
}

static int watch(struct view *view, pid_t reader, const char *path, double limit_seconds) {
    struct stall stall = {0};
    double missing_since = clock_seconds();
    bool has_warned = false;
    for (;;) {
        int number = signal_queue_next(STALL_LOOK_SECONDS);
        if (number == SIGCHLD && waitpid(reader, NULL, WNOHANG) == reader)
            return error_set("the process that reads %s was ended; the run is no longer watched", path);
        if (number != 0 && number != SIGCHLD)
            return EXIT_CODE_OK;
        if (!has_file(view, path, &missing_since, &has_warned)) {
            stall = (struct stall){0};
            continue;
        }
        double seconds = stall_look(&stall, view->beats);
        if (limit_seconds > 0 && seconds > limit_seconds) {
            char *text = stall_describe(&view->state, seconds);
            say(text);
            free(text);
            return EXIT_CODE_HANG;
        }
    }
}

static int watch_run(const char *path, double limit_seconds) {
    static const int ending[] = {SIGTERM, SIGINT, SIGHUP};
    struct view *view = mmap(NULL, sizeof *view, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (view == MAP_FAILED)
        return error_set("cannot allocate memory: %s", strerror(errno));
    view->state.iteration = -1;
    int status = signal_queue_open(ending, sizeof ending / sizeof ending[0]);
    process_end_with(getppid());
    pid_t reader = status == 0 ? fork_reader(view, path) : -1;
    if (status == 0 && reader < 0)
        status = error_set("cannot start a process: %s; raise the limit on processes (ulimit -u)", strerror(errno));
    if (status == 0) {
        status = watch(view, reader, path, limit_seconds);
        kill(reader, SIGKILL);
    }
    munmap(view, sizeof *view);
    return status;
}

// ---- once ----

// Seconds since the first process here was started, including time in which the machine slept. If that process is
// hidden (hidepid), the oldest visible one is used: the container is at least as old.
static double container_seconds(void) {
    struct timespec now;
    unsigned long long first = process_start(1);
    if (first == 0)
        first = process_oldest_start();
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - (double)first / (double)sysconf(_SC_CLK_TCK);
}

static int look_once(const char *path, double limit_seconds) {
    struct lifeline_state state = {.iteration = -1};
    double seconds = container_seconds();
    // The file of an earlier container is older than this one.
    if (lifeline_read(path, &state) && state.beat_at > 0)
        seconds = fmin(seconds, clock_seconds() - state.beat_at);
    if (limit_seconds == 0 || seconds <= limit_seconds)
        return EXIT_CODE_OK;
    char *text = stall_describe(&state, seconds);
    log_error("%s", text);
    free(text);
    return EXIT_CODE_HANG;
}

int launch_progress(int argc, char **argv) {
    struct progress_options options;
    int status = flags_parse(&progress_command, &options, argc, argv), exit_code = EXIT_CODE_OK;
    if (status == 0) {
        const char *name = options.once ? RANKS_NODE_LIFELINE : RANKS_LIFELINE;
        const char *path = options.lifeline ? options.lifeline : getenv(name);
        double limit_seconds = 60 * options.progress_timeout_minutes;
        if (!path || !*path)
            status = error_set_code(EXIT_CODE_USAGE, "give --lifeline FILE, or set %s as it is set for the run", name);
        else
            status = exit_code = options.once ? look_once(path, limit_seconds) : watch_run(path, limit_seconds);
    }
    if (status < 0)
        exit_code = command_failed();
    flags_free(&progress_command, &options);
    return exit_code;
}
