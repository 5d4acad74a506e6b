// bevatron launch kubernetes: checks the flags of the run, writes the manifest of a job and applies it with kubectl.
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "cli/launch.h"
#include "cluster/kubernetes.h"
#include "cluster/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kubernetes_options {
    struct flag_given given;
    char *kind, *job_name, *name_space, *image, *machine, *cpu, *memory, *hugepages, *shm_size, *claim, *mount, *binary;
    char *service_account, *to;
    int64_t nodes, gpus_per_node, efa_per_node, nproc, max_restarts;
    struct string_list environment, urls;
    bool dry_run, watch;
};

#define OFFSET(member) offsetof(struct kubernetes_options, member)
#define COUNT(flag, member, start, most, text)                                                                         \
    {                                                                                                                  \
        .name = flag, .type = FLAG_INT, .offset = OFFSET(member), .initial = start, .minimum = 0, .maximum = most,     \
        .help = text                                                                                                   \
    }
#define TEXT(flag, member, start, value, text)                                                                         \
    { .name = flag, .type = FLAG_STRING, .offset = OFFSET(member), .initial = start, .value_name = value, .help = text }

static const char *const kinds[] = {"jobset", "indexed-job", "mpijob", "pytorchjob", "job", NULL};

static const struct flag own_flags[] = {
    {.name = "The job", .type = FLAG_GROUP},
    {.name = "--kind",
     .type = FLAG_CHOICE,
     .offset = OFFSET(kind),
     .choices = kinds,
     .help = "jobset by default; indexed-job where no operator is installed; job for anything but train"},
    TEXT("--image", image, NULL, "IMAGE", "container image with bevatron in it"),
    TEXT("--job-name", job_name, NULL, "NAME", "name of the job; the command's name by default"),
    TEXT("--namespace", name_space, NULL, "NAME", "namespace; kubectl's own by default"),
    COUNT("--nodes", nodes, "1", 1e5, "machines, a pod on each"),
    COUNT("--nproc", nproc, NULL, 1024, "ranks of each; the number of GPUs, else 1, by default"),
    TEXT("--machine", machine, NULL, "TYPE", "EC2 instance type, as p5.48xlarge: its GPUs and EFA, and where pods go"),
    COUNT("--gpus-per-node", gpus_per_node, NULL, 64, "GPUs of each; those of --machine by default"),
    COUNT("--efa-per-node", efa_per_node, NULL, 64, "EFA interfaces of each; those of --machine by default"),
    TEXT("--cpu", cpu, NULL, "AMOUNT", "processors of each, as 90"),
    TEXT("--memory", memory, NULL, "AMOUNT",
         "memory of each, as 1000Gi; where huge pages are asked for, which want it said, nine tenths of --machine's by "
         "default, else at least 16Gi"),
    TEXT("--hugepages", hugepages, NULL, "AMOUNT", "huge pages of 2 MiB; 5120Mi by default where there is EFA"),
    TEXT("--shm-size", shm_size, "64Gi", "AMOUNT", "/dev/shm, which NCCL uses between the GPUs of a machine"),
    TEXT("--claim", claim, NULL, "NAME", "persistent volume claim (FSx for Lustre) that all pods see"),
    TEXT("--mount", mount, "/fsx", "PATH", "where it is mounted"),
    TEXT("--service-account", service_account, NULL, "NAME", "service account of the pods"),
    {.name = "--env",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(environment),
     .value_name = "NAME=VALUE",
     .repeats_add = true,
     .help = "environment of the ranks"},
    COUNT("--max-restarts", max_restarts, "10", 1e6, "how often the job is started again when it fails"),
    TEXT("--binary", binary, NULL, "PATH",
         "bevatron in the image; bevatron by default, /opt/bevatron/bin/bevatron for an mpijob"),
    {.name = "--dry-run", .type = FLAG_BOOL, .offset = OFFSET(dry_run), .help = "prints the manifest only"},
    {.name = "--watch", .type = FLAG_BOOL, .offset = OFFSET(watch), .help = "follows the log of the first rank"},
    {.name = "getdata: fetches files to the claim", .type = FLAG_GROUP},
    {.name = "--url", .type = FLAG_STRING_LIST, .offset = OFFSET(urls), .repeats_add = true, .help = "what to fetch"},
    TEXT("--to", to, NULL, "FOLDER", "folder below --mount"),
};

static const struct flag_table own_table = {.flags = own_flags,
                                            .count = sizeof own_flags / sizeof own_flags[0],
                                            .given = offsetof(struct kubernetes_options, given)};

static const struct flag_command kubernetes_command = {
    .name = "launch kubernetes",
    .summary = "Writes the manifest of a job for a command (train where none is named) and applies it with kubectl.",
    .tables = &own_table,
    .table_count = 1,
    .epilogue =
        "Examples:\n"
        "  bevatron launch kubernetes getdata --image IMAGE --claim fsx-claim --url https://… --to /fsx/raw\n"
        "  bevatron launch kubernetes --image IMAGE --claim fsx-claim preprocess --input /fsx/raw/… …\n"
        "  bevatron launch kubernetes --image IMAGE --claim fsx-claim --nodes 4 --machine p5.48xlarge --watch \\\n"
        "    --preset gpt3-1.3b --data-path /fsx/data/… --save /fsx/run --save-interval 500\n"};

