// Tells JSON Lines from plain text, by name and then by content.
#include "data/extract/text_format.h"
#include "base/error.h"
#include "base/file.h"
#include "base/remote/url.h"
#include "data/extract/reader.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

const char *const text_format_endings[] = {".jsonl", ".ndjson", ".json", ".txt", ".text", ".md", NULL};

static bool ends_with(const char *text, size_t length, const char *suffix) {
    size_t size = strlen(suffix);
    return length > size && memcmp(text + length - size, suffix, size) == 0;
}

static bool is_named_jsonl(const char *path) {
    static const char *const packed[] = {".gz", ".bz2", ".xz", ".zst"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++)
        if (ends_with(path, length, packed[i])) {
            length -= strlen(packed[i]);
            break;
        }
    return ends_with(path, length, ".jsonl") || ends_with(path, length, ".ndjson") || ends_with(path, length, ".json");
}

// An object begins with { and the quote of its first name, or is {}.
static bool begins_object(const char *text, size_t length) {
    static const char blanks[] = " \t\r\n";
    size_t at = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (at < length && memchr(blanks, text[at], sizeof blanks - 1))
        at++;
    if (at == length || text[at] != '{')
        return false;
    at++;
    while (at < length && memchr(blanks, text[at], sizeof blanks - 1))
        at++;
    return at < length && (text[at] == '"' || text[at] == '}');
}

int text_format_find(bool *is_plain, enum text_format format, const char *path) {
    *is_plain = format == TEXT_FORMAT_PLAIN || (format == TEXT_FORMAT_AUTO && !is_named_jsonl(path));
    // A pipe can be read only once.
    if (format != TEXT_FORMAT_AUTO || !*is_plain || !(file_is_regular(path) || url_is_remote(path)))
        return 0;
    enum { ENOUGH = 4096 };
    char text[ENOUGH];
    size_t length = 0;
    struct reader *reader;
    TRY(reader_open(&reader, path));
    int64_t got = 1;
    while (length < sizeof text && (got = reader_read(reader, text + length, sizeof text - length)) > 0)
        length += (size_t)got;
    reader_close(reader);
    *is_plain = got >= 0 && !begins_object(text, length);
    return got < 0 ? -1 : 0;
}
