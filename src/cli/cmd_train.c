// bevatron train: parses the flags, opens ranks and device, runs the trainer.
#include "base/error.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/planner.h"
#include "cli/ranks.h"
#include "cli/saved_model.h"
#include "cli/session.h"
#include "config/config.h"
#include "config/flag_rows.h"
#include "config/inject.h"
#include "train/automatic.h"
#include "train/dry_run.h"
#include "train/state.h"
#include "train/text_data.h"
#include "train/trainer.h"
#include "train/watchers.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- a tokenizer for a new run ----

// Text without a tokenizer: a person at a terminal is offered one that is trained on it.

enum { USUAL_SIZE = 32000 };  // the default of config_validate

static bool has_tokenizer(const struct config *config) {
    return config->data.tokenizer_type || config->data.vocab_file || config->data.merge_file ||
           config->data.tokenizer_model;
}

// Whether the checkpoint to resume from has a tokenizer. Changes the configuration.
static bool has_saved(struct config *config) {
    OWNED_BY(found_checkpoint_free) struct found_checkpoint found = {0};
    bool has = find_checkpoint_here(&found, config, true) == 0 && found.path &&
               state_load_config(config, &found) == 0 && has_tokenizer(config);
    error_clear();
    return has;
}

static bool asks(const struct config *config, const char *name) {
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return false;
    fprintf(stderr,
            "%s is text, but no tokenizer is given. Train one of %" PRId64
            " tokens on it (--tokenizer-type auto)? [Y/n] ",
            name, config->data.vocab_size > 0 ? config->data.vocab_size : USUAL_SIZE);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y' || answer[0] == '\n');
}

// Whether the run needs --tokenizer-type auto: its data is text, the flags and the preset name no tokenizer, and either
// the checkpoint that it resumes has one, which `auto` takes, or the person says yes. Asks only if `may_ask` and stdin
// and stderr are a terminal. 1, 0, or -1 on error: the answer is no, or the data does not exist.
static int tokenizer_offer(const struct config *config, bool may_ask) {
    OWNED_BY(config_free) struct config trial = {0};
    OWNED_BY(string_list_free) struct string_list texts = {0};
    config_copy(&trial, config);
    bool is_wanted = false;
    // The run itself reports values taken from files.
    log_hush(true);
    int status = config_apply_preset(&trial);
    log_hush(false);
    if (status == 0 && !has_tokenizer(&trial) && !trial.run.use_checkpoint_args) {
        status = text_data_find(&texts, &trial);
        // Ranks on other machines may not have the data that rank 0 reads.
        if (status < 0 && !may_ask) {
            error_clear();
            status = 0;
        }
        if (status == 0 && texts.count > 0 && trial.model.form == CONFIG_GPT) {
            is_wanted = has_saved(&trial) || (may_ask && asks(config, texts.items[0]));
            status = is_wanted ? 0 : text_data_refuse(texts.items[0]);
        }
    }
    return status < 0 ? -1 : is_wanted;
}

// ---- the command ----

struct train_options {
    struct flag_given given;
    bool plot;
    bool dry_run;
    int64_t nproc;
    char *machine;
    struct config config;
    struct automatic open;
};

enum { MOST_RANKS = 1 << 24 };

#define FLAG_STRUCT struct train_options

static const struct flag own_flags[] = {
    GROUP("This command"),
    SWITCH("--plot", plot, "draw the loss curve in the terminal at the end"),
    SWITCH("--dry-run", dry_run,
           "check the flags, print the arguments, parameters, shapes and the memory of a rank, and stop; allocates "
           "nothing"),
    INT("--nproc", nproc, "1", 1, MOST_RANKS,
        "start this many ranks on this machine, up to 1024; with --dry-run, the number of ranks of the planned run"),
    TEXT("--machine", machine, NULL, "TYPE",
         "kind of machine, as EC2 names it, whose planned throughput the log compares with the measured one; default: "
         "found by itself on EC2, and on one machine by its GPUs"),
};

