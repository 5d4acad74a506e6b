// Manifests of the five kinds of jobs, around the same pod. See kubernetes.h.
#include "cluster/kubernetes.h"

#include "base/buffer.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- checks ----

// Checks for errors that Kubernetes would report only later, before anything is written. See kubernetes.h.

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
        "\"%s\" cannot be %s in Kubernetes: use up to %zu lowercase letters, digits and dashes, starting with a letter",
        name, what, most);
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
    return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not a Kubernetes quantity, e.g. 64Gi or 500m", what, text);
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
    return error_set_code(EXIT_CODE_USAGE, "--hugepages %s is not a multiple of the page size, 2Mi", text);
}

// A manifest is UTF-8; the API server refuses anything else, without naming the place.
static int check_text(const char *what, const char *text) {
    size_t length = text ? strlen(text) : 0, good = utf8_check(text ? text : "", length);
    if (good == length)
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s \"%.*s\" is not valid UTF-8 at byte %zu, as a manifest must be", what,
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

// -1, naming the flag, if a field of the job cannot appear in a manifest.
static int kubernetes_check(const struct kubernetes_job *job) {
    TRY(check_name("the name of a job", job->launch.name, 40));
    if (job->name_space)
        TRY(check_name("a namespace", job->name_space, 63));
    if (job->claim)
        TRY(check_name("a volume claim", job->claim, 63));
    TRY(check_quantity("--cpu", job->cpu));
    TRY(check_quantity("--memory", job->memory));
    TRY(check_huge_pages(job->huge_pages));
    TRY(check_quantity("--shm-size", job->shared_memory));
    if (!job->image || !*job->image)
        return error_set_code(EXIT_CODE_USAGE, "a Kubernetes job needs --image, the container image to run");
    if (job->mount && job->mount[0] != '/')
        return error_set_code(EXIT_CODE_USAGE, "--mount %s is not an absolute path", job->mount);
    for (int64_t i = 0; i < job->launch.environment.count; i++)
        TRY(check_variable(job->launch.environment.items[i]));
    TRY(kubernetes_check_placement(job));
    TRY(check_text("--image", job->image));
    TRY(check_text("--mount", job->mount));
    TRY(check_text("--service-account", job->service_account));
    for (const char *const *word = job->launch.command; *word; word++)
        TRY(check_text("the argument", *word));
    return 0;
}

// ---- disks of a pod ----

// Finds the disk under a path of a pod, from the pod as it will be sent: the claim, folders of the node and the user's
// fields are all mounts there. See kubernetes.h.

// The path without empty parts, "." and "..", resolved as text only.
static char *plain_path(const char *path) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    for (const char *at = path; *at;) {
        size_t length = strcspn(at, "/");
        if (length == 2 && strncmp(at, "..", 2) == 0) {
            while (out.length > 0 && out.data[--out.length] != '/')
                ;
        } else if (length > 0 && !(length == 1 && *at == '.')) {
            buffer_append_string(&out, "/");
            buffer_append(&out, at, length);
        }
        at += length + (at[length] == '/');
    }
    return memory_printf("%.*s", (int)out.length, out.length > 0 ? (const char *)out.data : "");
}

static bool is_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

static const char *text_of(struct yaml_node *map, const char *key) {
    const struct yaml_node *member = yaml_tree_member(map, key);
    return member && member->kind == YAML_SCALAR ? member->text : "";
}

static bool is_read_only(struct yaml_node *map) {
    return strcmp(text_of(map, "readOnly"), "true") == 0;
}

static struct yaml_node *find_named(struct yaml_node *list, const char *name) {
    for (size_t i = 0; list && i < list->count; i++)
        if (strcmp(text_of(&list->items[i], "name"), name) == 0)
            return &list->items[i];
    return NULL;
}

