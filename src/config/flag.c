// Rows and values: setting a row from text with its range, resetting it to its default, showing it. Values change
// completely or not at all: rejected text leaves the old one in place.
#include "config/flag.h"
#include "config/flag_internal.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int flag_truth(const char *text) {
    static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (int truth = 0; truth < 2; truth++)
            if (strcasecmp(text, words[i][truth]) == 0)
                return truth;
    return -1;
}

bool flag_name_equal(const char *a, size_t length, const char *b) {
    if (length >= 2 && a[0] == '-' && a[1] == '-') {
        a += 2;
        length -= 2;
    }
    if (b[0] == '-' && b[1] == '-')
        b += 2;
    for (size_t i = 0; i < length; i++) {
        char x = a[i] == '_' ? '-' : a[i], y = b[i] == '_' ? '-' : b[i];
        if (x != y || y == '\0' || y == '=' || y == ' ')
            return false;
    }
    return b[length] == '\0' || b[length] == '=' || b[length] == ' ';
}

static bool has_range(const struct flag *flag) {
    return flag->minimum != 0 || flag->maximum != 0;
}

// Steps compute in fp32: rounding to it must not reach an excluded number either.
static bool in_range(const struct flag *flag, double value) {
    if (!has_range(flag))
        return true;
    if (value < flag->minimum || value > flag->maximum)
        return false;
    if ((flag->bounds & FLAG_ABOVE_MINIMUM) && (float)value == (float)flag->minimum)
        return false;
    return !((flag->bounds & FLAG_BELOW_MAXIMUM) && (float)value == (float)flag->maximum);
}

// `nearest` is the nearest legal value; NULL if none is close. An excluded bound is not named.
static int refuse_number(const struct flag *flag, const char *text, const double *nearest) {
    struct buffer range = {0}, remedy = {0};
    flag_format_range(flag, &range);
    if (nearest && in_range(flag, *nearest)) {
        buffer_printf(&remedy, "; nearest: %s ", flag->name);
        flag_format_double(*nearest, &remedy);
    }
    static const char *const kinds[2][2] = {
        {"a number", "a number, e.g. 300B, 1.5T or 3e11"},
        {"a whole number", "a number of bytes, with K, M, G or T for powers of 1024"}};
    const char *kind = kinds[flag->type == FLAG_INT][flag->is_size];
    error_set_code(EXIT_CODE_USAGE, "%s takes %s%s%s, not \"%s\"%s", flag->name, kind, range.length ? ", " : "",
                   buffer_string(&range), text, buffer_string(&remedy));
    buffer_free(&range);
    buffer_free(&remedy);
    return -1;
}

static int set_int(const struct flag *flag, int64_t *value, const char *text) {
    int64_t number;
    bool is_number = flag->is_size ? number_read_size(text, &number) : number_read_int(text, &number);
    if (!is_number) {
        // 1e3 and 8.0 are whole numbers, though not written as such.
        double real;
        bool is_whole = number_read_double(text, &real) && real == floor(real) && in_range(flag, real);
        return refuse_number(flag, text, is_whole && has_range(flag) ? &real : NULL);
    }
    if (!in_range(flag, (double)number))
        return refuse_number(flag, text, (double)number < flag->minimum ? &flag->minimum : &flag->maximum);
    *value = number;
    return 0;
}

static int set_double(const struct flag *flag, double *value, const char *text) {
    double number;
    if (!(flag->is_size ? number_read_count(text, &number) : number_read_double(text, &number)))
        return refuse_number(flag, text, NULL);
    if (!in_range(flag, number))
        return refuse_number(flag, text, (float)number <= (float)flag->minimum ? &flag->minimum : &flag->maximum);
    *value = number;
    return 0;
}

static const struct flag_refusal *find_refusal(const struct flag *flag, const char *text) {
    const struct flag_refusal *row = flag->refusals;
    bool is_path = strchr(text, '/') || file_exists(text);
    while (row && row->name && strcasecmp(row->name, text) != 0 && !(is_path && strcmp(row->name, "/") == 0))
        row++;
    return row && row->name ? row : NULL;
}

const char *flag_choice_at(const struct flag *flag, size_t i) {
    return flag->values ? flag->values[i].name : flag->choices ? flag->choices[i] : NULL;
}

