// bevatron launch keeper, progress, decide: what job scripts and probes call beside a run.
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "store/vault.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/ranks.h"
#include "config/flag_rows.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// ---- keeper ----

// bevatron launch keeper: holds the in-memory checkpoints of one node's ranks, for job scripts that restart ranks
// themselves. One keeper runs on each node; it must outlive the ranks, so it is not started with them.

struct keeper_options {
    struct flag_given given;
    int64_t ranks;
    char *link;
};

#define FLAG_STRUCT struct keeper_options

static const struct flag keeper_flags[] = {
    GROUP("This node"),
    INT("--ranks", ranks, NULL, 1, VAULT_MOST_RANKS, "number of ranks of the whole run"),
    TEXT("--link", link, NULL, "PATH",
         "how ranks find the memory: a symbolic link that is made here; ranks have the same path in " RANKS_MEMORY
         ". %N is the node's name of Slurm"),
};

// The link of a killed keeper is dangling, and is replaced.
static int make_link(const char *target, const char *path) {
    struct stat status;
    if (symlink(target, path) == 0)
        return 0;
    bool is_dead = errno == EEXIST && lstat(path, &status) == 0 && S_ISLNK(status.st_mode) &&
                   status.st_uid == geteuid() && stat(path, &status) < 0;
    if (is_dead && unlink(path) == 0 && symlink(target, path) == 0)
        return 0;
    return error_set("cannot make the link %s: %s; remove it if no other keeper uses it", path, strerror(errno));
}

static int keep(void *context) {
    const struct keeper_options *options = context;
    static const int ending[] = {SIGTERM, SIGINT, SIGHUP};
    if (options->ranks == 0 || !options->link)
        return error_set_code(EXIT_CODE_USAGE, "give --ranks N and --link PATH");
    TRY(signal_queue_open(ending, sizeof ending / sizeof ending[0]));
    struct vault *vault = vault_create((int)options->ranks);
    if (!vault)
        return -1;
    OWNED char *path = ranks_memory_path(options->link, getenv("SLURMD_NODENAME"));
    int status = make_link(vault_path(vault), path);
    if (status == 0) {
        log_info("holding checkpoints of %d ranks in memory: %s", (int)options->ranks, path);
        while (signal_queue_next(-1) == SIGCHLD)
            continue;
        unlink(path);
    }
    vault_close(vault);
    return status;
}

const struct command cmd_launch_keeper = {
    .flags = {.name = "launch keeper",
              .summary =
                  "For job scripts: holds the ranks' checkpoints in this node's memory until it is ended by SIGTERM.",
              .epilogue =
                  "Example, for two nodes with 8 ranks each:\n"
                  "  export " RANKS_MEMORY "=/tmp/bevatron-memory-$SLURM_JOB_ID-%N\n"
                  "  srun --overlap --ntasks-per-node=1 bevatron launch keeper --ranks 16 --link \"$" RANKS_MEMORY
                  "\" &\n"
                  "  srun bevatron train … --checkpoint-in-memory\n"},
    .tables = {{FLAG_TABLE(keeper_flags)}},
    .options_bytes = sizeof(struct keeper_options),
    .run = keep,
};

// ---- progress ----

// bevatron launch progress: detects, outside the ranks, that a run makes no progress, for job scripts and for probes of
// Kubernetes. It exits with code 212; its caller ends the run.
//
// A file system that does not respond must not block this, since the run may be waiting for it: separate processes,
// which are never waited for, read the run's file and write the message.

