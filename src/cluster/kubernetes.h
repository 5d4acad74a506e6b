// Jobs for Kubernetes: typed fields in, manifests out.
//
//   JobSet        the default: Indexed Jobs with DNS names, all started again when one fails (jobset.x-k8s.io)
//   Indexed Job   the same pods with a headless Service, for clusters without any operator
//   MPIJob        mpirun in a launcher pod (mpi-operator, v2beta1)
//   PyTorchJob    for what expects one (training-operator, HyperPod's auto-resume)
//   Job           one pod: getting and preparing data
//
// In the first two and in a PyTorchJob each pod is one machine that starts its own ranks (--nproc), and gets its number
// and the first pod's address; see cli/ranks.h.
#ifndef CLUSTER_KUBERNETES_H
#define CLUSTER_KUBERNETES_H

#include "base/buffer.h"
#include "cluster/launch_job.h"
#include "cluster/yaml.h"

enum kubernetes_kind {
    KUBERNETES_JOBSET,
    KUBERNETES_INDEXED_JOB,
    KUBERNETES_MPIJOB,
    KUBERNETES_PYTORCHJOB,
    KUBERNETES_JOB,
};

struct kubernetes_job {
    struct launch_job launch;  // machine_name: node selector by instance type; NULL: any
    // Flags.
    char *name_space;  // NULL: kubectl's
    char *image;
    int64_t efa;                                      // of each pod
    char *cpu, *memory, *huge_pages, *shared_memory;  // Kubernetes quantities; NULL: none
    char *claim, *mount;                              // persistent volume claim and where it is mounted; NULL: none
    char *service_account;
    struct string_list pull_secrets;    // names
    struct string_list tolerations;     // "key[=value][:effect]"
    struct string_list node_selectors;  // "key=value"
    struct string_list host_paths;      // "path[:mount][:ro]"
    // Completed by the launcher.
    enum kubernetes_kind kind;
    // Merged into the pods of ranks: fields of a pod's spec, or a template with spec and metadata. A container called
    // bevatron means the one with the command, whatever its name in this kind of job. NULL: none.
    const struct yaml_node *pod_fields;
    const char *token;  // random secret shared by the ranks of a PyTorchJob; NULL: none
};

// Kinds of disks under a path of the pod.
enum kubernetes_disk {
    KUBERNETES_DISK_POD,        // ends with the pod
    KUBERNETES_DISK_READ_ONLY,  // cannot be written
    KUBERNETES_DISK_NODE,       // a folder of the node: separate on each, unless it is a shared file system
    KUBERNETES_DISK_LASTING,    // a claim, a file server, S3
};
// Whether kubernetes_manifest accepts the job.
enum kubernetes_disk kubernetes_disk_of(const struct kubernetes_job *job, const char *path);

// Words of the command and values of variables are taken literally, never as references to variables. -1 if a field is
// not valid in a manifest.
int kubernetes_manifest(const struct kubernetes_job *job, struct buffer *out);

// FSx for Lustre as a volume claim of Kubernetes, through its CSI driver (fsx.csi.aws.com): an existing file system, or
// one that the driver creates.
struct kubernetes_volume {
    const char *claim, *name_space;  // name_space may be NULL
    int64_t gib;
    // An existing file system: its id, address and name of its mount (`aws fsx describe-file-systems`).
    const char *fsx_id, *dns_name, *mount_name;
    // A new one, if fsx_id is NULL.
    const char *subnet, *type, *s3;  // s3 may be NULL
    const struct string_list *security_groups;
    int64_t throughput;  // MB/s per TiB of PERSISTENT types; 0: none
};

// -1, naming the flag, if a field is not valid.
int kubernetes_volume_manifest(const struct kubernetes_volume *volume, struct buffer *out);

// ---- parts of the manifests: the checks of a job, and its pod; for this folder alone ----

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

// ---- kubectl ----

// kubectl: applies manifests, follows a job's log, and explains its errors.

// Applies a manifest; errors name its kind `what` ("job").
int kubectl_apply(const char *what, const char *manifest);
// Waits for the first rank's pod, then this process becomes `kubectl logs`; returns only if that fails.
int kubectl_follow(const struct kubernetes_job *job);

#endif
