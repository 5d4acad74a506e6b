// Tar (POSIX.1-2001 with pax headers, and GNU's long names), member by member: JSON Lines are delivered as they are,
// and a text is a row, in the first wanted column. A member is a header of 512 bytes and its content, filled up to
// blocks of 512 bytes. Members of other kinds are counted and named at the end.
#include "data/table/table.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/extract/inputs.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 512, LINES_BYTES = 1 << 18, PART_BYTES = 1 << 16, MOST_NAME_BYTES = 1 << 20 };
enum { AT_NAME = 0, AT_SIZE = 124, AT_SUM = 148, AT_TYPE = 156, AT_MAGIC = 257, AT_PREFIX = 345 };
enum { NAME_BYTES = 100, SIZE_BYTES = 12, SUM_BYTES = 8, PREFIX_BYTES = 155 };

struct tar {
    struct table_bytes bytes;
    struct buffer header, name, text;
    struct buffer next_name;  // of the next member, from a header of its own
    uint64_t next_size;       // in the same way; UINT64_MAX: none
    uint64_t begin;           // byte of the file where the header begins
    uint64_t left, padding;   // of a member of lines; after its content
    int64_t left_out;
    char *first_left_out;
};

// Octal digits, or a number of bytes, the highest first, after one with the highest bit.
static uint64_t number_of(const unsigned char *field, size_t bytes) {
    uint64_t number = 0;
    bool is_binary = field[0] & 0x80;
    for (size_t i = is_binary; i < bytes && (is_binary || (field[i] >= '0' && field[i] <= '7') || field[i] == ' '); i++)
        number = is_binary         ? number << 8 | field[i]
                 : field[i] == ' ' ? number
                                   : number << 3 | (field[i] - (unsigned)'0');
    return number;
}

// The checksum is the sum of the header's bytes, with the checksum itself counted as spaces.
static bool sum_is_right(const unsigned char *header) {
    uint64_t sum = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        sum += i >= AT_SUM && i < AT_SUM + SUM_BYTES ? ' ' : header[i];
    return sum == number_of(header + AT_SUM, SUM_BYTES);
}

static int damaged(const struct tar *tar, const char *problem) {
    return bad_data("%s: byte %" PRIu64 ": %s; copy or download the file again", tar->bytes.input.name, tar->begin,
                    problem);
}

static int take(struct tar *tar, uint64_t count, struct buffer *out) {
    int status = count > 0 ? table_take_bytes(&tar->bytes, count, out) : 1;
    return status == 0 ? damaged(tar, "the archive ends inside a member") : status;
}

static int sparse(const struct tar *tar) {
    return bad_data("%s: byte %" PRIu64 ": a sparse file of GNU tar; unpack the archive with `tar xf %s`",
                    tar->bytes.input.name, tar->begin, tar->bytes.input.name);
}

// Lines "LENGTH KEY=VALUE\n" for the next member.
static int take_pax(struct tar *tar) {
    const char *at = buffer_string(&tar->text), *end = at + tar->text.length;
    while (at < end) {
        char *key;
        uint64_t length = strtoull(at, &key, 10);
        const char *value = memchr(at, '=', (size_t)(end - at));
        if (length == 0 || length > (uint64_t)(end - at) || *key++ != ' ' || !value || value < key ||
            value + 1 >= at + length || at[length - 1] != '\n')
            return damaged(tar, "a pax header is damaged");
        size_t bytes = (size_t)(at + length - 1 - ++value);
        if (strncmp(key, "path=", 5) == 0) {
            buffer_clear(&tar->next_name);
            buffer_append(&tar->next_name, value, bytes);
        } else if (strncmp(key, "size=", 5) == 0) {
            tar->next_size = strtoull(value, NULL, 10);
        } else if (strncmp(key, "GNU.sparse.", 11) == 0) {
            return sparse(tar);
        }
        at += length;
    }
    return 0;
}

// A header that is about the next member.
static int take_extension(struct tar *tar, char type, uint64_t size) {
    if (size > MOST_NAME_BYTES)
        return damaged(tar, "a name has more than 1 MiB");
    buffer_clear(&tar->text);
    TRY(take(tar, size, &tar->text));
    TRY(take(tar, tar->padding, NULL));
    if (type == 'x')
        return take_pax(tar);
    buffer_clear(&tar->next_name);
    buffer_append_string(&tar->next_name, buffer_string(&tar->text));
    return 0;
}

static void find_name(struct tar *tar) {
    const char *header = tar->header.data;
    buffer_clear(&tar->name);
    if (tar->next_name.length > 0) {
        buffer_append(&tar->name, tar->next_name.data, tar->next_name.length);
    } else {
        // GNU's magic is "ustar ", and there other things are in place of the prefix.
        if (memcmp(header + AT_MAGIC, "ustar", 6) == 0 && header[AT_PREFIX])
            buffer_printf(&tar->name, "%.*s/", PREFIX_BYTES, header + AT_PREFIX);
        buffer_printf(&tar->name, "%.*s", NAME_BYTES, header + AT_NAME);
    }
    buffer_clear(&tar->next_name);
    tar->next_size = UINT64_MAX;
}

