// Reads YAML into a tree, line by line. See yaml.h for the supported subset.
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include "cluster/yaml.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 64 };

struct yaml_line {
    char *text;  // without indentation and comment
    size_t indent;
    int64_t number;
};

struct yaml_reader {
    const char *path;
    struct yaml_line *lines;
    size_t count, at;
    int64_t number;  // of the current line, for messages
};

static int refuse(const struct yaml_reader *reader, const char *what) {
    return error_set_code(EXIT_CODE_USAGE, "%s:%lld: %s", reader->path, (long long)reader->number, what);
}

static int split_lines(struct yaml_reader *reader, char *text) {
    size_t capacity = 0;
    for (char *line = text; line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        reader->number++;
        size_t indent = strspn(line, " ");
        if (line[indent] == '\t')
            return refuse(reader, "a tab; indent with spaces");
        for (const char *c = line; *c; c++)
            if (iscntrl((unsigned char)*c) && *c != '\t' && !(*c == '\r' && !c[1]))
                return refuse(reader, "a control character; this is not YAML");
        yaml_line_trim(line + indent, " [,{");
        const char *words = line + indent;
        bool is_mark = indent == 0 && strcmp(words, "---") == 0;
        if (is_mark && reader->count > 0)
            return refuse(reader, "a second document; one file is one pod");
        if (*words && !is_mark) {
            MEMORY_GROW(reader->lines, reader->count, capacity);
            reader->lines[reader->count++] = (struct yaml_line){line + indent, indent, reader->number};
        }
        line = end ? end + 1 : NULL;
    }
    return 0;
}

// One escape of a double-quoted scalar; *cursor is at the letter after the backslash, and moves past it.
static int read_escape(const struct yaml_reader *reader, const char **cursor, struct buffer *out) {
    static const char from[] = "\"\\/ntrbf0e", to[] = "\"\\/\n\t\r\b\f\0\x1b";
    char letter = **cursor;
    const char *found = letter ? strchr(from, letter) : NULL;
    if (letter == 'u' || letter == 'x') {
        size_t digits = letter == 'u' ? 4 : 2;
        char hex[5] = {0};
        if (strspn(*cursor + 1, "0123456789abcdefABCDEF") < digits)
            return refuse(reader, "an escape \\u or \\x without its digits");
        memcpy(hex, *cursor + 1, digits);
        unsigned long code = strtoul(hex, NULL, 16);
        if (code == 0 || (code >= 0xd800 && code < 0xe000))
            return refuse(reader, "an escape that is not a character");
        if (code < 0x80) {
            buffer_append_byte(out, (char)code);
        } else if (code < 0x800) {
            buffer_append_byte(out, (char)(0xc0 | code >> 6));
            buffer_append_byte(out, (char)(0x80 | (code & 0x3f)));
        } else {
            buffer_append_byte(out, (char)(0xe0 | code >> 12));
            buffer_append_byte(out, (char)(0x80 | (code >> 6 & 0x3f)));
            buffer_append_byte(out, (char)(0x80 | (code & 0x3f)));
        }
        *cursor += 1 + digits;
        return 0;
    }
    if (!found || letter == '0')
        return refuse(reader, "an escape that is not understood in \"…\"; use '…' for plain backslashes");
    buffer_append_byte(out, to[found - from]);
    (*cursor)++;
    return 0;
}

static int read_quoted(const struct yaml_reader *reader, const char **cursor, struct buffer *out) {
    const char quote = **cursor;
    const char *p = *cursor + 1;
    while (*p) {
        if (quote == '"' && *p == '\\') {
            p++;
            TRY(read_escape(reader, &p, out));
        } else if (*p != quote) {
            buffer_append_byte(out, *p++);
        } else if (quote == '\'' && p[1] == '\'') {
            buffer_append_byte(out, '\'');
            p += 2;
        } else {
            *cursor = p + 1;
            return 0;
        }
    }
    return refuse(reader, "a quote is opened and not closed on the same line");
}

static void set_scalar(struct yaml_node *node, const struct buffer *text, bool is_quoted) {
    node->kind = YAML_SCALAR;
    node->text = memory_string(buffer_string(text));
    node->is_quoted = is_quoted;
}

static bool is_dash(const char *text) {
    return *text == '-' && (text[1] == ' ' || !text[1]);
}

