// Manual pages in the language of man(7). Every hyphen is written as a minus sign, so that a flag can be copied from a
// page and searched for in it.
#include "base/utf8.h"
#include "config/flag_docs.h"
#include "config/flag_internal.h"
#include <ctype.h>
#include <string.h>

// Characters with a name on every output device; the others are given by number. A list may break after a bar.
static void append_character(uint32_t character, struct buffer *out) {
    static const struct {
        uint32_t character;
        const char *name;
    } names[] = {{'\\', "\\e"},   {'-', "\\-"},    {'\'', "\\(aq"},   {'~', "\\(ti"},    {'^', "\\(ha"},
                 {0x2026, "..."}, {0xd7, "\\(mu"}, {0x2265, "\\(>="}, {0x2192, "\\(->"}, {'|', "|\\:"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].character == character) {
            buffer_append_string(out, names[i].name);
            return;
        }
    if (character < 0x80)
        buffer_append_byte(out, (char)character);
    else
        buffer_printf(out, "\\[u%04X]", (unsigned)character);
}

static void append_escaped(const char *text, size_t length, struct buffer *out) {
    // A dot at the start of a line would be an instruction.
    if (length > 0 && *text == '.')
        buffer_append_string(out, "\\&");
    for (size_t at = 0; at < length;) {
        uint32_t character;
        at += utf8_decode((const unsigned char *)text + at, length - at, &character, NULL);
        append_character(character, out);
    }
}

void man_text(const char *text, struct buffer *out) {
    bool is_bold = false;
    while (*text) {
        size_t length = strcspn(text, "`\n");
        append_escaped(text, length, out);
        text += length;
        if (*text == '`') {
            is_bold = !is_bold;
            buffer_append_string(out, is_bold ? "\\fB" : "\\fR");
        } else if (*text) {
            buffer_append_byte(out, '\n');
        }
        text += *text != '\0';
    }
    buffer_append_byte(out, '\n');
}

void man_verbatim(const char *text, struct buffer *out) {
    buffer_append_string(out, ".nf\n");
    while (*text) {
        size_t length = strcspn(text, "\n");
        append_escaped(text, length, out);
        buffer_append_byte(out, '\n');
        text += length + (text[length] == '\n');
    }
    buffer_append_string(out, ".fi\n");
}

void man_item(const char *label, const char *text, struct buffer *out) {
    buffer_append_string(out, ".TP\n\\fB");
    append_escaped(label, strlen(label), out);
    buffer_append_string(out, "\\fR\n");
    man_text(text, out);
}

void man_page_name(const char *command, struct buffer *out) {
    buffer_append_string(out, *command ? "bevatron-" : "bevatron");
    for (; *command; command++)
        buffer_append_byte(out, *command == ' ' ? '-' : *command);
}

void man_begin(const char *command, const char *summary, struct buffer *out) {
    struct buffer name = {0};
    man_page_name(command, &name);
    buffer_append_string(out, ".TH ");
    for (const char *letter = name.data; *letter; letter++)
        buffer_append_byte(out, (char)toupper((unsigned char)*letter));
    // Without a date the same source always gives the same page.
    buffer_printf(out, " 1 \"\" \"bevatron %s\" \"Bevatron\"\n.ad l\n.nh\n.SH NAME\n", BEVATRON_VERSION);
    append_escaped(name.data, name.length, out);
    buffer_append_string(out, " \\- ");
    const char *end = strstr(summary, ". ");
    size_t length = end ? (size_t)(end - summary) : strlen(summary);
    length -= length > 0 && summary[length - 1] == '.';
    append_escaped(summary, length, out);
    buffer_append_string(out, "\n.SH SYNOPSIS\n");
    buffer_free(&name);
}

static void man_flag(const struct flag *flag, struct buffer *out) {
    struct buffer text = {0};
    const char *value = flag_value_name(flag);
    buffer_append_string(out, ".TP\n");
    if (flag->letter)
        buffer_printf(out, "\\fB\\-%c\\fR, ", flag->letter);
    buffer_append_string(out, "\\fB");
    append_escaped(flag->name, strlen(flag->name), out);
    buffer_append_string(out, "\\fR");
    if (value) {
        buffer_append_string(out, " \\fI");
        append_escaped(value, strlen(value), out);
        buffer_append_string(out, "\\fR");
    }
    buffer_append_byte(out, '\n');
    flag_row_text(flag, &text);
    man_text(buffer_string(&text), out);
    buffer_free(&text);
}

static void man_table(const struct flag_table *table, struct buffer *out) {
    const struct flag *heading = NULL;
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++) {
        if (flag->type == FLAG_GROUP)
            heading = flag;
        if (flag->type == FLAG_GROUP || !flag_is_offered(table, flag))
            continue;
        if (heading) {
            buffer_append_string(out, ".SS ");
            man_text(heading->name, out);
        }
        if (heading && heading->help)
            man_text(heading->help, out);
        heading = NULL;
        man_flag(flag, out);
    }
}

void flags_man(const struct flag_command *command, struct buffer *out) {
    man_begin(command->name, command->summary, out);
    buffer_printf(out, "\\fBbevatron %s\\fR ", command->name);
    if (command->positional_name) {
        append_escaped(command->positional_name, strlen(command->positional_name), out);
        buffer_append_byte(out, ' ');
    }
    buffer_append_string(out, "[\\fIflags\\fR]\n.SH DESCRIPTION\n");
    man_text(command->summary, out);
    buffer_append_string(out, ".SH OPTIONS\n");
    for (size_t t = 0; t < command->table_count; t++)
        man_table(&command->tables[t], out);
    buffer_append_string(out, ".SS General\n");
    for (size_t i = 0; i < FLAG_GENERAL_COUNT; i++)
        man_flag(&flag_general[i], out);
    // The heading repeats the first line of --help.
    const char *examples = command->epilogue, *first_end = examples ? strchr(examples, '\n') : NULL;
    if (examples) {
        buffer_append_string(out, ".SH EXAMPLES\n");
        man_verbatim(first_end && strncmp(examples, "Example", 7) == 0 ? first_end + 1 : examples, out);
    }
    buffer_append_string(out, ".SH SEE ALSO\n\\fBbevatron\\fR(1)\n");
}
