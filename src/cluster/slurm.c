// The sbatch script, and sbatch itself. See slurm.h.
#include "cluster/slurm.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "cluster/shell.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Lines that begin with #SBATCH are read by sbatch, not by a shell, and have no safe quoting: what stands there must be
// plain. `%` is Slurm's own (%j is the job).
static int directive(struct buffer *out, const char *option, const char *value) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-&|()*[]";
    if (!value)
        return 0;
    if (!*value || value[strspn(value, plain)] || *value == '-')
        return error_set_code(EXIT_CODE_USAGE,
                              "\"%s\" cannot be the value of sbatch's --%s; use letters, digits and the signs in names "
                              "and paths, no blanks",
                              value, option);
    buffer_printf(out, "#SBATCH --%s=%s\n", option, value);
    return 0;
}

static void directive_number(struct buffer *out, const char *option, int64_t value) {
    if (value > 0)
        buffer_printf(out, "#SBATCH --%s=%" PRId64 "\n", option, value);
}

static int directives(const struct slurm_job *job, struct buffer *out) {
    TRY(directive(out, "job-name", job->name));
    TRY(directive(out, "partition", job->partition));
    TRY(directive(out, "account", job->account));
    TRY(directive(out, "qos", job->qos));
    TRY(directive(out, "reservation", job->reservation));
    TRY(directive(out, "constraint", job->constraint));
    TRY(directive(out, "time", job->time));
    directive_number(out, "nodes", job->nodes);
    directive_number(out, "ntasks-per-node", job->tasks_per_node);
    directive_number(out, "cpus-per-task", job->cpus_per_task);
    directive_number(out, "gpus-per-node", job->gpus_per_node);
    if (job->is_exclusive)
        buffer_append_string(out, "#SBATCH --exclusive\n");
    if (job->nodes > 1)
        buffer_append_string(out, "#SBATCH --wait-all-nodes=1\n");
    if (job->dependency) {
        char *after = memory_printf("afterok:%s", job->dependency);
        int status = directive(out, "dependency", after);
        free(after);
        TRY(status);
        buffer_append_string(out, "#SBATCH --kill-on-invalid-dep=yes\n");
    }
    if (job->chain > 0)
        buffer_printf(out, "#SBATCH --array=1-%" PRId64 "%%1\n", job->chain);
    // The shell below gets the warning and passes it on; a requeued job goes on in the same file.
    buffer_printf(out, "#SBATCH --signal=B:USR1@%" PRId64 "\n#SBATCH --requeue\n#SBATCH --open-mode=append\n",
                  job->warning_seconds);
    char *output = memory_printf("%s/%s", job->logs, job->chain > 0 ? "%x-%A-%a.log" : "%x-%j.log");
    int status = directive(out, "output", output);
    free(output);
    return status;
}

// What the network of these machines needs; newer plugins set the rest by themselves.
static int environment(const struct slurm_job *job, struct buffer *out) {
    if (job->machine && job->machine->efa > 0 && job->machine->gpus > 0) {
        buffer_append_string(out,
                             "# NCCL over EFA: fail rather than fall back to TCP; bootstrap on the real interface.\n");
        TRY(shell_export(out, "FI_PROVIDER", "efa"));
        TRY(shell_export(out, "NCCL_SOCKET_IFNAME", "^docker,lo,veth"));
    }
    if (job->has_mpi) {
        buffer_append_string(
            out, "# Open MPI: TCP between hosts for what is not NCCL's, and never through container bridges.\n");
        buffer_append_string(out,
                             "export OMPI_MCA_pml=\"${OMPI_MCA_pml-^ucx}\"\n"
                             "[ -n \"${OMPI_MCA_btl_tcp_if_include-}\" ] ||\n"
                             "    export OMPI_MCA_btl_tcp_if_exclude=\"${OMPI_MCA_btl_tcp_if_exclude-lo,docker0}\"\n");
    }
    for (int64_t i = 0; job->environment && i < job->environment->count; i++)
        TRY(shell_export_pair(out, job->environment->items[i]));
    return 0;
}

// One flag with its value on a line.
static void array(struct buffer *out, const char *name, const char *const *words) {
    buffer_printf(out, "%s=(", name);
    for (bool is_first = true; *words; words++, is_first = false) {
        buffer_append_string(out, is_first || strncmp(*words, "--", 2) == 0 ? "\n    " : " ");
        shell_word(out, *words);
    }
    buffer_append_string(out, "\n)\n");
}

static void srun_options(const struct slurm_job *job, struct buffer *out) {
    const char *words[16];
    char *image = NULL, *mounts = NULL;
    int n = 0;
    words[n++] = job->has_mpi ? "--mpi=pmix" : "--mpi=none";
    words[n++] = "--kill-on-bad-exit=1";
    words[n++] = "--unbuffered";
    if (job->gpus_per_node > 0)
        words[n++] = "--cpu-bind=none";
    if (job->container_image)
        words[n++] = image = memory_printf("--container-image=%s", job->container_image);
    if (job->container_mounts)
        words[n++] = mounts = memory_printf("--container-mounts=%s", job->container_mounts);
    words[n] = NULL;
    array(out, "options", words);
    free(image);
    free(mounts);
}

