// Talking to Slurm: submitting a script with sbatch, and reading the cluster's settings. See slurm.h.
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "cluster/slurm.h"

#include <stdlib.h>
#include <string.h>

// The first row whose text occurs in sbatch's error gives the remedy.
static const struct {
    const char *text, *remedy;
} remedies[] = {
    {"artition name", "`sinfo -s` lists the partitions"},
    {"eservation", "`scontrol show reservation` lists the reservations"},
    {"nvalid account", "`sacctmgr show associations user=$USER` lists your accounts"},
    {"generic resource",
     "that partition has no such GPUs (`sinfo -o '%P %G'`): choose another partition or --gpus-per-node"},
    {"--container-", "--container-image needs the Slurm plugin Pyxis, which is not installed (plugstack.conf)"},
    {"nrecognized option", "check what is given to --sbatch or after \"--\" against `sbatch --help`"},
    {"nvalid directive", "check what is given to --sbatch or after \"--\" against `sbatch --help`"},
    {"node configuration is not available", "no node of the partition is that large (`sinfo -N -l`)"},
    {"contact slurm controller",
     "run this on a node of the cluster, and check that slurmctld is running on its head node"},
    {"configuration source", "run this on a node of the cluster, or set SLURM_CONF to its slurm.conf"},
    {"configuration file", "run this on a node of the cluster, or set SLURM_CONF to its slurm.conf"},
};

// All of sbatch's messages in one sentence, without its name before each part.
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
    int status = error_set("sbatch rejected the job%s%s%s%s", *said ? ": " : " without a message", said,
                           remedy ? "; " : "", remedy ? remedy : "");
    buffer_free(&text);
    return status;
}

int slurm_read_ticket(const char *text, struct slurm_ticket *ticket) {
    // "1234" or, with several clusters, "1234;name".
    size_t digits = strspn(text, "0123456789"), length = strcspn(text, "\n");
    *ticket = (struct slurm_ticket){0};
    if (digits == 0 || !strchr("\n;", text[digits]))
        return error_set("sbatch's answer \"%.*s\" is not a job number", (int)length, text);
    ticket->number = memory_printf("%.*s", (int)digits, text);
    if (length > digits + 1)
        ticket->cluster = memory_printf("%.*s", (int)(length - digits - 1), text + digits + 1);
    return 0;
}

void slurm_ticket_free(struct slurm_ticket *ticket) {
    free(ticket->number);
    free(ticket->cluster);
    *ticket = (struct slurm_ticket){0};
}

int slurm_submit(const char *path, struct slurm_ticket *ticket) {
    const char *const command[] = {"sbatch", "--parsable", path, NULL};
    struct process_result result;
    *ticket = (struct slurm_ticket){0};
    if (process_run(command, NULL, &result) < 0)
        return error_set("%s; run this on a node of the cluster, or print the script with --dry-run", error_message());
    int status = result.exit_code == 0 ? slurm_read_ticket(buffer_string(&result.output), ticket)
                                       : refused(buffer_string(&result.errors));
    process_result_free(&result);
    return status;
}

int64_t slurm_read_kill_wait(const char *settings) {
    // "KillWait                = 30 sec"
    static const char name[] = "KillWait ";
    for (const char *line = settings; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, name, sizeof name - 1) != 0)
            continue;
        const char *value = line + strcspn(line, "=\n");
        value += *value == '=';
        value += strspn(value, " ");
        size_t digits = strspn(value, "0123456789");
        return digits > 0 && digits < 10 ? strtoll(value, NULL, 10) : 0;
    }
    return 0;
}

int64_t slurm_kill_wait(const struct slurm_ticket *ticket) {
    char *cluster = ticket->cluster ? memory_printf("--clusters=%s", ticket->cluster) : NULL;
    const char *const here[] = {"scontrol", "show", "config", NULL};
    const char *const there[] = {"scontrol", cluster, "show", "config", NULL};
    struct process_result result;
    int status = process_run(cluster ? there : here, NULL, &result);
    free(cluster);
    if (status < 0) {
        error_clear();
        return 0;
    }
    int64_t seconds = result.exit_code == 0 ? slurm_read_kill_wait(buffer_string(&result.output)) : 0;
    process_result_free(&result);
    return seconds;
}
