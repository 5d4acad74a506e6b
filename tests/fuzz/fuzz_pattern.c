// layer: data
// A pattern and a text from hostile bytes (PATTERN NUL TEXT): a pattern that compiles must find matches inside the
// text, in order, or stop by itself; its table, if it has one, must find the same.
#include "fuzz.h"

#include "data/tokenizer/pattern.h"
#include "data/tokenizer/splitter.h"
#include <stdlib.h>
#include <string.h>

// The pieces of a table are the matches of the pattern and the text between them.
static void check_table(const struct pattern *pattern, const uint8_t *text, size_t length) {
    struct splitter *splitter = splitter_create_pattern(pattern, NULL);
    struct pattern_scratch scratch = {0};
    struct pattern_match match;
    uint32_t ends[SPLIT_MOST];
    int count = 0, next = 0;
    size_t done = 0, begin = 0, from = 0;
    unsigned char state = 0;
    for (int found = 1; splitter && found == 1 && done < length; done = from) {
        found = pattern_find(pattern, &scratch, text, length, done, &match);
        if (found < 0)
            break;
        if (found == 0)
            match.begin = match.end = length;
        from = match.end;
        size_t pieces[] = {match.begin, match.end};
        for (int i = 0; i < 2; i++) {
            if (pieces[i] == done)
                continue;
            if (next == count) {
                begin = done;
                count = split_pieces(splitter, text + begin, length - begin, ends, &state);
                next = 0;
            }
            if (begin + ends[next++] != pieces[i] ||
                split_text(splitter, text + done, length - done) != pieces[i] - done)
                abort();
            done = pieces[i];
        }
    }
    pattern_scratch_free(&scratch);
    splitter_free(splitter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = memchr(data, 0, size);
    if (!nul)
        return 0;
    struct pattern *pattern;
    struct pattern_scratch scratch = {0};
    const uint8_t *text = nul + 1;
    size_t length = (size_t)(data + size - text);
    enum pattern_syntax syntax = size % 2 ? PATTERN_ONIGURUMA : PATTERN_RUST;
    if (pattern_compile(&pattern, syntax, (const char *)data, (size_t)(nul - data), "pattern") == 0) {
        struct pattern_match match;
        size_t from = 0;
        while (from <= length && pattern_find(pattern, &scratch, text, length, from, &match) == 1) {
            if (match.begin < from || match.end < match.begin || match.end > length)
                abort();
            from = match.end > from ? match.end : from + 1;
        }
        if (length > 0)
            check_table(pattern, text, length);
        pattern_free(pattern);
    }
    pattern_scratch_free(&scratch);
    return 0;
}
