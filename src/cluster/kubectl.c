// Applies manifests and follows logs through kubectl. See kubernetes.h.
#include "cluster/kubernetes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The first row whose text occurs in kubectl's error gives the remedy.
static const struct {
    const char *text, *remedy;
} remedies[] = {
    {"no matches for kind", "the cluster has no operator for this kind of job: install it, or use --kind indexed-job, "
                            "which needs none"},
    {"executable aws", "kubectl asks aws for credentials: `aws sts get-caller-identity` shows what is wrong with them"},
    {"context was not found",
     "`kubectl config get-contexts` lists yours, `kubectl config use-context NAME` selects one"},
    {"no such host", "the cluster is gone, or kubectl has its old address: `aws eks update-kubeconfig --name CLUSTER`"},
    {"connection to the server", "tell kubectl where the cluster is: `aws eks update-kubeconfig --name CLUSTER`"},
    {"onnection refused", "tell kubectl where the cluster is: `aws eks update-kubeconfig --name CLUSTER`"},
    {"must be logged in", "the cluster does not know this user: log in again, or ask for an access entry (`aws eks "
                          "create-access-entry`)"},
    {"Unauthorized", "the cluster does not know this user: log in again, or ask for an access entry (`aws eks "
                     "create-access-entry`)"},
    {"orbidden", "ask for the right named there (a role binding in the namespace)"},
    {"namespaces \"", "make it (`kubectl create namespace NAME`), or name another with --namespace"},
    {"immutable", "a job of this name exists: delete it, or choose another --job-name"},
};

static int refused(const char *what, const char *complaint) {
    size_t length = strlen(complaint);
    while (length > 0 && strchr("\r\n", complaint[length - 1]))
        length--;
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        if (strstr(complaint, remedies[i].text))
            return error_set("kubectl cannot apply the %s: %.*s; %s", what, (int)length, complaint, remedies[i].remedy);
    return error_set("kubectl cannot apply the %s: %.*s", what, (int)length, complaint);
}

int kubectl_apply(const char *what, const char *manifest) {
    const char *const words[] = {"kubectl", "apply", "-f", "-", NULL};
    OWNED_BY(process_result_free) struct process_result result = {0};
    if (process_run(words, manifest, &result) < 0)
        return error_set("%s; install it, or print the manifest with --dry-run and apply it elsewhere",
                         error_message());
    int status = 0;
    if (result.exit_code == 0)
        fputs(buffer_string(&result.output), stderr);
    else
        status = refused(what, buffer_string(&result.errors));
    return status;
}

// The first rank's pod by its labels, which depend on the creator of the pods.
static char *first_pod(const struct kubernetes_job *job) {
    static const char *const patterns[] = {
        [KUBERNETES_JOBSET] = "jobset.sigs.k8s.io/jobset-name=%s,batch.kubernetes.io/job-completion-index=0",
        [KUBERNETES_INDEXED_JOB] = "job-name=%s,batch.kubernetes.io/job-completion-index=0",
        [KUBERNETES_MPIJOB] = "training.kubeflow.org/job-name=%s,training.kubeflow.org/job-role=launcher",
        [KUBERNETES_PYTORCHJOB] = "training.kubeflow.org/job-name=%s,training.kubeflow.org/replica-type=master",
        [KUBERNETES_JOB] = "job-name=%s",
    };
    const char *pattern = patterns[job->kind], *at = strstr(pattern, "%s");
    return memory_printf("%.*s%s%s", (int)(at - pattern), pattern, job->launch.name, at + 2);
}

// Waits until the pod runs or has ended. Growing a cluster or pulling a large image takes time, so the reason for
// waiting is logged once a minute.
static int wait_for_pod(const char *selector, const char *flag, const char *name_space) {
    const char *const get[] = {"kubectl", "get",      "pods", "-l", selector, "-o", "jsonpath={.items[*].status.phase}",
                               flag,      name_space, NULL};
    enum { PAUSE = 2, MINUTE = 60 };
    for (int64_t waited = 0;; waited += PAUSE) {
        OWNED_BY(process_result_free) struct process_result result = {0};
        TRY(process_run(get, NULL, &result));
        const char *phase = buffer_string(&result.output);
        bool has_begun = result.exit_code == 0 && *phase && !strstr(phase, "Pending");
        int status = result.exit_code == 0 ? 0
                                           : error_set("the job exists, but kubectl cannot find its pods: %s",
                                                       buffer_string(&result.errors));
        if (status < 0 || has_begun)
            return status;
        if (waited % MINUTE == 0 && waited > 0)
            log_info("waiting for the first pod; `kubectl describe pods -l %s` shows why", selector);
        clock_sleep(PAUSE);
    }
}

// Waits for the first rank's pod, then this process becomes kubectl logs.
int kubectl_follow(const struct kubernetes_job *job) {
    OWNED char *selector = first_pod(job);
    const char *name_space = job->name_space;
    const char *flag = job->name_space ? "-n" : "--v=0";
    if (wait_for_pod(selector, flag, name_space) < 0)
        return -1;
    const char *const logs[] = {"kubectl", "logs", "-f", "--tail=-1", "-l", selector, flag, name_space, NULL};
    fflush(NULL);
    execvp("kubectl", (char *const *)(uintptr_t)logs);
    return error_set("cannot start kubectl: %s", strerror(errno));
}
