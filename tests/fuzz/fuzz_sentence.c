// layer: data
// Any bytes: sentences must be in order, not empty and inside the text, and without gaps if keep_newlines is set.
#include "fuzz.h"

#include "data/sentence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    // The first byte selects the language.
    const struct sentence_language *language = size > 0 ? sentence_language_at(data[0] % 18) : NULL;
    for (int keep = 0; keep < 2; keep++) {
        struct sentence_splitter splitter = {
            .text = (const char *)data, .length = size, .keep_newlines = keep, .language = language};
        struct sentence sentence;
        size_t end = 0;
        while (sentence_next(&splitter, &sentence)) {
            if (sentence.begin < end || sentence.end <= sentence.begin || sentence.end > size)
                abort();
            if (keep && sentence.begin != end)
                abort();
            end = sentence.end;
        }
    }
    return 0;
}
