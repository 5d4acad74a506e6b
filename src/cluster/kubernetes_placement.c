// Placement of pods and the source of their image. See kubernetes_parts.h.
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cluster/kubernetes_parts.h"

#include <stdlib.h>
#include <string.h>

static int64_t count_of(const struct string_list *list) {
    return list ? list->count : 0;
}

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
    for (int64_t i = 0; i < count_of(job->tolerations); i++)
        TRY(parse_toleration(job->tolerations->items[i], &toleration));
    for (int64_t i = 0; i < count_of(job->node_selectors); i++)
        TRY(check_selector(job->node_selectors->items[i]));
    for (int64_t i = 0; i < count_of(job->host_paths); i++) {
        const char *text = job->host_paths->items[i];
        if (utf8_check(text, strlen(text)) != strlen(text))
            return error_set_code(EXIT_CODE_USAGE, "a --host-path is not valid UTF-8");
        TRY(kubernetes_host_path_parse(&host, text));
        free(host.text);
    }
    for (int64_t i = 0; i < count_of(job->pull_secrets); i++) {
        const char *name = job->pull_secrets->items[i];
        if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-")])
            return error_set_code(EXIT_CODE_USAGE,
                                  "--pull-secret \"%s\" is not the name of a secret; `kubectl create secret "
                                  "docker-registry NAME` makes one",
                                  name);
    }
    return 0;
}

static void node_selector(struct yaml *y, const struct kubernetes_job *job) {
    if (!job->machine && count_of(job->node_selectors) == 0)
        return;
    yaml_map(y, "nodeSelector");
    yaml_text(y, "node.kubernetes.io/instance-type", job->machine);
    for (int64_t i = 0; i < count_of(job->node_selectors); i++) {
        const char *pair = job->node_selectors->items[i];
        char *key = memory_printf("%.*s", (int)strcspn(pair, "="), pair);
        yaml_pair(y, key, strchr(pair, '=') + 1);
        free(key);
    }
    yaml_end(y);
}

static void tolerations(struct yaml *y, const struct string_list *list) {
    if (count_of(list) == 0)
        return;
    yaml_list(y, "tolerations");
    for (int64_t i = 0; i < list->count; i++) {
        struct kubernetes_toleration one;
        CHECK(parse_toleration(list->items[i], &one) == 0);
        char *key = memory_printf("%.*s", (int)one.key, list->items[i]);
        char *value = memory_printf("%.*s", (int)one.value, one.value_at);
        yaml_item(y);
        yaml_text(y, "key", key);
        yaml_text(y, "operator", one.has_value ? "Equal" : "Exists");
        yaml_text(y, "value", one.has_value ? value : NULL);
        yaml_text(y, "effect", *one.effect ? one.effect : NULL);
        yaml_end(y);
        free(key);
        free(value);
    }
    yaml_end(y);
}

void kubernetes_placement(struct yaml *y, const struct kubernetes_job *job, bool is_launcher) {
    if (count_of(job->pull_secrets) > 0) {
        yaml_list(y, "imagePullSecrets");
        for (int64_t i = 0; i < job->pull_secrets->count; i++) {
            yaml_item(y);
            yaml_text(y, "name", job->pull_secrets->items[i]);
            yaml_end(y);
        }
        yaml_end(y);
    }
    // mpirun needs neither a GPU nor a node with GPUs.
    if (!is_launcher)
        node_selector(y, job);
    tolerations(y, job->tolerations);
}
