// layer: data
// A pattern and a text from hostile bytes (PATTERN NUL TEXT): a pattern that compiles must find matches inside the
// text, in order, or stop by itself.
#include "fuzz.h"

#include "data/tokenizer/pattern.h"
#include <string.h>

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
        pattern_free(pattern);
    }
    pattern_scratch_free(&scratch);
    return 0;
}
