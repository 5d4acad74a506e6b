// Names: which row, alias or known name a text stands for, and which one is nearest to a text that stands for none.
// _ and - are the same letter here, so that --local_rank and a file's num_layers are found.
#include "config/flag.h"
#include "config/flag_internal.h"
#include "base/error.h"
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
    return !table->offered || flag_name_listed(flag->name, strlen(flag->name), table->offered);
}

static enum flag_arity known_arity(const char *known, size_t length) {
    const char *equals = memchr(known, '=', length);
    if (!equals)
        return ARITY_NONE;
    return known + length - equals == 2 && equals[1] == '*' ? ARITY_MANY : ARITY_ONE;
}

static const struct flag *find_row(const struct flag_table *table, const char *name, size_t length) {
    for (size_t i = 0; i < table->count; i++)
        if (table->flags[i].type != FLAG_GROUP && flag_name_equal(name, length, table->flags[i].name))
            return &table->flags[i];
    return NULL;
}

static bool resolve_in(const struct flag_table *table, const char *name, size_t length, struct flag_match *match) {
    *match = (struct flag_match){.table = table};
    match->flag = find_row(table, name, length);
    if (match->flag) {
        match->arity = row_arity(match->flag);
        return true;
    }
    for (size_t i = 0; i < table->alias_count; i++) {
        const struct flag_alias *alias = &table->aliases[i];
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

enum { LONGEST_NAME = 80 };

// Edits (insert, delete, replace, swap of neighbours) that turn one name into the other.
static int edit_distance(const char *a, size_t a_length, const char *b) {
    size_t b_length = strlen(b);
    if (a_length > LONGEST_NAME || b_length > LONGEST_NAME)
        return LONGEST_NAME;
    int rows[3][LONGEST_NAME + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            bool same = a[i - 1] == b[j - 1] || (a[i - 1] == '_' && b[j - 1] == '-');
            int best = last[j - 1] + !same;
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = before[j - 2] + 1 < best ? before[j - 2] + 1 : best;
            now[j] = best;
        }
        int *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[b_length];
}

static void consider(const char *name, size_t length, const char *candidate, const char **nearest, int *distance) {
    int edits = edit_distance(name, length, candidate);
    // A name cut short, as Python's argparse completes it, is nearer than its missing letters say.
    if (length >= 5 && strncmp(candidate, name, length) == 0)
        edits = edits > 2 ? 2 : edits;
    if (edits < *distance) {
        *distance = edits;
        *nearest = candidate;
    }
}

int flag_unknown(const struct flag_command *command, const char *name, size_t length) {
    const char *nearest = NULL;
    struct buffer dashed = {0};
    if (length < 2 || name[0] != '-')
        buffer_append_string(&dashed, "--");
    buffer_append(&dashed, name, length);
    // Beyond a third of its letters a name is another name.
    int distance = (int)(dashed.length - 2) / 3 + 1;
    distance = distance < 3 ? 3 : distance;
    for (size_t t = 0; t < command->table_count; t++) {
        const struct flag_table *table = &command->tables[t];
        for (size_t i = 0; i < table->count; i++)
            if (table->flags[i].type != FLAG_GROUP && flag_is_offered(table, &table->flags[i]))
                consider(dashed.data, dashed.length, table->flags[i].name, &nearest, &distance);
        for (size_t i = 0; i < table->alias_count; i++)
            consider(dashed.data, dashed.length, table->aliases[i].name, &nearest, &distance);
    }
    static const char *const own[] = {"--config", "--help", "--help-all"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        consider(dashed.data, dashed.length, own[i], &nearest, &distance);
    if (nearest)
        error_set_code(EXIT_CODE_USAGE, "unknown flag %s; did you mean %s?", dashed.data, nearest);
    else
        error_set_code(EXIT_CODE_USAGE, "unknown flag %s; `bevatron %s --help-all` lists all flags", dashed.data,
                       command->name);
    buffer_free(&dashed);
    return -1;
}
