// Options of sbatch that a user passes through. See slurm.h. sbatch reads its lines by rules of its own: words end at
// spaces, "#" begins a comment, quotes group, and a backslash makes the next character literal, within quotes too. A
// space after a backslash still ends the word (Slurm 22.05), so a word that is not plain is quoted.
#include "base/error.h"
#include "cluster/slurm.h"

#include <ctype.h>
#include <string.h>

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
    struct buffer word = {0}, lines = {0};
    bool wants_value = false;
    int status;
    while ((status = next_word(&text, &word)) > 0)
        if ((status = append_option(job, buffer_string(&word), &wants_value, &lines)) < 0)
            break;
    if (status == 0 && lines.length > 0) {
        buffer_append(out, lines.data, lines.length);
        buffer_append_byte(out, '\n');
    }
    buffer_free(&word);
    buffer_free(&lines);
    return status;
}