// What is fetched must outlive the pod.
static int check_target(const struct kubernetes_options *options) {
    if (!options->claim)
        return error_set_code(
            EXIT_CODE_USAGE,
            "getdata needs --claim: without one the files would be on the pod's own disk and gone with "
            "it; give the persistent volume claim that the other jobs mount too (`kubectl get pvc` "
            "lists them)");
    size_t length = strlen(options->mount);
    while (length > 1 && options->mount[length - 1] == '/')
        length--;
    bool is_below = strncmp(options->to, options->mount, length) == 0 &&
                    (length == 1 || options->to[length] == '/' || options->to[length] == '\0');
    if (!is_below || strstr(options->to, "/.."))
        return error_set_code(
            EXIT_CODE_USAGE,
            "--to %s is not below --mount %s, where the claim is: the files would be on the pod's own "
            "disk and gone with it",
            options->to, options->mount);
    return 0;
}

// curl takes all of them in one go, continues what is there in part, and fails if a server says no.
static int getdata_words(const struct kubernetes_options *options, const char ***words) {
    if (options->urls.count == 0 || !options->to)
        return error_set_code(EXIT_CODE_USAGE, "getdata needs --url, what to fetch, and --to, the folder to put it in");
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

// The first row whose text stands in kubectl's complaint says what to do.
static const struct {
    const char *text, *remedy;
} remedies[] = {
    {"no matches for kind", "the cluster has no operator for this kind of job: install it, or use --kind indexed-job, "
                            "which needs none"},
    {"executable aws", "kubectl asks aws for credentials: `aws sts get-caller-identity` shows what is wrong with them"},
    {"context was not found", "`kubectl config get-contexts` lists yours, `kubectl config use-context NAME` takes one"},
    {"no such host", "the cluster is gone, or kubectl has its old address: `aws eks update-kubeconfig --name CLUSTER`"},
    {"connection to the server", "tell kubectl where the cluster is: `aws eks update-kubeconfig --name CLUSTER`"},
    {"onnection refused", "tell kubectl where the cluster is: `aws eks update-kubeconfig --name CLUSTER`"},
    {"must be logged in", "the cluster does not know this user: log in again, or ask for an access entry (`aws eks "
                          "create-access-entry`)"},
    {"Unauthorized", "the cluster does not know this user: log in again, or ask for an access entry (`aws eks "
                     "create-access-entry`)"},
    {"orbidden", "ask for the right named there (a role binding in the namespace)"},
    {"namespaces \"", "make it (`kubectl create namespace NAME`), or name another with --namespace"},
    {"immutable", "a job of this name is there: delete it, or choose another --job-name"},
};

static int refused(const char *complaint) {
    size_t length = strlen(complaint);
    while (length > 0 && strchr("\r\n", complaint[length - 1]))
        length--;
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        if (strstr(complaint, remedies[i].text))
            return error_set("kubectl could not apply the job: %.*s; %s", (int)length, complaint, remedies[i].remedy);
    return error_set("kubectl could not apply the job: %.*s", (int)length, complaint);
}

static int apply(const char *manifest) {
    const char *const words[] = {"kubectl", "apply", "-f", "-", NULL};
    struct process_result result;
    if (process_run(words, manifest, &result) < 0)
        return error_set("%s; install it, or print the manifest with --dry-run and apply it elsewhere",
                         error_message());
    int status = 0;
    if (result.exit_code == 0)
        fputs(buffer_string(&result.output), stderr);
    else
        status = refused(buffer_string(&result.errors));
    process_result_free(&result);
    return status;
}

// The first rank's pod by its labels, which depend on who makes the pods.
static char *first_pod(const struct kubernetes_job *job) {
    static const char *const patterns[] = {
        [KUBERNETES_JOBSET] = "jobset.sigs.k8s.io/jobset-name=%s,batch.kubernetes.io/job-completion-index=0",
        [KUBERNETES_INDEXED_JOB] = "job-name=%s,batch.kubernetes.io/job-completion-index=0",
        [KUBERNETES_MPIJOB] = "training.kubeflow.org/job-name=%s,training.kubeflow.org/job-role=launcher",
        [KUBERNETES_PYTORCHJOB] = "training.kubeflow.org/job-name=%s,training.kubeflow.org/replica-type=master",
        [KUBERNETES_JOB] = "job-name=%s",
    };
    const char *pattern = patterns[job->kind], *at = strstr(pattern, "%s");
    return memory_printf("%.*s%s%s", (int)(at - pattern), pattern, job->name, at + 2);
}

// Waits until the pod runs or has ended. A cluster that grows for a job, or a large image, takes its time: what is
// waited for is said once a minute.
static int wait_for_pod(const char *selector, const char *flag, const char *name_space) {
    const char *const get[] = {"kubectl", "get",      "pods", "-l", selector, "-o", "jsonpath={.items[*].status.phase}",
                               flag,      name_space, NULL};
    enum { PAUSE = 2, MINUTE = 60 };
    for (int64_t waited = 0;; waited += PAUSE) {
        struct process_result result;
        TRY(process_run(get, NULL, &result));
        const char *phase = buffer_string(&result.output);
        bool has_begun = result.exit_code == 0 && *phase && !strstr(phase, "Pending");
        int status = result.exit_code == 0 ? 0
                                           : error_set("the job is there, but kubectl cannot find its pods: %s",
                                                       buffer_string(&result.errors));
        process_result_free(&result);
        if (status < 0 || has_begun)
            return status;
        if (waited % MINUTE == 0 && waited > 0)
            log_info("waiting for the first pod; `kubectl describe pods -l %s` says what for", selector);
        clock_sleep(PAUSE);
    }
}

// Waits for the first rank's pod, then this process becomes kubectl logs.
static int follow(const struct kubernetes_job *job) {
    char *selector = first_pod(job);
    const char *name_space = job->name_space;
    const char *flag = job->name_space ? "--namespace" : "--v=0";
    if (wait_for_pod(selector, flag, name_space) < 0) {
        free(selector);
        return -1;
    }
    const char *const logs[] = {"kubectl", "logs", "--follow", "--tail=-1", "-l", selector, flag, name_space, NULL};
    fflush(NULL);
    execvp("kubectl", (char *const *)(uintptr_t)logs);
    free(selector);
    return error_set("cannot start kubectl: %s", strerror(errno));
}

static int choose_kind(const struct kubernetes_options *options, bool is_train, enum kubernetes_kind *kind) {
    const char *name = options->kind ? options->kind : is_train ? "jobset" : "job";
    for (int i = 0; kinds[i]; i++)
        if (strcmp(kinds[i], name) == 0)
            *kind = (enum kubernetes_kind)i;
    if (is_train || *kind == KUBERNETES_JOB)
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "a --kind of %s is for train; other commands run as one pod, a job", name);
}

