// The pod that all kinds of jobs share. See kubernetes.h.
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cluster/kubernetes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- placement ----

// Placement of pods and the source of their image. See kubernetes.h.

// Keys of labels and taints: letters, digits, dots, dashes and underscores, and one slash after a domain.
static bool is_label(const char *text, size_t length) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    return length > 0 && length < 254 && strspn(text, plain) >= length && text[0] != '/' && text[length - 1] != '/';
}

static bool is_value(const char *text, size_t length) {
    return length == 0 || (length < 64 && is_label(text, length) && !memchr(text, '/', length));
}

// A toleration in parts; the effect is "" if none is given.
struct kubernetes_toleration {
    size_t key, value;  // lengths
    bool has_value;
    const char *value_at, *effect;
};

static int parse_toleration(const char *text, struct kubernetes_toleration *out) {
    size_t end = strcspn(text, ":");
    out->effect = text[end] ? text + end + 1 : "";
    out->key = strcspn(text, "=:");
    out->has_value = text[out->key] == '=';
    out->value_at = text + out->key + (out->has_value ? 1 : 0);
    out->value = out->has_value ? end - out->key - 1 : 0;
    bool is_effect = !*out->effect || strcmp(out->effect, "NoSchedule") == 0 ||
                     strcmp(out->effect, "PreferNoSchedule") == 0 || strcmp(out->effect, "NoExecute") == 0;
    if (is_effect && is_label(text, out->key) && is_value(out->value_at, out->value))
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "--toleration \"%s\" is not KEY[=VALUE][:EFFECT], e.g. nvidia.com/gpu or "
                          "dedicated=llm:NoSchedule; effects are NoSchedule, PreferNoSchedule and NoExecute",
                          text);
}

static int check_selector(const char *text) {
    size_t key = strcspn(text, "=");
    if (text[key] == '=' && is_label(text, key) && is_value(text + key + 1, strlen(text + key + 1)))
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "--node-selector \"%s\" is not KEY=VALUE, e.g. karpenter.sh/nodepool=gpu",
                          text);
}

int kubernetes_host_path_parse(struct kubernetes_host_path *host, const char *text) {
    *host = (struct kubernetes_host_path){.text = memory_string(text)};
    char *parts[3] = {host->text, NULL, NULL};
    for (int i = 1; i < 3; i++) {
        char *colon = strchr(parts[i - 1], ':');
        if (!colon)
            break;
        *colon = 0;
        parts[i] = colon + 1;
    }
    bool is_short = parts[1] && !parts[2] && strcmp(parts[1], "ro") == 0;
    const char *last = is_short ? parts[1] : parts[2];
    host->path = parts[0];
    host->mount = parts[1] && !is_short ? parts[1] : parts[0];
    host->is_read_only = last != NULL;
    if (host->path[0] == '/' && host->mount[0] == '/' && (!last || strcmp(last, "ro") == 0))
        return 0;
    free(host->text);
    host->text = NULL;
    return error_set_code(EXIT_CODE_USAGE, "--host-path \"%s\" is not PATH[:MOUNT][:ro] with absolute paths", text);
}

int kubernetes_check_placement(const struct kubernetes_job *job) {
    struct kubernetes_toleration toleration;
    struct kubernetes_host_path host;
    for (int64_t i = 0; i < job->tolerations.count; i++)
        TRY(parse_toleration(job->tolerations.items[i], &toleration));
    for (int64_t i = 0; i < job->node_selectors.count; i++)
        TRY(check_selector(job->node_selectors.items[i]));
    for (int64_t i = 0; i < job->host_paths.count; i++) {
        const char *text = job->host_paths.items[i];
        if (utf8_check(text, strlen(text)) != strlen(text))
            return error_set_code(EXIT_CODE_USAGE, "a --host-path is not valid UTF-8");
        TRY(kubernetes_host_path_parse(&host, text));
        free(host.text);
    }
    for (int64_t i = 0; i < job->pull_secrets.count; i++) {
        const char *name = job->pull_secrets.items[i];
        if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-")])
            return error_set_code(EXIT_CODE_USAGE,
                                  "--pull-secret \"%s\" is not the name of a secret; `kubectl create secret "
                                  "docker-registry NAME` makes one",
                                  name);
    }
    return 0;
}