// --resume means --load with the folder of --save.
static int take_resume(struct config *config) {
    if (!config->run.resume ||
        (config->run.load && config->run.save && file_is_same_path(config->run.load, config->run.save)))
        return 0;
    if (!config->run.save || config->run.load)
        return error_set_code(EXIT_CODE_USAGE, "--resume resumes from the folder of --save; %s",
                              config->run.save ? "leave it out, or leave out --load" : "give --save DIR");
    struct flag_table table = config_flag_table(0);
    return flag_set(&table, config, "--load", config->run.save, FLAG_FROM_COMMAND);
}

// With --use-checkpoint-args, model flags that were not given come from the checkpoint.
static int use_checkpoint_args(struct config *config, const struct session *session) {
    if (!config->run.use_checkpoint_args)
        return 0;
    if (!config->run.load && !config->run.pretrained_checkpoint)
        return error_set_code(EXIT_CODE_USAGE, "--use-checkpoint-args needs --load or --pretrained-checkpoint");
    // As in Megatron: a script with this flag finds nothing at its first start.
    bool may_lack =
        !config->run.pretrained_checkpoint && !config->run.exit_on_missing_checkpoint && config->run.ckpt_step < 0;
    OWNED_BY(found_checkpoint_free) struct found_checkpoint found = {0};
    TRY(find_checkpoint_here(&found, config, may_lack));
    if (found.path)
        return state_load_config(config, &found);
    if (session->place.rank == 0)
        log_warn("no checkpoint in %s for --use-checkpoint-args: the flags define the model", config->run.load);
    return 0;
}

// A checkpoint stores absolute paths of the files of tokenizer and tasks, so that they are found from any folder.
static void make_absolute(char **path) {
    char *full = *path ? realpath(*path, NULL) : NULL;
    if (!full)
        return;
    free(*path);
    *path = full;
}

static int print_dry_run(struct config *config, int world_size) {
    OWNED_BY(buffer_free) struct buffer report = {0};
    TRY(dry_run_report(config, world_size, &report));
    fputs(buffer_string(&report), stdout);
    return 0;
}

// The number of ranks, or, for a dry run that is not itself a rank, the planned number.
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

// Facts about the job in the environment, from Slurm and the script of `launch slurm`; `number` is room for its number.
static struct trainer_job find_job(char *number, size_t size) {
    const char *id = getenv("SLURM_JOB_ID"), *array = getenv("SLURM_ARRAY_JOB_ID"),
               *task = getenv("SLURM_ARRAY_TASK_ID");
    const char *wait = getenv("BEVATRON_KILL_WAIT");
    if (array && task)
        snprintf(number, size, "%s_%s", array, task);
    else
        snprintf(number, size, "%s", id ? id : "");
    return (struct trainer_job){.number = id ? number : NULL,
                                .log = id ? getenv("BEVATRON_JOB_LOG") : NULL,
                                .kill_wait_seconds = id && wait ? strtod(wait, NULL) : 0};
}

// Ranks or devices that fail to connect, e.g. after a restart on other machines, are also reported as an event. The
// metrics file may belong to another run, so it is not touched. Returns -1.
static int tell_failed_start(const struct config *config, const struct session *session,
                             const struct trainer_job *job) {
    static const double command_seconds = 5;
    if (session->place.rank != 0)
        return -1;
    struct farewell farewell = {.on_event = on_event_open(&(struct on_event_options){.command = config->watch.on_event,
                                                                                     .run = watching_name(config),
                                                                                     .job = job->number}),
                                .ranks = session->place.size};
    farewell_open(&farewell);
    farewell_say(&farewell, error_exit_code(), error_message());
    farewell_close(&farewell);
    on_event_close(farewell.on_event, command_seconds);
    return -1;
}

static void attach_lifelines(const struct session *session) {
    if (session->place.rank == 0)
        lifeline_attach(getenv(RANKS_LIFELINE));
    if (session->place.local_rank == 0)
        lifeline_publish(getenv(RANKS_NODE_LIFELINE));
}

