// Talking to Slurm: submitting a script with sbatch, and reading the cluster's settings. See slurm.h.
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "cluster/slurm.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- options of sbatch ----

// Options of sbatch that a user passes through. See slurm.h. sbatch reads its lines by rules of its own: words end at
// spaces, "#" begins a comment, quotes group, and a backslash makes the next character literal, within quotes too. A
// space after a backslash still ends the word (Slurm 22.05), so a word that is not plain is quoted.

// Options set by the script itself: another value would contradict the checks or the script's assumptions.
static const struct {
    const char *name;
    char letter;  // 0 if it has none
    const char *remedy;
} own_options[] = {
    {"--job-name", 'J', "give --job-name to launch slurm itself"},
    {"--partition", 'p', "give --partition to launch slurm itself"},
    {"--account", 'A', "give --account to launch slurm itself"},
    {"--qos", 'q', "give --qos to launch slurm itself"},
    {"--reservation", 0, "give --reservation to launch slurm itself"},
    {"--constraint", 'C', "give --constraint to launch slurm itself"},
    {"--time", 't', "give --time to launch slurm itself"},
    {"--nodes", 'N', "give --nodes to launch slurm itself"},
    {"--ntasks", 'n', "give --nodes and --ntasks-per-node to launch slurm itself"},
    {"--ntasks-per-node", 0, "give --ntasks-per-node to launch slurm itself"},
    {"--cpus-per-task", 'c', "give --cpus-per-task to launch slurm itself"},
    {"--gpus-per-node", 0, "give --gpus-per-node to launch slurm itself"},
    {"--array", 'a', "--array-chain N submits N allocations in sequence"},
    {"--signal", 0, "--signal-seconds says when to warn the ranks"},
    {"--output", 'o', "--logs names the folder of the job's output"},
    {"--open-mode", 0, "a requeued job appends to its log"},
    {"--requeue", 0, "--max-requeues N says how often the job is requeued"},
    {"--no-requeue", 0, "--max-requeues 0 says so"},
    {"--wrap", 0, "the script is launch slurm's"},
};

static int refuse_own(const char *word, const char *remedy) {
    return error_set_code(EXIT_CODE_USAGE, "%s cannot be passed to sbatch: %s", word, remedy);
}

// sbatch accepts abbreviations of a name. It refuses one that fits several names, so refusing it here loses nothing.
static bool is_option(const char *word, const char *name, char letter) {
    size_t length = strcspn(word, "=");
    if (strncmp(word, "--", 2) != 0)
        return letter && word[1] == letter;
    // The only other option that is a prefix of one of ours.
    static const char gpus[] = "--gpus";
    bool is_gpus = length == sizeof gpus - 1 && strncmp(word, gpus, length) == 0;
    return length > 2 && !is_gpus && strncmp(word, name, length) == 0;
}

static int check_option(const struct slurm_job *job, const char *word) {
    for (size_t i = 0; i < sizeof own_options / sizeof own_options[0]; i++)
        if (is_option(word, own_options[i].name, own_options[i].letter))
            return refuse_own(word, own_options[i].remedy);
    if (job->dependency && is_option(word, "--dependency", 'd'))
        return refuse_own(word, "--after is given too; leave one of them out");
    return 0;
}

static void append_word(struct buffer *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-&|()*[]";
    if (*word && word[strspn(word, plain)] == 0) {
        buffer_append_string(out, word);
        return;
    }
    buffer_append_byte(out, '"');
    for (; *word; word++) {
        if (*word == '"' || *word == '\\')
            buffer_append_byte(out, '\\');
        buffer_append_byte(out, *word);
    }
    buffer_append_byte(out, '"');
}