struct progress_options {
    struct flag_given given;
    char *lifeline;
    double progress_timeout_minutes;
    bool once;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct progress_options

static const struct flag progress_flags[] = {
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
            OWNED char *text = stall_describe(&view->state, seconds);
            say(text);
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
    OWNED char *text = stall_describe(&state, seconds);
    log_error("%s", text);
    return EXIT_CODE_HANG;
}

static int check_progress(void *context) {
    const struct progress_options *options = context;
    const char *name = options->once ? RANKS_NODE_LIFELINE : RANKS_LIFELINE;
    const char *path = options->lifeline ? options->lifeline : getenv(name);
    double limit_seconds = 60 * options->progress_timeout_minutes;
    if (!path || !*path)
        return error_set_code(EXIT_CODE_USAGE, "give --lifeline FILE, or set %s as it is set for the run", name);
    return options->once ? look_once(path, limit_seconds) : watch_run(path, limit_seconds);
}

const struct command cmd_launch_progress = {
    .flags =
        {.name = "launch progress",
         .summary =
             "For job scripts and probes: exits with code 212 when a run makes no progress, and with 0 after SIGTERM.",
         .epilogue =
             "Examples:\n"
             "  bevatron launch progress --progress-timeout-minutes 30 &          # in a job script, beside srun\n"
             "  bevatron launch progress --once --progress-timeout-minutes 30     # as a liveness probe\n"},
    .tables = {{FLAG_TABLE(progress_flags)}},
    .options_bytes = sizeof(struct progress_options),
    .run = check_progress,
};

// ---- decide ----

struct decide_options {
    struct flag_given given;
    char *state, *job, *save, *save_fallback, *journal;
    int64_t exit_code, max_restarts;
    bool memory;
    double restart_window_minutes;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct decide_options

static const struct flag decide_flags[] = {
    GROUP("The attempt"),
    INT("--exit-code", exit_code, NULL, 0, 255,
        "exit code of the attempt; prints \"here SECONDS\", \"requeue 0\" or \"end CODE\". Without it, an attempt "
        "begins"),
    TEXT("--state", state, NULL, "FILE",
         "file that remembers earlier attempts; the run reports to FILE.lifeline (BEVATRON_LIFELINE)"),
    TEXT("--job", job, "", "NAME", "job that the attempts belong to; the state of another job is discarded"),
    TEXT("--save", save, NULL, "FOLDER", "folder of the run's checkpoints"),
    TEXT("--save-fallback", save_fallback, NULL, "FOLDER", "its --save-fallback, where newer ones may be"),
    TEXT("--journal", journal, NULL, "FILE", "a file that changes as the work progresses, instead of --save"),
    SWITCH("--memory", memory,
           "checkpoints are also in the memory of the nodes: if ranks were lost, start them again here"),
    GROUP("Limits"),
    INT("--max-restarts", max_restarts, "10", 1, RESTARTS_MOST,
        "restart a failed run at most N times within --restart-window-minutes"),
    REAL("--restart-window-minutes", restart_window_minutes, "60", 0, 1e9, "forget restarts that are older than this"),
};

static const struct flag_table decide_table = {FLAG_TABLE(decide_flags)};

static const struct flag_command decide_command = {
    .name = "launch decide",
    .summary =
        "For job scripts, e.g. that of launch slurm: decides whether a run that ended is started again. A command "
        "after -- is run as one attempt; the exit code is then its own, or 217 if another one would not help.",
    .tables = &decide_table,
    .table_count = 1,
    .epilogue = "Example:\n"
                "  export BEVATRON_LIFELINE=$PWD/restarts.json.lifeline\n"
                "  bevatron launch decide --state restarts.json --save run      # exits with 217 to give up\n"
                "  srun bevatron train … --save run\n"
                "  bevatron launch decide --state restarts.json --save run --exit-code $?\n"
                "  bevatron launch decide --state run/restarts.json --save run -- bevatron train … --save run\n"};

// ---- a command as one attempt ----

// Runs the command and forwards signals; returns its exit code, -1 if it cannot be started. *stopped: got a signal.
static int run_command(char **words, bool *stopped) {
    pid_t own = getpid(), child = signal_queue_fork(true);
    if (child < 0)
        return error_set("cannot start %s: %s", words[0], strerror(errno));
    if (child == 0) {
        process_end_with(own);
        execvp(words[0], words);
        fprintf(stderr, "bevatron: cannot start %s: %s\n", words[0], strerror(errno));
        _exit(EXIT_CODE_USAGE);
    }
    for (int status;;) {
        pid_t found = waitpid(child, &status, WNOHANG);
        if (found == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (found < 0 && errno != EINTR)
            return error_set("cannot wait for %s: %s", words[0], strerror(errno));
        int number = signal_queue_next(-1);
        if (number == SIGCHLD || number == 0)
            continue;
        *stopped = true;
        kill(child, number);
    }
}

// All pods of a job on several machines run the same command; the first one, where rank 0 is, decides for all.
static bool decides_here(void) {
    const char *index = getenv("JOB_COMPLETION_INDEX");
    return !index || strcmp(index, "0") == 0;
}

static int run_attempt(const struct restarts_file *file, char **words) {
    static const int passed_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    enum restarts_decision decision = RESTARTS_AGAIN;
    bool stopped = false, decides = decides_here();
    TRY(signal_queue_open(passed_signals, sizeof passed_signals / sizeof passed_signals[0]));
    if (decides && restarts_file_begin(file, &decision) < 0) {
        // A file system that cannot be written to is reported by the run itself.
        log_warn("%s; restarts are not counted", error_message());
        error_clear();
        decides = false;
    }
    if (decision != RESTARTS_AGAIN)
        return EXIT_CODE_NO_PROGRESS;
    OWNED char *line = memory_printf("%s.lifeline", file->path);
    if (decides)
        setenv(RANKS_LIFELINE, line, 1);
    int code = run_command(words, &stopped);
    if (code < 0 || !decides)
        return code;
    struct restarts_end end;
    if (restarts_file_end(file, stopped && code != EXIT_CODE_OK ? EXIT_CODE_STOPPED : code, &end) < 0) {
        log_warn("%s; restarts are not counted", error_message());
        error_clear();
        return code;
    }
    // A limit on restarts is final here like a lack of progress: otherwise the caller would restart the run.
    if (end.decision != RESTARTS_AGAIN && end.decision != RESTARTS_NEVER)
        return EXIT_CODE_NO_PROGRESS;
    for (double until = clock_seconds() + end.delay, left; !stopped && (left = until - clock_seconds()) > 0;)
        stopped = signal_queue_next(left) != 0;
    return code;
}

// ---- for a script ----

static int decide(const struct decide_options *options, char **words) {
    struct restarts_file file = {.path = options->state,
                                 .job = options->job,
                                 .save = options->save,
                                 .fallback = options->save_fallback,
                                 .journal = options->journal,
                                 .keeps_memory = options->memory,
                                 .most = options->max_restarts,
                                 .window_seconds = 60 * options->restart_window_minutes};
    if (!options->state)
        return error_set_code(EXIT_CODE_USAGE, "give --state FILE");
    if (strlen(options->job) > 63)
        return error_set_code(EXIT_CODE_USAGE, "--job is longer than 63 bytes");
    if (words && flag_is_given(&options->given, "--exit-code"))
        return error_set_code(EXIT_CODE_USAGE, "--exit-code is that of an attempt; a command after -- has its own");
    if (words)
        return run_attempt(&file, words);
    if (!flag_is_given(&options->given, "--exit-code")) {
        enum restarts_decision decision;
        TRY(restarts_file_begin(&file, &decision));
        return decision == RESTARTS_AGAIN ? EXIT_CODE_OK : EXIT_CODE_NO_PROGRESS;
    }
    struct restarts_end end;
    TRY(restarts_file_end(&file, (int)options->exit_code, &end));
    if (end.decision != RESTARTS_AGAIN)
        printf("end %d\n", end.exit_code);
    else if (end.is_nothing_lost)
        printf("here %.0f\n", end.delay);
    else
        printf("requeue 0\n");
    return EXIT_CODE_OK;
}

int cmd_launch_decide(int argc, char **argv) {
    struct decide_options options;
    int end = 1;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    char **words = end + 1 < argc ? argv + end + 1 : NULL;
    int status = flags_parse(&decide_command, &options, end, argv), exit_code = EXIT_CODE_OK;
    if (status == 0)
        status = exit_code = decide(&options, words);
    if (status < 0)
        exit_code = command_failed();
    flags_free(&decide_command, &options);
    return exit_code;
}
