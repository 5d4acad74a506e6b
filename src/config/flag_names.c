// Resolves a text to a row, an alias or a known name. The error for any other text gives the equivalent of another
// program's name, or the nearest name. _ and - are equal here, so that --local_rank and a file's num_layers are found.
#include "config/flag.h"
#include "config/flag_internal.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/words.h"
#include <stdlib.h>
#include <string.h>

static enum flag_arity row_arity(const struct flag *flag) {
    if (flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF)
        return ARITY_NONE;
    return flag->type == FLAG_STRING_LIST ? ARITY_MANY : ARITY_ONE;
}

const char *flag_next_name(const char **cursor, size_t *length) {
    const char *name = *cursor + strspn(*cursor, " ");
    *length = strcspn(name, " ");
    *cursor = name + *length;
    return *length ? name : NULL;
}

bool flag_name_listed(const char *name, size_t length, const char *names) {
    const char *cursor = names, *listed;
    size_t listed_length;
    while ((listed = flag_next_name(&cursor, &listed_length)))
        if (flag_name_equal(name, length, listed))
            return true;
    return false;
}

bool flag_is_offered(const struct flag_table *table, const struct flag *flag) {
    return !table->offered || (flag->uses & table->offered);
}

static enum flag_arity known_arity(const char *known, size_t length) {
    const char *equals = memchr(known, '=', length);
    if (!equals)
        return ARITY_NONE;
    return known + length - equals == 2 && equals[1] == '*' ? ARITY_MANY : ARITY_ONE;
}

static bool resolve_in(const struct flag_table *table, const char *name, size_t length, struct flag_match *match) {
    *match = (struct flag_match){.table = table};
    match->flag = flag_find_name(table, name, length);
    if (match->flag) {
        match->arity = row_arity(match->flag);
        return true;
    }
    for (const struct flag_alias *alias = table->aliases; alias && alias->name; alias++) {
        if (!flag_name_equal(name, length, alias->name))
            continue;
        const struct flag *target = flag_find(table, alias->target);
        CHECK(target != NULL);
        match->alias = alias;
        match->arity = alias->value ? ARITY_NONE : row_arity(target);
        return true;
    }
    for (size_t g = 0; g < table->names_count; g++) {
        const char *cursor = table->names[g].names, *known;
        size_t known_length;
        while ((known = flag_next_name(&cursor, &known_length)))
            if (flag_name_equal(name, length, known)) {
                match->names = &table->names[g];
                match->known = known;
                match->arity = known_arity(known, known_length);
                return true;
            }
    }
    return false;
}

bool flag_resolve(const struct flag_command *command, const char *name, size_t length, struct flag_match *match) {
    for (size_t t = 0; t < command->table_count; t++)
        if (resolve_in(&command->tables[t], name, length, match))
            return true;
    return false;
}

// The row of a name of another program, and its table; NULL if it is not one.
static const struct flag_synonym *find_synonym(const struct flag_command *command, const char *name, size_t length,
                                               const struct flag_table **table) {
    for (size_t t = 0; t < command->table_count; t++) {
        *table = &command->tables[t];
        for (const struct flag_synonym *s = (*table)->synonyms; s && s->names; s++)
            if (flag_name_listed(name, length, s->names))
                return s;
    }
    return NULL;
}

bool flag_is_synonym(const struct flag_command *command, const char *name, size_t length) {
    const struct flag_table *table;
    return find_synonym(command, name, length, &table) != NULL;
}

// The error for such a name; false if it is not another program's name.
static bool explain_synonym(const struct flag_command *command, const char *name, size_t length) {
    const struct flag_table *table = NULL;
    const struct flag_synonym *synonym = find_synonym(command, name, length, &table);
    if (!synonym)
        return false;
    const char *target = synonym->target, *how = synonym->how;
    const struct flag *row = target ? flag_find_name(table, target, strcspn(target, " ")) : NULL;
    if (!target)
        error_set_code(EXIT_CODE_USAGE, "unknown flag %.*s; %s", (int)length, name, how);
    else if (row && !flag_is_offered(table, row))
        error_set_code(EXIT_CODE_USAGE, "unknown flag %.*s; %s %s", (int)length, name, row->name, table->refusal);
    else
        error_set_code(EXIT_CODE_USAGE, "unknown flag %.*s; use %s%s%s", (int)length, name, target, how ? ": " : "",
                       how ? how : "");
    return true;
}

// The error for torchtitan's --optimizer.lr, whose last part is a flag here or a name of another program; false if it
// is neither.
static bool explain_dotted(const struct flag_command *command, const char *name, size_t length) {
    const char *dot = memrchr(name, '.', length);
    struct flag_match match = {0};
    if (!dot)
        return false;
    char *last = memory_printf("--%.*s", (int)(name + length - dot - 1), dot + 1);
    bool is_known = flag_resolve(command, last, strlen(last), &match) && match.flag;
    if (is_known) {
        error_set_code(EXIT_CODE_USAGE, "unknown flag %.*s; use %s", (int)length, name, match.flag->name);
    } else if (explain_synonym(command, last, strlen(last))) {
        char *advice = memory_string(strchr(error_message(), ';'));
        error_set_code(EXIT_CODE_USAGE, "unknown flag %.*s%s", (int)length, name, advice);
        free(advice);
        is_known = true;
    }
    free(last);
    return is_known;
}

// The error for a flag of other commands whose path is an argument of this one; false if it is not one.
static bool explain_argument(const struct flag_command *command, const char *name, size_t length) {
    static const char names[] = "--input --load --path --checkpoint --data-path --prefix --input-prefix ";
    if (command->positional_minimum == 0 || !flag_name_listed(name, length, names))
        return false;
    error_set_code(EXIT_CODE_USAGE, "unknown flag %.*s; leave it out: `bevatron %s %s`", (int)length, name,
                   command->name, command->positional_name);
    return true;
}

int flag_unknown(const struct flag_command *command, const char *name, size_t length) {
    struct buffer dashed = {0};
    if (length < 2 || name[0] != '-')
        buffer_append_string(&dashed, "--");
    buffer_append(&dashed, name, length);
    if (explain_synonym(command, dashed.data, dashed.length) || explain_dotted(command, dashed.data, dashed.length) ||
        explain_argument(command, dashed.data, dashed.length)) {
        buffer_free(&dashed);
        return -1;
    }
    struct nearest nearest = nearest_begin(dashed.data, dashed.length);
    for (size_t t = 0; t < command->table_count; t++) {
        const struct flag_table *table = &command->tables[t];
        const struct flag *flag;
        for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++)
            if (flag->type != FLAG_GROUP && flag_is_offered(table, flag))
                nearest_consider(&nearest, flag->name);
        for (const struct flag_alias *alias = table->aliases; alias && alias->name; alias++)
            nearest_consider(&nearest, alias->name);
    }
    static const char *const own[] = {"--config", "--help", "--help-all"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        nearest_consider(&nearest, own[i]);
    if (nearest.best && strcmp(nearest.best, dashed.data) == 0)
        error_set_code(EXIT_CODE_USAGE, "%s takes no value", dashed.data);
    else if (nearest.best)
        error_set_code(EXIT_CODE_USAGE, "unknown flag %s; did you mean %s?", dashed.data, nearest.best);
    else
        error_set_code(EXIT_CODE_USAGE, "unknown flag %s; `bevatron %s --help-all` lists all flags%s%s", dashed.data,
                       command->name, command->flag_remedy ? "; " : "",
                       command->flag_remedy ? command->flag_remedy : "");
    buffer_free(&dashed);
    return -1;
}
