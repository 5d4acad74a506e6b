// bevatron launch keeper: holds the in-memory checkpoints of one node's ranks, for job scripts that restart ranks
// themselves. One keeper runs on each node; it must outlive the ranks, so it is not started with them.
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/ranks.h"
#include "config/flag_rows.h"
#include "store/vault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct keeper_options {
    struct flag_given given;
    int64_t ranks;
    char *link;
};

#define FLAG_STRUCT struct keeper_options

static const struct flag own_flags[] = {
    GROUP("This node"),
    INT("--ranks", ranks, NULL, 1, VAULT_MOST_RANKS, "number of ranks of the whole run"),
    TEXT("--link", link, NULL, "PATH",
         "how ranks find the memory: a symbolic link that is made here; ranks have the same path in " RANKS_MEMORY
         ". %N is the node's name of Slurm"),
};

static const struct flag_table own_table = {FLAG_TABLE(own_flags)};

static const struct flag_command keeper_command = {
    .name = "launch keeper",
    .summary = "For job scripts: holds the ranks' checkpoints in this node's memory until it is ended by SIGTERM.",
    .tables = &own_table,
    .table_count = 1,
    .epilogue =
        "Example, for two nodes with 8 ranks each:\n"
        "  export " RANKS_MEMORY "=/tmp/bevatron-memory-$SLURM_JOB_ID-%N\n"
        "  srun --overlap --ntasks-per-node=1 bevatron launch keeper --ranks 16 --link \"$" RANKS_MEMORY "\" &\n"
        "  srun bevatron train … --checkpoint-in-memory\n"};

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

static int keep(const struct keeper_options *options) {
    static const int ending[] = {SIGTERM, SIGINT, SIGHUP};
    if (options->ranks == 0 || !options->link)
        return error_set_code(EXIT_CODE_USAGE, "give --ranks N and --link PATH");
    TRY(signal_queue_open(ending, sizeof ending / sizeof ending[0]));
    struct vault *vault = vault_create((int)options->ranks);
    if (!vault)
        return -1;
    char *path = ranks_memory_path(options->link, getenv("SLURMD_NODENAME"));
    int status = make_link(vault_path(vault), path);
    if (status == 0) {
        log_info("holding checkpoints of %d ranks in memory: %s", (int)options->ranks, path);
        while (signal_queue_next(-1) == SIGCHLD)
            continue;
        unlink(path);
    }
    free(path);
    vault_close(vault);
    return status;
}

int launch_keeper(int argc, char **argv) {
    struct keeper_options options;
    int status = flags_parse(&keeper_command, &options, argc, argv), exit_code = EXIT_CODE_OK;
    if (status == 0)
        status = keep(&options);
    if (status < 0)
        exit_code = command_failed();
    flags_free(&keeper_command, &options);
    return exit_code;
}
