// Decoders: each takes the list of strings from the previous one. The text is the concatenation of the last one's
// strings.
#include "data/tokenizer/hf.h"
#include "data/tokenizer/kind.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

// Strings one after another.
struct strings {
    struct buffer text;
    size_t *ends;
    size_t count;
    int64_t capacity;
};

static void strings_end(struct strings *strings) {
    MEMORY_GROW(strings->ends, strings->count, strings->capacity);
    strings->ends[strings->count++] = strings->text.length;
}

static void strings_free(struct strings *strings) {
    buffer_free(&strings->text);
    free(strings->ends);
}

static struct hf_string string_at(const struct strings *strings, size_t index) {
    size_t begin = index ? strings->ends[index - 1] : 0;
    return (struct hf_string){(char *)buffer_string(&strings->text) + begin, strings->ends[index] - begin};
}

// Appends text with every `then`, which is not empty, replaced by `now`.
static void append_replaced(struct buffer *out, struct hf_string text, struct hf_string then, struct hf_string now) {
    size_t at = 0;
    while (at < text.length) {
        const char *found = then.length ? memmem(text.text + at, text.length - at, then.text, then.length) : NULL;
        size_t end = found ? (size_t)(found - text.text) : text.length;
        buffer_append(out, text.text + at, end - at);
        if (found)
            buffer_append(out, now.text, now.length);
        at = found ? end + then.length : end;
    }
}

// ---- WordPiece ----

static void decode_wordpiece(const struct hf_decoder_step *rule, const struct strings *in, struct strings *out) {
    struct buffer word = {0};
    for (size_t i = 0; i < in->count; i++) {
        struct hf_string token = string_at(in, i);
        bool inside =
            i > 0 && token.length >= rule->text.length && memcmp(token.text, rule->text.text, rule->text.length) == 0;
        size_t skip = inside ? rule->text.length : 0;
        buffer_clear(&word);
        if (i > 0 && !inside)
            buffer_append_byte(&word, ' ');
        buffer_append(&word, token.text + skip, token.length - skip);
        if (rule->cleanup)
            wordpiece_tidy(&word, 0, true);
        buffer_append(&out->text, buffer_string(&word), word.length);
        strings_end(out);
    }
    buffer_free(&word);
}

// ---- bytes ----

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

