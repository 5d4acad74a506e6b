// {| … |}: removes tables and everything nested in them. A stack first pairs each "{|" with its "|}", so that an
// unclosed table loses only its own lines: those after it that look like rows, up to the next heading.
#include "data/extract/wiki_passes.h"
#include "base/memory.h"
#include <stdlib.h>

struct table {
    size_t begin, end;  // end is 0 if it is never closed
};

struct tables {
    struct table *all;  // in order of their beginnings
    int64_t count, capacity;
    int64_t *open;  // stack of indices into all
    int64_t open_count;
};

// The first byte of the line that is not white space, an indent (:) or WIKI_DROP.
static size_t first_of_line(const struct buffer *text, size_t at) {
    while (at < text->length &&
           (text->data[at] == ' ' || text->data[at] == '\t' || text->data[at] == ':' || text->data[at] == WIKI_DROP))
        at++;
    return at;
}

static size_t next_line(const struct buffer *text, size_t at) {
    const char *newline = at < text->length ? memchr(text->data + at, '\n', text->length - at) : NULL;
    return newline ? (size_t)(newline - text->data) + 1 : text->length;
}

static bool is_pair(const struct buffer *text, size_t at, char first, char second) {
    return at + 1 < text->length && text->data[at] == first && text->data[at + 1] == second;
}

static void open_table(struct tables *tables, size_t begin) {
    if (tables->count == tables->capacity) {
        tables->capacity = tables->capacity ? 2 * tables->capacity : 16;
        tables->all = memory_realloc(tables->all, (size_t)tables->capacity * sizeof *tables->all);
        tables->open = memory_realloc(tables->open, (size_t)tables->capacity * sizeof *tables->open);
    }
    tables->open[tables->open_count++] = tables->count;
    tables->all[tables->count++] = (struct table){begin, 0};
}

static void find_tables(struct tables *tables, const struct buffer *text) {
    for (size_t line = 0; line < text->length; line = next_line(text, line)) {
        size_t at = first_of_line(text, line);
        if (is_pair(text, at, '{', '|'))
            open_table(tables, line);
        else if (is_pair(text, at, '|', '}') && tables->open_count)
            tables->all[tables->open[--tables->open_count]].end = at + 2;
    }
}

void wiki_tables(struct buffer *text) {
    if (!text->length || !memmem(text->data, text->length, "{|", 2))
        return;
    struct tables tables = {0};
    find_tables(&tables, text);
    size_t kept = 0, line = 0;
    int64_t next = 0;
    bool in_rest = false;  // of an unclosed table
    while (line < text->length) {
        while (next < tables.count && tables.all[next].begin < line)
            next++;
        size_t at = first_of_line(text, line), end = next_line(text, line);
        if (next < tables.count && tables.all[next].begin == line && tables.all[next].end) {
            line = tables.all[next].end;
            continue;
        }
        if (next < tables.count && tables.all[next].begin == line)
            in_rest = true;
        else if (at < text->length && text->data[at] == '=')
            in_rest = false;
        bool is_row = at < text->length && strchr("|!{", text->data[at]) && text->data[at];
        if (!in_rest || !is_row) {
            memmove(text->data + kept, text->data + line, end - line);
            kept += end - line;
        }
        line = end;
    }
    text->length = kept;
    text->data[kept] = '\0';
    free(tables.all);
    free(tables.open);
}
