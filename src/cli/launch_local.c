// bevatron launch local: ranks on this machine under a supervisor. When they fail, or make no progress, they are
// restarted from the last checkpoint; launch.h has the limits.
#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/screen.h"
#include "base/watchdog.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/ranks.h"
#include "cli/session.h"
#include "config/flag_rows.h"
#include "report/metrics_file.h"
#include "report/on_event.h"
#include "store/vault.h"
#include "train/watchers.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct local_options {
    struct flag_given given;
    struct launch_job job;
};

#define FLAG_STRUCT struct local_options

static const struct flag own_flags[] = {
    GROUP("This machine"),
    INT("--nproc", job.ranks_per_node, "1", 1, 1024, "ranks to start; -n is short for it"),
    INT("--max-restarts", job.max_restarts, "3", 0, RESTARTS_MOST,
        "restart a failed run from its last checkpoint at most N times within --restart-window-minutes"),
    REAL("--restart-window-minutes", job.window_minutes, "60", 0, 1e9,
         "forget restarts that are older than this, so that a long run is not given up for rare failures"),
    REAL("--progress-timeout-minutes", job.progress_minutes, "60", 0, 1e9,
         "end and restart a run that completes no iteration and no other work for this long; 0 to wait forever"),
    LIST("--env", job.environment, "NAME=VALUE", "environment variable of the ranks", .repeats_add = true),
    LIST("--export", job.exported, "LIST",
         "variables of the ranks as sbatch takes them, NAME=VALUE,NAME,…; ${NAME} in --config files means the same",
         .repeats_add = true),
};

static const struct flag_table own_table = {FLAG_TABLE(own_flags)};

static const struct flag_command local_command = {
    .name = "launch local",
    .summary =
        "Trains on this machine with several ranks, and restarts them when they fail. Also takes the flags of train.",
    .tables = &own_table,
    .table_count = 1,
    .epilogue = "Example:\n"
                "  bevatron launch local -n 4 --max-restarts 5 --preset gpt2-124m … --save run --save-interval 100\n"};

// COMMAND_SECONDS: how long the supervisor finally waits for the command of --on-event.
static const double KILL_SECONDS = 30, COMMAND_SECONDS = 10, SOON_SECONDS = 0.1;

// The last signal before `train` was started, 0 if none.
static int signal_before(void) {
    int last = 0;
    for (int number; (number = signal_queue_next(0)) != 0;)
        last = number == SIGCHLD ? last : number;
    return last;
}

// `train` in a group of its own: a terminal's Ctrl-C reaches only us, and we forward it. It saves and ends when we are
// killed.
static pid_t start_train(char *const *words) {
    pid_t own = getpid(), child = signal_queue_fork(true);
    if (child > 0 && screen_is_live())
        log_share_terminal();
    if (child != 0)
        return child;
    setpgid(0, 0);
    process_end_with(own);
    execv("/proc/self/exe", words);
    fprintf(stderr, "bevatron: cannot start this program again: %s\n", strerror(errno));
    _exit(EXIT_CODE_ERROR);
}

struct attempt_end {
    int exit_code, passed_on;  // passed_on: the last signal, 0 for none
    struct lifeline_state state;
    bool is_memory_ahead;  // the attempt starts from iterations that are in host memory only
    int held;              // a signal delayed until they can be saved, 0 for none
};

// A run under its supervisor.
struct supervised {
    char *const *words;
    double stall_seconds;  // 0: no limit
    struct lifeline *lifeline;
    const char *save;           // folder of checkpoints; NULL for none
    const char *fallback;       // of --save-fallback; NULL for none
    struct vault *vault;        // checkpoints in host memory; NULL for none
    const char *metrics_path;   // NULL for none
    struct on_event *on_event;  // NULL for none
};

// Reports to the run's metrics and events where its own ranks cannot.
static void tell_event(const struct supervised *run, const char *name, const struct attempt_end *end, const char *text,
                       bool has_line) {
    struct metrics_event event = {.name = name,
                                  .iteration = end->state.iteration > 0 ? end->state.iteration : 0,
                                  .text = text,
                                  .exit_code = end->exit_code};
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_SAVE, "adding an event to the metrics");
    if (run->metrics_path && !has_line && metrics_file_add_event(run->metrics_path, &event, false) < 0)
        log_debug("%s", error_message());
    watchdog_end(&work);
    on_event_tell(run->on_event, &event);
}