// A volume has a name and one member for its kind; without that it is an emptyDir.
static enum kubernetes_disk disk_of_volume(struct yaml_node *volume) {
    static const struct {
        const char *key;
        enum kubernetes_disk disk;
    } kinds[] = {{"emptyDir", KUBERNETES_DISK_POD},          {"ephemeral", KUBERNETES_DISK_POD},
                 {"gitRepo", KUBERNETES_DISK_POD},           {"hostPath", KUBERNETES_DISK_NODE},
                 {"configMap", KUBERNETES_DISK_READ_ONLY},   {"secret", KUBERNETES_DISK_READ_ONLY},
                 {"downwardAPI", KUBERNETES_DISK_READ_ONLY}, {"projected", KUBERNETES_DISK_READ_ONLY},
                 {"image", KUBERNETES_DISK_READ_ONLY}};
    enum kubernetes_disk disk = KUBERNETES_DISK_POD;
    for (size_t i = 0; volume && i < volume->count; i++) {
        struct yaml_node *member = &volume->items[i];
        if (strcmp(member->key, "name") == 0)
            continue;
        disk = is_read_only(member) ? KUBERNETES_DISK_READ_ONLY : KUBERNETES_DISK_LASTING;
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            if (strcmp(member->key, kinds[k].key) == 0)
                disk = kinds[k].disk;
    }
    return disk;
}

enum kubernetes_disk kubernetes_disk_of(const struct kubernetes_job *job, const char *path) {
    if (strncmp(path, "s3://", 5) == 0)
        return KUBERNETES_DISK_LASTING;
    if (path[0] != '/')
        return KUBERNETES_DISK_POD;
    OWNED_BY(yaml_tree_free) struct yaml_node pod = {0};
    kubernetes_pod_tree(&pod, job);
    struct yaml_node *spec = yaml_tree_member(&pod, "spec"), *volumes = yaml_tree_member(spec, "volumes");
    struct yaml_node *own = find_named(yaml_tree_member(spec, "containers"), kubernetes_container(job->kind));
    struct yaml_node *mounts = yaml_tree_member(own, "volumeMounts");
    enum kubernetes_disk disk = KUBERNETES_DISK_POD;
    OWNED char *plain = plain_path(path);
    size_t deepest = 0;
    for (size_t i = 0; mounts && i < mounts->count; i++) {
        OWNED char *folder = plain_path(text_of(&mounts->items[i], "mountPath"));
        if (is_below(plain, folder) && strlen(folder) >= deepest) {
            deepest = strlen(folder);
            disk = disk_of_volume(find_named(volumes, text_of(&mounts->items[i], "name")));
            if (is_read_only(&mounts->items[i]))
                disk = KUBERNETES_DISK_READ_ONLY;
        }
    }
    return disk;
}

// ---- manifests ----

static void begin(struct yaml *y, const struct kubernetes_job *job, const char *version, const char *kind) {
    yaml_text(y, "apiVersion", version);
    yaml_text(y, "kind", kind);
    yaml_map(y, "metadata");
    yaml_text(y, "name", job->launch.name);
    yaml_text(y, "namespace", job->name_space);
    yaml_map_of(y, "labels", "app.kubernetes.io/managed-by", "bevatron");
    yaml_end(y);
    yaml_map(y, "spec");
}

// A Job fails at once if a restart cannot help: flags, numbers that are not finite, memory, data, checkpoints, restarts
// without progress. Such a rule requires pods that are never restarted in place.
static void failure_policy(struct yaml *y, const struct kubernetes_pod *pod) {
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
    yaml_ends(y, 5);
}

// Kubernetes counts restarts over the job's lifetime, regardless of the run's progress. If the run has checkpoints,
// `launch decide` in the first pod decides instead, by the rules of `launch local`, and exits with 217 to give up.
static bool decides_itself(const struct kubernetes_job *job) {
    return job->launch.save && job->launch.max_restarts > 0;
}

static int64_t most_restarts(const struct kubernetes_job *job) {
    enum { UNCOUNTED = 1000000 };
    return decides_itself(job) ? UNCOUNTED : job->launch.max_restarts;
}

static void decide_words(const struct kubernetes_job *job, struct string_list *words) {
    if (!decides_itself(job))
        return;
    // A new manifest for the same folder starts counting from zero.
    OWNED char *state = memory_printf("%s/restarts.json", job->launch.save);
    OWNED char *name = memory_printf("%s-%.12s", job->launch.name, job->token ? job->token : "");
    char most[24], window[32];
    snprintf(most, sizeof most, "%" PRId64, job->launch.max_restarts);
    snprintf(window, sizeof window, "%g", job->launch.window_minutes);
    const char *const all[] = {job->launch.command[0],
                               "launch",
                               "decide",
                               "--state",
                               state,
                               "--job",
                               name,
                               "--save",
                               job->launch.save,
                               "--max-restarts",
                               most,
                               "--restart-window-minutes",
                               window};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        string_list_add(words, all[i]);
    if (job->launch.fallback) {
        string_list_add(words, "--save-fallback");
        string_list_add(words, job->launch.fallback);
    }
    string_list_add(words, "--");
}

