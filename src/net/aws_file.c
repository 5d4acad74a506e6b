// Reads the AWS tools' files. See credentials.h. Each lookup parses the text again: the files have few lines.
#include "net/credentials.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_BYTES = 1 << 20 };

enum line_kind { LINE_NOTHING, LINE_SECTION, LINE_VALUE, LINE_BAD };

struct aws_line {
    enum line_kind kind;
    const char *name, *value;
    size_t name_length, value_length;
};

static bool is_space(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static void trim(const char **begin, size_t *length) {
    while (*length > 0 && is_space(**begin)) {
        (*begin)++;
        (*length)--;
    }
    while (*length > 0 && is_space((*begin)[*length - 1]))
        (*length)--;
}

// "profile name" or "profile \"my name\"": keeps the words, one space between them, without quotes.
static void name_section(struct aws_line *line, const char *begin, size_t length) {
    trim(&begin, &length);
    line->kind = length > 0 ? LINE_SECTION : LINE_BAD;
    line->name = begin;
    line->name_length = length;
}

static struct aws_line parse_line(const char *begin, size_t length) {
    struct aws_line line = {0};
    bool is_indented = length > 0 && is_space(begin[0]);
    trim(&begin, &length);
    if (length == 0 || *begin == '#' || *begin == ';' || is_indented)
        return line;
    if (*begin == '[') {
        const char *end = memchr(begin, ']', length);
        line.kind = LINE_BAD;
        if (end)
            name_section(&line, begin + 1, (size_t)(end - begin) - 1);
        return line;
    }
    const char *equals = memchr(begin, '=', length);
    line.kind = equals && equals > begin ? LINE_VALUE : LINE_BAD;
    if (line.kind == LINE_BAD)
        return line;
    line.name = begin;
    line.name_length = (size_t)(equals - begin);
    line.value = equals + 1;
    line.value_length = length - line.name_length - 1;
    for (size_t i = 1; i < line.value_length; i++)
        if ((line.value[i] == '#' || line.value[i] == ';') && is_space(line.value[i - 1]))
            line.value_length = i;
    trim(&line.name, &line.name_length);
    trim(&line.value, &line.value_length);
    return line;
}

// Walks over the lines: false after the last.
static bool next_line(const struct aws_file *file, size_t *at, struct aws_line *line) {
    const char *text = buffer_string(&file->text);
    if (*at >= file->text.length)
        return false;
    const char *end = memchr(text + *at, '\n', file->text.length - *at);
    size_t length = end ? (size_t)(end - text) - *at : file->text.length - *at;
    *line = parse_line(text + *at, length);
    *at += length + 1;
    return true;
}

int aws_file_check(const struct aws_file *file) {
    struct aws_line line;
    int64_t number = 1;
    for (size_t at = 0; next_line(file, &at, &line); number++)
        if (line.kind == LINE_BAD)
            return error_set("%s line %lld is neither \"[profile]\" nor \"name = value\"; correct it", file->path,
                             (long long)number);
    return 0;
}

int aws_file_read(struct aws_file *file, const char *path) {
    *file = (struct aws_file){.path = path};
    if (!file_exists(path))
        return 0;
    if (file_read_all(path, MOST_BYTES, &file->text) < 0 || aws_file_check(file) < 0) {
        aws_file_free(file);
        return -1;
    }
    return 0;
}

void aws_file_free(struct aws_file *file) {
    if (file->text.data)
        explicit_bzero(file->text.data, file->text.length);
    buffer_free(&file->text);
}

// "profile  a" is "profile a", and quotes around the name are ignored.
static bool is_section(const struct aws_line *line, const char *section) {
    const char *name = line->name;
    size_t left = line->name_length;
    static const char word[] = "profile";
    size_t length = strlen(word);
    if (strncmp(section, "profile ", length + 1) == 0) {
        if (left <= length || memcmp(name, word, length) != 0 || !is_space(name[length]))
            return false;
        name += length;
        left -= length;
        section += length + 1;
        trim(&name, &left);
    }
    if (left >= 2 && (*name == '"' || *name == '\'') && name[left - 1] == *name) {
        name++;
        left -= 2;
    }
    return strlen(section) == left && memcmp(name, section, left) == 0;
}

bool aws_file_has_section(const struct aws_file *file, const char *section) {
    struct aws_line line;
    for (size_t at = 0; next_line(file, &at, &line);)
        if (line.kind == LINE_SECTION && is_section(&line, section))
            return true;
    return false;
}

char *aws_file_get(const struct aws_file *file, const char *section, const char *name) {
    struct aws_line line;
    char *value = NULL;
    bool is_inside = false;
    for (size_t at = 0; next_line(file, &at, &line);) {
        if (line.kind == LINE_SECTION)
            is_inside = is_section(&line, section);
        if (!is_inside || line.kind != LINE_VALUE || line.name_length != strlen(name) ||
            strncasecmp(line.name, name, line.name_length) != 0)
            continue;
        free(value);
        value = memory_printf("%.*s", (int)line.value_length, line.value);
    }
    return value;
}
