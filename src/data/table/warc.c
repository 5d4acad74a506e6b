// WARC (ISO 28500) and the WET files of Common Crawl: records of a version, headers, an empty line and as many bytes as
// Content-Length says. A record of type conversion has the text of a page: it becomes a row, other records about pages
// are passed over. Pages themselves are refused: models learn from their text.
#include "data/table/table.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LINES_BYTES = 1 << 18, MOST_HEADER_BYTES = 1 << 16 };

struct warc {
    struct table_bytes bytes;
    struct buffer line, text, type, url;  // of the record
    uint64_t begin, length;               // byte of the file where it begins; of its content
    bool has_length;
};

// Reads a line of a header, without its end: 1, 0 at the end of the file.
static int read_line(struct warc *warc) {
    const char *taken;
    int64_t count = 1;
    buffer_clear(&warc->line);
    while ((count = table_take(&warc->bytes, &taken)) > 0 && *taken != '\n') {
        buffer_append(&warc->line, taken, (size_t)count);
        if (warc->line.length > MOST_HEADER_BYTES)
            return bad_data("%s: byte %" PRIu64 ": a header of a WARC record is longer than %d bytes",
                            warc->bytes.input.name, warc->begin, MOST_HEADER_BYTES);
    }
    if (warc->line.length > 0 && warc->line.data[warc->line.length - 1] == '\r')
        warc->line.data[--warc->line.length] = 0;
    return count < 0 ? -1 : count > 0 || warc->line.length > 0;
}

static int damaged(const struct warc *warc, const char *problem) {
    return bad_data("%s: byte %" PRIu64 ": %s; copy or download the file again", warc->bytes.input.name, warc->begin,
                    problem);
}

static void take_header(struct warc *warc) {
    const char *line = buffer_string(&warc->line), *value = strchr(line, ':');
    size_t length = value ? (size_t)(value - line) : 0;
    struct buffer *kept = NULL;
    if (!value)
        return;
    for (value++; *value == ' ' || *value == '\t';)
        value++;
    if (length == 9 && strncasecmp(line, "WARC-Type", length) == 0)
        kept = &warc->type;
    else if (length == 15 && strncasecmp(line, "WARC-Target-URI", length) == 0)
        kept = &warc->url;
    if (kept) {
        buffer_clear(kept);
        buffer_append_string(kept, value);
    }
    char *end;
    if (length == 14 && strncasecmp(line, "Content-Length", length) == 0 && *value >= '0' && *value <= '9') {
        warc->length = strtoull(value, &end, 10);
        warc->has_length = *end == 0 && warc->length < INT64_MAX;
    }
}

// Reads the headers of the next record: 1, 0 at the end of the file.
static int begin_record(struct warc *warc) {
    int status;
    do {
        warc->begin = warc->bytes.passed;
        status = read_line(warc);
    } while (status > 0 && warc->line.length == 0);
    if (status <= 0)
        return status;
    if (strncmp(buffer_string(&warc->line), "WARC/", 5) != 0)
        return damaged(warc, "a WARC record does not begin with WARC/");
    buffer_clear(&warc->type);
    buffer_clear(&warc->url);
    warc->has_length = false;
    while ((status = read_line(warc)) > 0 && warc->line.length > 0)
        take_header(warc);
    TRY(status);
    return status > 0 && warc->has_length ? 1 : damaged(warc, "a WARC record ends early or has no Content-Length");
}

static void write_row(const struct warc *warc, struct buffer *lines) {
    const struct table_columns *columns = &warc->bytes.input.columns;
    struct json_writer line = table_begin_row(lines);
    for (int64_t i = 0; i < columns->count; i++) {
        const struct buffer *cell = strcmp(columns->names[i], "url") == 0 ? &warc->url : &warc->text;
        json_key(&line, columns->names[i]);
        json_string(&line, cell->data, cell->length);
    }
    table_end_row(&line);
}

static int take_record(struct warc *warc, struct buffer *lines) {
    const char *type = buffer_string(&warc->type);
    bool is_text = strcmp(type, "conversion") == 0;
    if (strcmp(type, "response") == 0)
        return bad_data("%s: byte %" PRIu64 ": a web page as it was sent, not its text; take the crawl's WET files, or "
                        "extract the text: `trafilatura` or `warcio extract` and `pandoc -f html -t plain`",
                        warc->bytes.input.name, warc->begin);
    if (is_text && warc->length > TABLE_MOST_ROW_BYTES)
        return damaged(warc, "a text has more than 256 MiB");
    buffer_clear(&warc->text);
    int status = table_take_bytes(&warc->bytes, warc->length, is_text ? &warc->text : NULL);
    TRY(status);
    if (status == 0 && warc->length > 0)
        return damaged(warc, "a WARC record ends early");
    if (is_text)
        write_row(warc, lines);
    return 0;
}

// ---- the kind ----

static void warc_close(void *state) {
    struct warc *warc = state;
    buffer_free(&warc->line);
    buffer_free(&warc->text);
    buffer_free(&warc->type);
    buffer_free(&warc->url);
    free(warc);
}

static int warc_open(void **state, const struct table_input *input) {
    OWNED_BY(buffer_free) struct buffer others = {0};
    table_note_column(&others, "text");
    table_note_column(&others, "url");
    for (int64_t i = 0; i < input->columns.count; i++)
        if (strcmp(input->columns.names[i], "text") != 0 && strcmp(input->columns.names[i], "url") != 0)
            return table_refuse_column(input, input->columns.names[i], &others);
    struct warc *warc = memory_alloc(sizeof *warc);
    table_bytes_begin(&warc->bytes, input, "\n", 1);
    *state = warc;
    return 0;
}

static int warc_next(void *state, struct buffer *lines) {
    struct warc *warc = state;
    size_t before = lines->length;
    int status = 1;
    while (lines->length - before < LINES_BYTES && (status = begin_record(warc)) > 0)
        TRY(take_record(warc, lines));
    TRY(status);
    return lines->length > before;
}

static bool is_warc(const char *bytes, size_t count) {
    return count >= 7 && (memcmp(bytes, "WARC/1.", 7) == 0 || memcmp(bytes, "WARC/0.", 7) == 0);
}

const struct table_kind table_warc = {.name = "WARC",
                                      .endings = {".warc", ".wet"},
                                      .begins = is_warc,
                                      .open = warc_open,
                                      .next = warc_next,
                                      .close = warc_close};
