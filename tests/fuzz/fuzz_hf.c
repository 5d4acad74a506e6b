// layer: data
// A tokenizer.json and a text from hostile bytes (JSON NUL TEXT): ids must belong to tokens, a warm cache must change
// nothing, and decoding must not crash.
#include "fuzz.h"

#include "data/tokenizer/hf.h"
#include <string.h>

static void check_text(const struct hf *hf, const char *text, size_t length) {
    struct hf_state state;
    struct token_list ids = {0};
    struct buffer out = {0};
    hf_state_init(&state);
    int status = hf_encode(hf, &state, text, length, &ids);
    int64_t count = ids.count;
    if (hf_encode(hf, &state, text, length, &ids) != status)
        abort();
    if (status == 0) {
        if (ids.count != 2 * count || (count && memcmp(ids.ids, ids.ids + count, (size_t)count * sizeof *ids.ids) != 0))
            abort();
        for (int64_t i = 0; i < count; i++)
            if (ids.ids[i] < 0 || ids.ids[i] >= hf->size || !hf->strings[ids.ids[i]].text)
                abort();
        hf_decode(hf, ids.ids, count, &out);
    }
    token_list_free(&ids);
    buffer_free(&out);
    hf_state_free(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = memchr(data, 0, size);
    struct hf *hf;
    if (!nul || hf_parse(&hf, (const char *)data, (size_t)(nul - data), "json") < 0)
        return 0;
    check_text(hf, (const char *)nul + 1, (size_t)(data + size - nul - 1));
    hf_free(hf);
    return 0;
}