// The flags of the run, with those of its preset and checkpoint, validated.
static int settle_flags(struct train_options *options, struct session *session, int *world_size) {
    struct config *config = &options->config;
    if (!options->dry_run || config->run.use_checkpoint_args)
        TRY(remote_load(config, options->dry_run ? NULL : session, false));
    TRY(use_checkpoint_args(config, session));
    if (options->dry_run)
        TRY(dry_run_complete(config));
    TRY(automatic_begin(&options->open, config));
    if (options->dry_run && options->open.micro_batch_size)
        log_info("note: --micro-batch-size is not given, and a run would choose it; this is the model for 1");
    TRY(find_world_size(options, session, world_size));
    TRY(config_validate(config, *world_size));
    if (config->run.checkpoint_in_memory && !options->dry_run && !getenv(RANKS_MEMORY))
        return error_set_code(EXIT_CODE_USAGE, "--checkpoint-in-memory needs a launcher that outlives the ranks; start "
                                               "the run with bevatron launch local or slurm, or leave it out");
    make_absolute(&config->data.vocab_file);
    make_absolute(&config->data.merge_file);
    make_absolute(&config->data.tokenizer_model);
    make_absolute(&config->watch.eval_task_data);
    make_absolute(&config->watch.eval_task_file);
    return 0;
}

static void dump_flags(const struct train_options *options) {
    const struct config *config = &options->config;
    OWNED_BY(buffer_free) struct buffer dump = {0};
    config_dump(config, !config->watch.log_arguments, &dump);
    fputs(buffer_string(&dump), options->dry_run ? stdout : stderr);
}

static void note_saving(const struct config *config) {
    if (!config->run.save && !config->data.mock_data && !config->run.skip_train)
        log_info("note: --save is not given, so the weights will not be kept");
    if (!config->run.save || config->run.save_interval > 0 || config->run.skip_train)
        return;
    if (config->run.save_minutes > 0)
        log_info("note: --save-interval is not given: a checkpoint is saved every %g minutes, which replaces the one "
                 "before, and at the end",
                 config->run.save_minutes);
    else
        log_info("note: --save-interval is not given, so a checkpoint is saved only at the end of the run");
}

// `trainer` holds the options from flags; the rest comes from the open session.
static int train_in_session(struct train_options *options, const struct session *session,
                            struct trainer_options *trainer, enum exit_code *exit_code) {
    const struct run_machine machine = {.named = options->machine ? machine_look_up(options->machine)
                                                 : session->device->ops->is_host_memory ? NULL
                                                                                        : planner_own_machine(),
                                        .local_ranks = session->place.local_size};
    const struct planner planner = planner_open(&machine);
    OWNED char *user_cache = session_user_cache("text");
    OWNED char *memory_path = ranks_memory_path(getenv(RANKS_MEMORY), getenv("SLURMD_NODENAME"));
    trainer->config = &options->config;
    trainer->device = session->device;
    trainer->mesh = &session->mesh;
    trainer->local_rank = session->place.local_rank;
    trainer->user_cache = user_cache;
    trainer->open = &options->open;
    trainer->memory_path = memory_path;
    trainer->plot = options->plot;
    trainer->planner = &planner;
    int status = trainer_run(trainer, exit_code);
    fault_close(status < 0 || *exit_code != EXIT_CODE_OK);
    return status;
}

static int run_training(struct train_options *options, struct session *session, enum exit_code *exit_code) {
    struct config *config = &options->config;
    // A run must survive the loss of its output's reader, from its first line on.
    if (!options->dry_run)
        signal(SIGPIPE, SIG_IGN);
    if (!options->dry_run)
        attach_lifelines(session);
    if (options->machine && !machine_find(options->machine))
        return -1;
    TRY(take_resume(config));
    TRY(config_apply_preset(config));
    bool loads_copy =
        config->run.load && config->run.save_to && file_is_same_path(config->run.load, config->run.save_to);
    int world_size;
    TRY(settle_flags(options, session, &world_size));
    // A log should show what was trained; a person at a terminal has just typed it. The defaults, also in every
    // checkpoint's configuration, are listed on request.
    bool dumps =
             session->place.rank == 0 && (options->dry_run || config->watch.log_arguments || !isatty(STDERR_FILENO)),
         is_open = !options->dry_run && (automatic_is_needed(&options->open) || config_trains_tokenizer(config));
    if (dumps && !is_open)
        dump_flags(options);
    if (options->dry_run)
        return session->place.rank == 0 ? print_dry_run(config, world_size) : 0;
    note_saving(config);
    TRY(interrupt_check());
    char job_number[64];
    const struct trainer_job job = find_job(job_number, sizeof job_number);
    TRY(inject_open(config, session->place.rank));
    (void)fault_at(FAULT_AT_RENDEZVOUS);
    if (session_open(session, config) < 0)
        return tell_failed_start(config, session, &job);
    struct trainer_options trainer = {.dumps_arguments = dumps && is_open, .loads_copy = loads_copy, .job = job};
    return train_in_session(options, session, &trainer, exit_code);
}

