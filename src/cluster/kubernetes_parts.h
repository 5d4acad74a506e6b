// Parts of kubernetes.c's manifests: the checks of a job, and its pod. Internal to this folder.
#ifndef CLUSTER_KUBERNETES_PARTS_H
#define CLUSTER_KUBERNETES_PARTS_H

#include "cluster/kubernetes.h"
#include "cluster/yaml.h"

enum { KUBERNETES_PORT = 29500, PYTORCHJOB_PORT = 23456 };

// The differences between the pods of the kinds of jobs.
struct kubernetes_pod {
    const char *container;             // its name
    const char *master;                // host name of the first pod; NULL if the operator provides it
    const char *subdomain;             // NULL for none
    const char *restart;               // policy; NULL if the pod does not set it
    const struct string_list *before;  // words before the command; NULL for none
    bool has_nproc;                    // the pod starts its own ranks
    bool is_launcher;                  // needs no GPUs
    int port;                          // 0 for none
};
// Writes the pod's spec under the key "template".
void kubernetes_pod(struct yaml *y, const struct kubernetes_job *job, const struct kubernetes_pod *pod,
                    bool has_command);

// The name of the container of ranks.
const char *kubernetes_container(enum kubernetes_kind kind);
// The pod of ranks as a tree, with the user's fields and without the command; to be freed.
void kubernetes_pod_tree(struct yaml_node *whole, const struct kubernetes_job *job);

// "path[:mount][:ro]" of a folder of the node. The strings point into `text`, which is to be freed.
struct kubernetes_host_path {
    char *text;
    const char *path, *mount;
    bool is_read_only;
};
int kubernetes_host_path_parse(struct kubernetes_host_path *host, const char *text);

// -1, naming the flag, if placement cannot be written.
int kubernetes_check_placement(const struct kubernetes_job *job);

struct kubernetes_variable {
    const char *name, *value;
};
// Variables for a job with EFA; *count is 0 without EFA.
const struct kubernetes_variable *kubernetes_efa_variables(const struct kubernetes_job *job, int *count);

#endif
