// bevatron launch kubernetes: checks the flags of the run, writes the manifest of a job and applies it with kubectl.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cluster/kubernetes.h"
#include "cluster/machine.h"
#include "config/flag_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kubernetes_options {
    struct flag_given given;
    struct kubernetes_job job;
    char *kind, *to, *pod_file;
    struct string_list urls;
    bool rehearse;
};

#define FLAG_STRUCT struct kubernetes_options

enum { LARGEST_POD_FILE = 1 << 20 };

static const char *const kinds[] = {"jobset", "indexed-job", "mpijob", "pytorchjob", "job", NULL};

static const struct flag own_flags[] = {
    GROUP("The job"),
    CHOICE("--kind", kind, NULL, kinds,
           "kind of job; default: jobset, or job for commands other than train. indexed-job needs no operator"),
    TEXT("--image", job.image, NULL, "IMAGE", "container image that contains bevatron"),
    TEXT("--job-name", job.launch.name, NULL, "NAME", "name of the job; default: the command's name"),
    TEXT("--namespace", job.name_space, NULL, "NAME", "namespace; default: kubectl's"),
    INT("--nodes", job.launch.nodes, "1", 0, 1e5, "machines, one pod on each"),
    INT("--nproc", job.launch.ranks_per_node, NULL, 0, 1024, "ranks per pod; default: the number of GPUs, otherwise 1"),
    TEXT("--machine", job.launch.machine_name, NULL, "TYPE",
         "EC2 instance type, e.g. p5.48xlarge; sets GPUs, EFA and the node selector"),
    INT("--gpus-per-node", job.launch.gpus_per_node, NULL, 0, 64, "GPUs per pod; default: those of --machine"),
    INT("--efa-per-node", job.efa, NULL, 0, 64, "EFA interfaces per pod; default: those of --machine"),
    TEXT("--cpu", job.cpu, NULL, "AMOUNT", "CPUs per pod, e.g. 90"),
    TEXT("--memory", job.memory, NULL, "AMOUNT",
         "memory per pod, e.g. 1000Gi; default with huge pages: nine tenths of --machine's memory, or 16Gi without "
         "--machine"),
    TEXT("--hugepages", job.huge_pages, NULL, "AMOUNT", "huge pages of 2 MiB; default with EFA: 5120Mi"),
    TEXT("--shm-size", job.shared_memory, "64Gi", "AMOUNT",
         "size of /dev/shm, which NCCL uses between the GPUs of a machine"),
    TEXT("--claim", job.claim, NULL, "NAME", "persistent volume claim (FSx for Lustre) that all pods mount"),
    TEXT("--mount", job.mount, "/fsx", "PATH", "mount point of the claim"),
    LIST("--host-path", job.host_paths, "PATH[:MOUNT][:ro]", "folder of the node that its pods mount, e.g. /scratch",
         .repeats_add = true),
    LIST("--pull-secret", job.pull_secrets, "NAME", "secret with the password of the image's registry",
         .repeats_add = true),
    LIST("--toleration", job.tolerations, "KEY[=VALUE][:EFFECT]",
         "taint of nodes that the pods accept, e.g. nvidia.com/gpu", .repeats_add = true),
    LIST("--node-selector", job.node_selectors, "KEY=VALUE", "label that the pods' nodes must have",
         .repeats_add = true),
    TEXT("--pod-file", pod_file, NULL, "FILE",
         "YAML or JSON fields to merge into the pods of ranks; a container called bevatron stands for ours"),
    TEXT("--service-account", job.service_account, NULL, "NAME", "service account of the pods"),
    LIST("--env", job.launch.environment, "NAME=VALUE", "environment variable of the ranks", .repeats_add = true),
    LIST("--export", job.launch.exported, "LIST",
         "variables of the ranks as sbatch takes them, NAME=VALUE,NAME,…; ${NAME} in --config files means the same",
         .repeats_add = true),
    INT("--max-restarts", job.launch.max_restarts, "10", 0, RESTARTS_MOST,
        "restart a failed job at most N times: of train with --save within --restart-window-minutes (not with mpijob "
        "and pytorchjob), otherwise in all"),
    REAL("--restart-window-minutes", job.launch.window_minutes, "60", 0, 1e9,
         "forget failures that are older than this, so that a long run is not given up for rare ones"),
    REAL("--progress-timeout-minutes", job.launch.progress_minutes, "60", 0, 1e9,
         "restart the pods of a run of train that completes no iteration and no other work for this long, by a "
         "liveness probe (not with mpijob); 0 to wait forever"),
    TEXT("--binary", job.launch.binary, NULL, "PATH",
         "path of bevatron in the image; default: bevatron, or /opt/bevatron/bin/bevatron for an mpijob"),
    SWITCH("--allow-out-of-memory", job.launch.may_not_fit,
           "launch a run whose ranks need more memory than the GPUs of --machine have"),
    SWITCH("--dry-run", job.launch.dry_run, "print the manifest and apply nothing"),
    SWITCH("--rehearse", rehearse,
           "run the job on CPUs: as many ranks, without requesting GPUs, EFA, huge pages or --machine's nodes"),
    SWITCH("--watch", job.launch.watch, "follow the log of the first rank"),
    GROUP("getdata: fetches files to the claim"),
    LIST("--url", urls, NULL, "URLs to fetch", .repeats_add = true),
    TEXT("--to", to, NULL, "FOLDER", "target folder below --mount"),
};

