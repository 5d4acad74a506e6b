// The normalizers of tokenizer.json: one text in, one text out. Everything is UTF-8; ill-formed input has already
// become U+FFFD.
#include "data/tokenizer/hf.h"
#include "data/tokenizer/base64.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

// How many bytes of the text come from the beginning of the whole text, before and after a step.
struct origin {
    size_t before, after;
    bool begins;  // the current text began the whole text before any step
};

// Records the length of the output after a character that began at `at`.
static inline void follow(struct origin *origin, size_t at, const struct buffer *out) {
    if (at < origin->before)
        origin->after = out->length;
}

static void append_character(struct buffer *out, uint32_t character) {
    char bytes[4];
    buffer_append(out, bytes, utf8_encode(character, bytes));
}

static void append_characters(struct buffer *out, const struct character_list *list) {
    buffer_reserve(out, list->count);
    for (size_t i = 0; i < list->count; i++)
        append_character(out, list->items[i]);
}

static bool is_ascii(const struct buffer *text) {
    for (size_t i = 0; i < text->length; i++)
        if ((unsigned char)text->data[i] >= 0x80)
            return false;
    return true;
}

// ---- normal forms ----

// Characters that form C never changes, whatever is beside them, from blocks that are common in texts.
static bool is_safe_in_c(uint32_t c) {
    static const uint32_t ranges[][2] = {{0x388, 0x482},   {0x490, 0x590},   {0x2010, 0x20CF}, {0x2190, 0x2328},
                                         {0x2500, 0x2ADB}, {0x3000, 0x3029}, {0x3041, 0x3098}, {0x309B, 0x312F},
                                         {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xFF00, 0xFF9D}, {0x1F000, 0x1FAFF}};
    if (c < 0x300)
        return true;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c <= ranges[i][1])
            return c >= ranges[i][0];
    return false;
}

static bool is_safe_text_in_c(const struct buffer *text) {
    for (size_t at = 0; at < text->length;) {
        uint32_t character;
        if ((unsigned char)text->data[at] < 0x80) {
            at++;
            continue;
        }
        at += utf8_decode((const unsigned char *)text->data + at, text->length - at, &character, NULL);
        if (!is_safe_in_c(character))
            return false;
    }
    return true;
}

// Records the first character, composed or not, and the rest of what its form begins with.
static void follow_form(const struct normal_form_rules *rules, struct hf_state *state, const struct buffer *in,
                        struct origin *origin, const struct buffer *out) {
    uint32_t character;
    if (origin->before == 0 || out->length == 0)
        return;
    origin->after = utf8_decode((const unsigned char *)out->data, out->length, &character, NULL);
    struct buffer alone = {0};
    state->characters.count = 0;
    state->more.count = 0;
    character_list_append_text(&state->characters, in->data, origin->before);
    normal_form_apply(rules, state->characters.items, state->characters.count, &state->more);
    append_characters(&alone, &state->more);
    if (alone.length <= out->length && alone.length > origin->after && memcmp(alone.data, out->data, alone.length) == 0)
        origin->after = alone.length;
    buffer_free(&alone);
}

static void apply_form(const struct hf *hf, enum normal_form form, struct hf_state *state, const struct buffer *in,
                       struct buffer *out, struct origin *origin) {
    if (is_ascii(in) || (form == NORMAL_FORM_C && is_safe_text_in_c(in))) {
        buffer_append(out, buffer_string(in), in->length);
        origin->after = origin->before;
        return;
    }
    state->characters.count = 0;
    state->more.count = 0;
    character_list_append_text(&state->characters, in->data, in->length);
    struct normal_form_rules rules = {.form = form, .known = hf->old, .pairs = hf->pairs};
    normal_form_apply(&rules, state->characters.items, state->characters.count, &state->more);
    append_characters(out, &state->more);
    follow_form(&rules, state, in, origin, out);
}

// ---- character by character ----

static void append_lower(struct buffer *out, uint32_t character) {
    if (character == 0x130) {
        append_character(out, 'i');
        append_character(out, 0x307);
    } else {
        append_character(out, unicode_lower(character));
    }
}

// The marks of Unicode 9.0 as listed by the crate that Hugging Face uses.
static bool is_combining_mark(const struct hf *hf, uint32_t c) {
    return (unicode_in_set(hf->old, c, UNICODE_SET_M) && c != 0x111C9) || c == 0x1CF2 || c == 0x1CF3;
}

