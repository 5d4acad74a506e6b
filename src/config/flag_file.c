// Configuration files: a JSON object, or the subset of YAML for a flat list of flags: `flag: value` lines, comments,
// both kinds of quotes, lists as [a, b] or as `- item` lines, null for the default. A duplicate key, nesting, anchors,
// blocks and tags are errors, because a reader that guessed would train the wrong model. Values refer to variables of
// the environment (flag_variables.c), except in '…'.
#include "config/flag.h"
#include "config/flag_internal.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE_BYTES = 1 << 20 };

struct seen_key {
    const void *meaning;  // the row, alias or known name
    int64_t line;
};

struct file_reader {
    struct flag_parse *parse;
    const char *path;
    int64_t line;  // 0 if unknown
    // The key whose values are being collected.
    struct flag_match match;
    struct flag_values values;
    int64_t key_line;
    bool has_key, is_null, is_refused;  // refused: its values are skipped
    struct seen_key *seen;
    size_t seen_count;
    int64_t unknown;  // keys that are flags neither here nor in other programs
    bool is_over;     // too many of them: reading stops
};

// A file whose first keys are all unknown, e.g. a vocabulary, is not a configuration.
enum { UNKNOWN_KEYS = 12 };

// Prepends the position to the current message.
static int at_line(const struct file_reader *reader, int64_t line) {
    if (line == 0)
        return error_context("%s", reader->path);
    return error_context("%s:%lld", reader->path, (long long)line);
}

static int refuse(const struct file_reader *reader, const char *message) {
    error_set_code(EXIT_CODE_USAGE, "%s", message);
    return at_line(reader, reader->line);
}

static bool is_beside(const struct flag_command *command, const char *name, size_t length) {
    for (size_t t = 0; t < command->table_count; t++)
        if (command->tables[t].beside && flag_name_listed(name, length, command->tables[t].beside))
            return true;
    return false;
}

static int begin_key(struct file_reader *reader, const char *name, size_t length) {
    if (flag_name_equal(name, length, "config"))
        return refuse(reader, "a configuration file cannot name another one; give several --config flags instead");
    reader->has_key = true;
    reader->is_null = false;
    reader->key_line = reader->line;
    reader->is_refused = !flag_resolve(reader->parse->command, name, length, &reader->match);
    if (reader->is_refused && is_beside(reader->parse->command, name, length))
        return 0;
    if (reader->is_refused) {
        flag_unknown(reader->parse->command, name, length);
        at_line(reader, reader->line);
        flag_put_off(reader->parse);
        reader->unknown += !flag_is_synonym(reader->parse->command, name, length);
        reader->is_over = reader->unknown >= UNKNOWN_KEYS && reader->seen_count == 0;
        if (reader->is_over)
            complain(
                &reader->parse->complaints,
                "%s: %d keys are unknown and none is a flag, so the rest was not read; give --config a file with a "
                "line `flag: value` for each flag",
                reader->path, UNKNOWN_KEYS);
        return 0;
    }
    const struct flag_match *match = &reader->match;
    const void *meaning = match->flag    ? (const void *)match->flag
                          : match->alias ? (const void *)match->alias
                                         : (const void *)match->known;
    for (size_t i = 0; i < reader->seen_count; i++)
        if (reader->seen[i].meaning == meaning) {
            error_set_code(EXIT_CODE_USAGE, "%.*s is set a second time (first in line %lld); remove one of them",
                           (int)length, name, (long long)reader->seen[i].line);
            return at_line(reader, reader->line);
        }
    reader->seen = memory_realloc(reader->seen, (reader->seen_count + 1) * sizeof *reader->seen);
    reader->seen[reader->seen_count++] = (struct seen_key){meaning, reader->line};
    return 0;
}

