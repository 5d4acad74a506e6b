// The sbatch script. See slurm.h.
#include "cluster/slurm.h"
#include "base/error.h"
#include "base/memory.h"
#include "cluster/shell.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Lines that begin with #SBATCH are read by sbatch, not by a shell, and have no safe quoting, so their values must be
// plain. `%` is Slurm's own (%j is the job's number).
static int directive(struct buffer *out, const char *option, const char *value) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-&|()*[]";
    if (!value)
        return 0;
    if (!*value || value[strspn(value, plain)] || *value == '-')
        return error_set_code(EXIT_CODE_USAGE,
                              "\"%s\" cannot be the value of sbatch's --%s; use letters, digits and the signs of names "
                              "and paths, without spaces",
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
                                     "\"%s\" cannot be a job name, because files are named after it: use no \"/\" and "
                                     "no control characters, and do not start with \".\" or \"-\"",
                                     name);
}

// A list of other conditions could follow the job's number.
static int check_dependency(const char *number) {
    if (*number >= '0' && *number <= '9' && !number[strspn(number, "0123456789_:")])
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "--after \"%s\" is not the number of a job; give what `launch slurm` prints, e.g. 17, or "
                          "17:18 for two jobs",
                          number);
}

static int directives(const struct slurm_job *job, struct buffer *out) {
    TRY(check_name(job->launch.name));
    TRY(directive(out, "job-name", job->launch.name));
    TRY(directive(out, "partition", job->partition));
    TRY(directive(out, "account", job->account));
    TRY(directive(out, "qos", job->qos));
    TRY(directive(out, "reservation", job->reservation));
    TRY(directive(out, "constraint", job->constraint));
    TRY(directive(out, "time", job->time));
    directive_number(out, "nodes", job->launch.nodes + job->spares);
    directive_number(out, "ntasks-per-node", job->launch.ranks_per_node);
    directive_number(out, "cpus-per-task", job->cpus_per_task);
    directive_number(out, "gpus-per-node", job->has_no_gres ? 0 : job->launch.gpus_per_node);
    if (!job->is_shared)
        buffer_append_string(out, "#SBATCH --exclusive\n");
    if (job->launch.nodes + job->spares > 1)
        buffer_append_string(out, "#SBATCH --wait-all-nodes=1\n");
    // The job survives the loss of a machine.
    if (job->spares > 0)
        buffer_append_string(out, "#SBATCH --no-kill\n");
    if (job->dependency) {
        TRY(check_dependency(job->dependency));
        OWNED char *after = memory_printf("afterok:%s", job->dependency);
        TRY(directive(out, "dependency", after));
        buffer_append_string(out, "#SBATCH --kill-on-invalid-dep=yes\n");
    }
    if (job->chain > 0)
        buffer_printf(out, "#SBATCH --array=1-%" PRId64 "%%1\n", job->chain);
    // The shell below gets the warning and forwards it; a requeued job appends to the same file.
    if (job->warning_seconds > 0)
        buffer_printf(out, "#SBATCH --signal=B:USR1@%" PRId64 "\n", job->warning_seconds);
    buffer_append_string(out, "#SBATCH --requeue\n#SBATCH --open-mode=append\n");
    OWNED char *output = memory_printf("%s/%s", job->logs, job->chain > 0 ? "%x-%A-%a.log" : "%x-%j.log");
    int status = directive(out, "output", output);
    for (int64_t i = 0; status == 0 && i < job->sbatch.count; i++)
        status = slurm_pass_options(job, job->sbatch.items[i], out);
    return status;
}