// A run whose ranks were killed could not report its failure.
static void tell_silent_end(const struct supervised *run, const struct attempt_end *end, double started,
                            const struct job_kills *kills) {
    char text[JOB_REASON_BYTES + 80], why[JOB_REASON_BYTES];
    const struct job_kills now = job_kills();
    job_explain_kill(kills, &now, why, sizeof why);
    int number = end->exit_code - 128;
    bool is_good = end->exit_code == EXIT_CODE_OK || end->exit_code == EXIT_CODE_STOPPED;
    if (is_good || end->exit_code == EXIT_CODE_USAGE || end->state.has_told_end)
        return;
    // A process that dies of a fault leaves that line and nothing else.
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_LOAD, "reading the metrics");
    bool has_line = run->metrics_path && metrics_file_has_end(run->metrics_path, started);
    watchdog_end(&work);
    bool is_fault = number > 0 && number < NSIG;
    if (has_line && !is_fault)
        return;
    if (end->exit_code == EXIT_CODE_PEER_LOST)
        snprintf(text, sizeof text, "a rank was killed; %s", why);
    else if (end->exit_code == EXIT_CODE_HANG)
        snprintf(text, sizeof text, "the run completed nothing for too long and was ended");
    else if (number == SIGKILL)
        snprintf(text, sizeof text, "the run was ended by signal %d (%s); %s", number, strsignal(number), why);
    else if (is_fault)
        snprintf(text, sizeof text, "the run was ended by signal %d (%s)", number, strsignal(number));
    else
        snprintf(text, sizeof text, "the run ended with code %d; its log says why", end->exit_code);
    // With several ranks, the process that started them has already reported it.
    if (number == SIGKILL)
        log_error("%s", text);
    tell_event(run, "failed", end, text, has_line);
}

// Ends the ranks that remain below us after the command itself has ended: they hang, and their parents are gone, so
// they are our children now (see watch). Other programs' processes, e.g. an agent that holds keys, are neither ended
// nor awaited. -1 if a rank cannot be ended.
static int end_ranks(void) {
    for (double waited = 0;; waited += 0.1) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
        if (process_signal_below(getpid(), "/proc/self/exe", waited > KILL_SECONDS ? SIGKILL : 0) == 0)
            return 0;
        if (waited > 2 * KILL_SECONDS)
            return error_set_code(
                EXIT_CODE_HANG,
                "a rank of the failed run does not end even after SIGKILL: it is blocked in the kernel, "
                "probably for a file system; look at it with `ps -eo pid,stat,wchan:30,args`");
        clock_sleep(0.1);
    }
}

static void end_stalled(const struct supervised *run, pid_t child, double seconds) {
    struct attempt_end end = {.state = lifeline_look(run->lifeline), .exit_code = EXIT_CODE_HANG};
    OWNED char *text = stall_describe(&end.state, seconds);
    log_error("%s", text);
    tell_event(run, "hang", &end, text, false);
    // The process that started the ranks notices their end and cleans up.
    if (process_signal_below(child, "/proc/self/exe", SIGKILL) == 0)
        kill(child, SIGKILL);
}

// Reports the first iteration of a restarted run. Until then the supervisor checks often.
static bool has_resumed(const struct supervised *run, double failed_at) {
    int64_t iteration = lifeline_look(run->lifeline).iteration;
    if (failed_at > 0 && iteration < 0)
        return false;
    if (failed_at > 0)
        log_info("the restarted run has completed iteration %lld, %.1f s after the last attempt ended",
                 (long long)iteration, clock_seconds() - failed_at);
    return true;
}

// The signal to forward now, given the one just received, 0 for none. A signal cuts a start short, which would lose
// iterations that are only in host memory: the first one is delayed until the run can save them.
static int hold_signal(const struct supervised *run, struct attempt_end *end, int number) {
    bool can_save = lifeline_look(run->lifeline).iteration >= 0;
    if (number != 0 && number != SIGCHLD && end->is_memory_ahead && !can_save && end->held == 0) {
        log_info("%s: the run stops once it has saved the iterations that are in host memory only", strsignal(number));
        end->held = number;
        return 0;
    }
    if (end->held == 0 || !can_save)
        return number;
    number = end->held;
    end->held = 0;
    return number;
}

