// The normalizer proceeds unit by unit: a user-defined symbol, the longest rule, or one character. Runs of ASCII that
// no rule touches are copied at once.
#include "data/tokenizer/spm_model.h"
#include "base/error.h"
#include "base/utf8.h"
#include <string.h>

// Kinds of bytes. PLAIN and BLANK stand for themselves unless followed by a byte of 0x80 or more, with which they may
// form a unit; next_unit handles everything else.
enum { KIND_OTHER, KIND_PLAIN, KIND_BLANK };

struct unit {
    const char *text;  // its replacement
    size_t length;
    size_t consumed;  // bytes of the input
};

static bool is_plain(const struct spm_normaliser *normaliser, unsigned char byte) {
    char text = (char)byte;
    if (byte >= 0x80 || trie_step(&normaliser->user_defined, TRIE_ROOT, byte) >= 0 ||
        charsmap_longest(&normaliser->map, &text, 1).length > 0)
        return false;
    for (unsigned next = 0; next < 0x80; next++)
        if (charsmap_has_pair(&normaliser->map, byte, (unsigned char)next))
            return false;
    return true;
}

int spm_normaliser_create(struct spm_normaliser *normaliser, const struct spm_normaliser_options *options) {
    *normaliser = (struct spm_normaliser){.spec = *options->spec, .is_suffix = options->is_suffix};
    const struct spm_text *charsmap = &options->spec->charsmap;
    TRY(charsmap_read(&normaliser->map, charsmap->data, charsmap->length, options->name));
    trie_build(&normaliser->user_defined, options->user_defined, options->user_defined_count);
    for (unsigned byte = 0; byte < 256; byte++)
        if (is_plain(normaliser, (unsigned char)byte))
            normaliser->kinds[byte] = byte == ' ' ? KIND_BLANK : KIND_PLAIN;
    return 0;
}

void spm_normaliser_free(struct spm_normaliser *normaliser) {
    charsmap_free(&normaliser->map);
    trie_free(&normaliser->user_defined);
}

static struct unit next_unit(const struct spm_normaliser *normaliser, const char *text, size_t length) {
    struct trie_match symbol = spm_match_user_defined(&normaliser->user_defined, text, length);
    if (symbol.length > 0)
        return (struct unit){text, symbol.length, symbol.length};
    struct charsmap_match rule = charsmap_longest(&normaliser->map, text, length);
    if (rule.length > 0)
        return (struct unit){rule.replacement, rule.replacement_length, rule.length};
    uint32_t character;
    bool valid;
    size_t bytes = utf8_decode((const unsigned char *)text, length, &character, &valid);
    return valid ? (struct unit){text, bytes, bytes} : (struct unit){"\xEF\xBF\xBD", 3, 1};
}

bool spm_fold(const char *text, size_t length, struct buffer *out) {
    bool unambiguous = true;
    for (size_t i = 0; i < length; i++) {
        if (length - i >= SPM_SPACE_BYTES && memcmp(text + i, SPM_SPACE, SPM_SPACE_BYTES) == 0) {
            buffer_append_byte(out, ' ');
            i += SPM_SPACE_BYTES - 1;
        } else {
            unambiguous &= text[i] != ' ';
            buffer_append_byte(out, text[i]);
        }
    }
    return unambiguous;
}

static void append_unit(const struct spm_normaliser *normaliser, struct unit unit, struct buffer *out) {
    if (normaliser->spec.escape_whitespaces && memchr(unit.text, SPM_SPACE[0], unit.length))
        spm_fold(unit.text, unit.length, out);
    else
        buffer_append(out, unit.text, unit.length);
}

// Length of the run of bytes that stand for themselves. If spaces are tidied, *after_blank says whether a space came
// before, and is updated.
static size_t plain_run(const struct spm_normaliser *normaliser, const char *text, size_t length, bool *after_blank) {
    bool tidy = normaliser->spec.remove_extra_whitespaces, before = *after_blank, now = before;
    size_t i = 0;
    for (; i < length; i++) {
        unsigned char kind = normaliser->kinds[(unsigned char)text[i]];
        if (kind == KIND_OTHER || (kind == KIND_BLANK && now))
            break;
        now = tidy && kind == KIND_BLANK;
    }
    if (i > 0 && i < length && (unsigned char)text[i] >= 0x80) {
        i--;
        now = i > 0 ? tidy && text[i - 1] == ' ' : before;
    }
    *after_blank = now;
    return i;
}

static void append_units(const struct spm_normaliser *normaliser, const char *text, size_t length, struct buffer *out) {
    bool tidy = normaliser->spec.remove_extra_whitespaces, after_blank = tidy;
    for (size_t at = 0; at < length;) {
        size_t run = plain_run(normaliser, text + at, length - at, &after_blank);
        buffer_append(out, text + at, run);
        at += run;
        if (at == length)
            break;
        struct unit unit = next_unit(normaliser, text + at, length - at);
        at += unit.consumed;
        while (after_blank && unit.length > 0 && unit.text[0] == ' ') {
            unit.text++;
            unit.length--;
        }
        if (unit.length > 0) {
            append_unit(normaliser, unit, out);
            after_blank = tidy && unit.text[unit.length - 1] == ' ';
        }
    }
}

void spm_normalise(const struct spm_normaliser *normaliser, const char *text, size_t length, struct buffer *out) {
    const struct spm_normaliser_spec *spec = &normaliser->spec;
    while (spec->remove_extra_whitespaces && length > 0) {
        struct unit unit = next_unit(normaliser, text, length);
        if (unit.length != 1 || unit.text[0] != ' ')
            break;
        text += unit.consumed;
        length -= unit.consumed;
    }
    if (length == 0)
        return;
    size_t begin = out->length;
    buffer_reserve(out, length + SPM_SPACE_BYTES);
    if (spec->add_dummy_prefix && !normaliser->is_suffix)
        buffer_append_byte(out, ' ');
    append_units(normaliser, text, length, out);
    if (spec->remove_extra_whitespaces) {
        while (out->length > begin && out->data[out->length - 1] == ' ')
            out->length--;
        out->data[out->length] = 0;
    }
    if (spec->add_dummy_prefix && normaliser->is_suffix)
        buffer_append_byte(out, ' ');
}

// ---- decoding ----

// From ids back to text, as in the library: spaces are unmarked, the dummy space at the beginning is dropped, bytes are
// joined to characters, control pieces give nothing, and unknown ones U+2047 or the text given in the model.

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