// Settings for the network of these machines; newer plugins set the rest by themselves.
static int environment(const struct slurm_job *job, struct buffer *out) {
    if (job->launch.machine && job->launch.machine->efa > 0 && job->launch.machine->gpus > 0) {
        buffer_append_string(out,
                             "# NCCL over EFA: fail rather than fall back to TCP; bootstrap on the real interface.\n");
        TRY(shell_export(out, "FI_PROVIDER", "efa"));
        // The plugin's own name up to 1.11; later ones accept it too. One machine needs no network.
        if (job->launch.nodes > 1)
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
    for (int64_t i = 0; i < job->launch.environment.count; i++)
        TRY(shell_export_pair(out, job->launch.environment.items[i]));
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
    OWNED char *image = NULL, *mounts = NULL;
    int n = 0;
    words[n++] = job->has_mpi ? "--mpi=pmix" : "--mpi=none";
    words[n++] = "--kill-on-bad-exit=1";
    words[n++] = "--unbuffered";
    if (job->launch.gpus_per_node > 0)
        words[n++] = "--cpu-bind=none";
    if (job->container_image)
        words[n++] = image = memory_printf("--container-image=%s", job->container_image);
    if (job->container_mounts)
        words[n++] = mounts = memory_printf("--container-mounts=%s", job->container_mounts);
    if (job->container_mount_home)
        words[n++] = "--container-mount-home";
    words[n] = NULL;
    array(out, "options", words);
}

// Whether there is a decision when the ranks have ended: other commands would start over.
static bool may_restart(const struct slurm_job *job) {
    return job->launch.is_train || job->launch.journal;
}

// The function `decide`: the rules of `launch local`, applied by the same program. Its state is in the job's folder,
// for a chain in that of the whole chain. A container may not have that folder, but has the run's own.
static void decision(const struct slurm_job *job, struct buffer *out) {
    buffer_append_string(out, "# Whether the ranks are started again when they have ended; the file remembers earlier "
                              "attempts.\nstate=");
    if (job->container_image && (job->launch.save || job->launch.journal)) {
        shell_word(out, job->launch.save ? job->launch.save : job->launch.journal);
        buffer_append_string(out, job->launch.save ? "/restarts.json\n" : ".restarts.json\n");
    } else if (job->chain > 0) {
        shell_word(out, job->logs);
        buffer_append_string(out, "/$SLURM_ARRAY_JOB_ID/restarts.json\n");
    } else {
        buffer_append_string(out, "$logs/restarts.json\n");
    }
    if (job->launch.is_train)
        buffer_append_string(out, "export BEVATRON_LIFELINE=$state.lifeline\n");
    buffer_append_string(out, "decide() {\n    ");
    if (job->container_image)
        buffer_append_string(out, "srun \"${options[@]}\" --mpi=none --nodes=1 --ntasks=1 ");
    buffer_append_string(out, "\"${command[0]}\" launch decide --state \"$state\" --job "
                              "\"${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}\" \\\n        ");
    if (job->launch.save || job->launch.journal) {
        buffer_append_string(out, job->launch.save ? "--save " : "--journal ");
        shell_word(out, job->launch.save ? job->launch.save : job->launch.journal);
        buffer_append_byte(out, ' ');
    }
    if (job->launch.save && job->launch.fallback) {
        buffer_append_string(out, "--save-fallback ");
        shell_word(out, job->launch.fallback);
        buffer_append_byte(out, ' ');
    }
    if (job->keeps_memory)
        buffer_append_string(out, "--memory ");
    buffer_printf(out, "--max-restarts %" PRId64 " --restart-window-minutes %g \"$@\"\n}\n\n",
                  job->launch.max_restarts > 0 ? job->launch.max_restarts : 1, job->launch.window_minutes);
}

// The functions `choose` and `has_lost`: the machines on which ranks are started. Slurm may notice a lost machine only
// minutes later, so after a failure each of them must answer.
static const char machines[] =
    "# The ranks run on the first machines of the job that work; the others are spares. After a failure each must "
    "answer.\n"
    "failed= all=(\"${options[@]}\")\n"
    "answers() {\n"
    "    [ -z \"$failed\" ] || timeout 30 srun --mpi=none --overlap --nodes=1 --ntasks=1 --nodelist=\"$1\" "
    "--output=none \\\n        true 2>/dev/null && echo \"$1\"\n"
    "}\n"
    "usable() {\n"
    "    local machine states alive\n"
    "    states=\" $(sinfo -h -N -n \"$SLURM_JOB_NODELIST\" -o %N:%t | tr '\\n' ' ')\"\n"
    "    alive=\" $(for machine in $(scontrol show hostnames \"$SLURM_JOB_NODELIST\"); do\n"
    "        [[ $states =~ \" $machine:\"(alloc|mix|idle|comp)\" \" ]] && answers \"$machine\" &\n"
    "    done | tr '\\n' ' ')\"\n"
    "    for machine in $(scontrol show hostnames \"$SLURM_JOB_NODELIST\"); do\n"
    "        [[ $alive == *\" $machine \"* ]] && echo \"$machine\"\n"
    "    done | head -n \"$needed\" | paste -sd, -\n"
    "}\n"
    "choose() {\n"
    "    chosen=$(usable)\n"
    "    # The step before may not end while Slurm waits for a lost machine, and holds its cores: --overlap.\n"
    "    options=(\"${all[@]}\" --overlap --nodes=\"$needed\" --ntasks=\"$tasks\" --nodelist=\"$chosen\")\n"
    "    echo \"bevatron: the ranks run on $chosen of $SLURM_JOB_NODELIST\"\n"
    "}\n"
    "has_lost() {\n"
    "    failed=1\n"
    "    [ \"$(usable)\" != \"$chosen\" ]\n"
    "}\n\n";

static void spares(const struct slurm_job *job, struct buffer *out) {
    buffer_printf(out, "needed=%" PRId64 " tasks=%" PRId64 "\n", job->launch.nodes,
                  job->launch.nodes * job->launch.ranks_per_node);
    buffer_append_string(out, machines);
}

// Attempts in this allocation: another one follows if nothing was computed, since requeueing, or spending one of a
// chain, would cost more. An attempt that was told to stop is the last one here.
static const char attempts_begin[] =
    "# An attempt that was lost before its first iteration is repeated here: nothing was done, so nothing is lost.\n"
    "while :; do\n"
    "    verdict=end answer=217 code=217\n"
    "    decide || [ $? != 217 ] || break\n";
// A lost machine counts as a lost rank, whatever srun's exit code.
static const char attempt_with_spares[] = "    choose\n"
                                          "    attempt\n"
                                          "    case $code in\n"
                                          "    0 | 210 | 213 | 218) ;;\n"
                                          "    *) has_lost && code=211 ;;\n"
                                          "    esac\n";
static const char attempts_end[] = "    verdict= answer=$code\n"
                                   "    [ -n \"$cancelled\" ] && break\n"
                                   "    answer=$(decide --exit-code \"$code\")\n"
                                   "    verdict=${answer% *} answer=${answer#* }\n"
                                   "    [ \"$verdict\" = here ] && [ -z \"$warned\" ] || break\n"
                                   "    sleep \"$answer\" &\n"
                                   "    wait $!\n"
                                   "    [ -z \"$warned\" ] || break\n"
                                   "done\n"
                                   "[ \"$verdict\" = end ] && code=$answer\n\n";

static void ending(const struct slurm_job *job, struct buffer *out) {
    if (!may_restart(job)) {
        buffer_append_string(out, "attempt\nexit \"$code\"\n");
        return;
    }
    buffer_append_string(out, attempts_begin);
    buffer_append_string(out, job->spares > 0 ? attempt_with_spares : "    attempt\n");
    buffer_append_string(out, attempts_end);
    if (job->chain > 0) {
        buffer_append_string(
            out,
            "# USR2, and a failure that no other attempt can cure, end the whole chain. Otherwise the next allocation "
            "resumes.\n"
            "if [ \"$cancelled\" = all ] || { [ \"$verdict\" = end ] && [ \"$code\" != 0 ]; }; then\n"
            "    scancel --state=PENDING \"$SLURM_ARRAY_JOB_ID\"\n"
            "fi\n"
            "[ \"$code\" = 210 ] && exit 0\n"
            "exit \"$code\"\n");
        return;
    }
    buffer_append_string(out,
                         "# A cancelled job must end, and one that was requeued by hand needs no help. Neither is a "
                         "failure.\n"
                         "if [ -n \"$cancelled\" ]; then\n"
                         "    decide --exit-code 210 >/dev/null 2>&1\n"
                         "    exit \"$code\"\n"
                         "fi\n");
    if (job->launch.max_restarts > 0)
        buffer_append_string(out, "case $verdict in\n"
                                  "here | requeue) scontrol requeue \"$SLURM_JOB_ID\" && sleep 60 ;;\n"
                                  "esac\n");
    buffer_append_string(out, "exit \"$code\"\n");
}

// Signals of the batch shell. These lines come first: a warning without a trap ends the job, and with a short time
// limit Slurm may warn as soon as the shell runs.
static const char signals[] =
    "# Slurm warns this shell (USR1); it signals the ranks, which save and exit with code 210. scancel (TERM) kills "
    "them "
    "after\n"
    "# KillWait; `scancel --batch --signal=USR2 JOB` saves and ends the job, however long that takes.\n"
    "interrupted= cancelled= warned= step=\n"
    "trap 'interrupted=1 warned=USR1; [ -n \"$step\" ] && kill -USR1 \"$step\" 2>/dev/null' USR1\n"
    "trap 'interrupted=1 cancelled=1 warned=TERM; [ -n \"$step\" ] && kill -TERM \"$step\" 2>/dev/null' TERM\n"
    "trap 'interrupted=1 cancelled=all warned=USR1; [ -n \"$step\" ] && kill -USR1 \"$step\" 2>/dev/null' USR2\n";

// The function `guard`, which ends a step of a run without progress, like `launch local`. Its exit code is then 212. It
// runs on the machine of rank 0, so both see the same pages of the file. SIGTERM makes srun kill its tasks; if Slurm
// does not manage that, srun itself is killed, and the job continues without it.
static void guard(const struct slurm_job *job, struct buffer *out) {
    if (!job->launch.is_train || job->launch.progress_minutes <= 0) {
        buffer_append_string(out, "guard() { :; }\n\n");
        return;
    }
    buffer_append_string(out, "# Ends a step that completes nothing for --progress-timeout-minutes, e.g. since all of "
                              "its ranks hang.\n"
                              "guard() {\n"
                              "    local looker= verdict=0\n"
                              "    trap '' USR1 USR2\n"
                              "    trap 'kill \"$looker\" 2>/dev/null; exit \"$verdict\"' TERM\n    ");
    if (job->container_image)
        buffer_printf(out,
                      "srun \"${options[@]}\" --mpi=none --overlap%s --nodes=1 --ntasks=1 "
                      "--nodelist=\"$SLURMD_NODENAME\" \\\n        ",
                      job->launch.gpus_per_node > 0 ? " --gres=none" : "");
    buffer_printf(out,
                  "\"${command[0]}\" launch progress --progress-timeout-minutes %g &\n"
                  "    looker=$!\n"
                  "    wait \"$looker\"\n"
                  "    [ $? = 212 ] || exit 0\n"
                  "    verdict=212\n"
                  "    kill -TERM \"$1\" 2>/dev/null\n"
                  "    sleep 45 &\n"
                  "    looker=$!\n"
                  "    wait \"$looker\"\n"
                  "    kill -KILL \"$1\" 2>/dev/null\n"
                  "    exit 212\n"
                  "}\n\n",
                  job->launch.progress_minutes);
}

// A function that runs one step and sets `code`. Its logs may hold output of earlier attempts: `seen` is the number of
// bytes in each, which are not shown again.
static const char attempt[] =
    "# Runs the ranks once. What earlier attempts wrote to their logs is not shown again.\n"
    "declare -A seen\n"
    "attempt() {\n"
    "    local log said\n"
    "    seen=()\n"
    "    for log in \"$logs\"/rank-*.log; do\n"
    "        [ -f \"$log\" ] && seen[$log]=$(wc -c <\"$log\")\n"
    "    done\n"
    "    # Unknown to the ranks of other jobs and of earlier attempts.\n"
    "    BEVATRON_JOB_TOKEN=$(od -An -N16 -tx4 /dev/urandom | tr -d ' \\n')\n"
    "    export BEVATRON_JOB_TOKEN\n"
    "    srun \"${options[@]}\" --open-mode=append --output=\"$logs/rank-%t.log\" \"${command[@]}\" &\n"
    "    step=$!\n"
    "    [ -n \"$warned\" ] && kill -\"$warned\" \"$step\" 2>/dev/null\n"
    "    guard \"$step\" &\n"
    "    guard=$!\n"
    "    tail -c +$((${seen[$logs/rank-0.log]-0} + 1)) -F --pid=\"$step\" \"$logs/rank-0.log\" 2>/dev/null &\n"
    "    shown=$!\n"
    "    while :; do\n"
    "        interrupted=\n"
    "        wait \"$step\"\n"
    "        code=$?\n"
    "        [ -z \"$interrupted\" ] && break\n"
    "    done\n"
    "    step=\n"
    "    # Bash 5.2 loses the code of a step that ends in the instant of a signal: it counts as ended by the warning.\n"
    "    [ \"$code\" -lt 0 ] && code=138\n"
    "    kill \"$guard\" 2>/dev/null\n"
    "    while :; do\n"
    "        interrupted=\n"
    "        wait \"$guard\"\n"
    "        [ $? = 212 ] && [ \"$code\" != 0 ] && code=212\n"
    "        [ -z \"$interrupted\" ] && break\n"
    "    done\n"
    "    wait \"$shown\"\n"
    "    [ \"$code\" = 0 ] || for log in \"$logs\"/rank-*.log; do\n"
    "        [ \"$log\" = \"$logs/rank-0.log\" ] && continue\n"
    "        said=$(tail -c +$((${seen[$log]-0} + 1)) \"$log\" 2>/dev/null | tail -n 3)\n"
    "        [ -n \"$said\" ] && printf '==> %s <==\\n%s\\n' \"$log\" \"$said\"\n"
    "    done\n"
    "    echo \"bevatron: the ranks ended with code $code\"\n"
    "}\n\n";

// Job facts that train reports: in metrics.jsonl, for `board`, and in a warning about scancel.
static void describe_job(const struct slurm_job *job, struct buffer *out) {
    buffer_append_string(out, "# For bevatron board, and for a warning if scancel cannot wait for a checkpoint.\n"
                              "export BEVATRON_JOB_LOG=");
    shell_word(out, job->logs);
    buffer_append_byte(out, '/');
    shell_word(out, job->launch.name);
    buffer_append_string(out, job->chain > 0 ? "-\"$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID.log\"\n"
                                             : "-\"$SLURM_JOB_ID.log\"\n");
    buffer_append_string(
        out, "BEVATRON_KILL_WAIT=$(scontrol show config 2>/dev/null | sed -n 's/^KillWait *= *\\([0-9]*\\) .*/\\1/p')\n"
             "export BEVATRON_KILL_WAIT\n\n");
}

// A separate step holds checkpoints in memory, so that they outlive the step of the ranks.
static void keepers(const struct slurm_job *job, struct buffer *out) {
    buffer_append_string(out, "# Holds checkpoints in the memory of every node while ranks are started again.\n"
                              "export BEVATRON_MEMORY=${TMPDIR:-/tmp}/bevatron-memory-$SLURM_JOB_ID-%N\n");
    buffer_printf(
        out,
        "srun --mpi=none --overlap%s%s --nodes=%" PRId64 " --ntasks=%" PRId64 " --ntasks-per-node=1 "
        "--cpus-per-task=1 \\\n    --open-mode=append --output=\"$logs/keepers.log\" \"${command[0]}\" launch "
        "keeper --ranks %" PRId64 " --link \"$BEVATRON_MEMORY\" &\n"
        "keepers=$!\n"
        "trap 'kill \"$keepers\" 2>/dev/null' EXIT\n\n",
        job->launch.gpus_per_node > 0 ? " --gres=none" : "",
        job->spares > 0 ? " --no-kill --kill-on-bad-exit=0 --wait=0" : "", job->launch.nodes + job->spares,
        job->launch.nodes + job->spares, job->launch.nodes * job->launch.ranks_per_node);
}

// The running part: one step and its end.
static void body(const struct slurm_job *job, struct buffer *out) {
    buffer_append_string(out, "logs=");
    shell_word(out, job->logs);
    buffer_append_string(out, "/$SLURM_JOB_ID\nmkdir -p \"$logs\"\n"
                              "# HyperPod replaces a broken machine and runs the step again.\n"
                              "[ -d /opt/sagemaker_cluster ] && options+=(--auto-resume=1)\n\n");
    if (job->launch.is_train)
        describe_job(job, out);
    if (may_restart(job))
        decision(job, out);
    if (job->keeps_memory)
        keepers(job, out);
    if (job->spares > 0)
        spares(job, out);
    guard(job, out);
    buffer_append_string(out, attempt);
    ending(job, out);
}

int slurm_script(const struct slurm_job *job, struct buffer *out) {
    buffer_append_string(out, "#!/bin/bash\n");
    TRY(directives(job, out));
    buffer_append_string(
        out, "\n# Written by bevatron launch slurm. It may be edited, and submitted again with sbatch.\nset -u\n"
             "# Chose the cluster; on it, scontrol and scancel mean their own.\nunset SLURM_CLUSTERS\n");
    buffer_append_string(out, signals);
    buffer_append_byte(out, '\n');
    TRY(environment(job, out));
    buffer_append_byte(out, '\n');
    array(out, "command", job->launch.command);
    srun_options(job, out);
    body(job, out);
    return 0;
}