// Runs `train` to its end and forwards signals to it. The previous attempt failed at `failed_at`, 0 for none.
static int run_once(const struct supervised *run, double failed_at, struct attempt_end *end) {
    end->passed_on = 0;
    int early = signal_before();
    if (early != 0 && end->is_memory_ahead)
        end->held = early;
    else if ((end->passed_on = early) != 0) {
        end->exit_code = end->exit_code == EXIT_CODE_OK ? 128 + end->passed_on : end->exit_code;
        return 0;
    }
    lifeline_reset(run->lifeline);
    const struct job_kills kills = job_kills();
    pid_t child = start_train(run->words);
    if (child < 0)
        return error_set("cannot start this program again: %s", strerror(errno));
    struct stall stall = {0};
    double started = clock_wall_seconds();
    double stalled = 0;  // when it was ended for a stall, 0: not ended
    bool is_resumed = failed_at == 0;
    for (int ended;;) {
        pid_t found = waitpid(child, &ended, WNOHANG);
        if (found < 0 && errno != EINTR)
            return error_set("cannot wait for train: %s", strerror(errno));
        if (found == child) {
            end->exit_code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
            if (stalled > 0)
                end->exit_code = EXIT_CODE_HANG;
            end->state = lifeline_look(run->lifeline);
            // A short run may end before the next check.
            if (!is_resumed)
                (void)has_resumed(run, failed_at);
            int status = end_ranks();
            if (end->state.is_attached)
                tell_silent_end(run, end, started, &kills);
            return status;
        }
        is_resumed = is_resumed || has_resumed(run, failed_at);
        int number = signal_queue_next(is_resumed ? STALL_LOOK_SECONDS : SOON_SECONDS);
        if (stalled > 0 && clock_seconds() - stalled > KILL_SECONDS)
            kill(child, SIGKILL);
        if (number == 0 && stalled == 0 &&
            stall_look(&stall, lifeline_look(run->lifeline).beats) > run->stall_seconds && run->stall_seconds > 0) {
            end_stalled(run, child, stall.waited);
            stalled = clock_seconds();
        }
        number = hold_signal(run, end, number);
        if (number == SIGCHLD || number == 0)
            continue;
        end->passed_on = number;
        kill(child, number);
    }
}

// The newest checkpoint from which a restarted run would resume.
struct newest {
    int64_t iteration;  // -1 if there is none
    bool is_in_memory;
};

static struct newest find_newest(const struct supervised *run) {
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_LOAD, "looking for the newest checkpoint");
    int64_t on_disk = restarts_checkpoint(run->save, run->fallback);
    watchdog_end(&work);
    int64_t in_memory = run->vault ? vault_newest(run->vault) : -1;
    bool is_in_memory = in_memory >= 0 && in_memory >= on_disk;
    return (struct newest){is_in_memory ? in_memory : on_disk, is_in_memory};
}

// The last iteration before the one at which an attempt failed. An attempt that completed none failed right after its
// checkpoint; for checkpoints in memory, which may be only one iteration apart, this shows whether it made progress.
static int64_t place_reached(const struct lifeline_state *state, struct newest checkpoint) {
    return state->iteration < 0 && checkpoint.is_in_memory ? checkpoint.iteration : state->iteration;
}

// Waits before the next attempt; returns the signal that ends the wait, 0 for none.
static int wait_for_signal(double seconds) {
    for (double end = clock_seconds() + seconds, left; (left = end - clock_seconds()) > 0;) {
        int number = signal_queue_next(left);
        if (number != 0 && number != SIGCHLD)
            return number;
    }
    return 0;
}

static int watch(const struct supervised *run, struct restarts *restarts, int *exit_code) {
    static const int passed_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    TRY(signal_queue_open(passed_signals, sizeof passed_signals / sizeof passed_signals[0]));
    // Losing the reader of our output does not end the run.
    signal(SIGPIPE, SIG_IGN);
    // Ranks whose parents are killed become our children, so that none is orphaned.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    struct attempt_end end = {0};
    int64_t best = -1;
    for (double failed_at = 0;; failed_at = clock_seconds()) {
        struct newest before = find_newest(run);
        // Memory that was emptied and filled again is not progress.
        best = run->vault && best > before.iteration ? best : before.iteration;
        end.is_memory_ahead = before.is_in_memory;
        TRY(run_once(run, failed_at, &end));
        *exit_code = end.exit_code;
        struct newest after = find_newest(run);
        double delay;
        struct restarts_attempt attempt = {.exit_code = end.exit_code,
                                           .has_started = end.state.is_attached,
                                           .reached = place_reached(&end.state, before),
                                           .has_new_checkpoint = after.iteration > best,
                                           .cannot_save = end.state.cannot_save,
                                           .now = clock_seconds()};
        bool is_stopped = end.passed_on || end.held;
        enum restarts_decision decision = is_stopped ? RESTARTS_NEVER : restarts_decide(restarts, &attempt, &delay);
        attempt.reached = end.state.iteration;
        if (decision == RESTARTS_AGAIN && run->vault && !restarts_trust_memory(restarts, &attempt))
            vault_clear(run->vault);
        after = find_newest(run);
        attempt.resumes_from_memory = after.is_in_memory;
        OWNED char *text = restarts_describe(restarts, decision, &attempt, after.iteration);
        if (text && decision == RESTARTS_AGAIN)
            log_warn("%s", text);
        else if (text) {
            log_error("%s", text);
            tell_event(run, "failed", &end, text, false);
        }
        if (decision != RESTARTS_AGAIN) {
            *exit_code = restarts_exit_code(decision, end.exit_code);
            return 0;
        }
        end.held = wait_for_signal(delay);
        if (end.held && !after.is_in_memory)
            return 0;
    }
}