static int take_text(struct tar *tar, uint64_t size, struct buffer *lines) {
    if (size > TABLE_MOST_ROW_BYTES)
        return damaged(tar, "a text has more than 256 MiB");
    buffer_clear(&tar->text);
    TRY(take(tar, size, &tar->text));
    TRY(take(tar, tar->padding, NULL));
    struct json_writer line = table_begin_row(lines);
    json_key(&line, tar->bytes.input.columns.names[0]);
    json_string(&line, tar->text.data, tar->text.length);
    table_end_row(&line);
    return 0;
}

static int take_file(struct tar *tar, uint64_t size, struct buffer *lines) {
    static const char *const of_lines[] = {".jsonl", ".ndjson", ".json", NULL};
    static const char *const of_text[] = {".txt", ".text", ".md", NULL};
    const char *name = buffer_string(&tar->name), *slash = strrchr(name, '/');
    bool is_hidden = (slash ? slash[1] : *name) == '.', is_packed = ending_stem_bytes(name) < strlen(name);
    if (!is_hidden && !is_packed && ending_is_among(name, of_text))
        return take_text(tar, size, lines);
    if (!is_hidden && !is_packed && ending_is_among(name, of_lines)) {
        tar->left = size;
        return size > 0 ? 0 : take(tar, tar->padding, NULL);
    }
    if (!is_hidden && tar->left_out++ == 0)
        tar->first_left_out = memory_string(name);
    TRY(take(tar, size, NULL));
    return take(tar, tar->padding, NULL);
}

// Reads a header and what it says is not a file of lines: 1, 0 at the end of the archive.
static int take_member(struct tar *tar, struct buffer *lines) {
    tar->begin = tar->bytes.passed;
    buffer_clear(&tar->header);
    int status = table_take_bytes(&tar->bytes, BLOCK_BYTES, &tar->header);
    if (status <= 0)
        return status;
    const unsigned char *header = (const unsigned char *)tar->header.data;
    const char type = tar->header.data[AT_TYPE];
    // Blocks of zeros end an archive; another may have been appended.
    if (!header[0] && memcmp(header, header + 1, BLOCK_BYTES - 1) == 0)
        return 1;
    if (!sum_is_right(header))
        return damaged(tar, "the header of a member is damaged");
    const bool is_extension = type && strchr("xLgK", type);
    uint64_t size = number_of(header + AT_SIZE, SIZE_BYTES);
    if (!is_extension && tar->next_size != UINT64_MAX)
        size = tar->next_size;
    if (size >= INT64_MAX)
        return damaged(tar, "the header of a member is damaged");
    tar->padding = (BLOCK_BYTES - size % BLOCK_BYTES) % BLOCK_BYTES;
    if (type == 'x' || type == 'L')
        return take_extension(tar, type, size) < 0 ? -1 : 1;
    if (type == 'S')
        return sparse(tar);
    if (!is_extension)
        find_name(tar);
    if (type == '0' || type == 0 || type == '7')
        return take_file(tar, size, lines) < 0 ? -1 : 1;
    // Links, devices and folders have no content, whatever the size says.
    if (type >= '1' && type <= '6')
        return 1;
    TRY(take(tar, size, NULL));
    return take(tar, tar->padding, NULL) < 0 ? -1 : 1;
}

// Delivers a part of the lines of a member.
static int take_lines(struct tar *tar, struct buffer *lines) {
    uint64_t part = tar->left < PART_BYTES ? tar->left : PART_BYTES;
    TRY(take(tar, part, lines));
    tar->left -= part;
    if (tar->left > 0)
        return 1;
    if (lines->data[lines->length - 1] != '\n')
        buffer_append_byte(lines, '\n');
    return take(tar, tar->padding, NULL);
}

// ---- the kind ----

static void tar_close(void *state) {
    struct tar *tar = state;
    buffer_free(&tar->header);
    buffer_free(&tar->name);
    buffer_free(&tar->next_name);
    buffer_free(&tar->text);
    free(tar->first_left_out);
    free(tar);
}

static int tar_open(void **state, const struct table_input *input) {
    struct tar *tar = memory_alloc(sizeof *tar);
    table_bytes_begin(&tar->bytes, input, "", 0);
    tar->next_size = UINT64_MAX;
    *state = tar;
    return 0;
}

static int tar_next(void *state, struct buffer *lines) {
    struct tar *tar = state;
    size_t before = lines->length;
    int status = 1;
    while (lines->length - before < LINES_BYTES && status > 0)
        status = tar->left > 0 ? take_lines(tar, lines) : take_member(tar, lines);
    TRY(status);
    if (status == 0 && tar->left_out > 0) {
        log_warn("%s: files that end in neither .jsonl, .ndjson, .json, .txt, .text nor .md are not read: %" PRId64
                 ", the first is %s",
                 tar->bytes.input.name, tar->left_out, tar->first_left_out);
        tar->left_out = 0;
    }
    return lines->length > before;
}

static bool is_tar(const char *bytes, size_t count) {
    return count >= BLOCK_BYTES && bytes[0] &&
           (memcmp(bytes + AT_MAGIC, "ustar", 5) == 0 || sum_is_right((const unsigned char *)bytes));
}

const struct table_kind table_tar = {.name = "tar",
                                     .endings = {".tar", ".tgz"},
                                     .begins = is_tar,
                                     .open = tar_open,
                                     .next = tar_next,
                                     .close = tar_close};