// Gives the collected values to their flag. Errors are deferred, and the file is read on.
static void end_key(struct file_reader *reader) {
    if (!reader->has_key)
        return;
    int status = 0;
    if (!reader->is_refused && !reader->is_null && reader->values.items.count == 0)
        status = error_set_code(EXIT_CODE_USAGE, "a value is missing; write null to leave the flag at its default");
    else if (!reader->is_refused && !reader->is_null)
        status = flag_apply(reader->parse, &reader->match, &reader->values, FLAG_FROM_FILE);
    if (status < 0) {
        at_line(reader, reader->key_line);
        flag_put_off(reader->parse);
    }
    string_list_free(&reader->values.items);
    reader->values.quoted = false;
    reader->has_key = false;
}

static const char *skip_blanks(const char *p) {
    return p + strspn(p, " ");
}

static int unescape(struct file_reader *reader, char letter, struct buffer *out) {
    static const char from[] = "\"\\/nt", to[] = "\"\\/\n\t";
    const char *found = letter ? strchr(from, letter) : NULL;
    if (!found)
        return refuse(reader,
                      "only \\\\, \\\", \\/, \\n and \\t are understood in \"…\"; use '…' for plain backslashes");
    buffer_append_byte(out, to[found - from]);
    return 0;
}

// Reads a quoted text at *cursor, and moves the cursor past it.
static int read_quoted(struct file_reader *reader, const char **cursor, struct buffer *out) {
    const char quote = **cursor;
    const char *p = *cursor + 1;
    for (;; p++) {
        if (!*p)
            return refuse(reader, "a quote is opened and not closed on the same line");
        if (quote == '"' && *p == '\\') {
            TRY(unescape(reader, *++p, out));
        } else if (*p != quote) {
            buffer_append_byte(out, *p);
        } else if (quote == '\'' && p[1] == '\'') {
            buffer_append_byte(out, *p++);
        } else {
            *cursor = p + 1;
            return 0;
        }
    }
}

// Text up to a terminator, without spaces at its end.
static int read_plain(struct file_reader *reader, const char **cursor, const char *terminators, struct buffer *out) {
    if (**cursor && strchr("{}[]&*!|>%@`,?", **cursor))
        return refuse(reader, "a value that begins with one of {}[]&*!|>%@`,? must stand in quotes");
    if (!*terminators && strstr(*cursor, ": "))
        return refuse(reader, "a second colon; put the value in quotes");
    size_t length = strcspn(*cursor, terminators);
    const char *end = *cursor + length;
    while (end > *cursor && end[-1] == ' ')
        end--;
    buffer_append(out, *cursor, (size_t)(end - *cursor));
    *cursor += length;
    return 0;
}

static int read_scalar(struct file_reader *reader, const char **cursor, const char *terminators, struct buffer *out) {
    bool quoted = **cursor == '"' || **cursor == '\'';
    if (quoted)
        TRY(read_quoted(reader, cursor, out));
    else
        TRY(read_plain(reader, cursor, terminators, out));
    reader->values.quoted = quoted;
    *cursor = skip_blanks(*cursor);
    if (**cursor && !strchr(terminators, **cursor))
        return refuse(reader, "there is text after a closing quote");
    return 0;
}

// Replaces variables in the value. An unset variable is reported later: the rest of the file is read first, and all of
// them are reported together.
static void expand(struct file_reader *reader, struct buffer *value) {
    if (!reader->parse->has_variables || !strstr(buffer_string(value), "${"))
        return;
    struct buffer expanded = {0};
    if (flag_expand(buffer_string(value), &expanded) < 0) {
        at_line(reader, reader->line);
        flag_put_off(reader->parse);
        reader->is_refused = true;
    }
    buffer_free(value);
    *value = expanded;
}

void flag_quote(const char *text, struct buffer *out) {
    buffer_append_byte(out, '\'');
    for (; *text; text++)
        buffer_printf(out, *text == '\'' ? "''" : "%c", *text);
    buffer_append_byte(out, '\'');
}

// A scalar value. '…' is taken verbatim.
static int read_expanded(struct file_reader *reader, const char **cursor, const char *terminators, struct buffer *out) {
    bool is_literal = **cursor == '\'';
    TRY(read_scalar(reader, cursor, terminators, out));
    if (!is_literal)
        expand(reader, out);
    return 0;
}