static void node_selector(struct yaml *y, const struct kubernetes_job *job) {
    yaml_map(y, "nodeSelector");
    yaml_text(y, "node.kubernetes.io/instance-type", job->launch.machine_name);
    for (int64_t i = 0; i < job->node_selectors.count; i++) {
        const char *pair = job->node_selectors.items[i];
        OWNED char *key = memory_printf("%.*s", (int)strcspn(pair, "="), pair);
        yaml_pair(y, key, strchr(pair, '=') + 1);
    }
    yaml_end(y);
}

static void tolerations(struct yaml *y, const struct string_list *list) {
    yaml_list(y, "tolerations");
    for (int64_t i = 0; i < list->count; i++) {
        struct kubernetes_toleration one;
        CHECK(parse_toleration(list->items[i], &one) == 0);
        OWNED char *key = memory_printf("%.*s", (int)one.key, list->items[i]);
        OWNED char *value = memory_printf("%.*s", (int)one.value, one.value_at);
        yaml_item(y);
        yaml_text(y, "key", key);
        yaml_text(y, "operator", one.has_value ? "Equal" : "Exists");
        yaml_text(y, "value", one.has_value ? value : NULL);
        yaml_text(y, "effect", *one.effect ? one.effect : NULL);
        yaml_end(y);
    }
    yaml_end(y);
}

// Writes the placement of pods and the sources of their images.
static void kubernetes_placement(struct yaml *y, const struct kubernetes_job *job, bool is_launcher) {
    yaml_list(y, "imagePullSecrets");
    for (int64_t i = 0; i < job->pull_secrets.count; i++)
        yaml_item_of(y, "name", job->pull_secrets.items[i]);
    yaml_end(y);
    // mpirun needs neither a GPU nor a node with GPUs.
    if (!is_launcher)
        node_selector(y, job);
    tolerations(y, &job->tolerations);
}

// ---- the pod ----

enum { GRACE_SECONDS = 300 };

// Kubernetes replaces $(NAME) by a variable's value, and $$ by $, in commands and in the environment. All text here is
// literal, so every $ is doubled.
static char *literal(const char *text) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    for (const char *c = text; *c; c++) {
        if (*c == '$')
            buffer_append_byte(&out, '$');
        buffer_append_byte(&out, *c);
    }
    return memory_string(buffer_string(&out));
}

static void variable(struct yaml *y, const char *name, const char *value) {
    OWNED char *text = literal(value);
    yaml_item(y);
    yaml_text(y, "name", name);
    yaml_text(y, "value", text);
    yaml_end(y);
}

static void word(struct yaml *y, const char *value) {
    OWNED char *text = literal(value);
    yaml_item_text(y, text);
}

static void variable_number(struct yaml *y, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    variable(y, name, text);
}

// The last one, without which NCCL would fall back to TCP, is only for jobs of several machines: one needs no network.
static const struct kubernetes_variable efa_variables[] = {
    {"FI_PROVIDER", "efa"}, {"NCCL_SOCKET_IFNAME", "^docker,lo,veth"}, {"NCCL_NET", "AWS Libfabric"}};

const struct kubernetes_variable *kubernetes_efa_variables(const struct kubernetes_job *job, int *count) {
    int all = sizeof efa_variables / sizeof efa_variables[0];
    *count = job->efa <= 0 ? 0 : job->launch.nodes > 1 ? all : all - 1;
    return efa_variables;
}

// A variable with the value of one of the pod's labels.
static void variable_label(struct yaml *y, const char *name, const char *label) {
    OWNED char *path = memory_printf("metadata.labels['%s']", label);
    yaml_item(y);
    yaml_text(y, "name", name);
    yaml_map(y, "valueFrom");
    yaml_map_of(y, "fieldRef", "fieldPath", path);
    yaml_ends(y, 2);
}

// The kubelet ends a container whose probe fails, and the job starts it again as after any failure. The counts are in
// memory of the pod: a file system that does not respond cannot block the probe. A paused machine fails one probe, not
// three in a row. The launcher of an MPIJob has no ranks, and no controller restarts its workers.
static bool has_probe(const struct kubernetes_job *job) {
    return job->launch.progress_minutes > 0 && job->kind != KUBERNETES_MPIJOB;
}

