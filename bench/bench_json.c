// layer: base
// How fast json_find_strings gets through lines of text of several kinds, in GB of JSON a second of one core.
// Prints the best of several rounds; memcpy of the same bytes stands beside it as the machine's own limit.
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINES = 100, ROUNDS = 25, TEXT_CHARACTERS = 20000 };

struct json_kind {
    const char *name;
    uint32_t first, last;  // range the letters come from
    int line_every;        // a newline (which JSON escapes) every so many characters, 0 for none
    bool escape_all;       // \uXXXX for everything outside ASCII, as Python's ensure_ascii writes it
};

static void append_text(struct buffer *out, const struct json_kind *kind, struct mt19937 *mt) {
    buffer_append_byte(out, '"');
    for (int i = 1; i <= TEXT_CHARACTERS; i++) {
        uint32_t c = kind->first + (uint32_t)mt19937_interval(mt, kind->last - kind->first);
        char bytes[4];
        if (mt19937_interval(mt, 5) == 0)
            c = ' ';
        if (kind->line_every && i % kind->line_every == 0)
            buffer_append_string(out, "\\n");
        else if (kind->escape_all && c >= 0x80)
            buffer_printf(out, "\\u%04x", (unsigned)c);
        else
            buffer_append(out, bytes, utf8_encode(c, bytes));
    }
    buffer_append_byte(out, '"');
}

// Processor time, so that other work on the machine shows less.
static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void measure(const struct json_kind *kind) {
    static const char *const keys[] = {"text"};
    struct buffer lines = {0};
    struct json_text found = {0};
    struct mt19937 mt;
    size_t ends[LINES];
    mt19937_seed(&mt, 1);
    for (int i = 0; i < LINES; i++) {
        buffer_printf(
            &lines, "{\"id\": \"%d\", \"url\": \"https://example.org/wiki?curid=%d\", \"title\": \"T\", \"text\": ", i,
            i);
        append_text(&lines, kind, &mt);
        buffer_append_string(&lines, "}");
        ends[i] = lines.length;
    }
    char *copy = memory_alloc(lines.length);
    double best = 1e9, best_copy = 1e9;
    uint64_t check = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = processor_seconds();
        for (size_t i = 0, at = 0; i < LINES; at = ends[i++]) {
            if (json_find_strings(lines.data + at, ends[i] - at, keys, &found, 1) < 0)
                die("%s", error_message());
            check += found.text.length;
        }
        double middle = processor_seconds();
        memcpy(copy, lines.data, lines.length);
        double end = processor_seconds();
        best = middle - start < best ? middle - start : best;
        best_copy = end - middle < best_copy ? end - middle : best_copy;
    }
    printf("%-34s %6.2f GB/s   memcpy %6.2f GB/s   (%.0f MB, %.0f MB of text)\n", kind->name,
           (double)lines.length / best / 1e9, (double)lines.length / best_copy / 1e9, (double)lines.length / 1e6,
           (double)check / ROUNDS / 1e6);
    free(copy);
    json_text_free(&found);
    buffer_free(&lines);
}

int main(void) {
    static const struct json_kind kinds[] = {
        {"ASCII, no escapes", 'a', 'z', 0, false},       {"ASCII, a newline in 80", 'a', 'z', 80, false},
        {"ASCII, a newline in 10", 'a', 'z', 10, false}, {"Latin with many accents", 0x60, 0xFF, 80, false},
        {"Cyrillic, UTF-8", 0x430, 0x44F, 80, false},    {"Chinese, UTF-8", 0x4E00, 0x9FFF, 80, false},
        {"emoji, UTF-8", 0x1F300, 0x1F5FF, 80, false},   {"Chinese, \\u escapes", 0x4E00, 0x9FFF, 80, true},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        measure(&kinds[i]);
    return 0;
}
