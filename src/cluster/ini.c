// Parses INI files. See ini.h.
#include "cluster/ini.h"
#include "base/error.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct ini_reader {
    struct ini_document *document;
    const char *path;
    int64_t line;
    const char *kind, *name;  // of the section
    size_t capacity;
    bool has_value;  // the previous line belongs to a value of this section
};

static int refuse(const struct ini_reader *reader, const char *what) {
    return error_set_code(EXIT_CODE_USAGE, "%s:%lld: %s", reader->path, (long long)reader->line, what);
}

// Removes spaces at both ends, in place.
static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]))
        length--;
    text[length] = 0;
    return text;
}

static void cut_comment(char *line) {
    for (char *c = line; *c; c++)
        if ((*c == '#' || *c == ';') && (c == line || c[-1] == ' ' || c[-1] == '\t')) {
            *c = 0;
            return;
        }
}

static int read_section(struct ini_reader *reader, char *line) {
    char *end = strchr(line, ']');
    if (!end || *trim(end + 1))
        return refuse(reader, "a section is [NAME]");
    *end = 0;
    char *words = trim(line + 1), *space = words + strcspn(words, " \t");
    if (!*words)
        return refuse(reader, "a section without a name");
    reader->name = *space ? trim(space + 1) : "";
    *space = 0;
    reader->kind = words;
    reader->has_value = false;
    return 0;
}

// An indented line continues the value before it. Its words move to the end of that value, which is further to the
// front of the same text.
static int read_continuation(struct ini_reader *reader, const char *words) {
    struct ini_document *document = reader->document;
    if (!reader->has_value)
        return refuse(reader, "an indented line without a value before it");
    struct ini_entry *entry = &document->entries[document->count - 1];
    char *end = document->text + (entry->value - document->text) + strlen(entry->value);
    if (*entry->value)
        *end++ = ' ';
    memmove(end, words, strlen(words) + 1);
    return 0;
}

static int read_entry(struct ini_reader *reader, char *line) {
    char *equals = line + strcspn(line, "=:");
    if (!*equals)
        return refuse(reader, "neither a section nor `key = value`");
    if (!reader->kind)
        return refuse(reader, "a value before the first section");
    *equals = 0;
    struct ini_document *document = reader->document;
    if (document->count == reader->capacity) {
        reader->capacity = reader->capacity ? 2 * reader->capacity : 64;
        document->entries = memory_realloc(document->entries, sizeof *document->entries * reader->capacity);
    }
    struct ini_entry entry = {
        .kind = reader->kind, .name = reader->name, .key = trim(line), .value = trim(equals + 1), .line = reader->line};
    if (!*entry.key)
        return refuse(reader, "a value without a key");
    document->entries[document->count++] = entry;
    reader->has_value = true;
    return 0;
}

static int read_line(struct ini_reader *reader, char *line) {
    bool is_indented = *line == ' ' || *line == '\t';
    for (const char *c = line; *c; c++)
        if (iscntrl((unsigned char)*c) && *c != '\t' && *c != '\r')
            return refuse(reader, "a control character; this is not an INI file");
    cut_comment(line);
    line = trim(line);
    if (!*line)
        return 0;
    if (*line == '[')
        return read_section(reader, line);
    return is_indented && !strchr(line, '=') ? read_continuation(reader, line) : read_entry(reader, line);
}

int ini_parse(struct ini_document *document, const char *text, size_t length, const char *path) {
    *document = (struct ini_document){.text = memory_alloc(length + 1)};
    struct ini_reader reader = {.document = document, .path = path};
    if (memchr(text, 0, length))
        return error_set_code(EXIT_CODE_USAGE, "%s has NUL bytes; it is not an INI file", path);
    memcpy(document->text, text, length);
    for (char *line = document->text; line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        reader.line++;
        TRY(read_line(&reader, line));
        line = end ? end + 1 : NULL;
    }
    return 0;
}

void ini_free(struct ini_document *document) {
    free(document->text);
    free(document->entries);
    *document = (struct ini_document){0};
}