// The next word of *cursor, as a shell splits it but without any expansion: 1, or 0 at the end, or -1.
static int next_word(const char **cursor, struct buffer *word) {
    const char *at = *cursor + strspn(*cursor, " \t");
    char quote = 0;
    buffer_clear(word);
    if (!*at)
        return 0;
    for (; *at && (quote || (*at != ' ' && *at != '\t')); at++) {
        if (quote ? *at == quote : *at == '\'' || *at == '"')
            quote = quote ? 0 : *at;
        else if (iscntrl((unsigned char)*at))
            return error_set_code(EXIT_CODE_USAGE, "options for sbatch must be one line without control characters");
        else if (*at == '\\' && quote != '\'' && at[1] && !iscntrl((unsigned char)at[1]))
            buffer_append_byte(word, *++at);
        else
            buffer_append_byte(word, *at);
    }
    if (quote)
        return error_set_code(EXIT_CODE_USAGE, "options for sbatch end inside a quotation: %s", *cursor);
    *cursor = at;
    return 1;
}

// A word that does not begin with a dash is the value of the option before it.
static int append_option(const struct slurm_job *job, const char *word, bool *wants_value, struct buffer *lines) {
    bool begins = word[0] == '-' && word[1] && strcmp(word, "--") != 0;
    if (!begins && !*wants_value)
        return error_set_code(EXIT_CODE_USAGE,
                              "\"%s\" is not an option of sbatch, e.g. --sbatch \"--mem=0 --exclude=node7\"", word);
    if (begins)
        TRY(check_option(job, word));
    buffer_append_string(lines, !begins ? " " : lines->length > 0 ? "\n#SBATCH " : "#SBATCH ");
    append_word(lines, word);
    *wants_value = begins && !strchr(word, '=');
    return 0;
}

int slurm_pass_options(const struct slurm_job *job, const char *text, struct buffer *out) {
    OWNED_BY(buffer_free) struct buffer word = {0}, lines = {0};
    bool wants_value = false;
    int status;
    while ((status = next_word(&text, &word)) > 0)
        if ((status = append_option(job, buffer_string(&word), &wants_value, &lines)) < 0)
            break;
    if (status == 0 && lines.length > 0) {
        buffer_append(out, lines.data, lines.length);
        buffer_append_byte(out, '\n');
    }
    return status;
}

// ---- following a job ----

// Following a job: its log is copied to stdout as it grows, through requeues and from one allocation of a chain to the
// next, until Slurm reports its end. See slurm.h.

// Slurm's controller is shared by all users: after a while it is queried rarely. The file is read more often.
static const double FIRST_PAUSE = 1, LONGEST_PAUSE = 10, READ_SECONDS = 0.5, REMIND_SECONDS = 60;
// A busy controller misses a query now and then; that deserves no warning.
static const double SILENT_SECONDS = 30;

char *slurm_log_path(const struct slurm_job *job, const char *number, int64_t link) {
    return job->chain > 0 ? memory_printf("%s/%s-%s-%" PRId64 ".log", job->logs, job->launch.name, number, link)
                          : memory_printf("%s/%s-%s.log", job->logs, job->launch.name, number);
}

static size_t take_word(const char **at, char *word, size_t size) {
    *at += strspn(*at, " ");
    size_t length = strcspn(*at, " \n"), kept = length < size ? length : size - 1;
    memcpy(word, *at, kept);
    word[kept] = 0;
    *at += length;
    return length;
}

