// bevatron launch slurm: checks the flags of the run, writes an sbatch script and submits it.
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/features.h"
#include "cli/launch.h"
#include "cluster/slurm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct slurm_options {
    struct flag_given given;
    int64_t nodes, ntasks_per_node, gpus_per_node, cpus_per_task, signal_seconds, max_requeues, array_chain;
    char *job_name, *partition, *account, *reservation, *qos, *constraint, *time, *after, *logs, *machine;
    char *container_image, *container_mounts, *binary, *mpi;
    struct string_list environment;
    bool shared, dry_run;
};

#define OFFSET(member) offsetof(struct slurm_options, member)
#define COUNT(flag, member, start, least, most, text)                                                                  \
    {                                                                                                                  \
        .name = flag, .type = FLAG_INT, .offset = OFFSET(member), .initial = start, .minimum = least, .maximum = most, \
        .help = text                                                                                                   \
    }
#define TEXT(flag, member, value, text)                                                                                \
    { .name = flag, .type = FLAG_STRING, .offset = OFFSET(member), .value_name = value, .help = text }

static const char *const mpi_choices[] = {"auto", "pmix", "none", NULL};

static const struct flag own_flags[] = {
    {.name = "The job", .type = FLAG_GROUP},
    COUNT("--nodes", nodes, "1", 1, 1e6, "machines"),
    COUNT("--ntasks-per-node", ntasks_per_node, NULL, 0, 1024, "ranks on each; the number of GPUs, else 1, by default"),
    COUNT("--gpus-per-node", gpus_per_node, NULL, 0, 1024,
          "GPUs asked for on each; those of --machine by default; 0: Slurm is not asked"),
    COUNT("--cpus-per-task", cpus_per_task, NULL, 0, 4096, "cores of each rank; Slurm's default where not given"),
    TEXT("--machine", machine, "TYPE", "EC2 instance type, as p4d.24xlarge: its GPUs and its network's settings"),
    TEXT("--partition", partition, "NAME", "partition (queue)"),
    TEXT("--time", time, "LIMIT", "time limit as sbatch takes it: minutes, HH:MM:SS, DAYS-HH"),
    TEXT("--account", account, "NAME", "account to charge"),
    TEXT("--qos", qos, "NAME", "quality of service"),
    TEXT("--reservation", reservation, "NAME", "reservation"),
    TEXT("--constraint", constraint, "LIST", "features the machines must have"),
    TEXT("--job-name", job_name, "NAME", "name of the job; the command's name by default"),
    TEXT("--after", after, "JOB", "starts when that job has ended well: data preparation before training"),
    {.name = "--shared", .type = FLAG_BOOL, .offset = OFFSET(shared), .help = "does not ask for whole machines"},
    {.name = "Long runs", .type = FLAG_GROUP},
    COUNT(
        "--signal-seconds", signal_seconds, "180", 1, 86400,
        "the ranks save and stop so long before the time limit; Slurm may warn up to 60 s early. A quarter of a --time "
        "under 4 minutes by default"),
    COUNT("--max-requeues", max_requeues, "100", 0, 1e6,
          "puts the job back in the queue at most so often after exit codes 210, 211 and 212"),
    COUNT("--array-chain", array_chain, NULL, 0, 10000,
          "so many allocations one after the other instead of requeueing, each going on where the last one stopped"),
    {.name = "What runs", .type = FLAG_GROUP},
    TEXT("--container-image", container_image, "IMAGE", "Pyxis: the image the ranks run in"),
    TEXT("--container-mounts", container_mounts, "LIST", "Pyxis: folders of the machine inside it, FROM:TO[:ro],…"),
    TEXT("--binary", binary, "PATH", "the bevatron to run; this one by default, \"bevatron\" in a container"),
    {.name = "--mpi",
     .type = FLAG_CHOICE,
     .offset = OFFSET(mpi),
     .choices = mpi_choices,
     .initial = "auto",
     .help = "how ranks find each other: pmix, or by themselves over TCP (none: GPUs only)"},
    {.name = "--env",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(environment),
     .value_name = "NAME=VALUE",
     .repeats_add = true,
     .help = "environment of the ranks"},
    TEXT("--logs", logs, "FOLDER", "where the script, the job's output and the ranks' logs go; ./logs by default"),
    {.name = "--dry-run",
     .type = FLAG_BOOL,
     .offset = OFFSET(dry_run),
     .help = "prints the script and submits nothing"},
};

static const struct flag_table own_table = {.flags = own_flags,
                                            .count = sizeof own_flags / sizeof own_flags[0],
                                            .given = offsetof(struct slurm_options, given)};

