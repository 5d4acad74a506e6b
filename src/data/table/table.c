// The kinds of tables, and what they share.
#include "data/table/table.h"
#include "data/bad_data.h"
#include "base/file.h"
#include "data/extract/ending.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const struct table_kind *const kinds[] = {&table_parquet};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

const struct table_kind *table_find(const char *path, const char *bytes, size_t count) {
    (void)path;
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i]->begins(bytes, count))
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
