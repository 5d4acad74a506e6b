// bevatron launch slurm: checks the flags of the run, writes an sbatch script and submits it.
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/features.h"
#include "cli/launch.h"
#include "cluster/shell.h"
#include "cluster/slurm.h"
#include "config/flag_rows.h"
#include "report/metrics_file.h"
#include "train/text_data.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct slurm_options {
    struct flag_given given;
    struct slurm_job job;
    char *mpi;
};

#define FLAG_STRUCT struct slurm_options

static const char *const mpi_choices[] = {"auto", "pmix", "none", NULL};

static const struct flag own_flags[] = {
    GROUP("The job"),
    INT("--nodes", job.launch.nodes, "1", 1, 1e6, "machines"),
    INT("--spares", job.spares, "0", 0, 1e6,
        "request N more machines; if one is lost, a spare takes its place in the same allocation, and the run resumes "
        "from host memory; needs --checkpoint-in-memory"),
    INT("--ntasks-per-node", job.launch.ranks_per_node, NULL, 0, 1024,
        "ranks per machine; default: the number of GPUs, otherwise 1"),
    INT("--gpus-per-node", job.launch.gpus_per_node, NULL, 0, 1024,
        "GPUs to request per machine; default: those of --machine; 0 to request none"),
    INT("--cpus-per-task", job.cpus_per_task, NULL, 0, 4096, "cores per rank; default: Slurm's"),
    TEXT("--machine", job.launch.machine_name, NULL, "TYPE",
         "EC2 instance type, e.g. p4d.24xlarge; sets GPUs and network settings"),
    TEXT("--partition", job.partition, NULL, "NAME", "partition (queue)"),
    TEXT("--time", job.time, NULL, "LIMIT", "time limit in sbatch's format: minutes, HH:MM:SS, DAYS-HH"),
    TEXT("--account", job.account, NULL, "NAME", "account to charge"),
    TEXT("--qos", job.qos, NULL, "NAME", "quality of service"),
    TEXT("--reservation", job.reservation, NULL, "NAME", "reservation"),
    TEXT("--constraint", job.constraint, NULL, "LIST", "required features of the machines"),
    TEXT("--job-name", job.launch.name, NULL, "NAME", "name of the job; default: the command's name"),
    TEXT("--after", job.dependency, NULL, "JOB",
         "start after this job has succeeded, e.g. data preparation before training; if it fails, this one is "
         "cancelled"),
    SWITCH("--shared", job.is_shared, "do not request whole machines"),
    LIST("--sbatch", job.sbatch, "OPTIONS",
         "any other options of sbatch, e.g. --sbatch \"--mem=0 --exclude=node7\"; options after a last \"--\" are the "
         "same",
         .repeats_add = true),
    GROUP("Long runs"),
    INT("--signal-seconds", job.warning_seconds, "180", 1, 86400,
        "seconds before the time limit at which to save and stop (Slurm may signal up to 60 s early); for --time under "
        "4 minutes a quarter of it"),
    INT("--max-requeues", job.launch.max_restarts, "10", 0, RESTARTS_MOST,
        "requeue a job that failed at most N times within --restart-window-minutes; 0 never requeues, not even at the "
        "time limit"),
    REAL("--restart-window-minutes", job.launch.window_minutes, "60", 0, 1e9,
         "forget failures that are older than this, so that a long run is not given up for rare ones"),
    REAL("--progress-timeout-minutes", job.launch.progress_minutes, "60", 0, 1e9,
         "end and requeue a run of train that completes no iteration and no other work for this long; 0 to wait "
         "forever"),
    INT("--array-chain", job.chain, NULL, 0, 10000,
        "submit N allocations in sequence instead of requeueing; each resumes where the last one stopped"),
    GROUP("What runs"),
    TEXT("--container-image", job.container_image, NULL, "IMAGE", "Pyxis: container image of the ranks"),
    TEXT("--container-mounts", job.container_mounts, NULL, "LIST",
         "Pyxis: folders to mount in the container, FROM:TO[:ro],…"),
    SWITCH("--container-mount-home", job.container_mount_home, "Pyxis: mount the home folder in the container"),
    TEXT("--binary", job.launch.binary, NULL, "PATH",
         "bevatron to run; default: this program, or \"bevatron\" in a container"),
    CHOICE("--mpi", mpi, "auto", mpi_choices,
           "how ranks find each other: pmix, or over TCP without MPI (none; GPUs only)"),
    LIST("--env", job.launch.environment, "NAME=VALUE", "environment variable of the ranks", .repeats_add = true),
    LIST("--export", job.launch.exported, "LIST",
         "variables of the ranks as sbatch takes them, NAME=VALUE,NAME,…; ${NAME} in --config files means the same",
         .repeats_add = true),
    TEXT("--logs", job.logs, NULL, "FOLDER",
         "folder for the script, the job's output and the ranks' logs; default: ./logs"),
    SWITCH("--allow-out-of-memory", job.launch.may_not_fit,
           "submit a run whose ranks need more memory than the GPUs of --machine have"),
    SWITCH("--dry-run", job.launch.dry_run, "print the script and submit nothing"),
    SWITCH("--watch", job.launch.watch, "follow the job's log until the job ends; exit with its code"),
};