static void store_choice(const struct flag *flag, void *slot, size_t i) {
    if (flag->type == FLAG_ENUM) {
        *(int *)slot = flag->values[i].value;
    } else {
        free(*(char **)slot);
        *(char **)slot = memory_string(flag->choices[i]);
    }
}

static int set_choice(const struct flag *flag, void *slot, const char *text) {
    const struct flag_refusal *refusal = find_refusal(flag, text);
    const char *reason = refusal ? refusal->reason : NULL;
    if (refusal && refusal->means) {
        log_info("note: %s %s is taken as %s", flag->name, text, refusal->means);
        text = refusal->means;
    }
    struct buffer names = {0};
    const char *name = NULL;
    for (size_t i = 0; (name = flag_choice_at(flag, i)); i++) {
        if (strcasecmp(name, text) == 0) {
            buffer_free(&names);
            store_choice(flag, slot, i);
            return 0;
        }
        buffer_printf(&names, "%s%s", i == 0 ? "" : ", ", name);
    }
    error_set_code(EXIT_CODE_USAGE, "%s takes one of %s, not \"%s\"%s%s", flag->name, buffer_string(&names), text,
                   reason ? ": " : "", reason ? reason : "");
    buffer_free(&names);
    return -1;
}

static int set_list(const struct flag *flag, struct string_list *list, const struct string_list *items, bool add) {
    int64_t count = items->count + (add ? list->count : 0);
    if (!in_range(flag, (double)count)) {
        struct buffer range = {0};
        flag_format_range(flag, &range);
        error_set_code(EXIT_CODE_USAGE, "%s takes %s values, not %" PRId64, flag->name, buffer_string(&range), count);
        buffer_free(&range);
        return -1;
    }
    if (!add)
        string_list_free(list);
    for (int64_t i = 0; i < items->count; i++)
        string_list_add(list, items->items[i]);
    return 0;
}

static int set_switch(const struct flag *flag, bool *value, const struct string_list *items) {
    int truth = items->count ? flag_truth(items->items[0]) : 1;
    if (truth < 0 || items->count > 1)
        return error_set_code(EXIT_CODE_USAGE, "%s is a switch: it takes no value, or true or false, not \"%s\"",
                              flag->name, items->items[0]);
    *value = (flag->type == FLAG_BOOL) == (truth == 1);
    return 0;
}

int flag_set_values(const struct flag *flag, void *base, const struct string_list *items, bool add) {
    void *slot = (char *)base + flag->offset;
    if (flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF)
        return set_switch(flag, slot, items);
    if (flag->type == FLAG_STRING_LIST)
        return set_list(flag, slot, items, add);
    if (items->count != 1)
        return error_set_code(EXIT_CODE_USAGE, "%s takes one value, not %" PRId64, flag->name, items->count);
    const char *text = items->items[0];
    switch (flag->type) {
    case FLAG_INT:
        return set_int(flag, slot, text);
    case FLAG_DOUBLE:
        return set_double(flag, slot, text);
    case FLAG_CHOICE:
    case FLAG_ENUM:
        return set_choice(flag, slot, text);
    default:
        CHECK(flag->type == FLAG_STRING);
        free(*(char **)slot);
        *(char **)slot = memory_string(text);
        return 0;
    }
}

static void release(const struct flag *flag, void *base) {
    void *slot = (char *)base + flag->offset;
    if (flag->type == FLAG_STRING || flag->type == FLAG_CHOICE) {
        free(*(char **)slot);
        *(char **)slot = NULL;
    } else if (flag->type == FLAG_STRING_LIST) {
        string_list_free(slot);
    }
}

// Sets the zero of the type, then the default. A default that its own row refuses is a bug in the table.
static void reset(const struct flag *flag, void *base) {
    void *slot = (char *)base + flag->offset;
    release(flag, base);
    if (flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF)
        *(bool *)slot = flag->initial && strcmp(flag->initial, "true") == 0;
    else if (flag->type == FLAG_INT)
        *(int64_t *)slot = 0;
    else if (flag->type == FLAG_DOUBLE)
        *(double *)slot = 0;
    else if (flag->type == FLAG_ENUM)
        *(int *)slot = flag->unset;
    if (!flag->initial || flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF)
        return;
    struct string_list items = {0};
    if (flag->type == FLAG_STRING_LIST)
        string_list_add_words(&items, flag->initial);
    else
        string_list_add(&items, flag->initial);
    if (flag_set_values(flag, base, &items, false) < 0)
        die("%s: the default does not pass: %s", flag->name, error_message());
    string_list_free(&items);
}

