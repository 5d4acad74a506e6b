// Decoders: each takes the list of strings that the one before has made. The last one's strings, joined, are the
// text.
#include "data/tokenizer/hf.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Strings one after another.
struct strings {
    struct buffer text;
    size_t *ends;
    size_t count, capacity;
};

static void strings_end(struct strings *strings) {
    if (strings->count == strings->capacity) {
        strings->capacity = strings->capacity * 2 + 64;
        strings->ends = memory_realloc(strings->ends, strings->capacity * sizeof *strings->ends);
    }
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

// Appends text with `now` wherever `then`, which is not empty, stands.
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

static void tidy(struct buffer *text, struct buffer *scratch) {
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct hf_string then = {(char *)pairs[i][0], strlen(pairs[i][0])};
        struct hf_string now = {(char *)pairs[i][1], strlen(pairs[i][1])};
        buffer_clear(scratch);
        append_replaced(scratch, (struct hf_string){text->data, text->length}, then, now);
        buffer_clear(text);
        buffer_append(text, buffer_string(scratch), scratch->length);
    }
}

static void decode_wordpiece(const struct hf_decoder_step *step, const struct strings *in, struct strings *out) {
    struct buffer word = {0}, scratch = {0};
    for (size_t i = 0; i < in->count; i++) {
        struct hf_string token = string_at(in, i);
        bool inside =
            i > 0 && token.length >= step->text.length && memcmp(token.text, step->text.text, step->text.length) == 0;
        size_t skip = inside ? step->text.length : 0;
        buffer_clear(&word);
        if (i > 0 && !inside)
            buffer_append_byte(&word, ' ');
        buffer_append(&word, token.text + skip, token.length - skip);
        if (step->cleanup && word.length > 0)
            tidy(&word, &scratch);
        buffer_append(&out->text, buffer_string(&word), word.length);
        strings_end(out);
    }
    buffer_free(&word);
    buffer_free(&scratch);
}

// ---- bytes ----

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

// The byte of "<0x41>", -1 if it is none.
static int byte_of(struct hf_string token) {
    if (token.length != 6 || memcmp(token.text, "<0x", 3) != 0 || token.text[5] != '>')
        return -1;
    int high = hex_digit(token.text[3]), low = hex_digit(token.text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// A run of bytes is one string if it is UTF-8; else each byte is U+FFFD.
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

// A token with a character that stands for no byte is itself.
static void decode_bytes(const struct hf *hf, const struct strings *in, struct strings *out) {
    for (size_t i = 0; i < in->count; i++) {
        struct hf_string token = string_at(in, i);
        if (!byte_map_read(&hf->bytes, token.text, token.length, &out->text))
            buffer_append(&out->text, token.text, token.length);
    }
    strings_end(out);
}

// ---- the others ----

// Takes up to start characters off the beginning and stop off the end, where they are the content.
static void decode_strip(const struct hf_decoder_step *step, const struct strings *in, struct strings *out) {
    const struct hf_string *content = &step->text;
    for (size_t i = 0; i < in->count; i++) {
        struct hf_string token = string_at(in, i);
        for (int64_t n = 0; n < step->start && content->length > 0 && token.length >= content->length &&
                            memcmp(token.text, content->text, content->length) == 0;
             n++) {
            token.text += content->length;
            token.length -= content->length;
        }
        for (int64_t n = 0; n < step->stop && content->length > 0 && token.length >= content->length &&
                            memcmp(token.text + token.length - content->length, content->text, content->length) == 0;
             n++)
            token.length -= content->length;
        buffer_append(&out->text, token.text, token.length);
        strings_end(out);
    }
}

static int decode_replace(const struct hf *hf, const struct hf_decoder_step *step, const struct strings *in,
                          struct strings *out) {
    struct pattern_scratch scratch = {0};
    size_t most = hf_most_bytes(in->text.length);
    int found = 0;
    for (size_t i = 0; i < in->count && found == 0; i++) {
        struct hf_string token = string_at(in, i);
        struct buffer view = {.data = token.text, .length = token.length};
        struct hf_search search = {0};
        size_t done = 0;
        while ((found = hf_next_match(hf, &step->pattern, &scratch, &view, &search)) == 1) {
            buffer_append(&out->text, token.text + done, search.match.begin - done);
            buffer_append(&out->text, step->text.text, step->text.length);
            done = search.match.end;
            if (out->text.length > most) {
                pattern_scratch_free(&scratch);
                return hf_error(hf, "decoder", "makes a text more than 64 times as long, which is not supported");
            }
        }
        buffer_append(&out->text, token.text + done, token.length - done);
        strings_end(out);
    }
    pattern_scratch_free(&scratch);
    return found;
}

// Suffixes and marks are blanks, but for those at the end and at the beginning.
static void decode_marks(const struct hf_decoder_step *step, const struct strings *in, struct strings *out) {
    for (size_t i = 0; i < in->count; i++) {
        bool none = step->kind == HF_DECODER_BPE ? i + 1 == in->count : i == 0 && step->prepends;
        struct hf_string blank = {(char *)" ", none ? 0 : 1};
        append_replaced(&out->text, string_at(in, i), step->text, blank);
        strings_end(out);
    }
}

static int apply(const struct hf *hf, const struct hf_decoder_step *step, const struct strings *in,
                 struct strings *out) {
    switch (step->kind) {
    case HF_DECODER_BYTES:
        decode_bytes(hf, in, out);
        return 0;
    case HF_DECODER_WORDPIECE:
        decode_wordpiece(step, in, out);
        return 0;
    case HF_DECODER_BYTE_FALLBACK:
        decode_byte_fallback(in, out);
        return 0;
    case HF_DECODER_FUSE:
        buffer_append(&out->text, buffer_string(&in->text), in->text.length);
        strings_end(out);
        return 0;
    case HF_DECODER_STRIP:
        decode_strip(step, in, out);
        return 0;
    case HF_DECODER_REPLACE:
        return decode_replace(hf, step, in, out);
    case HF_DECODER_BPE:
    case HF_DECODER_METASPACE:
    default:
        decode_marks(step, in, out);
        return 0;
    }
}

int hf_decode(const struct hf *hf, const int32_t *ids, int64_t count, struct buffer *out) {
    struct strings strings = {0};
    for (int64_t i = 0; i < count; i++) {
        const struct hf_string *string = ids[i] < hf->size ? &hf->strings[ids[i]] : NULL;
        if (!string || !string->text) {
            strings_free(&strings);
            return error_set_code(EXIT_CODE_BAD_DATA,
                                  "no token has id %" PRId32 " (number %" PRId64
                                  "); decode with the tokenizer that made the ids",
                                  ids[i], i);
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
            status = hf_error(hf, "decoder", "makes a text more than 64 times as long, which is not supported");
        strings_free(&strings);
        strings = next;
    }
    if (status == 0)
        buffer_append(out, buffer_string(&strings.text), strings.text.length);
    strings_free(&strings);
    return status;
}