static const struct flag_table own_table = {FLAG_TABLE(own_flags)};

static const struct flag_command slurm_command = {
    .name = "launch slurm",
    .summary = "Writes an sbatch script for a command (default: train), submits it and prints the job number. Other "
               "commands: preprocess, extract, evaluate, generate, preflight, bench, tokenizer, dataset, checkpoint.",
    .tables = &own_table,
    .table_count = 1,
    .epilogue = "Examples:\n"
                "  bevatron launch slurm --nodes 4 --machine p4d.24xlarge --partition gpu --time 1-00 \\\n"
                "    --preset gpt3-1.3b --data-path data/pile_text_document … --save /fsx/run --save-interval 500\n"
                "  prepared=$(bevatron launch slurm --partition cpu preprocess --input '/fsx/oscar/*.zst' …)\n"
                "  bevatron launch slurm --after $prepared …\n"
                "  bevatron launch slurm --nodes 2 --machine p4d.24xlarge --watch bench collectives -- --mem=0\n"};

static bool has_mpi(const struct slurm_options *options) {
    if (options->mpi && strcmp(options->mpi, "auto") != 0)
        return strcmp(options->mpi, "pmix") == 0;
    return feature_is_in("MPI");
}

// A path valid on every machine of the cluster.
static char *absolute(const char *path) {
    char here[PATH_MAX];
    if (*path == '/' || !getcwd(here, sizeof here))
        return memory_string(path);
    return file_join(here, path);
}

// Seconds of a limit in sbatch's notation: MINUTES, MINUTES:SECONDS, H:M:S, DAYS-H[:M[:S]]. 0 for anything else, also
// words for no limit: sbatch checks them.
static int64_t limit_seconds(const char *text) {
    int64_t parts[4] = {0};
    int count = 0, days = 0;
    for (const char *at = text;; at++) {
        size_t digits = strspn(at, "0123456789");
        if (digits == 0 || digits > 9 || count == 4)
            return 0;
        parts[count++] = strtoll(at, NULL, 10);
        at += digits;
        if (!*at)
            break;
        if (*at == '-' && count == 1)
            days = 1;
        else if (*at != ':')
            return 0;
    }
    if (days)
        return parts[0] * 86400 + parts[1] * 3600 + parts[2] * 60 + parts[3];
    if (count == 3)
        return parts[0] * 3600 + parts[1] * 60 + parts[2];
    return count <= 2 ? parts[0] * 60 + parts[1] : 0;
}

// A warning right at the job's start would save and requeue it forever.
static int fit_warning(struct slurm_options *options) {
    enum { EARLY = 60 };
    int64_t limit = options->job.time ? limit_seconds(options->job.time) : 0;
    if (limit == 0 || options->job.warning_seconds + EARLY < limit)
        return 0;
    if (!flag_is_given(&options->given, "--signal-seconds")) {
        options->job.warning_seconds = limit / 4;
        log_info("note: --time %s is short: the ranks are warned %lld s before its end", options->job.time,
                 (long long)options->job.warning_seconds);
        return 0;
    }
    if (options->job.warning_seconds >= limit)
        return error_set_code(EXIT_CODE_USAGE,
                              "--signal-seconds %lld is not less than --time %s, which is %lld s: the job would stop "
                              "as soon as it starts; give %lld or less",
                              (long long)options->job.warning_seconds, options->job.time, (long long)limit,
                              (long long)(limit > 2 * EARLY ? limit - EARLY - 1 : limit / 2));
    log_warn("Slurm may warn %d s early, which leaves no time to run within --time %s; give a longer --time or fewer "
             "--signal-seconds",
             EARLY, options->job.time);
    return 0;
}