// The byte of "<0x41>", -1 for other tokens.
static int byte_of(struct hf_string token) {
    if (token.length != 6 || memcmp(token.text, "<0x", 3) != 0 || token.text[5] != '>')
        return -1;
    int high = hex_digit(token.text[3]), low = hex_digit(token.text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// A run of bytes is one string if it is UTF-8; else each byte becomes U+FFFD.
static void end_bytes(struct buffer *bytes, struct strings *out) {
    if (bytes->length == 0)
        return;
    if (utf8_check(bytes->data, bytes->length) == bytes->length) {
        buffer_append(&out->text, bytes->data, bytes->length);
        strings_end(out);
    } else {
        for (size_t i = 0; i < bytes->length; i++) {
            buffer_append_string(&out->text, "\xEF\xBF\xBD");
            strings_end(out);
        }
    }
    buffer_clear(bytes);
}

static void decode_byte_fallback(const struct strings *in, struct strings *out) {
    struct buffer bytes = {0};
    for (size_t i = 0; i < in->count; i++) {
        struct hf_string token = string_at(in, i);
        int byte = byte_of(token);
        if (byte >= 0) {
            buffer_append_byte(&bytes, (char)(unsigned char)byte);
            continue;
        }
        end_bytes(&bytes, out);
        buffer_append(&out->text, token.text, token.length);
        strings_end(out);
    }
    end_bytes(&bytes, out);
    buffer_free(&bytes);
}

// A token with a character that does not stand for a byte is kept as is.
static void decode_bytes(const struct hf *hf, const struct strings *in, struct strings *out) {
    for (size_t i = 0; i < in->count; i++) {
        struct hf_string token = string_at(in, i);
        if (!byte_map_read(&hf->bytes, token.text, token.length, &out->text))
            buffer_append(&out->text, token.text, token.length);
    }
    strings_end(out);
}

// ---- the others ----

// Removes up to `start` characters from the beginning and `stop` from the end, if they equal the content.
static void decode_strip(const struct hf_decoder_step *rule, const struct strings *in, struct strings *out) {
    const struct hf_string *content = &rule->text;
    for (size_t i = 0; i < in->count; i++) {
        struct hf_string token = string_at(in, i);
        for (int64_t n = 0; n < rule->start && content->length > 0 && token.length >= content->length &&
                            memcmp(token.text, content->text, content->length) == 0;
             n++) {
            token.text += content->length;
            token.length -= content->length;
        }
        for (int64_t n = 0; n < rule->stop && content->length > 0 && token.length >= content->length &&
                            memcmp(token.text + token.length - content->length, content->text, content->length) == 0;
             n++)
            token.length -= content->length;
        buffer_append(&out->text, token.text, token.length);
        strings_end(out);
    }
}

static int decode_replace(const struct hf *hf, const struct hf_decoder_step *rule, const struct strings *in,
                          struct strings *out) {
    struct pattern_scratch scratch = {0};
    size_t most = hf_most_bytes(in->text.length);
    int found = 0;
    for (size_t i = 0; i < in->count && found == 0; i++) {
        struct hf_string token = string_at(in, i);
        struct buffer view = {.data = token.text, .length = token.length};
        struct hf_search search = {0};
        size_t done = 0;
        while ((found = hf_next_match(&rule->pattern, &scratch, &view, &search)) == 1) {
            buffer_append(&out->text, token.text + done, search.match.begin - done);
            buffer_append(&out->text, rule->text.text, rule->text.length);
            done = search.match.end;
            if (out->text.length > most) {
                pattern_scratch_free(&scratch);
                return hf_too_long(hf, "decoder");
            }
        }
        buffer_append(&out->text, token.text + done, token.length - done);
        strings_end(out);
    }
    pattern_scratch_free(&scratch);
    return found;
}

// Suffixes and marks become spaces, except at the end and at the beginning.
static void decode_marks(const struct hf_decoder_step *rule, const struct strings *in, struct strings *out) {
    for (size_t i = 0; i < in->count; i++) {
        bool none = rule->kind == HF_DECODER_BPE ? i + 1 == in->count : i == 0 && rule->prepends;
        struct hf_string blank = {(char *)" ", none ? 0 : 1};
        append_replaced(&out->text, string_at(in, i), rule->text, blank);
        strings_end(out);
    }
}

static int apply(const struct hf *hf, const struct hf_decoder_step *rule, const struct strings *in,
                 struct strings *out) {
    switch (rule->kind) {
    case HF_DECODER_BYTES:
        decode_bytes(hf, in, out);
        return 0;
    case HF_DECODER_WORDPIECE:
        decode_wordpiece(rule, in, out);
        return 0;
    case HF_DECODER_BYTE_FALLBACK:
        decode_byte_fallback(in, out);
        return 0;
    case HF_DECODER_FUSE:
        buffer_append(&out->text, buffer_string(&in->text), in->text.length);
        strings_end(out);
        return 0;
    case HF_DECODER_STRIP:
        decode_strip(rule, in, out);
        return 0;
    case HF_DECODER_REPLACE:
        return decode_replace(hf, rule, in, out);
    case HF_DECODER_BPE:
    case HF_DECODER_METASPACE:
    default:
        decode_marks(rule, in, out);
        return 0;
    }
}

int hf_decode(const struct hf *hf, const int32_t *ids, int64_t count, struct buffer *out) {
    struct strings strings = {0};
    for (int64_t i = 0; i < count; i++) {
        const struct hf_string *string = ids[i] < hf->size ? &hf->strings[ids[i]] : NULL;
        if (!string || !string->text) {
            strings_free(&strings);
            return tokenizer_no_token(ids[i], i);
        }
        if (i > 0 && !hf->has_decoder)
            buffer_append_byte(&strings.text, ' ');
        buffer_append(&strings.text, string->text, string->length);
        strings_end(&strings);
    }
    int status = 0;
    size_t most = hf_most_bytes(strings.text.length);
    for (size_t i = 0; status == 0 && i < hf->decoder_count; i++) {
        struct strings next = {0};
        status = apply(hf, &hf->decoders[i], &strings, &next);
        if (status == 0 && next.text.length > most)
            status = hf_too_long(hf, "decoder");
        strings_free(&strings);
        strings = next;
    }
    if (status == 0)
        buffer_append(out, buffer_string(&strings.text), strings.text.length);
    strings_free(&strings);
    return status;
}

// ---- loading ----

static int add_decoder(struct hf *hf, const struct json *value, const char *type) {
    static const char *const types[] = {
        [HF_DECODER_BYTES] = "ByteLevel",     [HF_DECODER_WORDPIECE] = "WordPiece",
        [HF_DECODER_BPE] = "BPEDecoder",      [HF_DECODER_BYTE_FALLBACK] = "ByteFallback",
        [HF_DECODER_FUSE] = "Fuse",           [HF_DECODER_STRIP] = "Strip",
        [HF_DECODER_METASPACE] = "Metaspace", [HF_DECODER_REPLACE] = "Replace",
    };
    int kind = hf_find_type(hf, "decoder", types, sizeof types / sizeof types[0], type);
    TRY(kind);
    hf->decoders = hf_add_step(hf->decoders, &hf->decoder_count, sizeof *hf->decoders);
    struct hf_decoder_step *rule = &hf->decoders[hf->decoder_count - 1];
    rule->kind = (enum hf_decoder)kind;
    enum hf_prepend prepend;
    switch (rule->kind) {
    case HF_DECODER_WORDPIECE:
        rule->cleanup = hf_get_bool(value, "cleanup", true);
        return hf_copy_member(hf, value, "prefix", &rule->text);
    case HF_DECODER_BPE:
        return hf_copy_member(hf, value, "suffix", &rule->text);
    case HF_DECODER_STRIP:
        TRY(json_get_int(value, "start", &rule->start));
        TRY(json_get_int(value, "stop", &rule->stop));
        return hf_copy_member(hf, value, "content", &rule->text);
    case HF_DECODER_METASPACE:
        TRY(hf_load_metaspace(hf, value, &prepend, &rule->text));
        rule->prepends = prepend != HF_PREPEND_NEVER;
        return 0;
    case HF_DECODER_REPLACE:
        TRY(hf_copy_member(hf, value, "content", &rule->text));
        return hf_load_pattern(hf, json_member(value, "pattern"), "Replace", &rule->pattern);
    default:
        return 0;
    }
}

int hf_load_decoder(struct hf *hf, const struct json *decoder) {
    hf->has_decoder = decoder && decoder->type != JSON_NULL;
    return hf_for_each(hf, decoder, "decoders", add_decoder);
}