// A scalar that ends at one of the terminators (inside flow lists and maps) or with the line.
static int read_scalar(const struct yaml_reader *reader, const char **cursor, const char *terminators,
                       struct yaml_node *node) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    bool is_quoted = **cursor == '"' || **cursor == '\'';
    int status = 0;
    if (is_quoted) {
        status = read_quoted(reader, cursor, &text);
    } else if (**cursor && strchr("&*!|>%@`", **cursor)) {
        status =
            refuse(reader, "anchors, aliases, tags and block scalars are not understood; write the value out, strings "
                           "in quotes");
    } else {
        size_t length = strcspn(*cursor, terminators), end = length;
        while (end > 0 && (*cursor)[end - 1] == ' ')
            end--;
        buffer_append(&text, *cursor, end);
        *cursor += length;
        const char *plain = buffer_string(&text);
        if (strstr(plain, ": ") || (end > 0 && plain[end - 1] == ':'))
            status = refuse(reader, "a second colon; put the value in quotes");
        else if (is_dash(plain) || *plain == '#')
            status = refuse(reader, "a value that begins with - or # must stand in quotes");
        else if (strstr(plain, " #") || strstr(plain, "\t#"))
            // Not cut off as a comment because an earlier quote looks open; other readers would cut it.
            status = refuse(reader, "a comment after a tab or an open quote; put the value or the key in quotes");
    }
    if (status == 0) {
        *cursor += strspn(*cursor, " ");
        if (**cursor && !strchr(terminators, **cursor))
            status = refuse(reader, "there is text after a value");
    }
    if (status == 0)
        set_scalar(node, &text, is_quoted);
    return status;
}

static int read_flow(const struct yaml_reader *reader, const char **cursor, int depth, struct yaml_node *node);

static int add_member(const struct yaml_reader *reader, struct yaml_node *map, const char *key,
                      struct yaml_node value) {
    if (key && yaml_tree_member(map, key)) {
        yaml_tree_free(&value);
        return error_set_code(EXIT_CODE_USAGE, "%s:%lld: %s is set a second time", reader->path,
                              (long long)reader->number, key);
    }
    yaml_tree_add(map, key, value);
    return 0;
}

static int read_flow_value(const struct yaml_reader *reader, const char **cursor, int depth, struct yaml_node *node) {
    if (**cursor == '[' || **cursor == '{')
        return read_flow(reader, cursor, depth + 1, node);
    return read_scalar(reader, cursor, ",]}", node);
}

// [a, b] or {a: b}, possibly nested.
static int read_flow(const struct yaml_reader *reader, const char **cursor, int depth, struct yaml_node *node) {
    const bool is_map = **cursor == '{';
    const char close = is_map ? '}' : ']';
    *node = (struct yaml_node){.kind = is_map ? YAML_MAP : YAML_LIST};
    if (depth > MOST_DEPTH)
        return refuse(reader, "too many levels");
    *cursor += 1 + strspn(*cursor + 1, " ");
    while (**cursor != close) {
        struct yaml_node key = {0}, value = {0};
        int status = **cursor ? 0 : refuse(reader, "a list or map is opened and not closed on the same line");
        if (status == 0 && is_map) {
            status = read_scalar(reader, cursor, ":", &key);
            if (status == 0 && **cursor != ':')
                status = refuse(reader, "a member of {…} is not `key: value`");
            if (status == 0)
                *cursor += 1 + strspn(*cursor + 1, " ");
        }
        if (status == 0)
            status = read_flow_value(reader, cursor, depth, &value);
        if (status == 0)
            status = add_member(reader, node, is_map ? key.text : NULL, value);
        else
            yaml_tree_free(&value);
        yaml_tree_free(&key);
        TRY(status);
        *cursor += strspn(*cursor, " ");
        if (**cursor == ',')
            *cursor += 1 + strspn(*cursor + 1, " ");
        else if (**cursor != close)
            return refuse(reader, "a list or map lacks a comma, or is not closed on the same line");
    }
    *cursor += 1 + strspn(*cursor + 1, " ");
    return 0;
}

// A value on the same line as its key or dash.
static int read_inline(const struct yaml_reader *reader, const char *text, int depth, struct yaml_node *node) {
    if (*text != '[' && *text != '{')
        return read_scalar(reader, &text, "", node);
    TRY(read_flow(reader, &text, depth + 1, node));
    return *text ? refuse(reader, "there is text after a list or map") : 0;
}

// Start of the value of "key: value", and the key; NULL if the line is not of that form.
static const char *split_key(const struct yaml_reader *reader, const char *text, struct buffer *key) {
    const char *begin = text;
    if (*text == '"' || *text == '\'') {
        if (read_quoted(reader, &text, key) < 0) {
            error_clear();
            return NULL;
        }
    } else if (*text == '[' || *text == '{') {
        return NULL;
    } else {
        const char *colon = text;
        while (*colon && !(*colon == ':' && (colon[1] == ' ' || !colon[1])))
            colon++;
        buffer_append(key, text, (size_t)(colon - text));
        text = colon;
    }
    if (*text != ':' || (text[1] && text[1] != ' ') || (key->length == 0 && text == begin))
        return NULL;
    return text + 1 + strspn(text + 1, " ");
}

static int read_block(struct yaml_reader *reader, size_t indent, int depth, struct yaml_node *node);

// The block below a key or dash without a value; null if there is none.
static int read_below(struct yaml_reader *reader, size_t indent, bool is_key, int depth, struct yaml_node *node) {
    const struct yaml_line *next = reader->at < reader->count ? &reader->lines[reader->at] : NULL;
    if (next && (next->indent > indent || (is_key && next->indent == indent && is_dash(next->text))))
        return read_block(reader, next->indent, depth + 1, node);
    struct buffer nothing = {0};
    set_scalar(node, &nothing, false);
    return 0;
}

