// Manifests of the five kinds of jobs, around one and the same pod. See kubernetes.h.
#include "cluster/kubernetes.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cluster/yaml.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 29500, PYTORCHJOB_PORT = 23456, GRACE_SECONDS = 300 };

// Names become host names: letters, digits and dashes. Pods get up to 18 more characters.
static int check_name(const char *what, const char *name, size_t most) {
    size_t length = strlen(name);
    bool is_good = length > 0 && length <= most && islower((unsigned char)name[0]) && name[length - 1] != '-';
    for (size_t i = 0; i < length; i++)
        is_good = is_good && (islower((unsigned char)name[i]) || isdigit((unsigned char)name[i]) || name[i] == '-');
    if (is_good)
        return 0;
    return error_set_code(
        EXIT_CODE_USAGE,
        "\"%s\" cannot be %s in Kubernetes: use up to %zu small letters, digits and dashes, a letter first", name, what,
        most);
}

// Quantities: a number and a unit.
static int check_quantity(const char *what, const char *text) {
    static const char *const units[] = {"", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
    if (!text)
        return 0;
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; digits > 0 && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text + digits, units[i]) == 0)
            return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not a quantity of Kubernetes, as 64Gi or 500m", what, text);
}

// Huge pages are whole ones of 2 MiB.
static int check_huge_pages(const char *text) {
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1},        {"k", 1e3},     {"M", 1e6},     {"G", 1e9},    {"T", 1e12},
                 {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
    TRY(check_quantity("--hugepages", text));
    if (!text)
        return 0;
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double pages = strtod(text, NULL) * units[i].bytes / 0x1p21;
        if (strcmp(text + digits, units[i].unit) == 0 && pages >= 1 && pages == floor(pages))
            return 0;
    }
    return error_set_code(EXIT_CODE_USAGE, "--hugepages %s is not a multiple of 2Mi, the size of a page", text);
}

// A manifest is UTF-8; the API server refuses what is not, without saying where it stands.
static int check_text(const char *what, const char *text) {
    size_t length = text ? strlen(text) : 0, good = utf8_check(text ? text : "", length);
    if (good == length)
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s \"%.*s\" is not UTF-8 from byte %zu on, and a manifest must be", what,
                          (int)good, text, good);
}

static int check_variable(const char *pair) {
    size_t length = strcspn(pair, "=");
    bool is_good = length > 0 && pair[length] == '=' && !isdigit((unsigned char)pair[0]);
    for (size_t i = 0; i < length; i++)
        is_good = is_good && (isalnum((unsigned char)pair[i]) || pair[i] == '_');
    TRY(check_text("--env", pair));
    if (is_good)
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "--env \"%s\" is not NAME=value with a name of letters, digits and underscores", pair);
}

static int check_job(const struct kubernetes_job *job) {
    TRY(check_name("the name of a job", job->name, 40));
    if (job->name_space)
        TRY(check_name("a namespace", job->name_space, 63));
    if (job->claim)
        TRY(check_name("a volume claim", job->claim, 63));
    TRY(check_quantity("--cpu", job->cpu));
    TRY(check_quantity("--memory", job->memory));
    TRY(check_huge_pages(job->huge_pages));
    TRY(check_quantity("--shm-size", job->shared_memory));
    if (!job->image || !*job->image)
        return error_set_code(EXIT_CODE_USAGE, "a job of Kubernetes needs --image, the container image to run");
    if (job->mount && job->mount[0] != '/')
        return error_set_code(EXIT_CODE_USAGE, "--mount %s is not an absolute path", job->mount);
    for (int64_t i = 0; job->environment && i < job->environment->count; i++)
        TRY(check_variable(job->environment->items[i]));
    TRY(check_text("--image", job->image));
    TRY(check_text("--mount", job->mount));
    TRY(check_text("--service-account", job->service_account));
    for (const char *const *word = job->command; *word; word++)
        TRY(check_text("the argument", *word));
    return 0;
}

