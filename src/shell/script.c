// A shell script as it is read: its variables, the work that it may take, and its beginning and end. See shell.h.
#include "base/error.h"
#include "base/memory.h"
#include "shell/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORK = 4 << 20, MOST_NAMES = 4096 };

// From the last position that was asked for, in either direction: scripts are read again and again in loops.
int64_t shell_line(struct shell *shell) {
    ptrdiff_t distance = shell->line ? 0 : shell->rest.at - shell->counted;
    shell->work += (size_t)(distance < 0 ? -distance : distance) / 16;
    for (; !shell->line && shell->counted < shell->rest.at; shell->counted++)
        shell->counted_line += *shell->counted == '\n';
    for (; !shell->line && shell->counted > shell->rest.at; shell->counted--)
        shell->counted_line -= shell->counted[-1] == '\n';
    return shell->line ? shell->line : shell->counted_line;
}

void shell_fail(struct shell *shell, const char *problem) {
    if (!shell->has_failed)
        error_set_code(EXIT_CODE_USAGE,
                       "%s, line %" PRId64 ": the script %s; check it with bash -n, or give its last command alone",
                       shell->input->name, shell_line(shell), problem);
    shell->has_failed = true;
    shell->rest.at = shell->rest.end;
}

bool shell_spend(struct shell *shell, size_t work) {
    shell->work += work < MOST_WORK ? work : MOST_WORK;
    if (shell->work >= MOST_WORK)
        shell_fail(shell, "repeats or expands more than any that starts a training");
    return !shell->has_failed;
}

bool shell_is_active(const struct shell *shell) {
    return !shell->skipping && shell->leaving == STAYING && !shell->has_failed;
}

// ---- variables ----

struct shell_variable *shell_find(struct shell *shell, const char *name, size_t length) {
    (void)shell_spend(shell, shell->variable_count / 8);
    for (size_t i = 0; i < shell->variable_count; i++)
        if (shell->variables[i].is_set && strlen(shell->variables[i].name) == length &&
            memcmp(shell->variables[i].name, name, length) == 0)
            return &shell->variables[i];
    return NULL;
}

static struct shell_variable *find_or_add(struct shell *shell, const char *name) {
    struct shell_variable *variable = NULL;
    (void)shell_spend(shell, shell->variable_count / 8);
    for (size_t i = 0; i < shell->variable_count && !variable; i++)
        variable = strcmp(shell->variables[i].name, name) == 0 ? &shell->variables[i] : NULL;
    if (variable)
        return variable;
    if (shell->variable_count == MOST_NAMES)
        shell_fail(shell, "sets too many variables");
    MEMORY_GROW(shell->variables, shell->variable_count, shell->variable_capacity);
    variable = &shell->variables[shell->variable_count++];
    *variable = (struct shell_variable){.name = memory_string(name)};
    return variable;
}

// Unknown is not a part of a value but all of it, and the user is asked for the variable. Under a condition that is not
// decided, the condition is what is unknown.
static char *unknown_value(struct shell *shell, const char *name, const struct string_list *items) {
    char line[32], *own = shell_mark(shell, SHELL_UNSET, name, NULL);
    if (*own)  // there is work left
        own[1] = SHELL_UNKNOWN;
    (void)snprintf(line, sizeof line, "LINE_%" PRId64, shell->doubt);
    bool is_unknown = false;
    for (int64_t i = 0; i < items->count; i++)
        is_unknown = is_unknown || strstr(items->items[i], own);
    if (shell->doubt || !is_unknown) {
        free(own);
        own = shell->doubt ? shell_mark(shell, SHELL_UNKNOWN, line, "a condition") : NULL;
    }
    return own;
}

// Moves the value, which is about to be replaced; or copies it, if it is about to be extended.
static void keep(struct shell *shell, struct shell_variable *variable, bool copies, bool is_local) {
    struct shell_kept kept = {.variable = (size_t)(variable - shell->variables),
                              .is_set = variable->is_set,
                              .is_array = variable->is_array,
                              .is_local = is_local,
                              .before = variable->kept_at};
    if (variable->is_fixed || !shell_spend(shell, 16))
        return;
    for (int64_t i = 0; copies && i < variable->items.count && shell_spend(shell, strlen(variable->items.items[i]));
         i++)
        string_list_add(&kept.items, variable->items.items[i]);
    if (!copies) {
        kept.items = variable->items;
        variable->items = (struct string_list){0};
        variable->is_set = variable->is_array = false;
    }
    MEMORY_GROW(shell->kept, shell->kept_count, shell->kept_capacity);
    shell->kept[shell->kept_count++] = kept;
    variable->kept_at = shell->kept_count;
}

