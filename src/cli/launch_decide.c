// bevatron launch decide: whether a job script restarts its run. It decides like `launch local`, see restarts.h, and
// keeps its state in a file, since a requeued job starts over on other machines.
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/ranks.h"
#include "cli/restarts_file.h"
#include "config/flag_rows.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct decide_options {
    struct flag_given given;
    char *state, *job, *save, *save_fallback, *journal;
    int64_t exit_code, max_restarts;
    bool memory;
    double restart_window_minutes;
};

#define FLAG_STRUCT struct decide_options

static const struct flag own_flags[] = {
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

static const struct flag_table own_table = {FLAG_TABLE(own_flags)};

static const struct flag_command decide_command = {
    .name = "launch decide",
    .summary =
        "For job scripts, e.g. that of launch slurm: decides whether a run that ended is started again. A command "
        "after -- is run as one attempt; the exit code is then its own, or 217 if another one would not help.",
    .tables = &own_table,
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
    char *line = memory_printf("%s.lifeline", file->path);
    if (decides)
        setenv(RANKS_LIFELINE, line, 1);
    free(line);
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

int launch_decide(int argc, char **argv) {
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