// Warns of a misspelled path before the job waits in a queue. Not an error: only the job's machines need the data, and
// a job that this one depends on may create it.
static void warn_missing(const struct slurm_options *options, const struct config *config) {
    OWNED_BY(string_list_free) struct string_list texts = {0};
    if (options->job.launch.dry_run || options->job.dependency || options->job.container_image)
        return;
    if (text_data_find(&texts, config) < 0)
        log_warn("on this machine: %s; the job will fail if its machines lack it, too", error_message());
    error_clear();
}

// Conditions that prevent a launch, and settings that let the run resume by itself later.
static int prepare_train(struct launch_command *command, struct slurm_options *options, int64_t ranks,
                         struct config *config) {
    TRY(launch_config(config, command, ranks));
    if (options->job.container_image)
        TRY(launch_refuse_memory(config));
    if (options->job.chain > 0 && !config->run.save)
        return error_set_code(
            EXIT_CODE_USAGE,
            "--array-chain needs --save: each allocation resumes from the checkpoint of the one before");
    if (!config->run.save && options->job.time)
        log_warn("--save is not given, so nothing is kept at the time limit");
    if (options->job.spares > 0 && !config->run.checkpoint_in_memory)
        return error_set_code(EXIT_CODE_USAGE, "--spares needs --checkpoint-in-memory: a spare machine gets the state "
                                               "of the lost one from the memory of another");
    warn_missing(options, config);
    TRY(launch_resume(command, config));
    return fit_warning(options);
}