// Adds the first pod's address, for kinds of jobs whose operator does not, and the user's variables. The token shared
// by the ranks is the random id that Kubernetes gives to a Job, another one after each restart of a JobSet. Pods of a
// PyTorchJob share no such id and get a token with the manifest.
static void variables(struct yaml *y, const struct kubernetes_job *job, const char *master) {
    yaml_list(y, "env");
    if (has_probe(job))
        variable(y, "BEVATRON_NODE_LIFELINE", "/dev/shm/bevatron-lifeline");
    if (master) {
        variable(y, "MASTER_ADDR", master);
        variable_number(y, "MASTER_PORT", KUBERNETES_PORT);
        variable_number(y, "BEVATRON_NODES", job->launch.nodes);
        variable_label(y, "BEVATRON_JOB_TOKEN", "batch.kubernetes.io/controller-uid");
    } else if (job->kind == KUBERNETES_PYTORCHJOB && job->token) {
        variable(y, "BEVATRON_JOB_TOKEN", job->token);
    }
    int efa_count;
    const struct kubernetes_variable *efa = kubernetes_efa_variables(job, &efa_count);
    for (int i = 0; i < efa_count; i++)
        variable(y, efa[i].name, efa[i].value);
    for (int64_t i = 0; i < job->launch.environment.count; i++) {
        const char *pair = job->launch.environment.items[i];
        OWNED char *name = memory_printf("%.*s", (int)strcspn(pair, "="), pair);
        variable(y, name, strchr(pair, '=') + 1);
    }
    yaml_end(y);
}

static void amounts(struct yaml *y, const struct kubernetes_job *job, const char *key) {
    yaml_map(y, key);
    yaml_amount(y, "nvidia.com/gpu", job->launch.gpus_per_node);
    yaml_amount(y, "vpc.amazonaws.com/efa", job->efa);
    yaml_text(y, "hugepages-2Mi", job->huge_pages);
    yaml_text(y, "cpu", job->cpu);
    yaml_text(y, "memory", job->memory);
    // Huge pages alone are forbidden: the API server requires processors or memory with them.
    if (job->huge_pages && !job->cpu && !job->memory && strcmp(key, "requests") == 0)
        yaml_text(y, "memory", "16Gi");
    yaml_end(y);
}

// Request and limit of extended resources must be equal.
static void resources(struct yaml *y, const struct kubernetes_job *job) {
    yaml_map(y, "resources");
    amounts(y, job, "requests");
    amounts(y, job, "limits");
    yaml_end(y);
}

// Folders of the node, as mounts of the container or as volumes of the pod.
static void host_paths(struct yaml *y, const struct kubernetes_job *job, bool is_mount) {
    for (int64_t i = 0; i < job->host_paths.count; i++) {
        struct kubernetes_host_path host;
        char name[32];
        snprintf(name, sizeof name, "host-%" PRId64, i);
        CHECK(kubernetes_host_path_parse(&host, job->host_paths.items[i]) == 0);
        yaml_item(y);
        yaml_text(y, "name", name);
        if (is_mount) {
            yaml_text(y, "mountPath", host.mount);
            yaml_true(y, "readOnly", host.is_read_only);
        } else {
            yaml_map_of(y, "hostPath", "path", host.path);
        }
        yaml_end(y);
        free(host.text);
    }
}

static void mounts(struct yaml *y, const struct kubernetes_job *job) {
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
    host_paths(y, job, true);
    yaml_end(y);
}

static void volumes(struct yaml *y, const struct kubernetes_job *job) {
    yaml_list(y, "volumes");
    if (job->shared_memory) {
        yaml_item(y);
        yaml_text(y, "name", "shm");
        yaml_map(y, "emptyDir");
        yaml_text(y, "medium", "Memory");
        yaml_text(y, "sizeLimit", job->shared_memory);
        yaml_ends(y, 2);
    }
    if (job->claim) {
        yaml_item(y);
        yaml_text(y, "name", "data");
        yaml_map_of(y, "persistentVolumeClaim", "claimName", job->claim);
        yaml_end(y);
    }
    host_paths(y, job, false);
    yaml_end(y);
}

static void command(struct yaml *y, const struct kubernetes_job *job, const struct kubernetes_pod *pod) {
    yaml_list(y, "command");
    for (int64_t i = 0; pod->before && i < pod->before->count; i++)
        word(y, pod->before->items[i]);
    for (const char *const *each = job->launch.command; *each; each++)
        word(y, *each);
    if (pod->has_nproc) {
        char count[24];
        snprintf(count, sizeof count, "%" PRId64, job->launch.ranks_per_node);
        yaml_item_text(y, "--nproc");
        yaml_item_text(y, count);
    }
    yaml_end(y);
}

