// layer: data
// A SentencePiece model and a text from hostile bytes (u16 LENGTH, TEXT, MODEL). If the model loads, a text must encode
// to ids of its pieces, the same ones with a warm cache and with another encoder, and they must decode. The model can
// be written as a tokenizer.json, or there is a reason why not.
#include "fuzz.h"

#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/spm_model.h"
#include <string.h>

static void encode(struct spm_encoder *encoder, const char *text, size_t length, struct token_list *ids) {
    ids->count = 0;
    if (spm_encode(encoder, text, length, ids) < 0)
        abort();
}

static void check_text(const struct spm_model *model, const char *text, size_t length) {
    struct spm_encoder *encoder = spm_encoder_create(model), *fresh = spm_encoder_create(model);
    struct token_list first = {0}, again = {0};
    struct buffer back = {0};
    encode(encoder, text, length, &first);
    for (int64_t i = 0; i < first.count; i++)
        if (first.ids[i] < 0 || first.ids[i] >= model->file.piece_count)
            abort();
    encode(fresh, text + length / 2, length - length / 2, &again);
    for (int i = 0; i < 2; i++) {
        encode(i == 0 ? encoder : fresh, text, length, &again);
        if (again.count != first.count ||
            (first.count > 0 && memcmp(again.ids, first.ids, (size_t)first.count * 4) != 0))
            abort();
    }
    spm_decode(model, first.ids, first.count, &back);
    buffer_free(&back);
    token_list_free(&first);
    token_list_free(&again);
    spm_encoder_free(encoder);
    spm_encoder_free(fresh);
}

static void count_rule(void *context, const struct charsmap_rule *rule) {
    *(size_t *)context += rule->key_length + strlen(rule->replacement);
}

// Rules are only listed: their steps name every character of Unicode, which is slow.
static void describe(const struct spm_model *model) {
    struct hf_parts parts = {0};
    size_t bytes = 0;
    charsmap_for_each(&model->normaliser.map, count_rule, &bytes);
    if (model->file.normaliser.charsmap.length == 0)
        (void)spm_describe(model, NULL, &parts);
    hf_parts_free(&parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint16_t length;
    if (size < sizeof length)
        return 0;
    memcpy(&length, data, sizeof length);
    const char *text = (const char *)data + sizeof length;
    if (length > size - sizeof length)
        return 0;
    struct spm_model *model;
    if (spm_model_parse(&model, text + length, size - sizeof length - length, "model") < 0)
        return 0;
    check_text(model, text, length);
    describe(model);
    struct spm_specials specials;
    if (spm_specials_create(&specials, model, length % 4, "model") == 0) {
        int32_t index;
        if (spm_specials_find(&specials, text, length, &index) > length)
            abort();
        spm_specials_free(&specials);
    }
    spm_model_free(model);
    return 0;
}
