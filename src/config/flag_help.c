// --help and the reference page: the rows of a command as text for a terminal and as Markdown tables.
#include "config/flag.h"
#include "config/flag_internal.h"
#include <string.h>

enum { HELP_COLUMN = 34, HELP_WIDTH = 100 };

const struct flag flag_general[FLAG_GENERAL_COUNT] = {
    {.name = "--config",
     .type = FLAG_STRING,
     .value_name = "FILE",
     .help = "read flags from a file, one `flag: value` per line (YAML) or a JSON object; flags given here win"},
    {.name = "--help", .type = FLAG_BOOL, .help = "print this help"},
    {.name = "--help-all", .type = FLAG_BOOL, .help = "print this help with the advanced flags"},
};

const char *flag_value_name(const struct flag *flag) {
    if (flag->value_name)
        return flag->value_name;
    switch (flag->type) {
    case FLAG_INT:
        return flag->is_size ? "SIZE" : "N";
    case FLAG_DOUBLE:
        return "X";
    case FLAG_STRING:
        return "TEXT";
    case FLAG_CHOICE:
    case FLAG_ENUM:
        return "NAME";
    case FLAG_STRING_LIST:
        return "TEXT…";
    default:
        return NULL;
    }
}

// Width on a terminal: continuation bytes of a UTF-8 sequence take no column.
static size_t width_of(const char *text, size_t length) {
    size_t width = 0;
    for (size_t i = 0; i < length; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

static void append_wrapped(const char *text, size_t column, struct buffer *out) {
    size_t at = column;
    while (*text) {
        size_t length = strcspn(text, " "), width = width_of(text, length);
        if (at > column && at + 1 + width > HELP_WIDTH) {
            buffer_printf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            buffer_append_byte(out, ' ');
            at++;
        }
        buffer_append(out, text, length);
        at += width;
        text += length;
        text += strspn(text, " ");
    }
    buffer_append_byte(out, '\n');
}

static void append_choices(const struct flag *flag, struct buffer *out) {
    const char *name = NULL;
    for (size_t i = 0; (name = flag_choice_at(flag, i)); i++)
        buffer_printf(out, "%s%s", i == 0 ? "" : "|", name);
}

// A bound that only guards arithmetic is not shown.
static const double largest_told = 65535;

// Legal values: the choices or the range, "≥ 1" if there is no meaningful upper bound.
static void append_values(const struct flag *flag, struct buffer *out) {
    if (flag_choice_at(flag, 0)) {
        append_choices(flag, out);
    } else if (flag->maximum > largest_told) {
        buffer_append_string(out, flag->bounds & FLAG_ABOVE_MINIMUM ? "> " : "≥ ");
        flag_format_double(flag->minimum, out);
    } else {
        flag_format_range(flag, out);
    }
    if (flag->type == FLAG_STRING_LIST && out->length)
        buffer_append_string(out, " values");
}

void flag_row_text(const struct flag *flag, struct buffer *out) {
    struct buffer values = {0};
    buffer_append_string(out, flag->help ? flag->help : "");
    append_values(flag, &values);
    if (values.length)
        buffer_printf(out, " [%s]", values.data);
    if (flag->required)
        buffer_append_string(out, " (required)");
    else if (flag->initial && *flag->initial && flag->type != FLAG_BOOL_OFF)
        buffer_printf(out, " (default %s%s)", flag->initial, flag->not_yet ? "; other values are not supported" : "");
    else if (flag->not_yet)
        buffer_append_string(out, " (not supported)");
    buffer_free(&values);
}

static void help_row(const struct flag *flag, struct buffer *out) {
    struct buffer left = {0}, right = {0};
    const char *value = flag_value_name(flag);
    if (flag->letter)
        buffer_printf(&left, "  -%c,", flag->letter);
    buffer_printf(&left, "%s%s%s%s", flag->letter ? " " : "  ", flag->name, value ? " " : "", value ? value : "");
    flag_row_text(flag, &right);
    size_t width = width_of(left.data, left.length);
    buffer_append_string(out, left.data);
    if (width + 2 > HELP_COLUMN)
        buffer_printf(out, "\n%*s", HELP_COLUMN, "");
    else
        buffer_printf(out, "%*s", (int)(HELP_COLUMN - width), "");
    append_wrapped(buffer_string(&right), HELP_COLUMN, out);
    buffer_free(&left);
    buffer_free(&right);
}

// A heading waits for its first visible row: a group of only advanced flags has no heading.
static size_t help_table(const struct flag_table *table, bool all, struct buffer *out) {
    const struct flag *heading = NULL;
    size_t hidden = 0;
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++) {
        if (flag->type == FLAG_GROUP) {
            heading = flag;
            continue;
        }
        if (!flag_is_offered(table, flag))
            continue;
        bool is_essential = table->essential ? (flag->uses & table->essential) != 0 : !flag->advanced;
        if (!is_essential && !all) {
            hidden++;
            continue;
        }
        if (heading) {
            buffer_printf(out, "\n%s\n", heading->name);
            if (heading->help) {
                buffer_append_string(out, "  ");
                append_wrapped(heading->help, 2, out);
            }
        }
        heading = NULL;
        help_row(flag, out);
    }
    return hidden;
}

void flags_help(const struct flag_command *command, bool all, struct buffer *out) {
    const char *positional = command->positional_name;
    buffer_printf(out, "usage: bevatron %s%s%s [flags]\n\n", command->name, positional ? " " : "",
                  positional ? positional : "");
    if (command->summary)
        append_wrapped(command->summary, 0, out);
    size_t hidden = 0;
    for (size_t t = 0; t < command->table_count; t++)
        hidden += help_table(&command->tables[t], all, out);
    buffer_append_string(out, "\nGeneral\n");
    for (size_t i = 0; i < FLAG_GENERAL_COUNT; i++)
        if (i < 2 || hidden)
            help_row(&flag_general[i], out);
    if (hidden)
        buffer_printf(out, "\n%zu more flags: bevatron %s --help-all\n", hidden, command->name);
    if (command->epilogue)
        buffer_printf(out, "\n%s\n", command->epilogue);
}

// A bar would end the table cell.
static void append_cell(const char *text, struct buffer *out) {
    for (; *text; text++) {
        if (*text == '|')
            buffer_append_byte(out, '\\');
        buffer_append_byte(out, *text);
    }
}

static void markdown_row(const struct flag *flag, struct buffer *out) {
    struct buffer values = {0};
    const char *value = flag_value_name(flag);
    buffer_printf(out, "| `%s%s", flag->name, value ? " " : "");
    append_cell(value ? value : "", out);
    buffer_append_string(out, "` | ");
    if (flag->required)
        buffer_append_string(out, "required");
    else if (flag->initial && *flag->initial && flag->type != FLAG_BOOL_OFF) {
        buffer_append_byte(out, '`');
        append_cell(flag->initial, out);
        buffer_append_byte(out, '`');
    }
    append_values(flag, &values);
    if (values.length > 0 && out->data[out->length - 1] != ' ')
        buffer_append_string(out, "; ");
    append_cell(buffer_string(&values), out);
    buffer_append_string(out, " | ");
    append_cell(flag->help ? flag->help : "", out);
    if (flag->not_yet)
        buffer_append_string(out, flag->initial ? " (only the default is supported)" : " (not supported)");
    buffer_append_string(out, " |\n");
    buffer_free(&values);
}

void flags_markdown(const struct flag_command *command, struct buffer *out) {
    for (size_t t = 0; t < command->table_count; t++) {
        const struct flag_table *table = &command->tables[t];
        const struct flag *flag;
        for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++) {
            if (flag->type != FLAG_GROUP) {
                markdown_row(flag, out);
                continue;
            }
            buffer_printf(out, "\n## %s\n\n", flag->name);
            if (flag->help)
                buffer_printf(out, "%s.\n\n", flag->help);
            buffer_append_string(out, "| flag | default; values | meaning |\n|---|---|---|\n");
        }
    }
}
