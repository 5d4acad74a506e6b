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

// The name is also that of files in the folder of logs.
static int check_name(const char *name) {
    bool is_plain = *name && *name != '.' && *name != '-' && !strchr(name, '/');
    for (const char *c = name; *c; c++)
        is_plain = is_plain && (unsigned char)*c >= ' ' && *c != 127;
    return is_plain ? 0
                    : error_set_code(EXIT_CODE_USAGE,
                                     "\"%s\" cannot be the name of a job, which names files too: no \"/\", no control "
                                     "characters, no \".\" or \"-\" at its beginning",
                                     name);
}

static int directives(const struct slurm_job *job, struct buffer *out) {
    TRY(check_name(job->name));
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
    directive_number(out, "gpus-per-node", job->has_no_gres ? 0 : job->gpus_per_node);
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
    if (job->warning_seconds > 0)
        buffer_printf(out, "#SBATCH --signal=B:USR1@%" PRId64 "\n", job->warning_seconds);
    buffer_append_string(out, "#SBATCH --requeue\n#SBATCH --open-mode=append\n");
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
        // The plugin's name for itself up to 1.11; later ones answer to it too. One machine needs no network.
        if (job->nodes > 1)
            TRY(shell_export(out, "NCCL_NET", "AWS Libfabric"));
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

// What another try can mend is tried again: a signal killed a rank (137, 139, 143; 138 is a warning that came before
// its handler), or the codes of slurm.h. An attempt may end before its first checkpoint, as where machines do not find
// each other at once; after two in a row it is given up. The file `stuck` counts them. A preprocessing whose last part
// does not fit into the time limit ends with 210 each time, with the same journal.
static void ending(const struct slurm_job *job, struct buffer *out) {
    if (job->chain > 0) {
        buffer_append_string(out, "# The next allocation of the chain goes on from the checkpoint.\n"
                                  "[ \"$code\" = 210 ] && exit 0\nexit \"$code\"\n");
        return;
    }
    buffer_append_string(out, "# Who cancels a job wants it to end; who requeues it needs no help.\n"
                              "[ -n \"$cancelled\" ] && exit \"$code\"\n"
                              "case $code in\n"
                              "137 | 138 | 139 | 143 | 210 | 211 | 212) ;;\n"
                              "*) exit \"$code\" ;;\n"
                              "esac\n");
    if (job->save || job->journal) {
        buffer_append_string(out, "stuck=0\n");
        buffer_append_string(out, job->save
                                      ? "if [ \"$code\" != 210 ] && [ \"$(newest)\" = \"$begun\" ]; then\n"
                                      : "if [ \"$code$begun\" != 210none ] && [ \"$(newest)\" = \"$begun\" ]; then\n");
        buffer_append_string(out, "    [ -s \"$logs/stuck\" ] && stuck=$(cat \"$logs/stuck\")\n"
                                  "    stuck=$((stuck + 1))\n"
                                  "    if [ \"$stuck\" -ge 2 ]; then\n"
                                  "        echo \"bevatron: two attempts got no further; giving up\"\n"
                                  "        exit 217\n"
                                  "    fi\n"
                                  "fi\n"
                                  "echo \"$stuck\" >\"$logs/stuck\"\n");
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
    if (job->save && job->chain == 0) {
        buffer_append_string(out, "# The newest checkpoint's iteration.\nnewest() { cat ");
        shell_word(out, job->save);
        buffer_append_string(out,
                             "/latest_checkpointed_iteration.txt 2>/dev/null || echo none; }\nbegun=$(newest)\n\n");
    } else if (job->journal && job->chain == 0) {
        buffer_append_string(out, "# How far the work is.\nnewest() { cat ");
        shell_word(out, job->journal);
        buffer_append_string(out, " 2>/dev/null || echo none; }\nbegun=$(newest)\n\n");
    }
    buffer_append_string(
        out,
        "# Slurm warns this shell; the ranks are told, save and leave with code 210.\n"
        "interrupted= cancelled= warned= step=\n"
        "trap 'interrupted=1 warned=USR1; [ -n \"$step\" ] && kill -USR1 \"$step\" 2>/dev/null' USR1\n"
        "trap 'interrupted=1 cancelled=1 warned=TERM; [ -n \"$step\" ] && kill -TERM \"$step\" 2>/dev/null' TERM\n"
        "srun \"${options[@]}\" --output=\"$logs/rank-%t.log\" \"${command[@]}\" &\n"
        "step=$!\n"
        "[ -n \"$warned\" ] && kill -\"$warned\" \"$step\" 2>/dev/null\n"
        "tail -n +1 -F --pid=\"$step\" \"$logs/rank-0.log\" 2>/dev/null &\n"
        "while :; do\n"
        "    interrupted=\n"
        "    wait \"$step\"\n"
        "    code=$?\n"
        "    [ -z \"$interrupted\" ] && break\n"
        "done\n"
        "# Bash 5.2 loses the code of a step that ends in the instant of a signal: it counts as ended by the warning.\n"
        "[ \"$code\" -lt 0 ] && code=138\n"
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

// The first row whose text stands in sbatch's complaint says what to do.
static const struct {
    const char *text, *remedy;
} remedies[] = {
    {"artition name", "`sinfo -s` lists the partitions"},
    {"eservation", "`scontrol show reservation` lists those that are there"},
    {"nvalid account", "`sacctmgr show associations user=$USER` lists your accounts"},
    {"generic resource",
     "that partition has no such GPUs (`sinfo -o '%P %G'`): take another, or another --gpus-per-node"},
    {"--container-", "this Slurm does not know Pyxis, which --container-image needs (plugstack.conf)"},
    {"node configuration is not available", "no machine of the partition has that much (`sinfo -N -l`)"},
    {"contact slurm controller", "run this on a machine of the cluster, and ask its head whether slurmctld is up"},
    {"configuration source", "run this on a machine of the cluster, or point SLURM_CONF to its slurm.conf"},
    {"configuration file", "run this on a machine of the cluster, or point SLURM_CONF to its slurm.conf"},
};

// All that sbatch said in one sentence, without its name before each part.
static int refused(const char *complaint) {
    static const char *const prefixes[] = {"sbatch: ", "error: ", "fatal: "};
    struct buffer text = {0};
    for (const char *at = complaint; *at;) {
        size_t length = strcspn(at, "\n");
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (strncmp(at, prefixes[i], strlen(prefixes[i])) == 0) {
                at += strlen(prefixes[i]);
                length -= strlen(prefixes[i]);
            }
        if (length > 0) {
            buffer_append_string(&text, text.length ? "; " : "");
            buffer_append(&text, at, length);
        }
        at += length + (at[length] == '\n');
    }
    const char *said = buffer_string(&text), *remedy = NULL;
    for (size_t i = 0; !remedy && i < sizeof remedies / sizeof remedies[0]; i++)
        if (strstr(said, remedies[i].text))
            remedy = remedies[i].remedy;
    int status = error_set("sbatch refused the job%s%s%s%s", *said ? ": " : " and did not say why", said,
                           remedy ? "; " : "", remedy ? remedy : "");
    buffer_free(&text);
    return status;
}

int slurm_submit(const char *path, char **job_number) {
    const char *const command[] = {"sbatch", "--parsable", path, NULL};
    struct process_result result;
    if (process_run(command, NULL, &result) < 0)
        return error_set("%s; run this on a machine of the cluster, or print the script with --dry-run",
                         error_message());
    // "1234" or, of several clusters, "1234;name".
    const char *answer = buffer_string(&result.output);
    size_t digits = strspn(answer, "0123456789");
    int status = 0;
    if (result.exit_code != 0)
        status = refused(buffer_string(&result.errors));
    else if (digits == 0 || !strchr("\n;", answer[digits]))
        status = error_set("sbatch's answer \"%.*s\" is not a job number", (int)strcspn(answer, "\n"), answer);
    else
        *job_number = memory_printf("%.*s", (int)digits, answer);
    process_result_free(&result);
    return status;
}
