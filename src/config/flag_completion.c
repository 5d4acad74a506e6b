// Fragments of completion scripts, generated from tables of flags; src/cli/cmd_help.c has each script's functions
// that use them. A fragment is
//
//   bash  an entry of a case statement that adds lines to $rows: "--flag KIND [words]", ": KIND" for arguments that are
//         not flags, or the name of a part. KIND is switch, text, word, file or folder; + after it: several values
//   zsh   an entry of a case statement that adds to $specs, for _arguments, or to $parts, for _describe
//   fish  calls of `complete`
#include "config/flag_docs.h"
#include "config/flag_internal.h"
#include <string.h>

enum completion_kind { KIND_SWITCH, KIND_TEXT, KIND_WORD, KIND_FILE, KIND_FOLDER };

static enum completion_kind kind_of_name(const char *value) {
    static const char *const files[] = {"FILE", "PATH", "PREFIX", "SCRIPT"};
    static const char *const folders[] = {"DIR", "FOLDER"};
    for (size_t i = 0; value && i < sizeof files / sizeof files[0]; i++)
        if (strstr(value, files[i]))
            return KIND_FILE;
    for (size_t i = 0; value && i < sizeof folders / sizeof folders[0]; i++)
        if (strstr(value, folders[i]))
            return KIND_FOLDER;
    return KIND_TEXT;
}

static enum completion_kind kind_of(const struct flag *flag) {
    if (flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF)
        return KIND_SWITCH;
    return flag_choice_at(flag, 0) || flag->offer ? KIND_WORD : kind_of_name(flag->value_name);
}

static void append_words(const struct flag *flag, struct buffer *out) {
    const char *word;
    for (size_t i = 0; (word = flag_choice_at(flag, i)); i++)
        buffer_printf(out, "%s%s", i ? " " : "", word);
    for (size_t i = 0; flag->offer && (word = flag->offer(i)); i++)
        buffer_printf(out, "%s%s", i ? " " : "", word);
}

// Text between single quotes. fish escapes a quote with a backslash, the others by leaving the quotes; `escaped` are
// characters that need a backslash in the script's own syntax.
static void append_quoted(const char *text, const char *escaped, enum flag_text shell, struct buffer *out) {
    for (; *text; text++) {
        if (*text == '\'')
            buffer_append_string(out, shell == FLAG_TEXT_FISH ? "\\'" : "'\\''");
        else if (*text == '\\')
            buffer_append_string(out, "\\\\");
        else if (strchr(escaped, *text))
            buffer_printf(out, "\\%c", *text);
        else
            buffer_append_byte(out, *text);
    }
}

static void bash_row(const char *name, enum completion_kind kind, bool is_list, struct buffer *out) {
    static const char *const names[] = {"switch", "text", "word", "file", "folder"};
    buffer_printf(out, "%s %s%s", name, names[kind], is_list ? "+" : "");
}

static void zsh_action(const char *value, enum completion_kind kind, const struct flag *flag, struct buffer *out) {
    append_quoted(value, ":", FLAG_TEXT_ZSH, out);
    buffer_append_byte(out, ':');
    if (kind == KIND_FILE)
        buffer_append_string(out, "_files");
    if (kind == KIND_FOLDER)
        buffer_append_string(out, "_files -/");
    if (kind != KIND_WORD)
        return;
    buffer_append_byte(out, '(');
    append_words(flag, out);
    buffer_append_byte(out, ')');
}

static void zsh_flag(const struct flag *flag, enum completion_kind kind, struct buffer *out) {
    bool is_list = flag->type == FLAG_STRING_LIST;
    buffer_printf(out, "      '%s%s%s[", is_list && flag->repeats_add ? "*" : "", flag->name,
                  kind == KIND_SWITCH || is_list ? "" : "=");
    append_quoted(flag->help ? flag->help : "", "[]", FLAG_TEXT_ZSH, out);
    buffer_append_byte(out, ']');
    if (kind != KIND_SWITCH) {
        buffer_append_string(out, is_list ? ":*--*:" : ":");
        zsh_action(flag_value_name(flag), kind, flag, out);
    }
    buffer_append_string(out, "'\n");
}

