// Jobs for Kubernetes: typed fields in, manifests out.
//
//   JobSet        the default: Indexed Jobs with DNS names, all started again when one fails (jobset.x-k8s.io)
//   Indexed Job   the same pods with a headless Service, for clusters without any operator
//   MPIJob        mpirun in a launcher pod (mpi-operator, v2beta1)
//   PyTorchJob    for what expects one (training-operator, HyperPod's auto-resume)
//   Job           one pod: getting and preparing data
//
// In the first two and in a PyTorchJob each pod is one machine that starts its own ranks (--nproc), told its number and
// where the first pod is; see cli/ranks.h.
#ifndef CLUSTER_KUBERNETES_H
#define CLUSTER_KUBERNETES_H

#include "base/buffer.h"
#include "config/flag.h"

enum kubernetes_kind {
    KUBERNETES_JOBSET,
    KUBERNETES_INDEXED_JOB,
    KUBERNETES_MPIJOB,
    KUBERNETES_PYTORCHJOB,
    KUBERNETES_JOB,
};

struct kubernetes_job {
    enum kubernetes_kind kind;
    const char *name, *name_space;  // name_space may be NULL
    const char *image;
    const char *const *command;  // of a rank, NULL at the end
    int64_t nodes, ranks_per_node;
    int64_t gpus, efa;                                      // of each pod
    const char *cpu, *memory, *huge_pages, *shared_memory;  // Kubernetes quantities; NULL: not said
    const char *machine;                                    // node selector by instance type; NULL: any
    const char *claim, *mount;  // persistent volume claim and where it is mounted; NULL: none
    const char *service_account;
    const struct string_list *environment;  // "NAME=value"
    int64_t max_restarts;
};

// Words of the command and values of variables arrive as they are given: nothing in them is a reference to a variable.
// -1 if a field cannot stand in a manifest.
int kubernetes_manifest(const struct kubernetes_job *job, struct buffer *out);

#endif
