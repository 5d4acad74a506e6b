// bevatron launch kubernetes: checks the flags of the run, writes the manifest of a job and applies it with kubectl.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "cli/commands.h"
#include "cli/kubectl.h"
#include "cli/launch.h"
#include "cli/restarts.h"
#include "cluster/kubernetes.h"
#include "cluster/machine.h"
#include "config/flag_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kubernetes_options {
    struct flag_given given;
    char *kind, *job_name, *name_space, *image, *machine, *cpu, *memory, *hugepages, *shm_size, *claim, *mount, *binary;
    char *service_account, *to, *pod_file;
    int64_t nodes, gpus_per_node, efa_per_node, nproc, max_restarts;
    double restart_window_minutes, progress_timeout_minutes;
    struct string_list environment, exported, urls, pull_secrets, tolerations, node_selectors, host_paths;
    bool dry_run, watch, rehearse, may_not_fit;
};

#define FLAG_STRUCT struct kubernetes_options

enum { LARGEST_POD_FILE = 1 << 20 };

static const char *const kinds[] = {"jobset", "indexed-job", "mpijob", "pytorchjob", "job", NULL};

static const struct flag own_flags[] = {
    GROUP("The job"),
    CHOICE("--kind", kind, NULL, kinds,
           "kind of job; default: jobset, or job for commands other than train. indexed-job needs no operator"),
    TEXT("--image", image, NULL, "IMAGE", "container image that contains bevatron"),
    TEXT("--job-name", job_name, NULL, "NAME", "name of the job; default: the command's name"),
    TEXT("--namespace", name_space, NULL, "NAME", "namespace; default: kubectl's"),
    INT("--nodes", nodes, "1", 0, 1e5, "machines, one pod on each"),
    INT("--nproc", nproc, NULL, 0, 1024, "ranks per pod; default: the number of GPUs, otherwise 1"),
    TEXT("--machine", machine, NULL, "TYPE",
         "EC2 instance type, e.g. p5.48xlarge; sets GPUs, EFA and the node selector"),
    INT("--gpus-per-node", gpus_per_node, NULL, 0, 64, "GPUs per pod; default: those of --machine"),
    INT("--efa-per-node", efa_per_node, NULL, 0, 64, "EFA interfaces per pod; default: those of --machine"),
    TEXT("--cpu", cpu, NULL, "AMOUNT", "CPUs per pod, e.g. 90"),
    TEXT("--memory", memory, NULL, "AMOUNT",
         "memory per pod, e.g. 1000Gi; default with huge pages: nine tenths of --machine's memory, or 16Gi without "
         "--machine"),
    TEXT("--hugepages", hugepages, NULL, "AMOUNT", "huge pages of 2 MiB; default with EFA: 5120Mi"),
    TEXT("--shm-size", shm_size, "64Gi", "AMOUNT", "size of /dev/shm, which NCCL uses between the GPUs of a machine"),
    TEXT("--claim", claim, NULL, "NAME", "persistent volume claim (FSx for Lustre) that all pods mount"),
    TEXT("--mount", mount, "/fsx", "PATH", "mount point of the claim"),
    LIST("--host-path", host_paths, "PATH[:MOUNT][:ro]", "folder of the node that its pods mount, e.g. /scratch",
         .repeats_add = true),
    LIST("--pull-secret", pull_secrets, "NAME", "secret with the password of the image's registry",
         .repeats_add = true),
    LIST("--toleration", tolerations, "KEY[=VALUE][:EFFECT]",
         "taint of nodes that the pods accept, e.g. nvidia.com/gpu", .repeats_add = true),
    LIST("--node-selector", node_selectors, "KEY=VALUE", "label that the pods' nodes must have", .repeats_add = true),
    TEXT("--pod-file", pod_file, NULL, "FILE",
         "YAML or JSON fields to merge into the pods of ranks; a container called bevatron stands for ours"),
    TEXT("--service-account", service_account, NULL, "NAME", "service account of the pods"),
    LIST("--env", environment, "NAME=VALUE", "environment variable of the ranks", .repeats_add = true),
    LIST("--export", exported, "LIST",
         "variables of the ranks as sbatch takes them, NAME=VALUE,NAME,…; ${NAME} in --config files means the same",
         .repeats_add = true),
    INT("--max-restarts", max_restarts, "10", 0, RESTARTS_MOST,
        "restart a failed job at most N times: of train with --save within --restart-window-minutes (not with mpijob "
        "and pytorchjob), otherwise in all"),
    REAL("--restart-window-minutes", restart_window_minutes, "60", 0, 1e9,
         "forget failures that are older than this, so that a long run is not given up for rare ones"),
    REAL("--progress-timeout-minutes", progress_timeout_minutes, "60", 0, 1e9,
         "restart the pods of a run of train that completes no iteration and no other work for this long, by a "
         "liveness probe (not with mpijob); 0 to wait forever"),
    TEXT("--binary", binary, NULL, "PATH",
         "path of bevatron in the image; default: bevatron, or /opt/bevatron/bin/bevatron for an mpijob"),
    SWITCH("--allow-out-of-memory", may_not_fit,
           "launch a run whose ranks need more memory than the GPUs of --machine have"),
    SWITCH("--dry-run", dry_run, "print the manifest and apply nothing"),
    SWITCH("--rehearse", rehearse,
           "run the job on CPUs: as many ranks, without requesting GPUs, EFA, huge pages or --machine's nodes"),
    SWITCH("--watch", watch, "follow the log of the first rank"),
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
    if (!options->claim)
        return error_set_code(EXIT_CODE_USAGE,
                              "getdata needs --claim, else the files are lost with the pod; give the persistent volume "
                              "claim that the other jobs mount (`kubectl get pvc` lists them)");
    size_t length = strlen(options->mount);
    while (length > 1 && options->mount[length - 1] == '/')
        length--;
    bool is_below = strncmp(options->to, options->mount, length) == 0 &&
                    (length == 1 || options->to[length] == '/' || options->to[length] == '\0');
    if (!is_below || strstr(options->to, "/.."))
        return error_set_code(
            EXIT_CODE_USAGE,
            "--to %s is not below --mount %s, where the claim is mounted, so the files would be lost with the pod",
            options->to, options->mount);
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
    (*words)[0] = options->binary ? options->binary : is_mpi ? "/opt/bevatron/bin/bevatron" : "bevatron";
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
    if (job->gpus > 0 || job->nodes == 1 || job->kind == KUBERNETES_MPIJOB)
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "%sranks on CPUs of several pods communicate with MPI, which this kind of job does not "
                          "start: use --kind mpijob, or one pod (--nodes 1 --nproc %lld)%s",
                          is_rehearsal ? "a rehearsal has no GPUs, and " : "",
                          (long long)(job->nodes * job->ranks_per_node),
                          is_rehearsal ? "" : ", or GPUs (--machine, --gpus-per-node)");
}