// Commands that run as one rank per GPU, like train.
static bool has_ranks(const struct launch_command *command) {
    static const char *const names[] = {"train", "evaluate", "preflight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(command->rest[0], names[i]) == 0)
            return true;
    return strcmp(command->rest[0], "bench") == 0 && command->rest_count > 1 &&
           strcmp(command->rest[1], "collectives") == 0;
}

// Only preprocess resumes: *journal. FLAGS_HELP if help was requested.
static int prepare_other(struct launch_command *command, struct slurm_options *options, int64_t ranks, char **journal) {
    const char *name = command->rest[0];
    if (strcmp(name, "getdata") == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "there is no command \"getdata\" on Slurm, whose machines share their folders: fetch the "
                              "files here, e.g. with `curl --remote-name-all --output-dir /fsx/raw URL…`");
    if (ranks > 1 && !has_ranks(command) && strcmp(name, "generate") != 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s runs as one process with many threads; leave --nodes and "
                              "--ntasks-per-node at 1",
                              name);
    if (options->job.chain > 0)
        return error_set_code(EXIT_CODE_USAGE, "--array-chain is for train; %s is one job", name);
    int status = launch_check(command, journal);
    return status == 0 && *journal ? fit_warning(options) : status;
}

// Number of times a job is requeued: 0 if it would only start over.
static int fit_requeues(struct slurm_options *options, bool can_continue, const char *name) {
    if (can_continue)
        return 0;
    if (flag_is_given(&options->given, "--max-requeues") && options->job.launch.max_restarts > 0)
        return error_set_code(EXIT_CODE_USAGE, "--max-requeues %lld: %s", (long long)options->job.launch.max_restarts,
                              strcmp(name, "train") == 0
                                  ? "train without --save would start over each time; give --save and --save-interval"
                                  : "this command would start over each time; leave it out");
    options->job.launch.max_restarts = 0;
    return 0;
}

// A resumed run has measurements: whether scancel leaves it the time of a step is known before it starts. The run
// itself warns when it has measured a step and a checkpoint.
static void tell_stop(const struct slurm_job *job, const struct config *config, const struct slurm_ticket *ticket) {
    const char *number = ticket->number, *cluster = ticket->cluster;
    if (!job->launch.is_train || !config->run.save)
        return;
    fprintf(stderr, "to save and stop: scancel %s%s%s--batch --signal=USR2 %s\n", cluster ? "--clusters=" : "",
            cluster ? cluster : "", cluster ? " " : "", number);
    double step_seconds = config->watch.metrics_file ? metrics_file_last_step(config->watch.metrics_file) / 1e3 : 0;
    int64_t kill_wait = step_seconds > 0 ? slurm_kill_wait(ticket) : 0;
    if (kill_wait > 0 && step_seconds > (double)kill_wait)
        log_warn("plain `scancel %s` will not save: a step of this run took %.0f s, but this cluster kills ranks after "
                 "%lld s (KillWait)",
                 number, step_seconds, (long long)kill_wait);
}

static void tell_job(const struct slurm_job *job, const char *number, const char *script) {
    OWNED char *log = slurm_log_path(job, number, 1);
    fprintf(stderr, "job %s: %s\nlog: %s%s\n", number, script, log,
            job->chain > 0 ? ", then one for each allocation" : "");
    printf("%s\n", number);
    fflush(stdout);
}

// Jobs submitted within one second keep separate scripts.
static char *script_path(const struct slurm_job *job, const char *stamp) {
    char *path = memory_printf("%s/%s-%s.sbatch", job->logs, job->launch.name, stamp);
    for (int i = 2; file_exists(path); i++) {
        free(path);
        path = memory_printf("%s/%s-%s-%d.sbatch", job->logs, job->launch.name, stamp, i);
    }
    return path;
}

static int submit(const struct slurm_job *job, const struct config *config, const struct buffer *script) {
    if (job->launch.dry_run) {
        fwrite(script->data, 1, script->length, stdout);
        return 0;
    }
    char stamp[32];
    clock_format(clock_wall_seconds(), stamp, sizeof stamp);
    for (char *c = stamp; *c; c++)
        *c = *c == ' ' || *c == ':' ? '-' : *c;
    stamp[19] = 0;
    OWNED char *path = script_path(job, stamp);
    OWNED_BY(slurm_ticket_free) struct slurm_ticket ticket = {0};
    int exit_code = EXIT_CODE_OK;
    TRY(file_make_folders(job->logs));
    TRY(file_write_private(path, script->data, script->length));
    TRY(slurm_submit(path, &ticket));
    tell_job(job, ticket.number, path);
    tell_stop(job, config, &ticket);
    if (job->launch.watch)
        TRY(slurm_watch(job, &ticket, &exit_code));
    return exit_code;
}

// HyperPod replaces a broken machine of a job only if the job did not request GPUs from Slurm; whole machines include
// theirs.
static bool has_no_gres(const struct slurm_options *options) {
    bool is_hyperpod = file_is_folder("/opt/sagemaker_cluster");
    if (!flag_is_given(&options->given, "--gpus-per-node"))
        return is_hyperpod && !options->job.is_shared;
    if (is_hyperpod && options->job.launch.gpus_per_node > 0)
        log_warn("HyperPod may not replace nodes of a job with --gpus-per-node; --gpus-per-node 0 leaves it out");
    return options->job.launch.gpus_per_node == 0;
}

// Completes the name, the folder of logs and the words of the ranks; writes the script, and submits it.
static int write_job(struct slurm_job *job, struct launch_command *command, const struct config *config) {
    struct launch_job *run = &job->launch;
    char self[PATH_MAX] = "bevatron";
    ssize_t length = job->container_image ? 0 : readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0)
        self[length] = 0;
    char *logs = absolute(job->logs ? job->logs : "logs");
    free(job->logs);
    job->logs = logs;
    if (!run->name)
        run->name = memory_string(command->rest[0]);
    OWNED const char **words = memory_alloc(sizeof *words * (size_t)(command->rest_count + 2));
    words[0] = run->binary ? run->binary : self;
    memcpy(words + 1, command->rest, sizeof *words * (size_t)command->rest_count);
    run->command = words;
    OWNED_BY(buffer_free) struct buffer script = {0};
    TRY(slurm_script(job, &script));
    return submit(job, config, &script);
}