static const struct flag_command slurm_command = {
    .name = "launch slurm",
    .summary =
        "Writes an sbatch script for a command (train where none is named) and submits it. Prints the job number.",
    .tables = &own_table,
    .table_count = 1,
    .epilogue = "Examples:\n"
                "  bevatron launch slurm --nodes 4 --machine p4d.24xlarge --partition gpu --time 1-00 \\\n"
                "    --preset gpt3-1.3b --data-path data/pile_text_document … --save /fsx/run --save-interval 500\n"
                "  prepared=$(bevatron launch slurm --partition cpu preprocess --input '/fsx/oscar/*.zst' …)\n"
                "  bevatron launch slurm --after $prepared …\n"};

static bool has_mpi(const struct slurm_options *options) {
    if (options->mpi && strcmp(options->mpi, "auto") != 0)
        return strcmp(options->mpi, "pmix") == 0;
    for (size_t i = 0; i < feature_count; i++)
        if (strcmp(features[i].name, "MPI") == 0)
            return features[i].is_in;
    return false;
}

// A path that means the same on every machine of the cluster.
static char *absolute(const char *path) {
    char here[PATH_MAX];
    if (*path == '/' || !getcwd(here, sizeof here))
        return memory_string(path);
    return file_join(here, path);
}

// Seconds of a limit as sbatch reads it: MINUTES, MINUTES:SECONDS, H:M:S, DAYS-H[:M[:S]]. 0 if it is none, or a word
// for no limit: sbatch will say so.
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

// A warning that comes as soon as the job begins would have it saved and requeued without end.
static int fit_warning(struct slurm_options *options) {
    enum { EARLY = 60 };
    int64_t limit = options->time ? limit_seconds(options->time) : 0;
    if (limit == 0 || options->signal_seconds + EARLY < limit)
        return 0;
    if (!flag_is_given(&options->given, "--signal-seconds")) {
        options->signal_seconds = limit / 4;
        fprintf(stderr, "note: --time %s is short: the ranks are warned %lld s before its end\n", options->time,
                (long long)options->signal_seconds);
        return 0;
    }
    if (options->signal_seconds >= limit)
        return error_set_code(EXIT_CODE_USAGE,
                              "--signal-seconds %lld is not less than --time %s, which is %lld s: the job would be "
                              "stopped as soon as it begins; give %lld or less",
                              (long long)options->signal_seconds, options->time, (long long)limit,
                              (long long)(limit > 2 * EARLY ? limit - EARLY - 1 : limit / 2));
    fprintf(stderr, "note: Slurm may warn %d s early: that leaves nothing of --time %s\n", EARLY, options->time);
    return 0;
}

// What stops a run from being launched, and what makes it go on by itself later.
static int prepare_train(struct launch_command *command, struct slurm_options *options, int64_t ranks,
                         struct config *config) {
    TRY(launch_config(config, command, ranks));
    if (options->array_chain > 0 && !config->save)
        return error_set_code(EXIT_CODE_USAGE,
                              "--array-chain needs --save: each allocation goes on from the last one's "
                              "checkpoint");
    if (!config->save && options->time)
        fprintf(stderr, "note: without --save nothing is kept at the time limit\n");
    TRY(launch_resume(command, config));
    return fit_warning(options);
}

// A command of one process. Only preprocess goes on where it stopped: *journal. FLAGS_HELP if help was asked for.
static int prepare_other(struct launch_command *command, struct slurm_options *options, int64_t ranks, char **journal) {
    const char *name = command->rest[0];
    if (ranks > 1)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s runs as one process with many threads; leave --nodes and "
                              "--ntasks-per-node at 1",
                              name);
    if (options->array_chain > 0)
        return error_set_code(EXIT_CODE_USAGE, "--array-chain is for train; %s is one job", name);
    int status = launch_check(command, journal);
    return status == 0 && *journal ? fit_warning(options) : status;
}

// How often a job is put back: never if it would only begin anew.
static int fit_requeues(struct slurm_options *options, bool can_continue, const char *name) {
    if (can_continue)
        return 0;
    if (flag_is_given(&options->given, "--max-requeues") && options->max_requeues > 0)
        return error_set_code(EXIT_CODE_USAGE, "--max-requeues %lld: %s", (long long)options->max_requeues,
                              strcmp(name, "train") == 0 ? "train without --save would begin anew each time; give "
                                                           "--save and --save-interval"
                                                         : "this command would begin anew each time; leave it out");
    options->max_requeues = 0;
    return 0;
}

