// kubectl: applies manifests, follows a job's log, and explains its errors.
#ifndef CLI_KUBECTL_H
#define CLI_KUBECTL_H

#include "cluster/kubernetes.h"

// Applies a manifest; errors name its kind `what` ("job").
int kubectl_apply(const char *what, const char *manifest);
// Waits for the first rank's pod, then this process becomes `kubectl logs`; returns only if that fails.
int kubectl_follow(const struct kubernetes_job *job);

#endif