void shell_assign(struct shell *shell, const char *name, struct string_list *items, bool adds) {
    struct shell_variable *variable = find_or_add(shell, name);
    char *unknown = variable->is_fixed ? NULL : unknown_value(shell, name, items), *joined = NULL;
    if (shell->subshell && variable->kept_at < shell->subshell)
        keep(shell, variable, adds, false);
    struct string_list old = variable->items;
    variable->is_set = true;
    if (variable->is_fixed) {
        string_list_free(items);
    } else if (unknown) {
        variable->items = (struct string_list){0};
        string_list_add(&variable->items, unknown);
        string_list_free(&old);
        string_list_free(items);
    } else if (adds && variable->is_array) {
        for (int64_t i = 0; i < items->count; i++)
            string_list_add(&variable->items, items->items[i]);
        string_list_free(items);
    } else {
        if (adds && old.count && items->count && shell_spend(shell, strlen(old.items[0]))) {
            joined = memory_printf("%s%s", old.items[0], items->items[0]);
            free(items->items[0]);
            items->items[0] = joined;
        }
        variable->items = *items;
        string_list_free(&old);
    }
    free(unknown);
    *items = (struct string_list){0};
}

// ---- values that return: after a function, a subshell, and A=1 before a command ----

void shell_keep(struct shell *shell, const char *name, bool copies) {
    keep(shell, find_or_add(shell, name), copies, true);
}

// Exchanges a kept value with that of its variable.
static void exchange(struct shell *shell, struct shell_kept *kept) {
    struct shell_variable *variable = &shell->variables[kept->variable], old = *variable;
    variable->items = kept->items;
    variable->is_set = kept->is_set;
    variable->is_array = kept->is_array;
    kept->items = old.items;
    kept->is_set = old.is_set;
    kept->is_array = old.is_array;
}

void shell_exchange(struct shell *shell, size_t count, bool back) {
    for (size_t i = count; i < shell->kept_count; i++) {
        struct shell_kept *kept = &shell->kept[back ? shell->kept_count - 1 - (i - count) : i];
        if (kept->is_local)
            exchange(shell, kept);
    }
}

// Forgets kept values; of those that stay, the variables learn the new numbers.
static void forget(struct shell *shell, size_t count, bool locals, bool restores) {
    size_t end = shell->kept_count;
    for (size_t i = end; restores && i-- > count;)
        if (shell->kept[i].is_local || !locals)
            exchange(shell, &shell->kept[i]);
    shell->kept_count = count;
    for (size_t i = count; i < end; i++) {
        struct shell_kept kept = shell->kept[i];
        struct shell_variable *variable = &shell->variables[kept.variable];
        // A value that a command's assignment replaced for good may be one that the subshell gives back.
        bool stays = restores ? locals && !kept.is_local : shell->subshell && kept.before < shell->subshell;
        if (stays) {
            kept.is_local = false;
            shell->kept[shell->kept_count++] = kept;
            variable->kept_at = shell->kept_count;
        } else {
            variable->kept_at = kept.before;
            string_list_free(&kept.items);
        }
    }
}

void shell_restore(struct shell *shell, size_t count, bool locals) {
    forget(shell, count, locals, true);
}

void shell_drop(struct shell *shell, size_t count) {
    forget(shell, count, true, false);
}

void shell_assume_unset(struct shell *shell, const char *name) {
    struct string_list *assumed = &shell->reading->assumed;
    bool is_new = assumed->count < MOST_NAMES && shell_spend(shell, (size_t)assumed->count / 8 + 1);
    for (int64_t i = 0; i < assumed->count && is_new; i++)
        is_new = strcmp(assumed->items[i], name) != 0;
    if (is_new)
        string_list_add(assumed, name);
}

void shell_empty_unset(struct shell *shell, struct string_list *words) {
    for (int64_t i = 0; i < words->count; i++) {
        char *kept = words->items[i];
        for (char *from = kept; *from;) {
            char *end = from[0] == SHELL_MARK && from[1] == SHELL_UNSET ? strchr(from, SHELL_MARK_END) : NULL;
            if (end) {
                *end = '\0';
                shell_assume_unset(shell, from + 2);
                from = end + 1;
            } else {
                *kept++ = *from++;
            }
        }
        *kept = '\0';
    }
}