static void fish_flag(const struct flag *flag, enum completion_kind kind, const char *command, struct buffer *out) {
    buffer_printf(out, "complete -c bevatron -n '__bevatron_in %s' -l %s", command, flag->name + 2);
    if (kind == KIND_FILE)
        buffer_append_string(out, " -r -F");
    if (kind == KIND_TEXT)
        buffer_append_string(out, " -x");
    if (kind == KIND_FOLDER)
        buffer_append_string(out, " -x -a '(__fish_complete_directories)'");
    if (kind == KIND_WORD) {
        buffer_append_string(out, " -x -a '");
        append_words(flag, out);
        buffer_append_byte(out, '\'');
    }
    buffer_append_string(out, " -d '");
    append_quoted(flag->help ? flag->help : "", "", FLAG_TEXT_FISH, out);
    buffer_append_string(out, "'\n");
    if (flag->type == FLAG_STRING_LIST && kind == KIND_FILE)
        buffer_printf(out, "complete -c bevatron -n '__bevatron_in %s; and __bevatron_after %s' -F\n", command,
                      flag->name);
}

static void append_flag(const struct flag *flag, const struct completion *completion) {
    enum completion_kind kind = kind_of(flag);
    struct buffer *out = completion->out;
    if (completion->shell == FLAG_TEXT_FISH) {
        fish_flag(flag, kind, completion->command, out);
    } else if (completion->shell == FLAG_TEXT_ZSH) {
        zsh_flag(flag, kind, out);
    } else {
        bash_row(flag->name, kind, flag->type == FLAG_STRING_LIST, out);
        buffer_append_byte(out, ' ');
        append_words(flag, out);
        buffer_append_byte(out, '\n');
    }
}

static void append_positional(const char *name, const struct completion *completion) {
    enum completion_kind kind = kind_of_name(name);
    struct buffer *out = completion->out;
    if (completion->shell == FLAG_TEXT_FISH && kind == KIND_FILE) {
        buffer_printf(out, "complete -c bevatron -n '__bevatron_in %s' -F\n", completion->command);
    } else if (completion->shell == FLAG_TEXT_ZSH) {
        buffer_append_string(out, "      '*:");
        zsh_action(name, kind, NULL, out);
        buffer_append_string(out, "'\n");
    } else if (completion->shell == FLAG_TEXT_BASH) {
        bash_row(":", kind, true, out);
        buffer_append_byte(out, '\n');
    }
}

static void begin(const struct completion *completion, const char *list) {
    if (completion->shell == FLAG_TEXT_BASH)
        buffer_printf(completion->out, "    '%s') rows+='\n", completion->command);
    if (completion->shell == FLAG_TEXT_ZSH)
        buffer_printf(completion->out, "    ('%s') %s+=(\n", completion->command, list);
}

void completion_begin(const struct completion *completion) {
    begin(completion, "parts");
}

void completion_part(const struct completion *completion, const char *name, const char *summary) {
    struct buffer *out = completion->out;
    if (completion->shell == FLAG_TEXT_BASH) {
        buffer_printf(out, "%s\n", name);
        return;
    }
    if (completion->shell == FLAG_TEXT_ZSH)
        buffer_printf(out, "      '%s:", name);
    else
        buffer_printf(out, "complete -c bevatron -n '__bevatron_at%s%s' -a %s -d '", *completion->command ? " " : "",
                      completion->command, name);
    append_quoted(summary, completion->shell == FLAG_TEXT_ZSH ? ":" : "", completion->shell, out);
    buffer_append_string(out, "'\n");
}

void completion_end(const struct completion *completion) {
    if (completion->shell == FLAG_TEXT_BASH)
        buffer_append_string(completion->out, "' ;;\n");
    if (completion->shell == FLAG_TEXT_ZSH)
        buffer_append_string(completion->out, "    ) ;;\n");
}

void flags_completion(const struct flag_command *command, enum flag_text shell, struct buffer *out) {
    struct completion completion = {.shell = shell, .command = command->name, .out = out};
    begin(&completion, "specs");
    for (size_t t = 0; t < command->table_count; t++) {
        const struct flag_table *table = &command->tables[t];
        const struct flag *flag;
        for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++)
            if (flag->type != FLAG_GROUP && !flag->not_yet && flag_is_offered(table, flag))
                append_flag(flag, &completion);
    }
    for (size_t i = 0; i < FLAG_GENERAL_COUNT; i++)
        append_flag(&flag_general[i], &completion);
    if (command->positional_name)
        append_positional(command->positional_name, &completion);
    completion_end(&completion);
}
