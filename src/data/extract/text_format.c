// Tells JSON Lines from plain text, by name and then by content.
#include "data/extract/inputs.h"
#include "base/error.h"
#include "base/file.h"
#include "data/extract/reader.h"
#include "net/url.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// ---- endings of names ----

static bool ends_with(const char *name, size_t length, const char *ending) {
    size_t bytes = strlen(ending);
    return length > bytes && memcmp(name + length - bytes, ending, bytes) == 0;
}

size_t ending_stem_bytes(const char *name) {
    static const char *const compressions[] = {".gz", ".bz2", ".xz", ".zst", NULL};
    size_t length = strlen(name);
    for (const char *const *compression = compressions; *compression; compression++)
        if (ends_with(name, length, *compression))
            return length - strlen(*compression);
    return length;
}

bool ending_is_among(const char *name, const char *const *endings) {
    size_t length = ending_stem_bytes(name);
    for (; *endings; endings++)
        if (ends_with(name, length, *endings))
            return true;
    return false;
}

// ---- text or JSON Lines ----

// Tells JSON Lines from plain text, by name and then by content.

const char *const text_format_endings[] = {".jsonl", ".ndjson", ".json", ".parquet", ".arrow", ".feather",
                                           ".wet",   ".warc",   ".tar",  ".tgz",     ".csv",   ".tsv",
                                           ".txt",   ".text",   ".md",   NULL};

int text_format_find(bool *is_plain, enum text_format format, const char *path) {
    static const char *const of_jsonl[] = {".jsonl", ".ndjson", ".json", NULL};
    static const struct table_columns none = {0};
    bool is_named = ending_is_among(path, of_jsonl) || table_is_named(path);
    *is_plain = format == TEXT_FORMAT_PLAIN || (format == TEXT_FORMAT_AUTO && !is_named);
    // A pipe can be read only once, and many objects in S3 would be requested twice.
    if (format == TEXT_FORMAT_PLAIN || !(file_is_regular(path) || (*is_plain && url_is_remote(path))))
        return 0;
    char text[CONTENT_TEXT_BYTES];
    size_t length = 0;
    struct reader *reader;
    TRY(reader_open_columns(&reader, path, 1, &none));
    int64_t got = 1;
    while (length < sizeof text && (got = reader_read(reader, text + length, sizeof text - length)) > 0)
        length += (size_t)got;
    bool is_table = reader_is_table(reader);
    reader_close(reader);
    TRY((int)got);
    if (is_table || content_is_object(text, length)) {
        *is_plain = false;
        return 0;
    }
    return content_check_text(path, text, length);
}

// Adds the size of a file's decompressed text to the total, up to `enough`.
static int add_text_bytes(uint64_t *total, const char *path, uint64_t enough) {
    struct string_list alone = {.items = (char *[]){(char *)(uintptr_t)path}, .count = 1};
    uint64_t stored = inputs_bytes(&alone);
    struct reader *reader;
    TRY(reader_open(&reader, path));
    bool is_known = stored > 0 && (*total + stored >= enough || strcmp(reader_format(reader), "plain") == 0);
    int64_t got = 1;
    for (*total += is_known ? stored : 0; !is_known && got > 0 && *total < enough;) {
        char text[1 << 15];
        got = reader_read(reader, text, sizeof text);
        *total += got > 0 ? (uint64_t)got : 0;
    }
    reader_close(reader);
    return got < 0 ? -1 : 0;
}

int text_format_block(uint64_t *bytes, const struct string_list *files, const bool *are_plain) {
    const uint64_t enough = (uint64_t)TEXT_BLOCKS * TEXT_BLOCK_BYTES;
    uint64_t total = 0;
    for (int64_t i = 0; i < files->count && total < enough; i++) {
        const char *path = files->items[i];
        if (are_plain[i] && !(file_is_regular(path) || url_is_remote(path)))
            total = enough;  // a pipe can be read only once
        else if (are_plain[i])
            TRY(add_text_bytes(&total, path, enough));
    }
    for (*bytes = TEXT_LEAST_BLOCK_BYTES; *bytes < TEXT_BLOCK_BYTES && 2 * *bytes * TEXT_BLOCKS <= total;)
        *bytes *= 2;
    return 0;
}