static void probe(struct yaml *y, const struct kubernetes_job *job) {
    char minutes[32];
    snprintf(minutes, sizeof minutes, "%g", job->launch.progress_minutes);
    const char *const words[] = {job->launch.command[0],       "launch", "progress", "--once",
                                 "--progress-timeout-minutes", minutes};
    yaml_map(y, "livenessProbe");
    yaml_map(y, "exec");
    yaml_list(y, "command");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        word(y, words[i]);
    yaml_ends(y, 2);
    yaml_number(y, "periodSeconds", 20);
    yaml_number(y, "timeoutSeconds", 30);
    yaml_number(y, "failureThreshold", 3);
    // Ranks that hang do not save.
    yaml_number(y, "terminationGracePeriodSeconds", 30);
    yaml_end(y);
}

static void container(struct yaml *y, const struct kubernetes_job *job, const struct kubernetes_pod *pod,
                      bool has_command) {
    yaml_item(y);
    yaml_text(y, "name", pod->container);
    yaml_text(y, "image", job->image);
    if (has_command)
        command(y, job, pod);
    if (has_command && has_probe(job))
        probe(y, job);
    if (pod->port) {
        yaml_list(y, "ports");
        yaml_item(y);
        yaml_text(y, "name", pod->port == PYTORCHJOB_PORT ? "pytorchjob-port" : "rendezvous");
        yaml_number(y, "containerPort", pod->port);
        yaml_ends(y, 2);
    }
    variables(y, job, pod->master);
    if (!pod->is_launcher)
        resources(y, job);
    mounts(y, job);
    yaml_end(y);
}

static void spec(struct yaml *y, const struct kubernetes_job *job, const struct kubernetes_pod *pod, bool has_command) {
    yaml_map(y, "spec");
    yaml_text(y, "restartPolicy", pod->restart);
    yaml_text(y, "subdomain", pod->subdomain);
    yaml_text(y, "serviceAccountName", job->service_account);
    // SIGTERM, save, leave.
    yaml_number(y, "terminationGracePeriodSeconds", GRACE_SECONDS);
    kubernetes_placement(y, job, pod->is_launcher);
    yaml_list(y, "containers");
    container(y, job, pod, has_command);
    yaml_end(y);
    volumes(y, job);
    yaml_end(y);
}

// The user's container called bevatron gets the container's actual name.
static void rename_container(struct yaml_node *fields, const char *name) {
    struct yaml_node *containers = yaml_tree_member(fields, "containers");
    for (size_t i = 0; containers && i < containers->count; i++) {
        struct yaml_node *own = yaml_tree_member(&containers->items[i], "name");
        if (own && own->kind == YAML_SCALAR && strcmp(own->text, "bevatron") == 0) {
            free(own->text);
            own->text = memory_string(name);
        }
    }
}

// The spec merged with the user's fields: the written text is read again as a tree.
static void merged_spec(struct yaml_node *whole, const struct kubernetes_job *job, const struct kubernetes_pod *pod,
                        bool has_command) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct yaml alone = {.out = &text};
    struct yaml_node wanted = {.kind = YAML_MAP}, copy = {.kind = YAML_MAP};
    spec(&alone, job, pod, has_command);
    CHECK(yaml_tree_parse(whole, buffer_string(&text), text.length, "the pod") == 0);
    if (!job->pod_fields)
        return;
    yaml_tree_merge(&copy, job->pod_fields);
    if (yaml_tree_member(&copy, "spec") || yaml_tree_member(&copy, "metadata"))
        wanted = copy;
    else
        yaml_tree_add(&wanted, "spec", copy);
    rename_container(yaml_tree_member(&wanted, "spec"), pod->container);
    yaml_tree_merge(whole, &wanted);
    yaml_tree_free(&wanted);
}

const char *kubernetes_container(enum kubernetes_kind kind) {
    return kind == KUBERNETES_MPIJOB ? "worker" : kind == KUBERNETES_PYTORCHJOB ? "pytorch" : "bevatron";
}

void kubernetes_pod_tree(struct yaml_node *whole, const struct kubernetes_job *job) {
    merged_spec(whole, job, &(struct kubernetes_pod){.container = kubernetes_container(job->kind)}, false);
}

void kubernetes_pod(struct yaml *y, const struct kubernetes_job *job, const struct kubernetes_pod *pod,
                    bool has_command) {
    yaml_map(y, "template");
    if (job->pod_fields && !pod->is_launcher) {
        OWNED_BY(yaml_tree_free) struct yaml_node whole = {0};
        merged_spec(&whole, job, pod, has_command);
        yaml_members(y, &whole);
    } else {
        spec(y, job, pod, has_command);
    }
    yaml_end(y);
}