// What another try can mend is tried again, as long as it gets further: a signal killed a rank (137, 139, 143), or the
// codes of slurm.h. The file `before` holds the newest
// checkpoint's iteration after the attempt before this one.
static void ending(const struct slurm_job *job, struct buffer *out) {
    if (job->chain > 0) {
        buffer_append_string(out, "# The next allocation of the chain goes on from the checkpoint.\n"
                                  "[ \"$code\" = 210 ] && exit 0\nexit \"$code\"\n");
        return;
    }
    buffer_append_string(out, "# Who cancels a job wants it to end; who requeues it needs no help.\n"
                              "[ -n \"$cancelled\" ] && exit \"$code\"\n"
                              "case $code in\n"
                              "137 | 139 | 143 | 210 | 211 | 212) ;;\n"
                              "*) exit \"$code\" ;;\n"
                              "esac\n");
    if (job->save) {
        buffer_append_string(out, "cat ");
        shell_word(out, job->save);
        buffer_append_string(
            out, "/latest_checkpointed_iteration.txt 2>/dev/null >\"$logs/now\" || echo none >\"$logs/now\"\n"
                 "echo >>\"$logs/now\"\n"
                 "if [ \"$code\" != 210 ] && cmp -s \"$logs/now\" \"$logs/before\"; then\n"
                 "    echo \"bevatron: no new checkpoint since the last attempt; giving up\"\n"
                 "    exit 217\n"
                 "fi\n"
                 "mv \"$logs/now\" \"$logs/before\"\n");
    }
    buffer_printf(out,
                  "if [ \"${SLURM_RESTART_COUNT:-0}\" -lt %" PRId64 " ] && scontrol requeue \"$SLURM_JOB_ID\"; then\n"
                  "    sleep 60\n"
                  "fi\n"
                  "exit \"$code\"\n",
                  job->max_requeues);
}

// The running part: one step, its signals, its end.
static void body(const struct slurm_job *job, struct buffer *out) {
    buffer_append_string(out, "logs=");
    shell_word(out, job->logs);
    buffer_append_string(out, "/$SLURM_JOB_ID\nmkdir -p \"$logs\"\n"
                              "# HyperPod replaces a broken machine and runs the step again.\n"
                              "[ -d /opt/sagemaker_cluster ] && options+=(--auto-resume=1)\n\n");
    buffer_append_string(
        out,
        "# Slurm warns this shell; the ranks are told, save and leave with code 210.\n"
        "interrupted= cancelled=\n"
        "trap 'interrupted=1; kill -USR1 \"$step\" 2>/dev/null' USR1\n"
        "trap 'interrupted=1 cancelled=1; kill -TERM \"$step\" 2>/dev/null' TERM\n"
        "srun \"${options[@]}\" --output=\"$logs/rank-%t.log\" \"${command[@]}\" &\n"
        "step=$!\n"
        "tail -n +1 -F --pid=\"$step\" \"$logs/rank-0.log\" 2>/dev/null &\n"
        "while :; do\n"
        "    interrupted=\n"
        "    wait \"$step\"\n"
        "    code=$?\n"
        "    [ -z \"$interrupted\" ] && break\n"
        "done\n"
        "wait\n"
        "for log in \"$logs\"/rank-*.log; do\n"
        "    [ \"$code\" = 0 ] || [ \"$log\" = \"$logs/rank-0.log\" ] || ! [ -s \"$log\" ] || tail -n 3 -v \"$log\"\n"
        "done\n"
        "echo \"bevatron: the ranks ended with code $code\"\n\n");
    ending(job, out);
}

int slurm_script(const struct slurm_job *job, struct buffer *out) {
    buffer_append_string(out, "#!/bin/bash\n");
    TRY(directives(job, out));
    buffer_append_string(
        out, "\n# Written by bevatron launch slurm. It may be edited, and submitted again with sbatch.\nset -u\n");
    TRY(environment(job, out));
    buffer_append_byte(out, '\n');
    array(out, "command", job->command);
    srun_options(job, out);
    body(job, out);
    return 0;
}

// The length of the first line.
static int first_line(const char *text) {
    return (int)strcspn(text, "\n");
}

int slurm_submit(const char *path, char **job_number) {
    const char *const command[] = {"sbatch", "--parsable", path, NULL};
    struct process_result result;
    if (process_run(command, NULL, &result) < 0)
        return error_set("%s; run this on a machine of the cluster, or print the script with --dry-run",
                         error_message());
    // "1234" or, of several clusters, "1234;name".
    const char *answer = buffer_string(&result.output), *complaint = buffer_string(&result.errors);
    size_t digits = strspn(answer, "0123456789");
    int status = 0;
    if (result.exit_code != 0)
        status = error_set("sbatch refused the job: %.*s", first_line(complaint), complaint);
    else if (digits == 0 || !strchr("\n;", answer[digits]))
        status = error_set("sbatch's answer \"%.*s\" is not a job number", first_line(answer), answer);
    else
        *job_number = memory_printf("%.*s", (int)digits, answer);
    process_result_free(&result);
    return status;
}