// srun on a cluster without Pyxis fails at once on an unknown option.
static int check_container(const struct slurm_job *job) {
    if (job->container_image || !(job->container_mounts || job->container_mount_home))
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s needs --container-image: without a container, nothing is mounted",
                          job->container_mounts ? "--container-mounts" : "--container-mount-home");
}

static int launch(void *given_options, struct launch_command *command, struct config *config) {
    struct slurm_options *options = given_options;
    struct slurm_job *job = &options->job;
    struct launch_job *run = &job->launch;
    const char *name = command->rest[0];
    run->is_train = strcmp(name, "train") == 0;
    if (run->machine_name && !(run->machine = machine_find(run->machine_name)))
        return -1;
    TRY(check_container(job));
    job->has_no_gres = has_no_gres(options);
    if (run->gpus_per_node == 0)
        run->gpus_per_node = run->machine ? run->machine->gpus : 0;
    if (run->ranks_per_node == 0)
        run->ranks_per_node = has_ranks(command) && run->gpus_per_node > 0 ? run->gpus_per_node : 1;
    int64_t ranks = run->nodes * run->ranks_per_node;
    OWNED char *journal = NULL;
    TRY(launch_check_name(command, "getdata"));
    command->flag_remedy = "options of sbatch go into --sbatch \"…\" or after --";
    TRY(launch_export(&run->exported, &run->environment));
    command->is_elsewhere = job->container_image != NULL;
    command->takes_machines = true;
    int status = run->is_train ? prepare_train(command, options, ranks, config)
                               : prepare_other(command, options, ranks, &journal);
    if (status == 0)
        status = launch_check_machine(run, command, config);
    launch_export_found(&run->environment);
    if (status == 0)
        status = fit_requeues(options, config->run.save || journal, name);
    run->save = config->run.save;
    run->fallback = config->run.save_fallback;
    run->journal = journal;
    job->spares = run->is_train ? job->spares : 0;
    job->warning_seconds = run->is_train || journal ? job->warning_seconds : 0;
    job->keeps_memory = run->is_train && config->run.checkpoint_in_memory;
    job->has_mpi = has_mpi(options) && ranks > 1;
    return status == 0 ? write_job(job, command, config) : status < 0 ? -1 : EXIT_CODE_OK;
}

// The words after "--" as one text for --sbatch.
static char *join_words(int count, char **words) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    buffer_append_string(&text, "--sbatch=");
    for (int i = 0; i < count; i++) {
        buffer_append_string(&text, i > 0 ? " " : "");
        shell_word(&text, words[i]);
    }
    return memory_string(buffer_string(&text));
}

// Takes ownership of the text and returns its address.
static char *keep(struct string_list *made, char *text) {
    string_list_add(made, text);
    free(text);
    return made->items[made->count - 1];
}

// The command line as flags are parsed: a value that begins with dashes, like options of sbatch, must follow an equals
// sign, and the words after the last "--" move before the command's name. An earlier "--" is the command's.
int cmd_launch_slurm(int argc, char **argv) {
    struct slurm_options options = {0};
    OWNED_BY(string_list_free) struct string_list made = {0};
    char **line = memory_alloc(sizeof *line * (size_t)(argc + 2));
    int end = argc - 1, count = 0;
    while (end > 0 && strcmp(argv[end], "--") != 0)
        end--;
    if (end > 0 && end + 1 == argc) {
        free(line);
        error_set_code(
            EXIT_CODE_USAGE,
            "nothing follows the last \"--\"; put options of sbatch there, e.g. -- --mem=0, or leave it out");
        return command_failed();
    }
    end = end > 0 ? end : argc;
    line[count++] = argv[0];
    if (end + 1 < argc)
        line[count++] = keep(&made, join_words(argc - end - 1, argv + end + 1));
    for (int i = 1; i < end; i++) {
        bool has_value = strcmp(argv[i], "--sbatch") == 0 && i + 1 < end;
        line[count++] = has_value ? keep(&made, memory_printf("--sbatch=%s", argv[i + 1])) : argv[i];
        i += has_value;
    }
    int exit_code =
        launch_run(&(struct launch_call){.flags = &slurm_command, .options = &options, .launch = launch}, count, line);
    free(line);
    return exit_code;
}