static int launch(void *given_options, struct launch_command *command, struct config *config) {
    struct kubernetes_options *options = given_options;
    bool is_train = strcmp(command->rest[0], "train") == 0;
    const struct machine *machine = NULL;
    if (options->machine && !(machine = machine_find(options->machine)))
        return -1;
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
                                 .max_restarts = options->max_restarts};
    TRY(choose_kind(options, is_train, &job.kind));
    bool has_gpus = flag_is_given(&options->given, "--gpus-per-node");
    bool has_efa = flag_is_given(&options->given, "--efa-per-node");
    job.gpus = has_gpus ? options->gpus_per_node : machine && is_train ? machine->gpus : 0;
    job.efa = has_efa ? options->efa_per_node : machine && is_train && job.nodes > 1 ? machine->efa : 0;
    job.huge_pages = options->hugepages ? options->hugepages : job.efa > 0 ? "5120Mi" : NULL;
    char memory[32];
    if (job.huge_pages && machine && !job.cpu && !job.memory) {
        snprintf(memory, sizeof memory, "%dGi", machine->memory_gib * 9 / 10);
        job.memory = memory;
    }
    job.ranks_per_node = options->nproc > 0 ? options->nproc : job.gpus > 0 ? job.gpus : 1;
    if (job.kind == KUBERNETES_JOB && job.nodes > 1)
        return error_set_code(EXIT_CODE_USAGE, "a job is one pod; leave --nodes at 1");
    const char **words = NULL;
    command->is_elsewhere = true;
    char *journal = NULL;  // a pod that is started again continues by itself
    int checked = launch_check(command, &journal);
    free(journal);
    if (checked != 0)
        return checked == FLAGS_HELP ? EXIT_CODE_OK : -1;
    if (is_train) {
        TRY(launch_config(config, command, job.nodes * job.ranks_per_node));
        TRY(launch_resume(command, config));
    }
    int status = strcmp(command->rest[0], "getdata") == 0 ? getdata_words(options, &words)
                                                          : command_words(options, command, &words);
    struct buffer manifest = {0};
    job.command = words;
    if (status == 0)
        status = kubernetes_manifest(&job, &manifest);
    if (status == 0 && options->dry_run)
        fputs(buffer_string(&manifest), stdout);
    else if (status == 0)
        status = apply(buffer_string(&manifest));
    buffer_free(&manifest);
    free(words);
    return status == 0 && options->watch && !options->dry_run ? follow(&job) : status;
}

int launch_kubernetes(int argc, char **argv) {
    struct kubernetes_options options;
    return launch_run(&(struct launch_call){.flags = &kubernetes_command, .options = &options, .launch = launch}, argc,
                      argv);
}