static bool is_dropped_by_nmt(uint32_t c) {
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

static bool is_blank_by_nmt(uint32_t c) {
    return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
           c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

static void apply_bert(const struct hf *hf, const struct hf_normalizer_step *rule, struct hf_state *state,
                       const struct buffer *in, struct buffer *out, struct origin *origin) {
    struct bert_rules rules = {.table = hf->older, .decomposed = hf->old};
    state->characters.count = 0;
    state->more.count = 0;
    size_t first = 0;  // characters that come from the beginning
    for (size_t at = 0; at < in->length;) {
        uint32_t c;
        if (at <= origin->before)
            first = state->characters.count;
        at += utf8_decode((const unsigned char *)in->data + at, in->length - at, &c, NULL);
        enum bert_class class = bert_classify(&rules, c);
        if (rule->clean && class == BERT_DROPPED)
            continue;
        if (rule->clean && class == BERT_BLANK)
            c = ' ';
        if (rule->cjk && class == BERT_CJK)
            character_list_append(&state->characters, ' ');
        character_list_append(&state->characters, c);
        if (rule->cjk && class == BERT_CJK)
            character_list_append(&state->characters, ' ');
    }
    if (in->length <= origin->before)
        first = state->characters.count;
    const struct character_list *list = &state->characters;
    if (rule->strip_accents) {
        struct normal_form_rules form = {.form = NORMAL_FORM_D, .known = hf->old};
        normal_form_apply(&form, list->items, list->count, &state->more);
        list = &state->more;
    }
    for (size_t i = 0; i < list->count; i++) {
        uint32_t c = list->items[i];
        if (rule->strip_accents && unicode_category(hf->older, c) == UNICODE_MN)
            continue;
        if (rule->lower)
            append_lower(out, c);
        else
            append_character(out, c);
        if (i < first)
            origin->after = out->length;
    }
}

static void apply_characters(const struct hf *hf, enum hf_normalizer kind, const struct buffer *in, struct buffer *out,
                             struct origin *origin) {
    for (size_t at = 0, bytes; at < in->length; at += bytes) {
        uint32_t c;
        bytes = utf8_decode((const unsigned char *)in->data + at, in->length - at, &c, NULL);
        if (kind == HF_NORMALIZER_LOWER)
            append_lower(out, c);
        else if (kind == HF_NORMALIZER_STRIP_ACCENTS && !is_combining_mark(hf, c))
            append_character(out, c);
        else if (kind == HF_NORMALIZER_NMT && !is_dropped_by_nmt(c))
            append_character(out, is_blank_by_nmt(c) ? ' ' : c);
        follow(origin, at, out);
    }
}

static void apply_strip(const struct hf_normalizer_step *rule, const struct buffer *in, struct buffer *out,
                        struct origin *origin) {
    size_t first = rule->left ? in->length : 0, last = rule->right ? 0 : in->length;
    for (size_t at = 0; at < in->length;) {
        uint32_t c;
        size_t bytes = utf8_decode((const unsigned char *)in->data + at, in->length - at, &c, NULL);
        if (!unicode_is_white_space(c)) {
            first = at < first ? at : first;
            last = at + bytes > last ? at + bytes : last;
        }
        at += bytes;
    }
    if (first < last)
        buffer_append(out, in->data + first, last - first);
    origin->after = origin->before > first ? origin->before - first : 0;
}

// ---- Precompiled ----

static bool is_in_range(uint32_t c, const uint32_t ranges[][2], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

// Whether a character continues the grapheme before it: marks, joiners, and a few that are not marks. The marks are
// those of Unicode 17.0, one version later than the classes that text is split by (tokenizers 0.23).
static bool extends_grapheme(const struct hf *hf, uint32_t c) {
    static const uint32_t newer[][2] = {{0x1ACF, 0x1ADD},   {0x1AE0, 0x1AEB},   {0x10EFA, 0x10EFB}, {0x11B60, 0x11B67},
                                        {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5}};
    static const uint32_t spaced[][2] = {{0x102B, 0x102C},  {0x1038, 0x1038}, {0x1062, 0x1064}, {0x1067, 0x106D},
                                         {0x1083, 0x1083},  {0x1087, 0x108C}, {0x108F, 0x108F}, {0x109A, 0x109C},
                                         {0x1A61, 0x1A61},  {0x1A63, 0x1A64}, {0xAA7B, 0xAA7B}, {0xAA7D, 0xAA7D},
                                         {0x11720, 0x11721}};
    if (c < 0x300)
        return false;
    if (c == 0x200C || c == 0x200D || c == 0xFF9E || c == 0xFF9F || c == 0xE33 || c == 0xEB3 ||
        (c >= 0x1F3FB && c <= 0x1F3FF) || (c >= 0xE0020 && c <= 0xE007F))
        return true;
    if (is_in_range(c, spaced, sizeof spaced / sizeof spaced[0]))
        return false;
    return unicode_in_set(hf->table, c, UNICODE_SET_M) || is_in_range(c, newer, sizeof newer / sizeof newer[0]);
}

// Signs that go before a number or letter and belong to it.
static bool prepends_grapheme(uint32_t c) {
    return (c >= 0x600 && c <= 0x605) || c == 0x6DD || c == 0x70F || c == 0x890 || c == 0x891 || c == 0x8E2 ||
           c == 0xD4E || c == 0x110BD || c == 0x110CD;
}

static bool is_control(const struct hf *hf, uint32_t c) {
    if (extends_grapheme(hf, c))
        return false;
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 ||
           (unicode_category(hf->table, c) == UNICODE_CF && c != 0x200C && c != 0x200D && !prepends_grapheme(c)) ||
           (c >= 0xE0000 && c <= 0xE0FFF);
}

// Bytes of the grapheme cluster at `at` (UAX #29), exact as far as clusters shorter than 6 bytes are told from longer
// ones.
static size_t grapheme_bytes(const struct hf *hf, const struct buffer *text, size_t at) {
    const unsigned char *bytes = (const unsigned char *)text->data;
    uint32_t c;
    size_t end = at + utf8_decode(bytes + at, text->length - at, &c, NULL);
    if (c == '\r' && end < text->length && bytes[end] == '\n')
        return end + 1 - at;
    bool prepends = prepends_grapheme(c);
    if (is_control(hf, c))
        return end - at;
    while (end < text->length) {
        size_t length = utf8_decode(bytes + end, text->length - end, &c, NULL);
        if (is_control(hf, c) || (!prepends && !extends_grapheme(hf, c)))
            break;
        prepends = prepends_grapheme(c) && prepends;
        end += length;
    }
    return end - at;
}

// Hugging Face counts output characters against input characters, and forgets those removed before the first that
// stays.
struct map_origin {
    struct origin *origin;
    const struct buffer *in;
    size_t at;  // of the character that the next output character replaces
    bool any;
};

static void skip_characters(struct map_origin *map, int64_t count) {
    for (; count > 0 && map->at < map->in->length; count--) {
        uint32_t character;
        map->at +=
            utf8_decode((const unsigned char *)map->in->data + map->at, map->in->length - map->at, &character, NULL);
    }
}

static int64_t count_characters(const char *text, size_t length) {
    int64_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

// text[0…length), the end of `out`, was written for `replaced` characters.
static void follow_map(struct map_origin *map, int64_t replaced, size_t length, const struct buffer *out) {
    const char *text = buffer_string(out) + out->length - length;
    int64_t count = count_characters(text, length);
    if (map->at > map->origin->before)
        return;  // nothing after it comes from the beginning
    for (int64_t i = 0; i < count; i++) {
        // Additional characters come from the last replaced one.
        size_t from = i < replaced ? map->at : map->at - (map->at > 0);
        size_t end = 1;
        while (end < length && ((unsigned char)text[end] & 0xC0) == 0x80)
            end++;
        if (from < map->origin->before)
            map->origin->after = (size_t)(text - out->data) + end;
        if (i < replaced)
            skip_characters(map, 1);
        text += end;
        length -= end;
        map->any = true;
    }
    if (count < replaced && map->any)
        skip_characters(map, replaced - count);
}

// A short grapheme is replaced as a whole by the first rule that it begins with; otherwise it is processed character by
// character.
static void apply_charsmap(const struct hf *hf, const struct charsmap *map, const struct buffer *in, struct buffer *out,
                           struct origin *origin) {
    struct map_origin follows = {.origin = origin, .in = in};
    for (size_t at = 0; at < in->length;) {
        size_t bytes = grapheme_bytes(hf, in, at);
        struct charsmap_match match = {0};
        if (bytes < 6)
            match = charsmap_shortest(map, in->data + at, bytes);
        if (match.length > 0) {
            buffer_append(out, match.replacement, match.replacement_length);
            follow_map(&follows, count_characters(in->data + at, bytes), match.replacement_length, out);
            at += bytes;
            continue;
        }
        for (size_t end = at + bytes; at < end;) {
            uint32_t c;
            size_t length = utf8_decode((const unsigned char *)in->data + at, end - at, &c, NULL);
            match = charsmap_shortest(map, in->data + at, length);
            if (match.length > 0)
                buffer_append(out, match.replacement, match.replacement_length);
            else
                buffer_append(out, in->data + at, length);
            follow_map(&follows, 1, match.length > 0 ? match.replacement_length : length, out);
            at += length;
        }
    }
}

// ---- all of them ----

// Copies a part of the text.
static void follow_copy(struct origin *origin, const struct buffer *in, size_t begin, size_t end, struct buffer *out) {
    if (begin < origin->before && begin < end)
        origin->after = out->length + (end < origin->before ? end : origin->before) - begin;
    if (begin < end)
        buffer_append(out, in->data + begin, end - begin);
}

static int apply_replace(const struct hf *hf, const struct hf_normalizer_step *rule, struct hf_state *state,
                         const struct buffer *in, struct buffer *out, struct origin *origin) {
    struct hf_search search = {0};
    size_t done = 0;
    int found;
    while ((found = hf_next_match(&rule->pattern, &state->pattern, in, &search)) == 1) {
        follow_copy(origin, in, done, search.match.begin, out);
        buffer_append(out, rule->content.text, rule->content.length);
        done = search.match.end;
        // Inserted text comes from the last character of the match, or from the one before an empty match.
        if (origin->begins && done <= origin->before)
            origin->after = out->length;
        if (out->length > state->most_bytes)
            return hf_too_long(hf, "normalizer");
    }
    follow_copy(origin, in, done, in->length, out);
    return found;
}

static int apply(const struct hf *hf, const struct hf_normalizer_step *rule, struct hf_state *state,
                 const struct buffer *in, struct buffer *out, struct origin *origin) {
    switch (rule->kind) {
    case HF_NORMALIZER_BERT:
        apply_bert(hf, rule, state, in, out, origin);
        return 0;
    case HF_NORMALIZER_STRIP:
        apply_strip(rule, in, out, origin);
        return 0;
    case HF_NORMALIZER_NFD:
    case HF_NORMALIZER_NFKD:
    case HF_NORMALIZER_NFC:
    case HF_NORMALIZER_NFKC:
        apply_form(hf, (enum normal_form)(rule->kind - HF_NORMALIZER_NFD), state, in, out, origin);
        return 0;
    case HF_NORMALIZER_CHARSMAP:
        apply_charsmap(hf, &rule->map, in, out, origin);
        return 0;
    case HF_NORMALIZER_REPLACE:
        return apply_replace(hf, rule, state, in, out, origin);
    case HF_NORMALIZER_PREPEND:
        if (in->length > 0)
            buffer_append(out, rule->content.text, rule->content.length);
        buffer_append(out, buffer_string(in), in->length);
        origin->after = origin->before > 0 ? origin->before + rule->content.length : 0;
        return 0;
    case HF_NORMALIZER_BYTES:
        byte_map_write(&hf->bytes, (const unsigned char *)in->data, origin->before, out);
        origin->after = out->length;
        byte_map_write(&hf->bytes, (const unsigned char *)in->data + origin->before, in->length - origin->before, out);
        return 0;
    default:
        apply_characters(hf, rule->kind, in, out, origin);
        return 0;
    }
}

int hf_normalize(const struct hf *hf, struct hf_state *state, const char *text, size_t length, size_t *zero) {
    buffer_clear(&state->normal);
    buffer_append(&state->normal, text, length);
    state->most_bytes = hf_most_bytes(length);
    bool begins = *zero > 0;
    for (size_t i = 0; i < hf->normalizer_count; i++) {
        struct origin origin = {.before = *zero, .begins = begins};
        buffer_clear(&state->swap);
        TRY(apply(hf, &hf->normalizers[i], state, &state->normal, &state->swap, &origin));
        *zero = origin.after < state->swap.length ? origin.after : state->swap.length;
        if (state->swap.length > state->most_bytes)
            return hf_too_long(hf, "normalizer");
        struct buffer done = state->normal;
        state->normal = state->swap;
        state->swap = done;
    }
    return 0;
}

// ---- loading ----

static int load_charsmap(struct hf *hf, const struct json *value, struct charsmap *map) {
    const struct json *text;
    int found = hf_get_string(hf, value, "precompiled_charsmap", &text);
    TRY(found);
    if (found == 0)
        return 0;
    struct buffer bytes = {0};
    int status = base64_decode(text->string, text->length, &bytes)
                     ? charsmap_read(map, bytes.data, bytes.length, hf->name)
                     : hf_error(hf, "precompiled_charsmap", "is not base64");
    buffer_free(&bytes);
    return status;
}

static int add_normalizer(struct hf *hf, const struct json *value, const char *type) {
    static const char *const types[] = {
        [HF_NORMALIZER_BERT] = "BertNormalizer",
        [HF_NORMALIZER_STRIP] = "Strip",
        [HF_NORMALIZER_STRIP_ACCENTS] = "StripAccents",
        [HF_NORMALIZER_NFD] = "NFD",
        [HF_NORMALIZER_NFKD] = "NFKD",
        [HF_NORMALIZER_NFC] = "NFC",
        [HF_NORMALIZER_NFKC] = "NFKC",
        [HF_NORMALIZER_LOWER] = "Lowercase",
        [HF_NORMALIZER_NMT] = "Nmt",
        [HF_NORMALIZER_CHARSMAP] = "Precompiled",
        [HF_NORMALIZER_REPLACE] = "Replace",
        [HF_NORMALIZER_PREPEND] = "Prepend",
        [HF_NORMALIZER_BYTES] = "ByteLevel",
    };
    int kind = hf_find_type(hf, "normalizer", types, sizeof types / sizeof types[0], type);
    TRY(kind);
    hf->normalizers = hf_add_step(hf->normalizers, &hf->normalizer_count, sizeof *hf->normalizers);
    struct hf_normalizer_step *rule = &hf->normalizers[hf->normalizer_count - 1];
    rule->kind = (enum hf_normalizer)kind;
    bool is_form = kind >= HF_NORMALIZER_NFD && kind <= HF_NORMALIZER_NFKC;
    rule->left = hf_get_bool(value, "strip_left", true);
    rule->right = hf_get_bool(value, "strip_right", true);
    rule->clean = hf_get_bool(value, "clean_text", true);
    rule->cjk = hf_get_bool(value, "handle_chinese_chars", true);
    rule->lower = hf_get_bool(value, "lowercase", true);
    rule->strip_accents = hf_get_bool(value, "strip_accents", rule->lower);
    bool decomposes = is_form || (rule->kind == HF_NORMALIZER_BERT && rule->strip_accents);
    if (decomposes && normal_form_require() < 0)
        return error_context("%s", hf->name);
    if ((rule->kind == HF_NORMALIZER_NFC || rule->kind == HF_NORMALIZER_NFKC) && !hf->pairs)
        hf->pairs = normal_form_pairs_create(hf->old);
    if (rule->kind == HF_NORMALIZER_CHARSMAP)
        return load_charsmap(hf, value, &rule->map);
    if (rule->kind == HF_NORMALIZER_PREPEND)
        return hf_copy_member(hf, value, "prepend", &rule->content);
    if (rule->kind != HF_NORMALIZER_REPLACE)
        return 0;
    TRY(hf_copy_member(hf, value, "content", &rule->content));
    return hf_load_pattern(hf, json_member(value, "pattern"), "Replace", &rule->pattern);
}

int hf_load_normalizer(struct hf *hf, const struct json *normalizer) {
    return hf_for_each(hf, normalizer, "normalizers", add_normalizer);
}

// If a Replace inserted text before the first character, Hugging Face repeats it in the next step that changes the
// text. That is never intended, so such a file is refused.
int hf_check_insertions(const struct hf *hf) {
    bool inserts = false, changes = false;
    for (size_t i = 0; i < hf->normalizer_count; i++) {
        const struct hf_normalizer_step *rule = &hf->normalizers[i];
        changes = changes || (inserts && rule->kind != HF_NORMALIZER_REPLACE && rule->kind != HF_NORMALIZER_PREPEND);
        const struct hf_pattern *pattern = &rule->pattern;
        bool may_insert = pattern->general ? pattern_may_insert_first(pattern->general)
                                           : !pattern->known && pattern->literal.length == 0;
        if (rule->kind == HF_NORMALIZER_REPLACE && rule->content.length > 0 && may_insert)
            inserts = true;
    }
    for (size_t i = 0; i < hf->pretokenizer_count; i++)
        changes = changes || (inserts && hf->pretokenizers[i].kind == HF_PRETOKENIZER_BYTES);
    return changes ? hf_error(hf, "Replace",
                              "inserts text before the first character, and a later step changes it, which is not "
                              "supported; use Prepend to add text at the start")
                   : 0;
}
