// Manifests of the five kinds of jobs, around the same pod. See kubernetes.h.
#include "cluster/kubernetes.h"
#include "base/error.h"
#include "base/memory.h"
#include "cluster/kubernetes_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
}

// Kubernetes counts restarts over the job's lifetime, regardless of the run's progress. If the run has checkpoints,
// `launch decide` in the first pod decides instead, by the rules of `launch local`, and exits with 217 to give up.
static bool decides_itself(const struct kubernetes_job *job) {
    return job->save && job->max_restarts > 0;
}

static int64_t most_restarts(const struct kubernetes_job *job) {
    enum { UNCOUNTED = 1000000 };
    return decides_itself(job) ? UNCOUNTED : job->max_restarts;
}

static void decide_words(const struct kubernetes_job *job, struct string_list *words) {
    if (!decides_itself(job))
        return;
    // A new manifest for the same folder starts counting from zero.
    char *state = memory_printf("%s/restarts.json", job->save);
    char *name = memory_printf("%s-%.12s", job->name, job->token ? job->token : "");
    char most[24], window[32];
    snprintf(most, sizeof most, "%" PRId64, job->max_restarts);
    snprintf(window, sizeof window, "%g", job->window_minutes);
    const char *const all[] = {job->command[0], "launch",         "decide", "--state",
                               state,           "--job",          name,     "--save",
                               job->save,       "--max-restarts", most,     "--restart-window-minutes",
                               window};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        string_list_add(words, all[i]);
    if (job->fallback) {
        string_list_add(words, "--save-fallback");
        string_list_add(words, job->fallback);
    }
    string_list_add(words, "--");
    free(state);
    free(name);
}

// Fields of an Indexed Job; every pod is a machine.
static void indexed(struct yaml *y, const struct kubernetes_job *job, const struct kubernetes_pod *pod) {
    yaml_text(y, "completionMode", "Indexed");
    yaml_number(y, "completions", job->nodes);
    yaml_number(y, "parallelism", job->nodes);
    failure_policy(y, pod);
    kubernetes_pod(y, job, pod, true);
}

static void job_set(struct yaml *y, const struct kubernetes_job *job) {
    char *master = memory_printf("%s-node-0-0.%s", job->name, job->name);
    struct string_list words = {0};
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
    string_list_free(&words);
    free(master);
}

static void indexed_job(struct yaml *y, const struct kubernetes_job *job) {
    char *master = memory_printf("%s-0.%s", job->name, job->name);
    struct string_list words = {0};
    decide_words(job, &words);
    struct kubernetes_pod pod = {.container = kubernetes_container(job->kind),
                                 .before = &words,
                                 .master = master,
                                 .subdomain = job->name,
                                 .restart = "Never",
                                 .has_nproc = true,
                                 .port = KUBERNETES_PORT};
    begin(y, job, "v1", "Service");
    yaml_text(y, "clusterIP", "None");
    yaml_bool(y, "publishNotReadyAddresses", true);
    yaml_map(y, "selector");
    yaml_text(y, "job-name", job->name);
    yaml_end(y);
    yaml_list(y, "ports");
    yaml_item(y);
    yaml_text(y, "name", "rendezvous");
    yaml_number(y, "port", KUBERNETES_PORT);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    yaml_document(y);
    begin(y, job, "batch/v1", "Job");
    // A pod that ends is replaced; its peers exit with 211 and are replaced too.
    yaml_number(y, "backoffLimit", decides_itself(job) ? most_restarts(job) : job->max_restarts * job->nodes);
    indexed(y, job, &pod);
    yaml_end(y);
    string_list_free(&words);
    free(master);
}

static void single_job(struct yaml *y, const struct kubernetes_job *job) {
    struct string_list words = {0};
    decide_words(job, &words);
    struct kubernetes_pod pod = {.container = kubernetes_container(job->kind), .before = &words, .restart = "Never"};
    begin(y, job, "batch/v1", "Job");
    yaml_number(y, "backoffLimit", most_restarts(job));
    // getdata is curl, whose exit codes have other meanings.
    if (strcmp(job->command[0], "curl") != 0)
        failure_policy(y, &pod);
    kubernetes_pod(y, job, &pod, true);
    yaml_end(y);
    string_list_free(&words);
}

// A variable of the launcher that is also exported to the ranks, named once.
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
    for (int64_t i = 0; job->environment && i < job->environment->count; i++)
        passed_on(words, job->environment->items[i], strcspn(job->environment->items[i], "="));
}

static void mpi_job(struct yaml *y, const struct kubernetes_job *job) {
    struct string_list mpirun = {0};
    mpirun_words(job, &mpirun);
    struct kubernetes_pod launcher = {
        .container = "launcher", .restart = "OnFailure", .before = &mpirun, .is_launcher = true};
    struct kubernetes_pod worker = {.container = kubernetes_container(job->kind)};
    begin(y, job, "kubeflow.org/v2beta1", "MPIJob");
    yaml_number(y, "slotsPerWorker", job->ranks_per_node);
    yaml_map(y, "runPolicy");
    yaml_text(y, "cleanPodPolicy", "Running");
    yaml_number(y, "backoffLimit", job->max_restarts);
    yaml_end(y);
    yaml_map(y, "mpiReplicaSpecs");
    yaml_map(y, "Launcher");
    yaml_number(y, "replicas", 1);
    kubernetes_pod(y, job, &launcher, true);
    yaml_end(y);
    yaml_map(y, "Worker");
    yaml_number(y, "replicas", job->nodes);
    kubernetes_pod(y, job, &worker, false);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
    string_list_free(&mpirun);
}

static void pytorch_job(struct yaml *y, const struct kubernetes_job *job) {
    // The operator looks for a container called pytorch, and provides MASTER_ADDR and the pod's number.
    struct kubernetes_pod pod = {
        .container = kubernetes_container(job->kind), .has_nproc = true, .port = PYTORCHJOB_PORT};
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
        kubernetes_pod(y, job, &pod, true);
        yaml_end(y);
    }
    yaml_end(y);
    yaml_end(y);
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