// A signal stopped the command before training began. The exit code asks for another run only if it would for a run
// that is stopped later.
static void take_exit_code(const struct config *config) {
    int number = interrupt_received();
    if (error_exit_code() != EXIT_CODE_STOPPED || config->run.save)
        return;
    OWNED char *message = memory_string(error_message());
    bool is_shared = error_is_shared();
    error_set_code((enum exit_code)(128 + (number ? number : SIGTERM)), "%s", message);
    if (is_shared)
        error_mark_shared();
}

// A run under `launch local` is restarted without a person, so nothing is asked.
static int complete(void *given, bool is_alone, struct string_list *words) {
    struct train_options *options = given;
    TRY(take_resume(&options->config));
    if (options->dry_run)
        return 0;
    int wants = tokenizer_offer(&options->config, is_alone && !getenv(RANKS_LIFELINE));
    if (wants <= 0)
        return wants;
    string_list_add(words, "--tokenizer-type=auto");
    struct flag_table table = config_flag_table(0);
    return flag_set(&table, &options->config, "--tokenizer-type", "auto", FLAG_FROM_COMMAND);
}

// Whether the command line is a query about --inject, to be answered at once.
static bool asks_for_faults(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--inject=list") == 0 ||
            (i + 1 < argc && strcmp(argv[i], "--inject") == 0 && strcmp(argv[i + 1], "list") == 0))
            return true;
    return false;
}

static int list_faults(void) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    inject_describe(&text);
    fputs(buffer_string(&text), stdout);
    return EXIT_CODE_OK;
}

int cmd_train(int argc, char **argv) {
    if (asks_for_faults(argc, argv))
        return list_faults();
    const struct flag_table tables[] = {
        {FLAG_TABLE(own_flags)},
        config_flag_table(OFFSET(config)),
    };
    const struct flag_command command = {
        .name = "train",
        .summary = "Trains a model on a dataset or a text; resumes one with --load. Flags are Megatron-LM's.",
        .tables = tables,
        .table_count = 2,
        .argument_remedy = config_argument_remedy,
        .epilogue =
            "Examples:\n"
            "  bevatron train --preset cpu-3m --data-path books.jsonl --tokenizer-type auto --save run\n"
            "  bevatron train --preset gpt2-124m --data-path data/books_text_document --vocab-file vocab.json \\\n"
            "    --merge-file merges.txt --micro-batch-size 4 --train-iters 1000 --lr 6e-4 --save run --save-interval "
            "100\n"
            "For several ranks add --nproc 4, or start it with mpirun -n 4 (as root with --allow-run-as-root, with "
            "more\n"
            "ranks than cores with --oversubscribe).\n",
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
                                                       .complete = complete,
                                                       .is_watching = true,
                                                       .argc = argc,
                                                       .argv = argv},
                               &code);
    if (status == SESSION_OVER)
        return code;
    enum exit_code exit_code = EXIT_CODE_OK;
    if (status == 0)
        status = run_training(&options, &session, &exit_code);
    if (status < 0)
        take_exit_code(&options.config);
    interrupt_defer();
    if (status < 0)
        exit_code = (enum exit_code)session_failed(&session);
    session_close(&session);
    flags_free(&command, &options);
    return exit_code;
}
