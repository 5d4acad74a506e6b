// layer: data
// A fairseq dictionary from hostile bytes: all symbols of a dictionary that loads must be found in it.
#include "fuzz.h"

#include "data/tokenizer/fairseq.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct vocabulary dictionary;
    struct byte_table words = {0};
    struct buffer built = {0};
    if (fairseq_dictionary_parse(&dictionary, (const char *)data, size, "dictionary") == 0) {
        for (int64_t i = 0; i < dictionary.size; i++) {
            size_t length;
            const char *symbol = vocabulary_string(&dictionary, (int32_t)i, &length);
            int32_t id = fairseq_dictionary_find(&dictionary, symbol, length);
            if (id < i || id >= dictionary.size)
                abort();
        }
        vocabulary_free(&dictionary);
    }
    fairseq_count_words(&words, (const char *)data, size);
    fairseq_build_dictionary(&words, &(struct fairseq_build){.threshold = 1, .multiple = 8}, &built);
    byte_table_free(&words);
    buffer_free(&built);
    return 0;
}
