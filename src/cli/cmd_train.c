// bevatron train: parses the flags, opens ranks and device, runs the trainer.
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "config/config.h"
#include "train/dry_run.h"
#include "train/state.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct train_options {
    struct flag_given given;
    bool plot;
    bool dry_run;
    int64_t nproc;
    struct config config;
};

enum { MOST_RANKS = 1 << 24 };

static const struct flag own_flags[] = {
    {.name = "This command", .type = FLAG_GROUP},
    {.name = "--plot",
     .type = FLAG_BOOL,
     .offset = offsetof(struct train_options, plot),
     .help = "draws the loss curve in the terminal when training is done"},
    {.name = "--dry-run",
     .type = FLAG_BOOL,
     .offset = offsetof(struct train_options, dry_run),
     .help = "checks the flags, prints the arguments, the shapes and number of parameters and the memory of a rank, "
             "and stops; nothing is allocated"},
    {.name = "--nproc",
     .type = FLAG_INT,
     .offset = offsetof(struct train_options, nproc),
     .initial = "1",
     .minimum = 1,
     .maximum = MOST_RANKS,
     .help = "starts this many ranks on this machine, up to 1024 (with mpirun; as one machine of a Kubernetes job by "
             "itself); with --dry-run nothing is started, and this is how many ranks the run would have"},
};

// With --use-checkpoint-args, model flags that were not given come from the checkpoint.
static int use_checkpoint_args(struct config *config, const struct session *session) {
    if (!config->use_checkpoint_args)
        return 0;
    if (!config->load && !config->pretrained_checkpoint)
        return error_set_code(EXIT_CODE_USAGE, "--use-checkpoint-args needs --load or --pretrained-checkpoint");
    // As Megatron does: a script that gives the flag from the start finds nothing at its first start.
    bool must_exist = config->exit_on_missing_checkpoint || config->ckpt_step >= 0;
    if (!config->pretrained_checkpoint && !must_exist && !state_is_begun(config)) {
        if (session->place.rank == 0)
            log_warn("no checkpoint in %s for --use-checkpoint-args: the flags define the model", config->load);
        return 0;
    }
    char *path;
    int64_t iteration;
    TRY(state_find_here(config, true, &path, &iteration));
    int status = state_load_config(config, path);
    free(path);
    return status;
}

// A checkpoint remembers the tokenizer's files by their full names, so that they are found from any folder.
static void make_absolute(char **path) {
    char *full = *path ? realpath(*path, NULL) : NULL;
    if (!full)
        return;
    free(*path);
    *path = full;
}

static int print_dry_run(struct config *config, int world_size) {
    struct buffer report = {0};
    int status = dry_run_report(config, world_size, &report);
    if (status == 0)
        fputs(buffer_string(&report), stdout);
    buffer_free(&report);
    return status;
}

// How many ranks there are, or, in a dry run that is no rank itself, would be.
static int find_world_size(const struct train_options *options, const struct session *session, int *world_size) {
    const struct config *config = &options->config;
    int size = session->place.size;
    *world_size = size;
    if (!options->dry_run)
        return 0;
    int64_t machines = session->ranks.kind == RANKS_NODE && session->ranks.nodes > 1 ? session->ranks.nodes : 1;
    if (options->nproc * machines > MOST_RANKS)
        return error_set_code(EXIT_CODE_USAGE, "--nproc %" PRId64 " on %" PRId64 " machines are more than %d ranks",
                              options->nproc, machines, MOST_RANKS);
    *world_size = dry_run_world(config, size > 1 ? size : (int)(options->nproc * machines));
    return 0;
}

static int run(struct train_options *options, struct session *session, enum exit_code *exit_code) {
    struct config *config = &options->config;
    TRY(config_apply_preset(config));
    TRY(use_checkpoint_args(config, session));
    int world_size;
    if (options->dry_run)
        TRY(dry_run_complete(config));
    TRY(find_world_size(options, session, &world_size));
    TRY(config_validate(config, world_size));
    make_absolute(&config->vocab_file);
    make_absolute(&config->merge_file);
    make_absolute(&config->tokenizer_model);
    // A log should say what was trained; a person at a terminal has just typed it. The defaults, which the
    // configuration in every checkpoint has, too, are listed for those who ask.
    if (session->place.rank == 0 && (options->dry_run || config->log_arguments || !isatty(STDERR_FILENO))) {
        struct buffer dump = {0};
        config_dump(config, !config->log_arguments, &dump);
        fputs(buffer_string(&dump), options->dry_run ? stdout : stderr);
        buffer_free(&dump);
    }
    if (options->dry_run)
        return session->place.rank == 0 ? print_dry_run(config, world_size) : 0;
    if (!config->save && !config->mock_data && !config->skip_train)
        log_info("note: --save is not given, so its weights will not be kept");
    if (config->save && config->save_interval == 0 && !config->skip_train)
        log_info("note: --save-interval is not given, so only the end of the run is saved");
    TRY(interrupt_check());
    TRY(session_open(session, config));
    return trainer_run(&(struct trainer_options){.config = config,
                                                 .device = session->device,
                                                 .mesh = &session->mesh,
                                                 .local_rank = session->place.local_rank,
                                                 .plot = options->plot},
                       exit_code);
}

// A signal has stopped the command before training began. The exit code says "run me again" only if it would for a run
// that is stopped later.
static void take_exit_code(const struct config *config) {
    int number = interrupt_received();
    if (error_exit_code() != EXIT_CODE_STOPPED || config->save)
        return;
    char *message = memory_string(error_message());
    bool is_shared = error_is_shared();
    error_set_code((enum exit_code)(128 + (number ? number : SIGTERM)), "%s", message);
    if (is_shared)
        error_mark_shared();
    free(message);
}

int cmd_train(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.flags = own_flags,
         .count = sizeof own_flags / sizeof own_flags[0],
         .given = offsetof(struct train_options, given)},
        config_flag_table(offsetof(struct train_options, config)),
    };
    const struct flag_command command = {
        .name = "train",
        .summary = "Trains a model from a dataset, or continues one with --load. Flags are Megatron-LM's.",
        .tables = tables,
        .table_count = 2,
        .argument_remedy = config_argument_remedy,
        .epilogue =
            "Example:\n"
            "  bevatron train --preset gpt2-124m --data-path data/books_text_document --vocab-file vocab.json \\\n"
            "    --merge-file merges.txt --micro-batch-size 4 --train-iters 1000 --lr 6e-4 --save run --save-interval "
            "100\n"
            "Several ranks: add --nproc 4. Under mpirun -n 4, root adds --allow-run-as-root, and more ranks than "
            "cores\n"
            "need --oversubscribe.\n",
    };
    struct train_options options;
    struct session session;
    int code;
    int status = session_begin(&session,
                               &(struct session_flags){.command = &command,
                                                       .options = &options,
                                                       .nproc = &options.nproc,
                                                       .given = &options.given,
                                                       .starts_none = &options.dry_run,
                                                       .is_watching = true,
                                                       .argc = argc,
                                                       .argv = argv},
                               &code);
    if (status == SESSION_OVER)
        return code;
    enum exit_code exit_code = EXIT_CODE_OK;
    if (status == 0)
        status = run(&options, &session, &exit_code);
    if (status < 0)
        take_exit_code(&options.config);
    interrupt_defer();
    if (status < 0)
        exit_code = (enum exit_code)session_failed(&session);
    session_close(&session);
    flags_free(&command, &options);
    return exit_code;
}
