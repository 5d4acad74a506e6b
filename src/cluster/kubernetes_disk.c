// Finds the disk under a path of a pod, from the pod as it will be sent: the claim, folders of the node and the user's
// fields are all mounts there. See kubernetes.h.
#include "base/buffer.h"
#include "base/memory.h"
#include "cluster/kubernetes_parts.h"

#include <stdlib.h>
#include <string.h>

// The path without empty parts, "." and "..", resolved as text only.
static char *plain_path(const char *path) {
    struct buffer out = {0};
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
    char *plain = memory_printf("%.*s", (int)out.length, out.length > 0 ? (const char *)out.data : "");
    buffer_free(&out);
    return plain;
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
    struct yaml_node pod;
    kubernetes_pod_tree(&pod, job);
    struct yaml_node *spec = yaml_tree_member(&pod, "spec"), *volumes = yaml_tree_member(spec, "volumes");
    struct yaml_node *own = find_named(yaml_tree_member(spec, "containers"), kubernetes_container(job->kind));
    struct yaml_node *mounts = yaml_tree_member(own, "volumeMounts");
    enum kubernetes_disk disk = KUBERNETES_DISK_POD;
    char *plain = plain_path(path);
    size_t deepest = 0;
    for (size_t i = 0; mounts && i < mounts->count; i++) {
        char *folder = plain_path(text_of(&mounts->items[i], "mountPath"));
        if (is_below(plain, folder) && strlen(folder) >= deepest) {
            deepest = strlen(folder);
            disk = disk_of_volume(find_named(volumes, text_of(&mounts->items[i], "name")));
            if (is_read_only(&mounts->items[i]))
                disk = KUBERNETES_DISK_READ_ONLY;
        }
        free(folder);
    }
    free(plain);
    yaml_tree_free(&pod);
    return disk;
}
