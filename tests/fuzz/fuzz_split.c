// layer: data
// Any bytes, split into pieces by masks and character by character: the two must agree, for the pattern selected by the
// first byte.
#include "fuzz.h"

#include "data/tokenizer/splitter.h"
#include <stdlib.h>
#include <string.h>

static const struct split_rules *choose_rules(uint8_t choice, struct split_rules *spaces) {
    static const char *const names[] = {"gpt2", "cl100k", "llama3", "qwen", "o200k", "v1", "v2"};
    *spaces = (struct split_rules){.words = SPLIT_WORDS_SPACES,
                                   .after_letters = choice & 16,
                                   .lines = choice & 32,
                                   .feeds = choice & 64,
                                   .between_letters = choice & 128};
    size_t name = choice % 8;
    return name < sizeof names / sizeof names[0] ? &split_pattern_by_name(names[name])->rules : spaces;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct unicode_table *table;  // a megabyte that never changes
    if (!table)
        table = split_table_create();
    if (size < 2)
        return 0;
    struct split_rules spaces;
    const struct split_rules *rules = choose_rules(data[0], &spaces);
    size_t length = size - 1;
    unsigned char *text = malloc(length);  // ends at the end of an allocation
    if (!text)
        abort();
    memcpy(text, data + 1, length);
    static uint32_t ends[SPLIT_MOST];
    for (size_t at = 0; at < length;) {
        int count = split_pieces(rules, table, text + at, length - at, ends);
        if (count < 1 || count > SPLIT_MOST)
            abort();
        size_t begin = at;
        for (int i = 0; i < count; i++) {
            at += split_text(rules, table, text + at, length - at);
            if (begin + ends[i] != at)
                abort();
        }
    }
    free(text);
    return 0;
}