static void begin(struct yaml *y, const struct kubernetes_job *job, const char *version, const char *kind) {
    yaml_text(y, "apiVersion", version);
    yaml_text(y, "kind", kind);
    yaml_map(y, "metadata");
    yaml_text(y, "name", job->name);
    yaml_text(y, "namespace", job->name_space);
    yaml_map(y, "labels");
    yaml_text(y, "app.kubernetes.io/managed-by", "bevatron");
    yaml_end(y);
    yaml_end(y);
    yaml_map(y, "spec");
}

// Kubernetes puts variables' values for $(NAME) in commands and in the environment, and one $ for two. Nothing here is
// meant that way, so every $ is doubled.
static char *literal(const char *text) {
    struct buffer out = {0};
    for (const char *c = text; *c; c++) {
        if (*c == '$')
            buffer_append_byte(&out, '$');
        buffer_append_byte(&out, *c);
    }
    char *whole = memory_string(buffer_string(&out));
    buffer_free(&out);
    return whole;
}

static void variable(struct yaml *y, const char *name, const char *value) {
    char *text = literal(value);
    yaml_item(y);
    yaml_text(y, "name", name);
    yaml_text(y, "value", text);
    yaml_end(y);
    free(text);
}

static void word(struct yaml *y, const char *value) {
    char *text = literal(value);
    yaml_item_text(y, text);
    free(text);
}

static void variable_number(struct yaml *y, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    variable(y, name, text);
}

// The last, without which NCCL would fall back to TCP, is for jobs of several machines: one needs no network.
static const struct {
    const char *name, *value;
} efa_variables[] = {{"FI_PROVIDER", "efa"}, {"NCCL_SOCKET_IFNAME", "^docker,lo,veth"}, {"NCCL_NET", "AWS Libfabric"}};

static int efa_variable_count(const struct kubernetes_job *job) {
    int count = sizeof efa_variables / sizeof efa_variables[0];
    return job->efa <= 0 ? 0 : job->nodes > 1 ? count : count - 1;
}

// Where the first pod is, for those kinds whose operator does not say it, and what the user adds.
static void variables(struct yaml *y, const struct kubernetes_job *job, const char *master) {
    bool has_own = job->environment && job->environment->count > 0;
    if (!master && !has_own && !job->efa)
        return;
    yaml_list(y, "env");
    if (master) {
        variable(y, "MASTER_ADDR", master);
        variable_number(y, "MASTER_PORT", PORT);
        variable_number(y, "BEVATRON_NODES", job->nodes);
        variable(y, "BEVATRON_JOB_TOKEN", job->name);
    }
    for (int i = 0; i < efa_variable_count(job); i++)
        variable(y, efa_variables[i].name, efa_variables[i].value);
    for (int64_t i = 0; has_own && i < job->environment->count; i++) {
        const char *pair = job->environment->items[i];
        char *name = memory_printf("%.*s", (int)strcspn(pair, "="), pair);
        variable(y, name, strchr(pair, '=') + 1);
        free(name);
    }
    yaml_end(y);
}

static void amounts(struct yaml *y, const struct kubernetes_job *job, const char *key) {
    yaml_map(y, key);
    if (job->gpus > 0)
        yaml_number(y, "nvidia.com/gpu", job->gpus);
    if (job->efa > 0)
        yaml_number(y, "vpc.amazonaws.com/efa", job->efa);
    yaml_text(y, "hugepages-2Mi", job->huge_pages);
    yaml_text(y, "cpu", job->cpu);
    yaml_text(y, "memory", job->memory);
    // Huge pages alone are forbidden: the API server wants processors or memory with them.
    if (job->huge_pages && !job->cpu && !job->memory && strcmp(key, "requests") == 0)
        yaml_text(y, "memory", "16Gi");
    yaml_end(y);
}

// Extended resources must be the same as request and limit.
static void resources(struct yaml *y, const struct kubernetes_job *job) {
    if (!job->gpus && !job->efa && !job->huge_pages && !job->cpu && !job->memory)
        return;
    yaml_map(y, "resources");
    amounts(y, job, "requests");
    amounts(y, job, "limits");
    yaml_end(y);
}