static int read_item(struct yaml_reader *reader, size_t indent, int depth, struct yaml_node *list) {
    struct yaml_line *line = &reader->lines[reader->at];
    struct yaml_node value = {0};
    OWNED_BY(buffer_free) struct buffer key = {0};
    char *text = line->text + 1;
    size_t blanks = strspn(text, " ");
    text += blanks;
    int status;
    if (!*text) {
        reader->at++;
        status = read_below(reader, indent, false, depth, &value);
    } else if (is_dash(text) || split_key(reader, text, &key)) {
        // A map or list that begins on the dash's line: its first line is further in.
        line->text = text;
        line->indent = indent + 1 + blanks;
        status = read_block(reader, line->indent, depth + 1, &value);
    } else {
        reader->at++;
        status = read_inline(reader, text, depth, &value);
    }
    if (status == 0)
        yaml_tree_add(list, NULL, value);
    else
        yaml_tree_free(&value);
    return status;
}

static int read_entry(struct yaml_reader *reader, size_t indent, int depth, struct yaml_node *map) {
    OWNED_BY(buffer_free) struct buffer key = {0};
    struct yaml_node value = {0};
    const char *text = split_key(reader, reader->lines[reader->at].text, &key);
    if (!text)
        return refuse(reader, "a line is neither `key: value` nor `- item`");
    reader->at++;
    int64_t number = reader->number;
    int status = *text ? read_inline(reader, text, depth, &value) : read_below(reader, indent, true, depth, &value);
    reader->number = status == 0 ? number : reader->number;
    if (status == 0)
        status = add_member(reader, map, buffer_string(&key), value);
    else
        yaml_tree_free(&value);
    return status;
}

// The lines of one map or list, all at the same indentation.
static int read_block(struct yaml_reader *reader, size_t indent, int depth, struct yaml_node *node) {
    bool is_list = is_dash(reader->lines[reader->at].text);
    *node = (struct yaml_node){.kind = is_list ? YAML_LIST : YAML_MAP};
    reader->number = reader->lines[reader->at].number;
    if (depth > MOST_DEPTH)
        return refuse(reader, "too many levels");
    while (reader->at < reader->count && reader->lines[reader->at].indent >= indent) {
        const struct yaml_line *line = &reader->lines[reader->at];
        reader->number = line->number;
        if (line->indent > indent)
            return refuse(reader, "an indentation that fits nothing above it");
        if (is_dash(line->text) != is_list)
            return is_list ? 0 : refuse(reader, "a list item among the members of a map");
        TRY(is_list ? read_item(reader, indent, depth, node) : read_entry(reader, indent, depth, node));
    }
    return 0;
}

static int from_json(const char *path, const struct json *json, struct yaml_node *node) {
    static const char *const words[] = {[JSON_NULL] = "null", [JSON_FALSE] = "false", [JSON_TRUE] = "true"};
    *node = (struct yaml_node){0};
    if (json->type == JSON_OBJECT || json->type == JSON_ARRAY) {
        node->kind = json->type == JSON_OBJECT ? YAML_MAP : YAML_LIST;
        for (size_t i = 0; i < json->count; i++) {
            const char *key = json->type == JSON_OBJECT ? json->keys[i].string : NULL;
            struct yaml_node item;
            int status = from_json(path, &json->items[i], &item);
            if (status == 0 && key && yaml_tree_member(node, key))
                status = error_set_code(EXIT_CODE_USAGE, "%s: %s is set a second time", path, key);
            yaml_tree_add(node, key, item);
            TRY(status);
        }
        return 0;
    }
    bool is_text = json->type == JSON_STRING || json->type == JSON_NUMBER;
    node->text = memory_string(is_text ? json->string : words[json->type]);
    node->is_quoted = json->type == JSON_STRING;
    return 0;
}

static int read_lines(struct yaml_reader *reader, char *copy, struct yaml_node *root) {
    TRY(split_lines(reader, copy));
    if (reader->count == 0)
        return 0;
    reader->number = reader->lines[0].number;
    if (is_dash(reader->lines[0].text))
        return refuse(reader, "a list; a map of fields is expected");
    TRY(read_block(reader, reader->lines[0].indent, 0, root));
    if (reader->at < reader->count) {
        reader->number = reader->lines[reader->at].number;
        return refuse(reader, "an indentation that fits nothing above it");
    }
    return 0;
}

int yaml_tree_parse(struct yaml_node *root, const char *text, size_t length, const char *path) {
    *root = (struct yaml_node){.kind = YAML_MAP};
    struct yaml_reader reader = {.path = path};
    if (memchr(text, 0, length))
        return error_set_code(EXIT_CODE_USAGE, "%s has NUL bytes; it is not YAML", path);
    size_t blanks = strspn(text, " \r\n\t");
    if (text[blanks] == '{') {
        OWNED struct json *json = NULL;
        TRY(json_parse(&json, text, length, path));
        return from_json(path, json, root);
    }
    OWNED char *copy = memory_alloc(length + 1);
    memcpy(copy, text, length);
    int status = read_lines(&reader, copy, root);
    free(reader.lines);
    return status;
}
