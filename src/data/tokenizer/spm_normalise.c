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