static void mounts(struct yaml *y, const struct kubernetes_job *job) {
    if (!job->shared_memory && !job->claim)
        return;
    yaml_list(y, "volumeMounts");
    if (job->shared_memory) {
        yaml_item(y);
        yaml_text(y, "name", "shm");
        yaml_text(y, "mountPath", "/dev/shm");
        yaml_end(y);
    }
    if (job->claim) {
        yaml_item(y);
        yaml_text(y, "name", "data");
        yaml_text(y, "mountPath", job->mount);
        yaml_end(y);
    }
    yaml_end(y);
}

static void volumes(struct yaml *y, const struct kubernetes_job *job) {
    if (!job->shared_memory && !job->claim)
        return;
    yaml_list(y, "volumes");
    if (job->shared_memory) {
        yaml_item(y);
        yaml_text(y, "name", "shm");
        yaml_map(y, "emptyDir");
        yaml_text(y, "medium", "Memory");
        yaml_text(y, "sizeLimit", job->shared_memory);
        yaml_end(y);
        yaml_end(y);
    }
    if (job->claim) {
        yaml_item(y);
        yaml_text(y, "name", "data");
        yaml_map(y, "persistentVolumeClaim");
        yaml_text(y, "claimName", job->claim);
        yaml_end(y);
        yaml_end(y);
    }
    yaml_end(y);
}

struct pod {
    const char *container;             // its name
    const char *master;                // NULL: the operator says it
    const char *subdomain;             // NULL: none
    const char *restart;               // policy; NULL: not the pod's to say
    const struct string_list *before;  // words before the command, NULL for none
    bool has_nproc;                    // the pod starts its own ranks
    bool is_launcher;                  // needs no GPUs
    int port;                          // 0: none
};

static void command(struct yaml *y, const struct kubernetes_job *job, const struct pod *pod) {
    yaml_list(y, "command");
    for (int64_t i = 0; pod->before && i < pod->before->count; i++)
        word(y, pod->before->items[i]);
    for (const char *const *each = job->command; *each; each++)
        word(y, *each);
    if (pod->has_nproc) {
        char count[24];
        snprintf(count, sizeof count, "%" PRId64, job->ranks_per_node);
        yaml_item_text(y, "--nproc");
        yaml_item_text(y, count);
    }
    yaml_end(y);
}

// The pod's spec, below the key "template".
static void pod_template(struct yaml *y, const struct kubernetes_job *job, const struct pod *pod, bool has_command) {
    yaml_map(y, "template");
    yaml_map(y, "spec");
    yaml_text(y, "restartPolicy", pod->restart);
    yaml_text(y, "subdomain", pod->subdomain);
    yaml_text(y, "serviceAccountName", job->service_account);
    // SIGTERM, save, leave.
    yaml_number(y, "terminationGracePeriodSeconds", GRACE_SECONDS);
    if (job->machine && !pod->is_launcher) {
        yaml_map(y, "nodeSelector");
        yaml_text(y, "node.kubernetes.io/instance-type", job->machine);
        yaml_end(y);
    }
    yaml_list(y, "containers");
    yaml_item(y);
    yaml_text(y, "name", pod->container);
    yaml_text(y, "image", job->image);
    if (has_command)
        command(y, job, pod);
    if (pod->port) {
        yaml_list(y, "ports");
        yaml_item(y);
        yaml_text(y, "name", pod->port == PYTORCHJOB_PORT ? "pytorchjob-port" : "rendezvous");
        yaml_number(y, "containerPort", pod->port);
        yaml_end(y);
        yaml_end(y);
    }
    variables(y, job, pod->master);
    if (!pod->is_launcher)
        resources(y, job);
    mounts(y, job);
    yaml_end(y);
    yaml_end(y);
    volumes(y, job);
    yaml_end(y);
    yaml_end(y);
}

// A Job ends at once where no restart mends what is wrong: flags, numbers that are not finite, memory, data,
// checkpoints, restarts that got nowhere. Such a rule wants pods that are never restarted in place.
static void failure_policy(struct yaml *y, const struct pod *pod) {
    static const int codes[] = {EXIT_CODE_USAGE,    EXIT_CODE_NOT_FINITE,    EXIT_CODE_OUT_OF_MEMORY,
                                EXIT_CODE_BAD_DATA, EXIT_CODE_NO_CHECKPOINT, EXIT_CODE_NO_PROGRESS};
    yaml_map(y, "podFailurePolicy");
    yaml_list(y, "rules");
    yaml_item(y);
    yaml_text(y, "action", "FailJob");
    yaml_map(y, "onExitCodes");
    yaml_text(y, "containerName", pod->container);
    yaml_text(y, "operator", "In");
    yaml_list(y, "values");
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        yaml_item_number(y, codes[i]);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
}