// Resources of a pod: those of the machine, of the flags, or of CPU ranks.
static void choose_resources(const struct kubernetes_options *options, const struct machine *machine, bool is_train,
                             struct kubernetes_job *job) {
    bool has_gpus = flag_is_given(&options->given, "--gpus-per-node");
    bool has_efa = flag_is_given(&options->given, "--efa-per-node");
    int64_t gpus = has_gpus ? options->gpus_per_node : machine && is_train ? machine->gpus : 0;
    job->ranks_per_node = options->nproc > 0 ? options->nproc : gpus > 0 ? gpus : 1;
    if (options->rehearse) {
        job->machine = NULL;
        job->shared_memory = flag_is_given(&options->given, "--shm-size") ? options->shm_size : "1Gi";
        return;
    }
    job->gpus = gpus;
    job->efa = has_efa ? options->efa_per_node : machine && is_train && job->nodes > 1 ? machine->efa : 0;
    job->huge_pages = options->hugepages ? options->hugepages : job->efa > 0 ? "5120Mi" : NULL;
}

// Reads --pod-file; *fields is to be freed in any case.
static int read_pod_file(const char *path, struct yaml_node *fields) {
    struct buffer text = {0};
    *fields = (struct yaml_node){.kind = YAML_MAP};
    int status = path ? file_read_all(path, LARGEST_POD_FILE, &text) : 0;
    if (status == 0 && path)
        status = yaml_tree_parse(fields, buffer_string(&text), text.length, path);
    buffer_free(&text);
    return status;
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
        if (job->nodes > 1)
            log_warn("%s is a folder of the node, and %lld nodes write to it: it must be a shared file system, "
                     "otherwise %s %s scattered over the nodes and cannot be loaded; --claim mounts a shared one",
                     path, (long long)job->nodes, what, verb);
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
    if (strcmp(name, "train") == 0 && config->save)
        warn_of_loss(job, config->save, "checkpoints");
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
    const char **words = NULL;
    struct buffer manifest = {0};
    int status = strcmp(command->rest[0], "getdata") == 0 ? getdata_words(options, &words)
                                                          : command_words(options, command, &words);
    job->command = words;
    if (status == 0)
        status = kubernetes_manifest(job, &manifest);
    if (status == 0)
        warn_of_losses(job, command, config);
    if (status == 0 && options->dry_run)
        fputs(buffer_string(&manifest), stdout);
    else if (status == 0)
        status = kubectl_apply("job", buffer_string(&manifest));
    buffer_free(&manifest);
    free(words);
    return status;
}

