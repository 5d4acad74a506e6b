// From ids back to text, as in the library: spaces are unmarked, the dummy space at the beginning is dropped, bytes are
// joined to characters, control pieces give nothing, and unknown ones U+2047 or the text given in the model.
#include "data/tokenizer/spm_model.h"
#include "base/utf8.h"
#include <string.h>

struct decoder {
    const struct spm_model *model;
    struct buffer text;
    struct buffer bytes;  // of byte pieces not yet written
    bool at_beginning;    // no text yet, and no space dropped
    bool dropped_blank;   // by the last piece
};

static void flush_bytes(struct decoder *decoder) {
    const unsigned char *bytes = (const unsigned char *)decoder->bytes.data;
    for (size_t at = 0, step; at < decoder->bytes.length; at += step) {
        uint32_t character;
        bool valid;
        step = utf8_decode(bytes + at, decoder->bytes.length - at, &character, &valid);
        if (!valid)
            step = 1;
        buffer_append(&decoder->text, valid ? decoder->bytes.data + at : "\xEF\xBF\xBD", valid ? step : 3);
    }
    buffer_clear(&decoder->bytes);
}

static bool begins_with_space(struct spm_text text) {
    return text.length >= SPM_SPACE_BYTES && memcmp(text.data, SPM_SPACE, SPM_SPACE_BYTES) == 0;
}

static void append_unmarked(struct spm_text text, struct buffer *out) {
    while (text.length > 0) {
        size_t step = begins_with_space(text) ? SPM_SPACE_BYTES : 1;
        buffer_append_byte(out, step == 1 ? text.data[0] : ' ');
        text.data += step;
        text.length -= step;
    }
}

static void decode_text(struct decoder *decoder, struct spm_text text) {
    const struct spm_normaliser_spec *spec = &decoder->model->file.normaliser;
    decoder->dropped_blank = false;
    if (decoder->at_beginning && (spec->add_dummy_prefix || spec->remove_extra_whitespaces) &&
        begins_with_space(text)) {
        text.data += SPM_SPACE_BYTES;
        text.length -= SPM_SPACE_BYTES;
        // If extra spaces are removed, so are all at the beginning, not just the first.
        decoder->dropped_blank = !spec->remove_extra_whitespaces;
    }
    append_unmarked(text, &decoder->text);
}

static void append_unknown(struct decoder *decoder) {
    struct spm_text surface = decoder->model->file.unknown_surface;
    if (!surface.data)
        surface = (struct spm_text){" \xE2\x81\x87 ", 5};
    const char *end = surface.length > 0 ? memchr(surface.data, 0, surface.length) : NULL;
    buffer_append(&decoder->text, surface.data, end ? (size_t)(end - surface.data) : surface.length);
    decoder->dropped_blank = false;
}

static void decode_piece(struct decoder *decoder, int32_t id) {
    const struct spm_model *model = decoder->model;
    // If a text is both reserved and an ordinary piece, it is read as the reserved one.
    if (model->pieces[id].text.data) {
        int32_t reserved = trie_find(&model->reserved, model->pieces[id].text.data, model->pieces[id].text.length);
        id = reserved >= 0 ? reserved : id;
    }
    const struct spm_piece *piece = &model->file.pieces[id];
    if (piece->type == SPM_BYTE) {
        for (int byte = 0; byte < 256; byte++)
            if (model->byte_ids[byte] == id)
                buffer_append_byte(&decoder->bytes, (char)byte);
        return;
    }
    flush_bytes(decoder);
    if (decoder->dropped_blank || decoder->text.length > 0)
        decoder->at_beginning = false;
    if (piece->type == SPM_CONTROL)
        decoder->dropped_blank = false;
    else if (piece->type == SPM_UNKNOWN)
        append_unknown(decoder);
    else
        decode_text(decoder, piece->text);
}

void spm_decode(const struct spm_model *model, const int32_t *ids, int64_t count, struct buffer *out) {
    struct decoder decoder = {.model = model, .at_beginning = true};
    for (int64_t i = 0; i < count; i++)
        decode_piece(&decoder, ids[i]);
    flush_bytes(&decoder);
    if (!model->has_denormaliser) {
        buffer_append(out, buffer_string(&decoder.text), decoder.text.length);
    } else {
        struct buffer denormalised = {0};
        spm_normalise(&model->denormaliser, buffer_string(&decoder.text), decoder.text.length, &denormalised);
        for (size_t i = 0; i < denormalised.length; i++) {
            if (denormalised.data[i] == ' ' && model->denormaliser.spec.escape_whitespaces)
                buffer_append(out, SPM_SPACE, SPM_SPACE_BYTES);
            else
                buffer_append_byte(out, denormalised.data[i]);
        }
        buffer_free(&denormalised);
    }
    buffer_free(&decoder.text);
    buffer_free(&decoder.bytes);
}
