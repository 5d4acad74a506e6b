// Documents of a task: a file of JSON lines. See internal.h.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "evaluate/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILE_BYTES = 1 << 30, MOST_LINE_BYTES = 1 << 24 };

static int parse_line(struct documents *documents, struct document_line line) {
    struct json *root;
    if (line.length > MOST_LINE_BYTES)
        return bad_data("the line has %zu bytes; %d is the most", line.length, MOST_LINE_BYTES);
    TRY(json_parse(&root, line.at, line.length, "the line"));
    int64_t capacity = documents->capacity;
    MEMORY_GROW(documents->roots, documents->count, capacity);
    MEMORY_GROW(documents->lines, documents->count, documents->capacity);
    documents->lines[documents->count] = line;
    documents->roots[documents->count++] = root;
    return root->type == JSON_OBJECT ? 0 : bad_data("it is not a JSON object");
}

int documents_context(const struct documents *documents, int64_t number) {
    return error_context("%s:%" PRId64, documents->path, documents->lines[number].number);
}

int documents_parse(struct documents *documents) {
    const char *at = buffer_string(&documents->file), *end = at + documents->file.length;
    for (int64_t number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        struct document_line line = {at, (size_t)(stop - at), number};
        at = newline ? newline + 1 : end;
        if (strspn(line.at, " \t\r") < line.length && parse_line(documents, line) < 0)
            return error_context("%s:%" PRId64, documents->path, number);
    }
    return documents->count > 0 ? 0 : bad_data("%s has no documents", documents->path);
}

int documents_read(struct documents *documents, const char *path) {
    documents->path = memory_string(path);
    TRY(file_read_all(path, MOST_FILE_BYTES, &documents->file));
    return documents_parse(documents);
}

void documents_free(struct documents *documents) {
    for (int64_t i = 0; i < documents->count; i++)
        json_free(documents->roots[i]);
    free(documents->roots);
    free(documents->lines);
    free(documents->path);
    buffer_free(&documents->file);
    *documents = (struct documents){0};
}