bool slurm_read_state(const char *text, struct slurm_state *state) {
    static const char *const endings[] = {"BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
                                          "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};
    static const char title[] = "CLUSTER: ";
    char code[16];
    *state = (struct slurm_state){0};
    if (strncmp(text, title, sizeof title - 1) == 0) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    if (take_word(&text, state->state, sizeof state->state) == 0)
        return false;
    take_word(&text, code, sizeof code);
    take_word(&text, state->reason, sizeof state->reason);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        state->has_ended = state->has_ended || strcmp(state->state, endings[i]) == 0;
    // As in wait(): 256 times the exit code, or the signal.
    long status = strtol(code, NULL, 10) & 0xffff;
    int exit_code = status >> 8 ? (int)(status >> 8) : status & 127 ? 128 + (int)(status & 127) : 0;
    bool is_good = strcmp(state->state, "COMPLETED") == 0;
    state->exit_code = !state->has_ended || is_good ? 0 : exit_code ? exit_code : EXIT_CODE_ERROR;
    return true;
}

// Whether Slurm answered. A job that it has forgotten ended in an unknown way.
static bool ask(const char *job, const char *cluster, struct slurm_state *state) {
    OWNED char *jobs = memory_printf("--jobs=%s", job),
               *clusters = cluster ? memory_printf("--clusters=%s", cluster) : NULL;
    const char *const command[] = {
        "squeue", "--noheader", "--states=all", jobs, "--Format=state:32,exit_code:16,reason:64", clusters, NULL};
    struct process_result result;
    bool has_answer = false;
    if (process_run(command, NULL, &result) == 0) {
        bool is_forgotten = strstr(buffer_string(&result.errors), "Invalid job id") != NULL;
        has_answer = result.exit_code == 0 && slurm_read_state(buffer_string(&result.output), state);
        if (is_forgotten)
            *state = (struct slurm_state){.state = "forgotten", .has_ended = true, .exit_code = EXIT_CODE_ERROR};
        has_answer = has_answer || is_forgotten;
        process_result_free(&result);
    }
    error_clear();
    return has_answer;
}

struct follower {
    const struct slurm_job *job;
    const char *number, *cluster;
    int64_t link;  // of a chain: the allocation whose log is read
    int file;      // -1: there is none yet
    bool has_read;
    bool has_started;  // seen in a state other than PENDING and CANCELLED
};

static int copy_rest(struct follower *follower) {
    char block[1 << 16];
    for (;;) {
        ssize_t count = read(follower->file, block, sizeof block);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        follower->has_read = true;
        if (fwrite(block, 1, (size_t)count, stdout) != (size_t)count)
            return error_set("cannot write to standard output: %s; job %s continues", strerror(errno),
                             follower->number);
    }
    return fflush(stdout) == 0
               ? 0
               : error_set("cannot write to standard output: %s; job %s continues", strerror(errno), follower->number);
}

static int open_log(const struct follower *follower, int64_t link) {
    OWNED char *path = slurm_log_path(follower->job, follower->number, link);
    return open(path, O_RDONLY | O_CLOEXEC);
}

// Copies new output. The log of a chain's next allocation begins when that of the last one is complete.
static int copy_new(struct follower *follower) {
    if (follower->file < 0 && (follower->file = open_log(follower, follower->link)) < 0)
        return 0;
    TRY(copy_rest(follower));
    while (follower->link < follower->job->chain) {
        int next = open_log(follower, follower->link + 1);
        if (next < 0)
            break;
        int status = copy_rest(follower);
        close(follower->file);
        follower->file = next;
        follower->link++;
        if (status < 0)
            return -1;
        TRY(copy_rest(follower));
    }
    return 0;
}

// Reports why a job waits, on changes and once a minute.
static void tell_wait(const struct slurm_state *state, const char *number, char *told, double *told_at) {
    if (strcmp(state->state, "PENDING") != 0) {
        told[0] = 0;
        return;
    }
    if (strcmp(told, state->reason) == 0 && clock_seconds() - *told_at < REMIND_SECONDS)
        return;
    bool has_reason = *state->reason && strcmp(state->reason, "None") != 0;
    log_info("job %s waits in the queue%s%s", number, has_reason ? ": " : "", has_reason ? state->reason : "");
    memcpy(told, state->reason, sizeof state->reason);
    *told_at = clock_seconds();
}

static void tell_end(const struct follower *follower, const struct slurm_state *state) {
    bool has_reason = *state->reason && strcmp(state->reason, "None") != 0;
    log_info("job %s has ended: %s%s%s", follower->number, state->state, has_reason ? ", " : "",
             has_reason ? state->reason : "");
    if (follower->has_read)
        return;
    if (follower->has_started)
        log_warn("the job's log cannot be read here; is %s a folder that all machines share?", follower->job->logs);
    else if (follower->job->dependency && strcmp(state->reason, "DependencyNeverSatisfied") == 0)
        log_warn("the job did not start, because job %s of --after did not succeed; mend that one, then submit both "
                 "again",
                 follower->job->dependency);
    else
        log_warn("the job was cancelled before it started");
}

static int follow(struct follower *follower, const char *last, int *exit_code) {
    struct slurm_state state = {0};
    char told[sizeof state.reason] = "";
    double asked_at = 0, told_at = 0, answered_at = clock_seconds(), pause = FIRST_PAUSE / 2;
    bool has_warned = false;
    while (!state.has_ended) {
        if (asked_at == 0 || clock_seconds() - asked_at >= pause) {
            pause = pause * 2 < LONGEST_PAUSE ? pause * 2 : LONGEST_PAUSE;
            bool has_answer = ask(last, follower->cluster, &state);
            asked_at = clock_seconds();
            // The last allocation of a chain waits while the others run.
            bool may_wait = follower->job->chain == 0 || follower->file < 0;
            if (!has_answer && !has_warned && asked_at - answered_at > SILENT_SECONDS)
                log_warn("Slurm has not answered for %.0f seconds; asking again until it does", asked_at - answered_at);
            has_warned = !has_answer && (has_warned || asked_at - answered_at > SILENT_SECONDS);
            if (has_answer) {
                answered_at = asked_at;
                follower->has_started = follower->has_started ||
                                        (strcmp(state.state, "PENDING") != 0 && strcmp(state.state, "CANCELLED") != 0);
            }
            if (has_answer && may_wait)
                tell_wait(&state, follower->number, told, &told_at);
        }
        TRY(copy_new(follower));
        if (!state.has_ended)
            clock_sleep(READ_SECONDS);
    }
    TRY(copy_new(follower));
    tell_end(follower, &state);
    *exit_code = state.exit_code;
    return 0;
}

int slurm_watch(const struct slurm_job *job, const struct slurm_ticket *ticket, int *exit_code) {
    const char *number = ticket->number;
    struct follower follower = {.job = job, .number = number, .cluster = ticket->cluster, .link = 1, .file = -1};
    // A chain is over when its last allocation is.
    OWNED char *last = job->chain > 0 ? memory_printf("%s_%" PRId64, number, job->chain) : memory_string(number);
    log_info("following the job's log; Ctrl-C stops this, not the job");
    int status = follow(&follower, last, exit_code);
    if (follower.file >= 0)
        close(follower.file);
    return status;
}

// ---- submitting ----

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
static int submit_refused(const char *complaint) {
    static const char *const prefixes[] = {"sbatch: ", "error: ", "fatal: "};
    OWNED_BY(buffer_free) struct buffer text = {0};
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
    return error_set("sbatch rejected the job%s%s%s%s", *said ? ": " : " without a message", said, remedy ? "; " : "",
                     remedy ? remedy : "");
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
    OWNED_BY(process_result_free) struct process_result result = {0};
    *ticket = (struct slurm_ticket){0};
    if (process_run(command, NULL, &result) < 0)
        return error_set("%s; run this on a node of the cluster, or print the script with --dry-run", error_message());
    return result.exit_code == 0 ? slurm_read_ticket(buffer_string(&result.output), ticket)
                                 : submit_refused(buffer_string(&result.errors));
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
    OWNED char *cluster = ticket->cluster ? memory_printf("--clusters=%s", ticket->cluster) : NULL;
    const char *const here[] = {"scontrol", "show", "config", NULL};
    const char *const there[] = {"scontrol", cluster, "show", "config", NULL};
    OWNED_BY(process_result_free) struct process_result result = {0};
    int status = process_run(cluster ? there : here, NULL, &result);
    if (status < 0) {
        error_clear();
        return 0;
    }
    return result.exit_code == 0 ? slurm_read_kill_wait(buffer_string(&result.output)) : 0;
}
