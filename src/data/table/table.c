// The kinds of tables, and what they share.
#include "data/table/table.h"
#include "base/error.h"
#include "base/file.h"
#include "data/extract/inputs.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct table_kind *const kinds[] = {&table_parquet, &table_arrow, &table_warc,         &table_tar,
                                                 &table_csv,     &table_tsv,   &table_json_objects, &table_json};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

const struct table_kind *table_find(const char *path, const char *bytes, size_t count) {
    for (size_t i = 0; i < KINDS; i++)
        if ((!kinds[i]->begins || kinds[i]->begins(bytes, count)) &&
            (!kinds[i]->needs_ending || ending_is_among(path, kinds[i]->endings)))
            return kinds[i];
    return NULL;
}

bool table_is_named(const char *path) {
    for (size_t i = 0; i < KINDS; i++)
        if (ending_is_among(path, kinds[i]->endings))
            return true;
    return false;
}

int table_read_at(const struct table_input *input, uint64_t begin, void *out, size_t count) {
    if (begin > input->size || count > input->size - begin)
        return bad_data("%s ends at byte %" PRIu64 ", before its data; copy or download it again", input->name,
                        input->size);
    if (input->descriptor < 0)
        return remote_read(&input->object, begin, out, count, NULL);
    size_t got = file_read_at(input->descriptor, out, count, begin);
    if (got == count)
        return 0;
    return error_set("cannot read %s at byte %" PRIu64 ": %s; check the file and the disk", input->name, begin + got,
                     errno ? strerror(errno) : "it was truncated");
}

void table_note_column(struct buffer *others, const char *name) {
    enum { MOST_BYTES = 400 };
    if (others->length < MOST_BYTES)
        buffer_printf(others, "%s%s", others->length > 0 ? ", " : "", name);
    else if (strcmp(others->data + others->length - 3, "…") != 0)
        buffer_append_string(others, ", …");
}

int table_refuse_column(const struct table_input *input, const char *column, const struct buffer *others) {
    return bad_data("%s has no column \"%s\" of text%s%s; name the column that holds the text with --json-keys",
                    input->name, column, others->length > 0 ? ", only " : ", nor any other", buffer_string(others));
}

struct json_writer table_begin_row(struct buffer *lines) {
    struct json_writer line = {.out = lines, .keeps_bytes = true};
    json_begin_object(&line);
    return line;
}

void table_end_row(struct json_writer *line) {
    json_end_object(line);
    buffer_append_byte(line->out, '\n');
}

enum { BAD_ROW = '!', MOST_PROBLEM_BYTES = 240 };

void table_add_bad_row(struct buffer *lines, const char *format, ...) {
    char problem[MOST_PROBLEM_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    buffer_printf(lines, "%c%s\n", BAD_ROW, problem);
}

// The line may as well be one of JSON Lines, with anything in it.
bool table_is_bad_row(const char *line, size_t length, struct buffer *problem) {
    if (length == 0 || length > MOST_PROBLEM_BYTES || *line != BAD_ROW)
        return false;
    for (size_t i = 1; i < length; i++)
        buffer_append_byte(problem, line[i] >= ' ' && line[i] <= '~' ? line[i] : '?');
    return true;
}

void table_bytes_begin(struct table_bytes *bytes, const struct table_input *input, const char *marks, size_t count) {
    bytes->input = *input;
    for (size_t i = 0; i < count; i++)
        bytes->is_mark[(unsigned char)marks[i]] = true;
}

static int64_t fill(struct table_bytes *bytes) {
    int64_t got = bytes->input.read(bytes->input.context, bytes->piece, sizeof bytes->piece);
    bool has_mark = bytes->passed == 0 && got >= 3 && memcmp(bytes->piece, "\xEF\xBB\xBF", 3) == 0;
    bytes->at = has_mark ? 3 : 0;
    bytes->passed += bytes->at;
    bytes->end = got > 0 ? (size_t)got : 0;
    return got;
}

static int64_t refill(struct table_bytes *bytes) {
    int64_t status = 1;
    while (bytes->at == bytes->end && status > 0)
        status = fill(bytes);
    return status;
}

int table_take_bytes(struct table_bytes *bytes, uint64_t count, struct buffer *out) {
    for (uint64_t left = count; left > 0;) {
        int64_t status = refill(bytes);
        TRY((int)status);
        if (status == 0 && left < count)
            return bad_data("%s ends at byte %" PRIu64 ", inside what it holds; copy or download it again",
                            bytes->input.name, bytes->passed);
        if (status == 0)
            return 0;
        size_t here = bytes->end - bytes->at, part = left < here ? (size_t)left : here;
        if (out)
            buffer_append(out, bytes->piece + bytes->at, part);
        bytes->at += part;
        bytes->passed += part;
        left -= part;
    }
    return 1;
}

int64_t table_take(struct table_bytes *bytes, const char **taken) {
    int64_t status = refill(bytes);
    if (status <= 0)
        return status;
    size_t end = bytes->at;
    while (end < bytes->end && !bytes->is_mark[(unsigned char)bytes->piece[end]])
        end++;
    end += end == bytes->at;
    *taken = bytes->piece + bytes->at;
    size_t count = end - bytes->at;
    bytes->at = end;
    bytes->passed += count;
    return (int64_t)count;
}