// The ranks inherit it.
static int set_environment(const struct string_list *environment) {
    for (int64_t i = 0; i < environment->count; i++) {
        const char *pair = environment->items[i], *equals = strchr(pair, '=');
        OWNED char *name = equals ? memory_printf("%.*s", (int)(equals - pair), pair) : NULL;
        int status = name && *name ? setenv(name, equals + 1, 1) : -1;
        if (status < 0)
            return error_set_code(EXIT_CODE_USAGE, "--env \"%s\" is not of the form NAME=VALUE", pair);
    }
    return 0;
}

// Memory for checkpoints, which the ranks find through their environment.
static int keep_memory(struct supervised *run, const struct config *config, int64_t nproc) {
    if (!config->run.checkpoint_in_memory)
        return 0;
    run->vault = vault_create((int)nproc);
    return run->vault ? setenv(RANKS_MEMORY, vault_path(run->vault), 1) : -1;
}

// Runs to the end; returns the exit code.
static int supervise(const struct launch_job *job, struct launch_command *command, struct config *config) {
    int exit_code = EXIT_CODE_OK;
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_LOAD, "looking for the newest checkpoint");
    int found = launch_resume(command, config);
    watchdog_end(&work);
    TRY(found);
    // Errors that a restart does not fix.
    if (job->ranks_per_node > 1 && job->ranks_per_node <= INT_MAX)
        TRY(job_check_ranks((int)job->ranks_per_node));
    char count[24], self[] = "bevatron";
    snprintf(count, sizeof count, "%lld", (long long)job->ranks_per_node);
    launch_command_add(command, "--nproc", count);
    OWNED char **words = memory_alloc(sizeof *words * (size_t)(command->rest_count + 2));
    words[0] = self;
    memcpy(words + 1, command->rest, sizeof *words * (size_t)command->rest_count);
    const char *folder = session_temporary_folder();
    struct supervised run = {.words = words,
                             .stall_seconds = 60 * job->progress_minutes,
                             .save = config->run.save,
                             .fallback = config->run.save_fallback,
                             .lifeline = lifeline_create(folder),
                             .metrics_path = config->watch.metrics_file,
                             .on_event = on_event_open(&(struct on_event_options){.command = config->watch.on_event,
                                                                                  .run = watching_name(config),
                                                                                  .job = getenv("SLURM_JOB_ID")})};
    struct restarts restarts = {.most = job->max_restarts, .window_seconds = 60 * job->window_minutes};
    int status = run.lifeline ? setenv(RANKS_LIFELINE, lifeline_path(run.lifeline), 1)
                              : error_set("cannot create a file in %s: %s; set TMPDIR to a folder that can be written",
                                          folder, strerror(errno));
    if (status == 0)
        status = keep_memory(&run, config, job->ranks_per_node);
    if (status == 0)
        status = watch(&run, &restarts, &exit_code);
    vault_close(run.vault);
    on_event_close(run.on_event, COMMAND_SECONDS);
    lifeline_free(run.lifeline);
    return status < 0 ? -1 : exit_code;
}

static int launch(void *given_options, struct launch_command *command, struct config *config) {
    struct launch_job *job = &((struct local_options *)given_options)->job;
    if (strcmp(command->rest[0], "train") != 0)
        return error_set_code(EXIT_CODE_USAGE, "launch local runs train only; run bevatron %s by itself",
                              command->rest[0]);
    TRY(launch_export(&job->exported, &job->environment));
    TRY(set_environment(&job->environment));
    TRY(launch_config(config, command, job->ranks_per_node));
    // A file system that does not respond would block this process silently.
    watchdog_open(&(struct watchdog_options){.limits = {[WATCHDOG_SAVE] = 60 * config->watch.save_timeout_minutes,
                                                        [WATCHDOG_LOAD] = 60 * config->watch.load_timeout_minutes},
                                             .rank = -1});
    int status = supervise(job, command, config);
    watchdog_close();
    return status;
}

int cmd_launch_local(int argc, char **argv) {
    struct local_options options = {0};
    char long_name[] = "--nproc";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-n") == 0)
            argv[i] = long_name;
    return launch_run(&(struct launch_call){.flags = &local_command, .options = &options, .launch = launch}, argc,
                      argv);
}