static const struct flag_table own_table = {FLAG_TABLE(own_flags)};

static const struct flag_command kubernetes_command = {
    .name = "launch kubernetes",
    .summary = "Writes the manifest of a job for a command (default: train) and applies it with kubectl.",
    .tables = &own_table,
    .table_count = 1,
    .epilogue =
        "Examples:\n"
        "  bevatron launch kubernetes getdata --image IMAGE --claim fsx-claim --url https://… --to /fsx/raw\n"
        "  bevatron launch kubernetes --image IMAGE --claim fsx-claim preprocess --input /fsx/raw/… …\n"
        "  bevatron launch kubernetes --image IMAGE --claim fsx-claim --nodes 4 --machine p5.48xlarge --watch \\\n"
        "    --preset gpt3-1.3b --data-path /fsx/data/… --save /fsx/run --save-interval 500\n"};

// Downloaded data must outlive the pod.
static int check_target(const struct kubernetes_options *options) {
    if (!options->job.claim)
        return error_set_code(EXIT_CODE_USAGE,
                              "getdata needs --claim, else the files are lost with the pod; give the persistent volume "
                              "claim that the other jobs mount (`kubectl get pvc` lists them)");
    size_t length = strlen(options->job.mount);
    while (length > 1 && options->job.mount[length - 1] == '/')
        length--;
    bool is_below = strncmp(options->to, options->job.mount, length) == 0 &&
                    (length == 1 || options->to[length] == '/' || options->to[length] == '\0');
    if (!is_below || strstr(options->to, "/.."))
        return error_set_code(
            EXIT_CODE_USAGE,
            "--to %s is not below --mount %s, where the claim is mounted, so the files would be lost with the pod",
            options->to, options->job.mount);
    return 0;
}

// curl downloads all of them in one go, continues partial files, and fails on a server's error.
static int getdata_words(const struct kubernetes_options *options, const char ***words) {
    if (options->urls.count == 0 || !options->to)
        return error_set_code(EXIT_CODE_USAGE, "getdata needs --url, what to fetch, and --to, the target folder");
    TRY(check_target(options));
    static const char *const curl[] = {"curl",          "--fail", "--location",    "--retry",           "10",
                                       "--continue-at", "-",      "--create-dirs", "--remote-name-all", "--output-dir"};
    size_t fixed = sizeof curl / sizeof curl[0], n = fixed;
    *words = memory_alloc(sizeof **words * (fixed + (size_t)options->urls.count + 3));
    memcpy(*words, curl, sizeof curl);
    (*words)[n++] = options->to;
    (*words)[n++] = "--";
    for (int64_t i = 0; i < options->urls.count; i++)
        (*words)[n++] = options->urls.items[i];
    return 0;
}

static int command_words(const struct kubernetes_options *options, const struct launch_command *command,
                         const char ***words) {
    *words = memory_alloc(sizeof **words * (size_t)(command->rest_count + 2));
    // mpirun starts ranks over ssh, where PATH is not the image's.
    bool is_mpi = options->kind && strcmp(options->kind, "mpijob") == 0;
    (*words)[0] = options->job.launch.binary ? options->job.launch.binary
                  : is_mpi                   ? "/opt/bevatron/bin/bevatron"
                                             : "bevatron";
    memcpy(*words + 1, command->rest, sizeof **words * (size_t)command->rest_count);
    return 0;
}

