// layer: data
// Any bytes, split into pieces by masks and by the table of the pattern: the two must agree, for the pattern selected
// by the first byte.
#include "fuzz.h"

#include "data/tokenizer/splitter.h"
#include <stdlib.h>
#include <string.h>

static struct splitter *make_splitter(uint8_t choice) {
    static const char *const names[] = {"gpt2", "cl100k", "llama3", "qwen", "o200k", "v1", "v2"};
    struct split_rules spaces = {.words = SPLIT_WORDS_SPACES,
                                 .after_letters = choice & 16,
                                 .lines = choice & 32,
                                 .feeds = choice & 64,
                                 .between_letters = choice & 128};
    return choice % 8 < 7 ? splitter_create(split_pattern_by_name(names[choice % 8])) : splitter_create_spaces(&spaces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct splitter *splitters[256];  // made once for all inputs
    if (size < 2)
        return 0;
    struct splitter **splitter = &splitters[data[0] % 8 < 7 ? data[0] % 8 : data[0]];
    if (!*splitter)
        *splitter = make_splitter(data[0]);
    size_t length = size - 1;
    unsigned char *text = malloc(length);  // ends at the end of an allocation
    if (!text)
        abort();
    memcpy(text, data + 1, length);
    static uint32_t ends[SPLIT_MOST];
    unsigned char state = 0;
    for (size_t at = 0; at < length;) {
        int count = split_pieces(*splitter, text + at, length - at, ends, &state);
        if (count < 1 || count > SPLIT_MOST)
            abort();
        size_t begin = at;
        for (int i = 0; i < count; i++) {
            at += split_text(*splitter, text + at, length - at);
            if (begin + ends[i] != at)
                abort();
        }
    }
    free(text);
    return 0;
}
