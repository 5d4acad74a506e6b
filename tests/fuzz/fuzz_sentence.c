// layer: data
// Any bytes: sentences must be in order, not empty and inside the text, and with keep_newlines leave no gap.
#include "fuzz.h"

#include "data/sentence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int keep = 0; keep < 2; keep++) {
        struct sentence_splitter splitter = {.text = (const char *)data, .length = size, .keep_newlines = keep};
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
