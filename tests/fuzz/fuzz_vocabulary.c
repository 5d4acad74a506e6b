// layer: data
// vocab.json from hostile bytes: in a vocabulary that loads, every id leads to a string and that string back to the id.
#include "fuzz.h"

#include "data/tokenizer/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct vocabulary vocabulary;
    if (vocabulary_parse_json(&vocabulary, (const char *)data, size, "fuzz") < 0)
        return 0;
    int64_t count = 0;
    for (int64_t id = 0; id < vocabulary.size; id++) {
        size_t length;
        const char *string = vocabulary_string(&vocabulary, (int32_t)id, &length);
        if (!string)
            continue;
        count++;
        if (vocabulary_find(&vocabulary, string, length) != id)
            abort();
    }
    if (count != vocabulary.tokens.count)
        abort();
    vocabulary_free(&vocabulary);
    return 0;
}