// Checks the command as run in the pods. Returns 0, FLAGS_HELP or -1.
static int check_command(struct launch_command *command, struct config *config, const struct kubernetes_job *job,
                         const struct machine *machine, bool may_not_fit) {
    char *journal = NULL;  // a restarted pod continues by itself
    command->is_elsewhere = command->takes_machines = true;
    TRY(launch_check_name(command, NULL));
    int checked = launch_check(command, &journal);
    free(journal);
    if (checked != 0)
        return checked;
    if (strcmp(command->rest[0], "train") == 0) {
        int64_t ranks = job->nodes * job->ranks_per_node;
        TRY(launch_config(config, command, ranks));
        TRY(launch_refuse_memory(config));
        TRY(launch_check_machine(&(struct launch_place){job->gpus > 0 ? machine : NULL, ranks, may_not_fit}, command,
                                 config));
        TRY(launch_resume(command, config));
    }
    return 0;
}

static int launch(void *given_options, struct launch_command *command, struct config *config) {
    struct kubernetes_options *options = given_options;
    bool is_train = strcmp(command->rest[0], "train") == 0;
    const struct machine *machine = NULL;
    if (options->machine && !(machine = machine_find(options->machine)))
        return -1;
    TRY(launch_export(&options->exported, &options->environment));
    char token[SECRET_CHARACTERS + 1];
    TRY(secret_make(token));
    struct yaml_node fields;
    struct kubernetes_job job = {.name = options->job_name ? options->job_name : command->rest[0],
                                 .name_space = options->name_space,
                                 .image = options->image,
                                 .nodes = options->nodes > 0 ? options->nodes : 1,
                                 .cpu = options->cpu,
                                 .memory = options->memory,
                                 .shared_memory = options->shm_size,
                                 .machine = options->machine,
                                 .claim = options->claim,
                                 .mount = options->mount,
                                 .service_account = options->service_account,
                                 .environment = &options->environment,
                                 .pull_secrets = &options->pull_secrets,
                                 .tolerations = &options->tolerations,
                                 .node_selectors = &options->node_selectors,
                                 .host_paths = &options->host_paths,
                                 .pod_fields = options->pod_file ? &fields : NULL,
                                 .max_restarts = options->max_restarts,
                                 .window_minutes = options->restart_window_minutes,
                                 .progress_minutes = is_train ? options->progress_timeout_minutes : 0,
                                 .token = token};
    TRY(choose_kind(options, is_train, &job.kind));
    choose_resources(options, machine, is_train, &job);
    char memory[32];
    if (job.huge_pages && machine && !job.cpu && !job.memory) {
        snprintf(memory, sizeof memory, "%dGi", machine->memory_gib * 9 / 10);
        job.memory = memory;
    }
    if (job.kind == KUBERNETES_JOB && job.nodes > 1)
        return error_set_code(EXIT_CODE_USAGE, "a job is one pod; leave --nodes at 1");
    TRY(check_cpus(&job, options->rehearse));
    int status = read_pod_file(options->pod_file, &fields);
    int checked = status == 0 ? check_command(command, config, &job, machine, options->may_not_fit) : status;
    job.save = is_train && checked == 0 ? config->save : NULL;
    job.fallback = config->save_fallback;
    if (checked == 0)
        status = send(options, command, config, &job);
    yaml_tree_free(&fields);
    if (checked != 0)
        return checked == FLAGS_HELP ? EXIT_CODE_OK : -1;
    return status == 0 && options->watch && !options->dry_run ? kubectl_follow(&job) : status;
}

int cmd_launch_kubernetes(int argc, char **argv) {
    struct kubernetes_options options;
    return launch_run(&(struct launch_call){.flags = &kubernetes_command, .options = &options, .launch = launch}, argc,
                      argv);
}