// An Indexed Job's own fields; every pod is a machine.
static void indexed(struct yaml *y, const struct kubernetes_job *job, const struct pod *pod) {
    yaml_text(y, "completionMode", "Indexed");
    yaml_number(y, "completions", job->nodes);
    yaml_number(y, "parallelism", job->nodes);
    failure_policy(y, pod);
    pod_template(y, job, pod, true);
}

static void job_set(struct yaml *y, const struct kubernetes_job *job) {
    char *master = memory_printf("%s-node-0-0.%s", job->name, job->name);
    struct pod pod = {.container = "bevatron", .master = master, .restart = "Never", .has_nproc = true, .port = PORT};
    begin(y, job, "jobset.x-k8s.io/v1alpha2", "JobSet");
    yaml_map(y, "network");
    yaml_bool(y, "enableDNSHostnames", true);
    yaml_bool(y, "publishNotReadyAddresses", true);
    yaml_end(y);
    // One lost pod ends the run of all; all start again from the last checkpoint.
    yaml_map(y, "failurePolicy");
    yaml_number(y, "maxRestarts", job->max_restarts);
    yaml_text(y, "restartStrategy", "BlockingRecreate");
    yaml_list(y, "rules");
    yaml_item(y);
    yaml_text(y, "name", "beyondRestarts");
    yaml_text(y, "action", "FailJobSet");
    yaml_list(y, "onJobFailureReasons");
    yaml_item_text(y, "PodFailurePolicy");
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_list(y, "replicatedJobs");
    yaml_item(y);
    yaml_text(y, "name", "node");
    yaml_number(y, "replicas", 1);
    yaml_map(y, "template");
    yaml_map(y, "spec");
    yaml_number(y, "backoffLimit", 0);
    indexed(y, job, &pod);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    free(master);
}

static void indexed_job(struct yaml *y, const struct kubernetes_job *job) {
    char *master = memory_printf("%s-0.%s", job->name, job->name);
    struct pod pod = {.container = "bevatron",
                      .master = master,
                      .subdomain = job->name,
                      .restart = "Never",
                      .has_nproc = true,
                      .port = PORT};
    begin(y, job, "v1", "Service");
    yaml_text(y, "clusterIP", "None");
    yaml_bool(y, "publishNotReadyAddresses", true);
    yaml_map(y, "selector");
    yaml_text(y, "job-name", job->name);
    yaml_end(y);
    yaml_list(y, "ports");
    yaml_item(y);
    yaml_text(y, "name", "rendezvous");
    yaml_number(y, "port", PORT);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_document(y);
    begin(y, job, "batch/v1", "Job");
    // A pod that ends is replaced; its peers leave with code 211 and are replaced too.
    yaml_number(y, "backoffLimit", job->max_restarts * job->nodes);
    indexed(y, job, &pod);
    yaml_end(y);
    free(master);
}

static void single_job(struct yaml *y, const struct kubernetes_job *job) {
    struct pod pod = {.container = "bevatron", .restart = "Never"};
    begin(y, job, "batch/v1", "Job");
    yaml_number(y, "backoffLimit", job->max_restarts);
    // getdata is curl, whose codes mean other things.
    if (strcmp(job->command[0], "curl") != 0)
        failure_policy(y, &pod);
    pod_template(y, job, &pod, true);
    yaml_end(y);
}

// A variable of the launcher's that the ranks get as well, named once.
static void passed_on(struct string_list *words, const char *name, size_t length) {
    for (int64_t i = 1; i < words->count; i++)
        if (strcmp(words->items[i - 1], "-x") == 0 && strlen(words->items[i]) == length &&
            memcmp(words->items[i], name, length) == 0)
            return;
    char *text = memory_printf("%.*s", (int)length, name);
    string_list_add(words, "-x");
    string_list_add(words, text);
    free(text);
}