// Fields of an Indexed Job; every pod is a machine.
static void indexed(struct yaml *y, const struct kubernetes_job *job, const struct kubernetes_pod *pod) {
    yaml_text(y, "completionMode", "Indexed");
    yaml_number(y, "completions", job->launch.nodes);
    yaml_number(y, "parallelism", job->launch.nodes);
    failure_policy(y, pod);
    kubernetes_pod(y, job, pod, true);
}

static void job_set(struct yaml *y, const struct kubernetes_job *job) {
    OWNED char *master = memory_printf("%s-node-0-0.%s", job->launch.name, job->launch.name);
    OWNED_BY(string_list_free) struct string_list words = {0};
    decide_words(job, &words);
    struct kubernetes_pod pod = {.container = kubernetes_container(job->kind),
                                 .before = &words,
                                 .master = master,
                                 .restart = "Never",
                                 .has_nproc = true,
                                 .port = KUBERNETES_PORT};
    begin(y, job, "jobset.x-k8s.io/v1alpha2", "JobSet");
    yaml_map(y, "network");
    yaml_bool(y, "enableDNSHostnames", true);
    yaml_bool(y, "publishNotReadyAddresses", true);
    yaml_end(y);
    // One lost pod ends the run on all; all restart from the last checkpoint.
    yaml_map(y, "failurePolicy");
    yaml_number(y, "maxRestarts", most_restarts(job));
    yaml_text(y, "restartStrategy", "BlockingRecreate");
    yaml_list(y, "rules");
    yaml_item(y);
    yaml_text(y, "name", "beyondRestarts");
    yaml_text(y, "action", "FailJobSet");
    yaml_list(y, "onJobFailureReasons");
    yaml_item_text(y, "PodFailurePolicy");
    yaml_ends(y, 4);
    yaml_list(y, "replicatedJobs");
    yaml_item(y);
    yaml_text(y, "name", "node");
    yaml_number(y, "replicas", 1);
    yaml_map(y, "template");
    yaml_map(y, "spec");
    yaml_number(y, "backoffLimit", 0);
    indexed(y, job, &pod);
    yaml_ends(y, 5);
}

static void indexed_job(struct yaml *y, const struct kubernetes_job *job) {
    OWNED char *master = memory_printf("%s-0.%s", job->launch.name, job->launch.name);
    OWNED_BY(string_list_free) struct string_list words = {0};
    decide_words(job, &words);
    struct kubernetes_pod pod = {.container = kubernetes_container(job->kind),
                                 .before = &words,
                                 .master = master,
                                 .subdomain = job->launch.name,
                                 .restart = "Never",
                                 .has_nproc = true,
                                 .port = KUBERNETES_PORT};
    begin(y, job, "v1", "Service");
    yaml_text(y, "clusterIP", "None");
    yaml_bool(y, "publishNotReadyAddresses", true);
    yaml_map_of(y, "selector", "job-name", job->launch.name);
    yaml_list(y, "ports");
    yaml_item(y);
    yaml_text(y, "name", "rendezvous");
    yaml_number(y, "port", KUBERNETES_PORT);
    yaml_ends(y, 3);
    yaml_document(y);
    begin(y, job, "batch/v1", "Job");
    // A pod that ends is replaced; its peers exit with 211 and are replaced too.
    yaml_number(y, "backoffLimit",
                decides_itself(job) ? most_restarts(job) : job->launch.max_restarts * job->launch.nodes);
    indexed(y, job, &pod);
    yaml_end(y);
}

static void single_job(struct yaml *y, const struct kubernetes_job *job) {
    OWNED_BY(string_list_free) struct string_list words = {0};
    decide_words(job, &words);
    struct kubernetes_pod pod = {.container = kubernetes_container(job->kind), .before = &words, .restart = "Never"};
    begin(y, job, "batch/v1", "Job");
    yaml_number(y, "backoffLimit", most_restarts(job));
    // getdata is curl, whose exit codes have other meanings.
    if (strcmp(job->launch.command[0], "curl") != 0)
        failure_policy(y, &pod);
    kubernetes_pod(y, job, &pod, true);
    yaml_end(y);
}

