// bevatron launch local: ranks on this machine under a watchman. When they fail they are started again from the last
// checkpoint, as long as each attempt gets further than the one before.
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/signal_queue.h"
#include "checkpoint/checkpoint.h"
#include "cli/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct local_options {
    struct flag_given given;
    int64_t nproc, max_restarts;
};

static const struct flag own_flags[] = {
    {.name = "This machine", .type = FLAG_GROUP},
    {.name = "--nproc",
     .type = FLAG_INT,
     .offset = offsetof(struct local_options, nproc),
     .initial = "1",
     .minimum = 1,
     .maximum = 1024,
     .help = "ranks; -n is short for it"},
    {.name = "--max-restarts",
     .type = FLAG_INT,
     .offset = offsetof(struct local_options, max_restarts),
     .initial = "3",
     .minimum = 0,
     .maximum = 1e6,
     .help = "how often a run that failed is started again from its last checkpoint"},
};

static const struct flag_table own_table = {.flags = own_flags,
                                            .count = sizeof own_flags / sizeof own_flags[0],
                                            .given = offsetof(struct local_options, given)};

static const struct flag_command local_command = {
    .name = "launch local",
    .summary = "Trains on this machine with several ranks, and starts them again when they fail.",
    .tables = &own_table,
    .table_count = 1,
    .epilogue = "Example:\n"
                "  bevatron launch local -n 4 --max-restarts 5 --preset gpt2-124m … --save run --save-interval 9\n"};

// The signal that came last before `train` was started, 0 if none did.
static int signal_before(void) {
    int last = 0;
    for (int number; (number = signal_queue_next(0)) != 0;)
        last = number == SIGCHLD ? last : number;
    return last;
}

// `train` in a group of its own, since a terminal's Ctrl-C would reach it together with us, who pass it on. It saves
// and ends when we are killed.
static pid_t start_train(char *const *words) {
    pid_t own = getpid(), child = signal_queue_fork(true);
    if (child != 0)
        return child;
    setpgid(0, 0);
    process_end_with(own);
    execv("/proc/self/exe", words);
    fprintf(stderr, "bevatron: cannot start this program again: %s\n", strerror(errno));
    _exit(EXIT_CODE_ERROR);
}

// Runs `train` to its end and passes signals on to it; *passed_on is the last of them.
static int run_once(char *const *words, int *passed_on, int *exit_code) {
    if ((*passed_on = signal_before()) != 0) {
        *exit_code = *exit_code == EXIT_CODE_OK ? 128 + *passed_on : *exit_code;
        return 0;
    }
    pid_t child = start_train(words);
    if (child < 0)
        return error_set("cannot start this program again: %s", strerror(errno));
    for (int ended;;) {
        pid_t found = waitpid(child, &ended, WNOHANG);
        if (found < 0 && errno != EINTR)
            return error_set("cannot wait for train: %s", strerror(errno));
        if (found == child) {
            *exit_code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
            return 0;
        }
        int number = signal_queue_next(-1);
        if (number == SIGCHLD)
            continue;
        *passed_on = number;
        kill(child, number);
    }
}

// The iteration of the newest checkpoint, -1 if there is none.
static int64_t progress(const char *folder) {
    char *path = NULL;
    int64_t iteration = -1;
    struct checkpoint_find find = {.folder = folder, .step = -1, .allow_fallback = true, .skip_checksums = true};
    if (folder && checkpoint_exists(folder) && checkpoint_find(&find, &path, &iteration) < 0)
        iteration = -1;
    free(path);
    return iteration;
}

// A wrong flag, numbers that are not finite, bad data or a run that was asked to stop will not do better the next time.
static bool may_retry(int exit_code) {
    switch (exit_code) {
    case EXIT_CODE_OK:
    case EXIT_CODE_USAGE:
    case EXIT_CODE_STOPPED:
    case EXIT_CODE_NOT_FINITE:
    case EXIT_CODE_OUT_OF_MEMORY:
    case EXIT_CODE_BAD_DATA:
    case EXIT_CODE_NO_CHECKPOINT:
    case EXIT_CODE_NO_PROGRESS:
        return false;
    default:
        return true;
    }
}

static int watch(const struct local_options *options, char *const *words, const char *save, int *exit_code) {
    static const int passed_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    TRY(signal_queue_open(passed_signals, sizeof passed_signals / sizeof passed_signals[0]));
    int passed_on;
    int without_progress = 0;
    for (int64_t restarts = 0;; restarts++) {
        int64_t before = progress(save);
        TRY(run_once(words, &passed_on, exit_code));
        if (!may_retry(*exit_code) || passed_on || restarts >= options->max_restarts)
            return 0;
        int64_t after = progress(save);
        without_progress = after > before ? 0 : without_progress + 1;
        if (without_progress >= 2) {
            log_error("the run failed with code %d and got no further than iteration %lld in two attempts", *exit_code,
                      (long long)after);
            *exit_code = EXIT_CODE_NO_PROGRESS;
            return 0;
        }
        log_warn("the run failed with code %d; starting again from iteration %lld (restart %lld of %lld)", *exit_code,
                 (long long)(after < 0 ? 0 : after), (long long)restarts + 1, (long long)options->max_restarts);
    }
}

static int launch(void *given_options, struct launch_command *command, struct config *config) {
    struct local_options *options = given_options;
    int exit_code = EXIT_CODE_OK;
    if (strcmp(command->rest[0], "train") != 0)
        return error_set_code(EXIT_CODE_USAGE, "launch local starts train; run bevatron %s by itself",
                              command->rest[0]);
    TRY(launch_config(config, command, options->nproc));
    TRY(launch_resume(command, config));
    char count[24], self[] = "bevatron";
    snprintf(count, sizeof count, "%lld", (long long)options->nproc);
    launch_command_add(command, "--nproc", count);
    char **words = memory_alloc(sizeof *words * (size_t)(command->rest_count + 2));
    words[0] = self;
    memcpy(words + 1, command->rest, sizeof *words * (size_t)command->rest_count);
    int status = watch(options, words, config->save, &exit_code);
    free(words);
    return status < 0 ? -1 : exit_code;
}

int launch_local(int argc, char **argv) {
    struct local_options options;
    static char long_name[] = "--nproc";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-n") == 0)
            argv[i] = long_name;
    return launch_run(&(struct launch_call){.flags = &local_command, .options = &options, .launch = launch}, argc,
                      argv);
}