static int choose_kind(const struct kubernetes_options *options, bool is_train, enum kubernetes_kind *kind) {
    const char *name = options->kind ? options->kind : is_train ? "jobset" : "job";
    for (int i = 0; kinds[i]; i++)
        if (strcmp(kinds[i], name) == 0)
            *kind = (enum kubernetes_kind)i;
    if (is_train || *kind == KUBERNETES_JOB)
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "--kind %s is for train; other commands run as one pod (--kind job)", name);
}

// Ranks on CPUs communicate with MPI, and only mpirun starts MPI's ranks on several machines.
static int check_cpus(const struct kubernetes_job *job, bool is_rehearsal) {
    if (job->launch.gpus_per_node > 0 || job->launch.nodes == 1 || job->kind == KUBERNETES_MPIJOB)
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "%sranks on CPUs of several pods communicate with MPI, which this kind of job does not "
                          "start: use --kind mpijob, or one pod (--nodes 1 --nproc %lld)%s",
                          is_rehearsal ? "a rehearsal has no GPUs, and " : "",
                          (long long)(job->launch.nodes * job->launch.ranks_per_node),
                          is_rehearsal ? "" : ", or GPUs (--machine, --gpus-per-node)");
}

static void replace(char **text, const char *by) {
    free(*text);
    *text = by ? memory_string(by) : NULL;
}

// Resources of a pod: those of the machine, of the flags, or of CPU ranks.
static void choose_resources(const struct kubernetes_options *options, struct kubernetes_job *job) {
    struct launch_job *run = &job->launch;
    const struct machine *machine = run->is_train ? run->machine : NULL;
    if (machine && !flag_is_given(&options->given, "--gpus-per-node"))
        run->gpus_per_node = machine->gpus;
    if (machine && run->nodes > 1 && !flag_is_given(&options->given, "--efa-per-node"))
        job->efa = machine->efa;
    if (run->ranks_per_node == 0)
        run->ranks_per_node = run->gpus_per_node > 0 ? run->gpus_per_node : 1;
    if (options->rehearse) {
        run->gpus_per_node = job->efa = 0;
        replace(&run->machine_name, NULL);
        replace(&job->huge_pages, NULL);
        if (!flag_is_given(&options->given, "--shm-size"))
            replace(&job->shared_memory, "1Gi");
    }
    if (!options->rehearse && !job->huge_pages && job->efa > 0)
        job->huge_pages = memory_string("5120Mi");
    if (job->huge_pages && run->machine && !job->cpu && !job->memory)
        job->memory = memory_printf("%dGi", run->machine->memory_gib * 9 / 10);
    // The limits of GPUs that are not used do not matter.
    if (run->gpus_per_node == 0)
        run->machine = NULL;
}

// Reads --pod-file; *fields is to be freed in any case.
static int read_pod_file(const char *path, struct yaml_node *fields) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    *fields = (struct yaml_node){.kind = YAML_MAP};
    if (!path)
        return 0;
    TRY(file_read_all(path, LARGEST_POD_FILE, &text));
    return yaml_tree_parse(fields, buffer_string(&text), text.length, path);
}

// The file in which a command records its progress; a restarted pod, or the next job, looks for it.
static void warn_of_loss(const struct kubernetes_job *job, const char *path, const char *what) {
    const char *verb = strcmp(what, "checkpoints") == 0 ? "are" : "is";
    switch (kubernetes_disk_of(job, path)) {
    case KUBERNETES_DISK_POD:
        log_warn("%s %s: this is the pod's own disk, and %s %s lost with the pod; %s", path,
                 job->claim ? "is not below --mount" : "without --claim", what, verb,
                 job->claim ? "write below it"
                            : "give --claim NAME, a persistent volume claim (`bevatron cluster "
                              "volume` makes one of FSx), and write below --mount");
        break;
    case KUBERNETES_DISK_READ_ONLY:
        log_warn("%s is on a read-only mount, where %s cannot be written; write below --mount of a --claim", path,
                 what);
        break;
    case KUBERNETES_DISK_NODE:
        if (job->launch.nodes > 1)
            log_warn("%s is a folder of the node, and %lld nodes write to it: it must be a shared file system, "
                     "otherwise %s %s scattered over the nodes and cannot be loaded; --claim mounts a shared one",
                     path, (long long)job->launch.nodes, what, verb);
        break;
    case KUBERNETES_DISK_LASTING:
        break;
    }
}