// [a, b, "c"] on one line.
static int read_flow_list(struct file_reader *reader, const char *p) {
    struct buffer item = {0};
    int status = 0;
    p = skip_blanks(p + 1);
    while (status == 0 && *p != ']') {
        buffer_clear(&item);
        status = *p ? read_expanded(reader, &p, ",]", &item) : refuse(reader, "a list is opened with [ and not closed");
        if (status < 0)
            break;
        if (item.length == 0 && !reader->values.quoted && !reader->is_refused)
            status = refuse(reader, "a list has an empty item; write '' for an empty text");
        string_list_add(&reader->values.items, buffer_string(&item));
        if (*p == ',')
            p = skip_blanks(p + 1);
    }
    buffer_free(&item);
    TRY(status);
    reader->values.quoted = true;
    if (*skip_blanks(p + 1))
        return refuse(reader, "there is text after the ] of a list");
    return 0;
}

static int read_value(struct file_reader *reader, const char *p) {
    if (*p == '[')
        return read_flow_list(reader, p);
    struct buffer text = {0};
    int status = read_expanded(reader, &p, "", &text);
    const char *string = buffer_string(&text);
    // ${NAME:-} is empty if the variable is not set.
    bool is_null = !*string || strcmp(string, "null") == 0 || strcmp(string, "~") == 0;
    if (status == 0 && !reader->values.quoted && is_null)
        reader->is_null = true;
    else if (status == 0)
        string_list_add(&reader->values.items, string);
    buffer_free(&text);
    return status;
}

static int read_item(struct file_reader *reader, const char *p) {
    if (!reader->has_key || reader->is_null)
        return refuse(reader, "a list item stands under no flag");
    p = skip_blanks(p + 1);
    if (!*p)
        return refuse(reader, "a list item is empty");
    struct buffer text = {0};
    int status = read_expanded(reader, &p, "", &text);
    if (status == 0)
        string_list_add(&reader->values.items, buffer_string(&text));
    buffer_free(&text);
    reader->values.quoted = true;
    return status;
}

static int read_entry(struct file_reader *reader, const char *p) {
    end_key(reader);
    struct buffer key = {0};
    int status = read_scalar(reader, &p, ":", &key);
    if (status == 0 && (*p != ':' || (p[1] && p[1] != ' ') || key.length == 0))
        status = refuse(reader, "a line is not of the form `flag: value`");
    if (status == 0)
        status = begin_key(reader, key.data, key.length);
    buffer_free(&key);
    TRY(status);
    reader->values.quoted = false;
    p = skip_blanks(p + 1);
    return *p ? read_value(reader, p) : 0;
}

static int read_line(struct file_reader *reader, char *line) {
    if (strchr(line, '\t'))
        return refuse(reader, "a tab; use spaces");
    yaml_line_trim(line, " [,");
    const char *p = skip_blanks(line);
    if (!*p || (strcmp(line, "---") == 0 && reader->seen_count == 0))
        return 0;
    if (*p == '-' && (p[1] == ' ' || !p[1]))
        return read_item(reader, p);
    if (p != line)
        return refuse(reader, "an indented line; flags are not nested, so each begins its line");
    return read_entry(reader, p);
}

static int read_yaml(struct file_reader *reader, char *text) {
    for (char *line = text; line && !reader->is_over;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        reader->line++;
        TRY(read_line(reader, line));
        line = end ? end + 1 : NULL;
    }
    end_key(reader);
    return 0;
}

// The line of a key, found by its text: the tree stores no positions. 0 if it is written with escapes.
static int64_t json_line(const char *text, const char *key) {
    struct buffer quoted = {0};
    buffer_printf(&quoted, "\"%s\"", key);
    const char *found = strstr(text, quoted.data);
    int64_t line = found ? 1 : 0;
    for (const char *p = text; found && p < found; p++)
        line += *p == '\n';
    buffer_free(&quoted);
    return line;
}