static void mpirun_words(const struct kubernetes_job *job, struct string_list *words) {
    char ranks[24];
    snprintf(ranks, sizeof ranks, "%" PRId64, job->nodes * job->ranks_per_node);
    // mpirun kills a second after it was told to stop, which is too soon to save in.
    const char *const fixed[] = {"mpirun", "--allow-run-as-root",       "-n",  ranks,   "--bind-to", "none",
                                 "--mca",  "odls_base_sigkill_timeout", "240", "--mca", "pml",       "^ucx"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        string_list_add(words, fixed[i]);
    // Ranks are started over ssh, whose sessions have nothing of the container's environment.
    passed_on(words, "PATH", 4);
    passed_on(words, "LD_LIBRARY_PATH", 15);
    for (int i = 0; i < efa_variable_count(job); i++)
        passed_on(words, efa_variables[i].name, strlen(efa_variables[i].name));
    for (int64_t i = 0; job->environment && i < job->environment->count; i++)
        passed_on(words, job->environment->items[i], strcspn(job->environment->items[i], "="));
}

static void mpi_job(struct yaml *y, const struct kubernetes_job *job) {
    struct string_list mpirun = {0};
    mpirun_words(job, &mpirun);
    struct pod launcher = {.container = "launcher", .restart = "OnFailure", .before = &mpirun, .is_launcher = true};
    struct pod worker = {.container = "worker"};
    begin(y, job, "kubeflow.org/v2beta1", "MPIJob");
    yaml_number(y, "slotsPerWorker", job->ranks_per_node);
    yaml_map(y, "runPolicy");
    yaml_text(y, "cleanPodPolicy", "Running");
    yaml_number(y, "backoffLimit", job->max_restarts);
    yaml_end(y);
    yaml_map(y, "mpiReplicaSpecs");
    yaml_map(y, "Launcher");
    yaml_number(y, "replicas", 1);
    pod_template(y, job, &launcher, true);
    yaml_end(y);
    yaml_map(y, "Worker");
    yaml_number(y, "replicas", job->nodes);
    pod_template(y, job, &worker, false);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    string_list_free(&mpirun);
}

static void pytorch_job(struct yaml *y, const struct kubernetes_job *job) {
    // The operator looks for a container of this very name, and gives MASTER_ADDR and the pod's number.
    struct pod pod = {.container = "pytorch", .has_nproc = true, .port = PYTORCHJOB_PORT};
    char count[24];
    snprintf(count, sizeof count, "%" PRId64, job->ranks_per_node);
    begin(y, job, "kubeflow.org/v1", "PyTorchJob");
    yaml_text(y, "nprocPerNode", count);
    yaml_map(y, "runPolicy");
    yaml_text(y, "cleanPodPolicy", "Running");
    yaml_number(y, "backoffLimit", job->max_restarts);
    yaml_end(y);
    yaml_map(y, "pytorchReplicaSpecs");
    for (int is_worker = 0; is_worker <= (job->nodes > 1); is_worker++) {
        yaml_map(y, is_worker ? "Worker" : "Master");
        yaml_number(y, "replicas", is_worker ? job->nodes - 1 : 1);
        yaml_text(y, "restartPolicy", "OnFailure");
        pod_template(y, job, &pod, true);
        yaml_end(y);
    }
    yaml_end(y);
    yaml_end(y);
}

int kubernetes_manifest(const struct kubernetes_job *job, struct buffer *out) {
    TRY(check_job(job));
    struct yaml yaml = {.out = out};
    static void (*const writers[])(struct yaml *, const struct kubernetes_job *) = {
        [KUBERNETES_JOBSET] = job_set,         [KUBERNETES_INDEXED_JOB] = indexed_job, [KUBERNETES_MPIJOB] = mpi_job,
        [KUBERNETES_PYTORCHJOB] = pytorch_job, [KUBERNETES_JOB] = single_job,
    };
    buffer_append_string(
        out, "# Written by bevatron launch kubernetes. It may be edited, and applied with kubectl apply -f.\n");
    writers[job->kind](&yaml, job);
    return 0;
}