// The value of a flag, in either form; of several the last. NULL if the command does not have it.
static const char *value_of(const struct launch_command *command, const char *flag) {
    size_t length = strlen(flag);
    const char *value = NULL;
    for (int i = 1; i < command->rest_count; i++) {
        const char *word = command->rest[i];
        if (strncmp(word, flag, length) != 0)
            continue;
        if (word[length] == '=')
            value = word + length + 1;
        else if (!word[length] && i + 1 < command->rest_count)
            value = command->rest[++i];
    }
    return value;
}

static void warn_of_losses(const struct kubernetes_job *job, const struct launch_command *command,
                           const struct config *config) {
    static const char *const writers[] = {"preprocess", "dataset", "tokenizer", "extract", "checkpoint"};
    static const char *const flags[] = {"--output-prefix", "--output", "--save"};
    const char *name = command->rest[0];
    if (strcmp(name, "train") == 0 && config->run.save)
        warn_of_loss(job, config->run.save, "checkpoints");
    for (size_t w = 0; w < sizeof writers / sizeof writers[0]; w++)
        for (size_t i = 0; strcmp(name, writers[w]) == 0 && i < sizeof flags / sizeof flags[0]; i++) {
            const char *path = value_of(command, flags[i]);
            if (path && strcmp(path, "-") != 0)
                warn_of_loss(job, path, w < 2 ? "the dataset" : "the output");
        }
}

// The manifest of the job, printed or applied.
static int send(const struct kubernetes_options *options, struct launch_command *command, const struct config *config,
                struct kubernetes_job *job) {
    OWNED const char **words = NULL;
    OWNED_BY(buffer_free) struct buffer manifest = {0};
    TRY(strcmp(command->rest[0], "getdata") == 0 ? getdata_words(options, &words)
                                                 : command_words(options, command, &words));
    job->launch.command = words;
    TRY(kubernetes_manifest(job, &manifest));
    warn_of_losses(job, command, config);
    if (!options->job.launch.dry_run)
        return kubectl_apply("job", buffer_string(&manifest));
    fputs(buffer_string(&manifest), stdout);
    return 0;
}

// Checks the command as run in the pods. Returns 0, FLAGS_HELP or -1.
static int check_command(struct launch_command *command, struct config *config, const struct launch_job *run) {
    OWNED char *journal = NULL;  // a restarted pod continues by itself
    command->is_elsewhere = command->takes_machines = true;
    TRY(launch_check_name(command, NULL));
    int checked = launch_check(command, &journal);
    if (checked != 0 || !run->is_train)
        return checked;
    TRY(launch_config(config, command, run->nodes * run->ranks_per_node));
    TRY(launch_refuse_memory(config));
    TRY(launch_check_machine(run, command, config));
    return launch_resume(command, config);
}

static int launch(void *given_options, struct launch_command *command, struct config *config) {
    struct kubernetes_options *options = given_options;
    struct kubernetes_job *job = &options->job;
    struct launch_job *run = &job->launch;
    run->is_train = strcmp(command->rest[0], "train") == 0;
    if (run->machine_name && !(run->machine = machine_find(run->machine_name)))
        return -1;
    TRY(launch_export(&run->exported, &run->environment));
    char token[SECRET_CHARACTERS + 1];
    TRY(secret_make(token));
    OWNED_BY(yaml_tree_free) struct yaml_node fields = {0};
    if (!run->name)
        run->name = memory_string(command->rest[0]);
    run->nodes = run->nodes > 0 ? run->nodes : 1;
    run->progress_minutes = run->is_train ? run->progress_minutes : 0;
    job->pod_fields = options->pod_file ? &fields : NULL;
    job->token = token;
    TRY(choose_kind(options, run->is_train, &job->kind));
    choose_resources(options, job);
    if (job->kind == KUBERNETES_JOB && run->nodes > 1)
        return error_set_code(EXIT_CODE_USAGE, "a job is one pod; leave --nodes at 1");
    TRY(check_cpus(job, options->rehearse));
    int status = read_pod_file(options->pod_file, &fields);
    int checked = status == 0 ? check_command(command, config, run) : status;
    run->save = run->is_train && checked == 0 ? config->run.save : NULL;
    run->fallback = config->run.save_fallback;
    if (checked == 0)
        status = send(options, command, config, job);
    if (checked != 0)
        return checked == FLAGS_HELP ? EXIT_CODE_OK : -1;
    return status == 0 && run->watch && !run->dry_run ? kubectl_follow(job) : status;
}

int cmd_launch_kubernetes(int argc, char **argv) {
    struct kubernetes_options options = {0};
    return launch_run(&(struct launch_call){.flags = &kubernetes_command, .options = &options, .launch = launch}, argc,
                      argv);
}