// A variable of the launcher that is also exported to the ranks, named once.
static void passed_on(struct string_list *words, const char *name, size_t length) {
    for (int64_t i = 1; i < words->count; i++)
        if (strcmp(words->items[i - 1], "-x") == 0 && strlen(words->items[i]) == length &&
            memcmp(words->items[i], name, length) == 0)
            return;
    OWNED char *text = memory_printf("%.*s", (int)length, name);
    string_list_add(words, "-x");
    string_list_add(words, text);
}

static void mpirun_words(const struct kubernetes_job *job, struct string_list *words) {
    char ranks[24];
    snprintf(ranks, sizeof ranks, "%" PRId64, job->launch.nodes * job->launch.ranks_per_node);
    // mpirun kills its ranks a second after it was told to stop, too soon to save.
    const char *const fixed[] = {"mpirun", "--allow-run-as-root",       "-n",  ranks,   "--bind-to", "none",
                                 "--mca",  "odls_base_sigkill_timeout", "240", "--mca", "pml",       "^ucx"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        string_list_add(words, fixed[i]);
    // Ranks are started over ssh, whose sessions lack the container's environment.
    passed_on(words, "PATH", 4);
    passed_on(words, "LD_LIBRARY_PATH", 15);
    int efa_count;
    const struct kubernetes_variable *efa = kubernetes_efa_variables(job, &efa_count);
    for (int i = 0; i < efa_count; i++)
        passed_on(words, efa[i].name, strlen(efa[i].name));
    for (int64_t i = 0; i < job->launch.environment.count; i++)
        passed_on(words, job->launch.environment.items[i], strcspn(job->launch.environment.items[i], "="));
}

static void mpi_job(struct yaml *y, const struct kubernetes_job *job) {
    OWNED_BY(string_list_free) struct string_list mpirun = {0};
    mpirun_words(job, &mpirun);
    struct kubernetes_pod launcher = {
        .container = "launcher", .restart = "OnFailure", .before = &mpirun, .is_launcher = true};
    struct kubernetes_pod worker = {.container = kubernetes_container(job->kind)};
    begin(y, job, "kubeflow.org/v2beta1", "MPIJob");
    yaml_number(y, "slotsPerWorker", job->launch.ranks_per_node);
    yaml_map(y, "runPolicy");
    yaml_text(y, "cleanPodPolicy", "Running");
    yaml_number(y, "backoffLimit", job->launch.max_restarts);
    yaml_end(y);
    yaml_map(y, "mpiReplicaSpecs");
    yaml_map(y, "Launcher");
    yaml_number(y, "replicas", 1);
    kubernetes_pod(y, job, &launcher, true);
    yaml_end(y);
    yaml_map(y, "Worker");
    yaml_number(y, "replicas", job->launch.nodes);
    kubernetes_pod(y, job, &worker, false);
    yaml_ends(y, 3);
}

static void pytorch_job(struct yaml *y, const struct kubernetes_job *job) {
    // The operator looks for a container called pytorch, and provides MASTER_ADDR and the pod's number.
    struct kubernetes_pod pod = {
        .container = kubernetes_container(job->kind), .has_nproc = true, .port = PYTORCHJOB_PORT};
    char count[24];
    snprintf(count, sizeof count, "%" PRId64, job->launch.ranks_per_node);
    begin(y, job, "kubeflow.org/v1", "PyTorchJob");
    yaml_text(y, "nprocPerNode", count);
    yaml_map(y, "runPolicy");
    yaml_text(y, "cleanPodPolicy", "Running");
    yaml_number(y, "backoffLimit", job->launch.max_restarts);
    yaml_end(y);
    yaml_map(y, "pytorchReplicaSpecs");
    for (int is_worker = 0; is_worker <= (job->launch.nodes > 1); is_worker++) {
        yaml_map(y, is_worker ? "Worker" : "Master");
        yaml_number(y, "replicas", is_worker ? job->launch.nodes - 1 : 1);
        yaml_text(y, "restartPolicy", "OnFailure");
        kubernetes_pod(y, job, &pod, true);
        yaml_end(y);
    }
    yaml_ends(y, 2);
}

int kubernetes_manifest(const struct kubernetes_job *job, struct buffer *out) {
    TRY(kubernetes_check(job));
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