static int write_script(const struct slurm_options *options, const char *logs, const char *name,
                        struct buffer *script) {
    if (options->dry_run) {
        fwrite(script->data, 1, script->length, stdout);
        return 0;
    }
    char stamp[32];
    clock_format(clock_wall_seconds(), stamp, sizeof stamp);
    for (char *c = stamp; *c; c++)
        *c = *c == ' ' || *c == ':' ? '-' : *c;
    stamp[19] = 0;
    char *path = memory_printf("%s/%s-%s.sbatch", logs, name, stamp), *number = NULL;
    int status = file_make_folders(logs);
    if (status == 0)
        status = file_write_all(path, script->data, script->length);
    if (status == 0)
        status = slurm_submit(path, &number);
    if (status == 0) {
        fprintf(stderr, "job %s: %s\n", number, path);
        printf("%s\n", number);
    }
    free(number);
    free(path);
    return status;
}

// HyperPod replaces a broken machine of a job only if the job did not ask Slurm for GPUs; whole machines bring
// theirs.
static bool has_no_gres(const struct slurm_options *options) {
    bool is_hyperpod = file_is_folder("/opt/sagemaker_cluster");
    if (!flag_is_given(&options->given, "--gpus-per-node"))
        return is_hyperpod && !options->shared;
    if (is_hyperpod && options->gpus_per_node > 0)
        fprintf(stderr, "note: HyperPod may not replace machines of a job with --gpus-per-node; 0 leaves it out\n");
    return options->gpus_per_node == 0;
}

static int write_job(const struct slurm_options *options, struct slurm_job *job, struct launch_command *command) {
    char self[PATH_MAX] = "bevatron";
    ssize_t length = options->container_image ? 0 : readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0)
        self[length] = 0;
    char *logs = absolute(options->logs ? options->logs : "logs");
    const char **words = memory_alloc(sizeof *words * (size_t)(command->rest_count + 2));
    words[0] = options->binary ? options->binary : self;
    memcpy(words + 1, command->rest, sizeof *words * (size_t)command->rest_count);
    job->logs = logs;
    job->command = words;
    struct buffer script = {0};
    int status = slurm_script(job, &script);
    if (status == 0)
        status = write_script(options, logs, job->name, &script);
    buffer_free(&script);
    free(words);
    free(logs);
    return status;
}

static int launch(void *given_options, struct launch_command *command, struct config *config) {
    struct slurm_options *options = given_options;
    const struct machine *machine = NULL;
    const char *name = command->rest[0];
    bool is_train = strcmp(name, "train") == 0;
    if (options->machine && !(machine = machine_find(options->machine)))
        return -1;
    int64_t gpus = options->gpus_per_node > 0 ? options->gpus_per_node : machine ? machine->gpus : 0;
    int64_t tasks = options->ntasks_per_node > 0 ? options->ntasks_per_node : is_train && gpus > 0 ? gpus : 1;
    char *journal = NULL;
    command->is_elsewhere = options->container_image != NULL;
    int status = is_train ? prepare_train(command, options, options->nodes * tasks, config)
                          : prepare_other(command, options, options->nodes * tasks, &journal);
    bool can_continue = config->save || journal;
    if (status == 0)
        status = fit_requeues(options, can_continue, name);
    if (status != 0) {
        free(journal);
        return status < 0 ? -1 : EXIT_CODE_OK;
    }
    struct slurm_job job = {.name = options->job_name ? options->job_name : name,
                            .partition = options->partition,
                            .account = options->account,
                            .reservation = options->reservation,
                            .qos = options->qos,
                            .constraint = options->constraint,
                            .time = options->time,
                            .dependency = options->after,
                            .nodes = options->nodes,
                            .tasks_per_node = tasks,
                            .gpus_per_node = gpus,
                            .has_no_gres = has_no_gres(options),
                            .cpus_per_task = options->cpus_per_task,
                            .warning_seconds = is_train || journal ? options->signal_seconds : 0,
                            .max_requeues = options->max_requeues,
                            .save = config->save,
                            .journal = journal,
                            .chain = options->array_chain,
                            .is_exclusive = !options->shared,
                            .has_mpi = has_mpi(options) && options->nodes * tasks > 1,
                            .container_image = options->container_image,
                            .container_mounts = options->container_mounts,
                            .machine = machine,
                            .environment = &options->environment};
    status = write_job(options, &job, command);
    free(journal);
    return status;
}

int launch_slurm(int argc, char **argv) {
    struct slurm_options options;
    return launch_run(&(struct launch_call){.flags = &slurm_command, .options = &options, .launch = launch}, argc,
                      argv);
}