void flags_set_defaults(const struct flag_command *command, void *options) {
    for (size_t t = 0; t < command->table_count; t++) {
        const struct flag_table *table = &command->tables[t];
        char *base = (char *)options + table->base;
        struct flag_given *given = (struct flag_given *)(base + table->given);
        *given = (struct flag_given){table->rows, memory_alloc(flag_count(&table->rows) + 1)};
        const struct flag *flag;
        for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++) {
            if (flag->type == FLAG_GROUP)
                continue;
            // The memory is uninitialized: its content is not our pointer.
            if (flag->type == FLAG_STRING || flag->type == FLAG_CHOICE)
                *(char **)(base + flag->offset) = NULL;
            else if (flag->type == FLAG_STRING_LIST)
                *(struct string_list *)(base + flag->offset) = (struct string_list){0};
            reset(flag, base);
        }
    }
    if (command->positional_name)
        *(struct string_list *)((char *)options + command->positional_offset) = (struct string_list){0};
}

void flags_free(const struct flag_command *command, void *options) {
    for (size_t t = 0; t < command->table_count; t++) {
        const struct flag_table *table = &command->tables[t];
        char *base = (char *)options + table->base;
        const struct flag *flag;
        for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++)
            if (flag->type != FLAG_GROUP)
                release(flag, base);
        struct flag_given *given = (struct flag_given *)(base + table->given);
        free(given->source);
        *given = (struct flag_given){0};
    }
    if (command->positional_name)
        string_list_free((struct string_list *)((char *)options + command->positional_offset));
}

const struct flag *flag_at(const struct flag_rows *rows, size_t i) {
    for (; rows; i -= rows->count, rows = rows->next)
        if (i < rows->count)
            return &rows->flags[i];
    return NULL;
}

size_t flag_count(const struct flag_rows *rows) {
    size_t count = 0;
    for (; rows; rows = rows->next)
        count += rows->count;
    return count;
}

// Index of a name's row; the number of rows if there is none.
static size_t find_row(const struct flag_rows *rows, const char *name, size_t length) {
    size_t before = 0;
    char first = length > 2 && name[0] == '-' && name[1] == '-' ? name[2] : name[0];
    for (; rows; before += rows->count, rows = rows->next)
        for (size_t i = 0; i < rows->count; i++)
            if (rows->flags[i].type != FLAG_GROUP && rows->flags[i].name[2] == first &&
                flag_name_equal(name, length, rows->flags[i].name))
                return before + i;
    return before;
}

const struct flag *flag_find_name(const struct flag_table *table, const char *name, size_t length) {
    return flag_at(&table->rows, find_row(&table->rows, name, length));
}

const struct flag *flag_find(const struct flag_table *table, const char *name) {
    return flag_find_name(table, name, strlen(name));
}

unsigned char *flag_source_of(const struct flag_given *given, const struct flag *flag) {
    return &given->source[find_row(&given->rows, flag->name, strlen(flag->name))];
}

void flag_mark(const struct flag_table *table, void *options, const struct flag *flag, enum flag_source source) {
    struct flag_given *given = (struct flag_given *)((char *)options + table->base + table->given);
    *flag_source_of(given, flag) = (unsigned char)source;
}

int flag_set(const struct flag_table *table, void *options, const char *name, const char *text,
             enum flag_source source) {
    const struct flag *flag = flag_find(table, name);
    if (!flag)
        return error_set_code(EXIT_CODE_USAGE, "there is no flag %s", name);
    struct string_list items = {0};
    if (flag->type == FLAG_STRING_LIST)
        string_list_add_words(&items, text);
    else
        string_list_add(&items, text);
    int status = flag_set_values(flag, (char *)options + table->base, &items, false);
    string_list_free(&items);
    if (status == 0)
        flag_mark(table, options, flag, source);
    return status;
}

enum flag_source flag_source(const struct flag_given *given, const char *name) {
    size_t i = find_row(&given->rows, name, strlen(name));
    CHECK(flag_at(&given->rows, i) != NULL);
    return (enum flag_source)given->source[i];
}

bool flag_is_given(const struct flag_given *given, const char *name) {
    return flag_source(given, name) >= FLAG_FROM_FILE;
}