// ---- the script ----

// Variables that Slurm sets, from an #SBATCH line.
static void read_slurm(struct shell *shell, const char *line) {
    static const char *const rows[][2] = {{"--nodes=", "SLURM_NNODES"},
                                          {"--nodes=", "SLURM_JOB_NUM_NODES"},
                                          {"-N ", "SLURM_NNODES"},
                                          {"-N ", "SLURM_JOB_NUM_NODES"},
                                          {"--ntasks=", "SLURM_NTASKS"},
                                          {"--ntasks-per-node=", "SLURM_NTASKS_PER_NODE"},
                                          {"--gres=gpu:", "SLURM_GPUS_ON_NODE"},
                                          {"--gpus-per-node=", "SLURM_GPUS_ON_NODE"}};
    const char *option = line + strlen("#SBATCH") + strspn(line + strlen("#SBATCH"), " ");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct string_list items = {0};
        const char *value = option + strlen(rows[i][0]);
        if (strncmp(option, rows[i][0], strlen(rows[i][0])) != 0)
            continue;
        char *text = memory_printf("%.*s", (int)strspn(value, "0123456789"), value);
        if (*text)
            string_list_add(&items, text);
        if (*text)
            shell_assign(shell, rows[i][1], &items, false);
        free(text);
    }
}

static int set_given(struct shell *shell) {
    const struct string_list *set = shell->input->set;
    for (int64_t i = 0; set && i < set->count; i++) {
        const char *text = set->items[i], *equals = strchr(text, '=');
        size_t length = equals ? shell_name_length(text, equals) : 0;
        struct string_list items = {0};
        if (!length || text + length != equals)
            return error_set_code(EXIT_CODE_USAGE, "--set \"%s\": write NAME=VALUE", text);
        char *name = memory_printf("%.*s", (int)length, text);
        string_list_add(&items, equals + 1);
        shell_assign(shell, name, &items, false);
        shell_find(shell, name, length)->is_fixed = true;
        free(name);
    }
    return 0;
}

// The script without carriage returns; -1 if it is no text.
static int clean(const struct shell_input *input, struct buffer *text) {
    for (size_t i = 0; i < input->length; i++) {
        char c = input->text[i];
        if (c == '\0' || c == SHELL_MARK || c == SHELL_MARK_END)
            return error_set_code(EXIT_CODE_USAGE, "%s is not a shell script: byte %zu is %d; name a script",
                                  input->name, i, c);
        if (c != '\r')
            buffer_append_byte(text, c);
    }
    return 0;
}

int shell_read(const struct shell_input *input, struct shell_reading *reading) {
    static const char *const none[] = {NULL};
    struct buffer text = {0};
    *reading = (struct shell_reading){0};
    int status = clean(input, &text);
    const char *begin = buffer_string(&text);
    struct shell shell = {
        .input = input, .reading = reading, .rest = {begin, begin + text.length}, .counted = begin, .counted_line = 1};
    for (int64_t i = 0; input->arguments && i < input->arguments->count; i++)
        string_list_add(&shell.arguments, input->arguments->items[i]);
    for (const char *line = strstr(begin, "#SBATCH"); line; line = strstr(line + 1, "#SBATCH"))
        read_slurm(&shell, line);
    if (status == 0)
        status = set_given(&shell);
    if (status == 0)
        (void)shell_list(&shell, none);
    shell_restore(&shell, 0, false);
    for (size_t i = 0; i < shell.variable_count; i++) {
        free(shell.variables[i].name);
        string_list_free(&shell.variables[i].items);
    }
    free(shell.variables);
    free(shell.kept);
    free(shell.functions);
    string_list_free(&shell.texts);
    string_list_free(&shell.arguments);
    buffer_free(&text);
    return shell.has_failed ? -1 : status;
}

void shell_reading_free(struct shell_reading *reading) {
    for (size_t i = 0; i < reading->call_count; i++)
        string_list_free(&reading->calls[i].words);
    free(reading->calls);
    string_list_free(&reading->files);
    string_list_free(&reading->causes);
    string_list_free(&reading->assumed);
    string_list_free(&reading->scripts);
    *reading = (struct shell_reading){0};
}

const char *shell_cause(const struct shell_reading *reading, const char *name) {
    for (int64_t i = 0; i + 1 < reading->causes.count; i += 2)
        if (strcmp(reading->causes.items[i], name) == 0)
            return reading->causes.items[i + 1];
    return NULL;
}
