// bevatron SUBCOMMAND [flags]: finds the command, runs it, and makes sure that its output was written.
#include "base/console.h"
#include "base/crash.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/words.h"
#include "base/screen.h"
#include "cli/commands.h"
#include "cli/features.h"
#include "net/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static const char *variable(const char *name) {
    return getenv(name);
}

static bool is_topic(const char *name) {
    for (const struct command_part *topic = help_topics; topic->name; topic++)
        if (strcmp(topic->name, name) == 0)
            return true;
    return false;
}

static int refuse(const char *name, bool is_help) {
    struct nearest nearest = nearest_begin(name, strlen(name));
    for (const struct command_part *part = command_table; part->name; part++)
        if (!command_is_heading(part))
            nearest_consider(&nearest, part->name);
    for (const struct command_part *topic = help_topics; is_help && topic->name; topic++)
        nearest_consider(&nearest, topic->name);
    const char *remedy = is_help ? NULL : command_remedy("", name);
    if (!remedy && *name == '-')
        remedy = "a command comes first, as in `bevatron train FLAGS`";
    if (remedy) {
        fprintf(stderr, "bevatron: there is no command \"%s\"; %s\n", name, remedy);
        return EXIT_CODE_USAGE;
    }
    fprintf(stderr, "bevatron: there is no %s \"%s\"; %s%s%s%s\n", is_help ? "help on" : "command", name,
            nearest.best ? "did you mean " : "", nearest.best ? nearest.best : "", nearest.best ? "? " : "",
            is_help ? "ask for a command, for `flags`, `presets`, `commands` or `files`"
                    : "`bevatron help` lists them");
    return EXIT_CODE_USAGE;
}

// Failed output is a failure, whatever the command returned. A reader that went away (a pipe to head) needs no message.
static int check_output(int exit_code) {
    errno = 0;
    bool is_lost = fflush(stdout) != 0;
    int error = errno;
    if ((!is_lost && !ferror(stdout)) || exit_code != EXIT_CODE_OK)
        return exit_code;
    if (error != EPIPE)
        log_error("bevatron: cannot write to standard output%s%s; the results are lost: free disk space, or write them "
                  "elsewhere",
                  error ? ": " : "", error ? strerror(error) : "");
    return EXIT_CODE_ERROR;
}

int main(int argc, char **argv) {
    // A restart through /proc/self/exe would be called "exe" in lists of processes.
    prctl(PR_SET_NAME, "bevatron");
    // A file that shrinks while mapped, and one that exceeds its limit (ulimit -f), are errors with a message.
    file_fault_watch();
    signal(SIGXFSZ, SIG_IGN);
    // Other users may not change this program's files. Shells and containers that set no umask have 000, which is not a
    // choice: files then get the modes of the usual 022. A umask with group write stays.
    mode_t given = umask(022);
    umask(given == 0 ? 022 : given | 002);
    console_keep_lines_whole();
    const char *name = argc > 1 ? argv[1] : "help";
    environment_use(variable);
    screen_set_looks(screen_looks_of(variable));
    remote_set_environment(getenv);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    libraries_read_environment();
    const struct command_part *command = command_find(name);
    if (!command)
        return refuse(name, false);
    // `help train` is `train --help`, and `help dataset merge` is `dataset merge --help`.
    const struct command_part *topic = command->main == cmd_help && argc > 2 ? command_find(argv[2]) : NULL;
    if (command->main == cmd_help && argc > 2 && !topic && argv[2][0] != '-' && !is_topic(argv[2]))
        return refuse(argv[2], true);
    char option[] = "--help";
    bool has_part = argc > 3;
    char *ask[] = {topic ? argv[2] : NULL, has_part ? argv[3] : option, has_part ? option : NULL, NULL};
    int exit_code = topic ? command_part_run(topic, has_part ? 3 : 2, ask)
                          : command_part_run(command, argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
    exit_code = check_output(exit_code);
    return interrupt_end(exit_code);
}