static int add_json_value(struct file_reader *reader, const struct json *value) {
    if (value->type == JSON_TRUE || value->type == JSON_FALSE) {
        string_list_add(&reader->values.items, value->type == JSON_TRUE ? "true" : "false");
    } else if (value->type == JSON_NUMBER || value->type == JSON_STRING) {
        if (strlen(value->string) != value->length)
            return refuse(reader, "a text holds a NUL character");
        struct buffer text = {0};
        buffer_append_string(&text, value->string);
        expand(reader, &text);
        string_list_add(&reader->values.items, buffer_string(&text));
        buffer_free(&text);
    } else {
        return refuse(reader, "a value must be a number, a text, true, false, null, or a list of such");
    }
    return 0;
}

static bool is_derived(const struct flag_command *command, const struct json_key *key) {
    for (size_t t = 0; t < command->table_count; t++)
        if (command->tables[t].derived && flag_name_listed(key->string, key->length, command->tables[t].derived))
            return true;
    return false;
}

static int read_json(struct file_reader *reader, const char *text, size_t length) {
    struct json *root = NULL;
    if (json_parse(&root, text, length, reader->path) < 0)
        return error_set_code(EXIT_CODE_USAGE, "%s", error_message());
    int status = 0;
    for (size_t i = 0; status == 0 && i < root->count && !reader->is_over; i++) {
        const struct json *value = &root->items[i];
        if (is_derived(reader->parse->command, &root->keys[i]))
            continue;
        reader->line = json_line(text, root->keys[i].string);
        status = begin_key(reader, root->keys[i].string, root->keys[i].length);
        if (status < 0)
            break;
        reader->is_null = value->type == JSON_NULL;
        bool is_list = value->type == JSON_ARRAY;
        for (size_t k = 0; status == 0 && is_list && k < value->count; k++)
            status = add_json_value(reader, &value->items[k]);
        if (!is_list && !reader->is_null)
            status = add_json_value(reader, value);
        reader->values.quoted = is_list;
        if (status == 0)
            end_key(reader);
    }
    json_free(root);
    return status;
}

// `text` is cut into lines in place.
static int read_text(struct file_reader *reader, struct buffer *text) {
    const char *start = buffer_string(text);
    if (strlen(start) != text->length)
        return refuse(reader, "the file holds NUL bytes, so it is not text");
    size_t mark = strncmp(start, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (start[mark + strspn(start + mark, " \t\r\n")] == '{')
        return read_json(reader, start + mark, text->length - mark);
    if (text->length == 0)
        return 0;
    return read_yaml(reader, text->data + mark);
}

static int parse_text(struct flag_parse *parse, const char *name, struct buffer *text) {
    struct file_reader reader = {.parse = parse, .path = name};
    int status = read_text(&reader, text);
    string_list_free(&reader.values.items);
    free(reader.seen);
    return status;
}

int flag_parse_file(struct flag_parse *parse, const char *path) {
    const char *ending = strrchr(path, '.');
    if (ending && (strcmp(ending, ".toml") == 0 || strcmp(ending, ".py") == 0 || strcmp(ending, ".sh") == 0))
        return error_set_code(EXIT_CODE_USAGE,
                              "--config reads flags and their values in YAML or JSON, not %s; write them as in "
                              "`num-layers: 12`, one per line",
                              path);
    struct buffer text = {0};
    int status = file_read_all(path, LARGEST_FILE_BYTES, &text);
    parse->has_variables = true;
    if (status == 0)
        status = parse_text(parse, path, &text);
    else
        status = error_set_code(EXIT_CODE_USAGE, "--config: %s", error_message());
    buffer_free(&text);
    return status;
}

int flags_read_text(const struct flag_command *command, void *options, const char *name, const char *text,
                    size_t length) {
    struct flag_parse parse = {.command = command, .options = options};
    struct buffer copy = {0};
    buffer_append(&copy, text, length);
    if (parse_text(&parse, name, &copy) < 0)
        flag_put_off(&parse);
    buffer_free(&copy);
    return flag_parse_end(&parse);
}
