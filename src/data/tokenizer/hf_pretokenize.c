// The pre-tokenizers of tokenizer.json: each splits the words of the previous one. Words are spans of one buffer; a
// step that changes text (Metaspace, ByteLevel) writes a new buffer.
#include "data/tokenizer/hf.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <string.h>

static int find(const struct hf_pattern *pattern, struct pattern_scratch *scratch, const struct buffer *text,
                size_t from, struct pattern_match *match) {
    const char *data = buffer_string(text);
    if (from > text->length || text->length == 0)
        return 0;
    bool is_split = pattern->splitter && splitter_covers(pattern->splitter);
    if (pattern->general && !is_split)
        return pattern_find(pattern->general, scratch, (const unsigned char *)data, text->length, from, match);
    if (is_split) {
        if (from == text->length)
            return 0;
        size_t piece = split_text(pattern->splitter, (const unsigned char *)data + from, text->length - from);
        *match = (struct pattern_match){from, from + piece};
        return 1;
    }
    if (pattern->literal.length == 0) {  // an empty pattern: before every character, and at the end
        *match = (struct pattern_match){from, from};
        return 1;
    }
    const char *found = memmem(data + from, text->length - from, pattern->literal.text, pattern->literal.length);
    if (!found)
        return 0;
    *match = (struct pattern_match){(size_t)(found - data), (size_t)(found - data) + pattern->literal.length};
    return 1;
}

int hf_next_match(const struct hf_pattern *pattern, struct pattern_scratch *scratch, const struct buffer *text,
                  struct hf_search *search) {
    for (;;) {
        struct pattern_match match;
        int found = find(pattern, scratch, text, search->from, &match);
        if (found != 1)
            return found;
        bool repeated = match.begin == match.end && search->found && match.end == search->match.end;
        search->from = match.end;
        if (!repeated) {
            search->match = match;
            search->found = true;
            return 1;
        }
        uint32_t character;
        const unsigned char *at = (const unsigned char *)text->data + match.end;
        search->from += match.end < text->length ? utf8_decode(at, text->length - match.end, &character, NULL) : 1;
    }
}

void hf_splits_add(struct hf_splits *splits, struct hf_split split) {
    MEMORY_GROW(splits->items, splits->count, splits->capacity);
    splits->items[splits->count++] = split;
}

// ---- splitting at matches ----

// Matches and the text between them become words according to a behavior. A piece is held until it is known whether it
// joins its neighbour; pieces may be empty, and are dropped only when they would become words.
struct cutter {
    struct hf_splits *out;
    enum hf_behavior behavior;
    const struct hf_split *word;  // the word being split
    size_t base;                  // of it in the new buffer
    bool has_piece;               // a piece is held
    struct pattern_match piece;
    bool is_match;
};

static void add_word(const struct cutter *cutter, size_t begin, size_t end) {
    if (begin == end)
        return;
    size_t zero = cutter->word->zero > begin ? cutter->word->zero - begin : 0;
    zero = zero > end - begin ? end - begin : zero;
    hf_splits_add(cutter->out, (struct hf_split){cutter->base + begin, cutter->base + end, -1, zero});
}

static void end_cut(struct cutter *cutter) {
    if (cutter->has_piece)
        add_word(cutter, cutter->piece.begin, cutter->piece.end);
    cutter->has_piece = false;
}

static void cut(struct cutter *cutter, size_t begin, size_t end, bool is_match) {
    // A text begins as if after a non-match, as in Hugging Face.
    bool before = cutter->is_match, joins = false;
    cutter->is_match = is_match;
    switch (cutter->behavior) {
    case HF_REMOVED:
        if (!is_match)
            add_word(cutter, begin, end);
        return;
    case HF_ISOLATED:
        add_word(cutter, begin, end);
        return;
    case HF_CONTIGUOUS:
        joins = is_match == before;
        break;
    case HF_MERGED_WITH_PREVIOUS:
        joins = is_match && !before;
        break;
    case HF_MERGED_WITH_NEXT:
    default:
        joins = !is_match && before;
    }
    if (joins && cutter->has_piece) {
        cutter->piece.end = end;
        return;
    }
    end_cut(cutter);
    cutter->piece = (struct pattern_match){begin, end};
    cutter->has_piece = true;
}

// The text of one word, as a read-only buffer.
static struct buffer view_of(const struct hf_splits *splits, const struct hf_split *split) {
    return (struct buffer){.data = splits->text.data + split->begin, .length = split->end - split->begin};
}

static int cut_by_pattern(const struct hf_pretokenizer_step *rule, struct hf_state *state, const struct hf_split *word,
                          struct cutter *cutter) {
    struct buffer text = view_of(&state->words, word);
    struct hf_search search = {0};
    size_t done = 0;
    int found;
    while ((found = hf_next_match(&rule->pattern, &state->pattern, &text, &search)) == 1) {
        if (done != search.match.begin)
            cut(cutter, done, search.match.begin, rule->invert);
        cut(cutter, search.match.begin, search.match.end, !rule->invert);
        done = search.match.end;
    }
    if (found == 0 && done < text.length)
        cut(cutter, done, text.length, rule->invert);
    return found;
}

static bool is_punctuation(const struct hf *hf, uint32_t c) {
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    return unicode_in_set(hf->older, c, UNICODE_SET_P);
}

// Digits added by Unicode 17.0: the Digits step follows it, one version later than patterns (tokenizers 0.23).
static bool is_newer_number(uint32_t c) {
    return (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
}

static bool is_delimiter(const struct hf *hf, enum hf_pretokenizer kind, uint32_t c) {
    if (kind == HF_PRETOKENIZER_DIGITS)
        return unicode_in_set(hf->table, c, UNICODE_SET_N) || is_newer_number(c);
    if (kind == HF_PRETOKENIZER_PUNCTUATION)
        return is_punctuation(hf, c);
    return unicode_is_white_space(c);
}

static void cut_by_characters(const struct hf *hf, enum hf_pretokenizer kind, const struct buffer *text,
                              struct cutter *cutter) {
    size_t done = 0;
    for (size_t at = 0; at < text->length;) {
        uint32_t c;
        size_t bytes = utf8_decode((const unsigned char *)text->data + at, text->length - at, &c, NULL);
        if (is_delimiter(hf, kind, c)) {
            if (done < at)
                cut(cutter, done, at, false);
            cut(cutter, at, at + bytes, true);
            done = at + bytes;
        }
        at += bytes;
    }
    if (done < text->length)
        cut(cutter, done, text->length, false);
}

// Spaces separate words. For BERT, punctuation marks are words by themselves; else a pattern: \w+|[^\w\s]+.
enum word_class { CLASS_BLANK, CLASS_ALONE, CLASS_WORD, CLASS_OTHER };

static enum word_class class_of(const struct hf *hf, enum hf_pretokenizer kind, uint32_t c) {
    if (unicode_is_white_space(c))
        return CLASS_BLANK;
    if (kind == HF_PRETOKENIZER_BERT)
        return is_punctuation(hf, c) ? CLASS_ALONE : CLASS_WORD;
    return unicode_is_word(hf->table, c) ? CLASS_WORD : CLASS_OTHER;
}

static void cut_by_class(const struct hf *hf, enum hf_pretokenizer kind, const struct buffer *text,
                         struct cutter *cutter) {
    size_t done = 0;
    enum word_class before = CLASS_BLANK;
    for (size_t at = 0; at < text->length;) {
        uint32_t c;
        size_t bytes = utf8_decode((const unsigned char *)text->data + at, text->length - at, &c, NULL);
        enum word_class class = class_of(hf, kind, c);
        if (class != before || class == CLASS_ALONE) {
            if (before != CLASS_BLANK)
                add_word(cutter, done, at);
            done = at;
        }
        before = class;
        at += bytes;
    }
    if (before != CLASS_BLANK)
        add_word(cutter, done, text->length);
}

static void cut_by_length(const struct buffer *text, int64_t length, struct cutter *cutter) {
    size_t done = 0;
    int64_t count = 0;
    for (size_t at = 0; at < text->length;) {
        uint32_t c;
        at += utf8_decode((const unsigned char *)text->data + at, text->length - at, &c, NULL);
        if (++count == length) {
            add_word(cutter, done, at);
            done = at;
            count = 0;
        }
    }
    add_word(cutter, done, text->length);
}

static int cut_word(const struct hf *hf, const struct hf_pretokenizer_step *rule, struct hf_state *state,
                    const struct hf_split *word) {
    struct buffer text = view_of(&state->words, word);
    struct cutter cutter = {.out = &state->other, .behavior = rule->behavior, .word = word, .base = word->begin};
    int status = 0;
    switch (rule->kind) {
    case HF_PRETOKENIZER_SPLIT:
        status = cut_by_pattern(rule, state, word, &cutter);
        break;
    case HF_PRETOKENIZER_BERT:
    case HF_PRETOKENIZER_WHITESPACE:
        cut_by_class(hf, rule->kind, &text, &cutter);
        break;
    case HF_PRETOKENIZER_FIXED_LENGTH:
        cut_by_length(&text, rule->length, &cutter);
        break;
    default:
        cut_by_characters(hf, rule->kind, &text, &cutter);
    }
    end_cut(&cutter);
    return status;
}

// ---- steps that change text ----

// Spaces become the mark, one is prepended, and the word is split before every mark.
static void apply_metaspace(const struct hf_pretokenizer_step *rule, struct hf_state *state,
                            const struct hf_split *word) {
    struct buffer text = view_of(&state->words, word), *out = &state->other.text;
    const struct hf_string *mark = &rule->replacement;
    size_t begin = out->length;
    struct hf_split marked = {.zero = 0};
    bool has = text.length > 0 && (text.data[0] == ' ' || (text.length >= mark->length && mark->length > 0 &&
                                                           memcmp(text.data, mark->text, mark->length) == 0));
    if (!has && (rule->prepend == HF_PREPEND_ALWAYS || (rule->prepend == HF_PREPEND_FIRST && word->zero > 0)))
        buffer_append(out, mark->text, mark->length);
    for (size_t at = 0; at < text.length; at++) {
        if (text.data[at] == ' ')
            buffer_append(out, mark->text, mark->length);
        else
            buffer_append_byte(out, text.data[at]);
        if (at < word->zero)
            marked.zero = out->length - begin;
    }
    struct cutter cutter = {.out = &state->other, .behavior = HF_MERGED_WITH_NEXT, .word = &marked, .base = begin};
    struct hf_pattern pattern = {.literal = rule->split ? *mark : (struct hf_string){0}};
    struct buffer changed = {.data = out->data + begin, .length = out->length - begin};
    struct hf_search search = {0};
    size_t done = 0;
    while (rule->split && hf_next_match(&pattern, NULL, &changed, &search) == 1) {
        if (done < search.match.begin)
            cut(&cutter, done, search.match.begin, false);
        cut(&cutter, search.match.begin, search.match.end, true);
        done = search.match.end;
    }
    if (done < changed.length)
        cut(&cutter, done, changed.length, false);
    end_cut(&cutter);
}

// Splits like GPT-2, then writes bytes as characters.
static void apply_bytes(const struct hf *hf, const struct hf_pretokenizer_step *rule, struct hf_state *state,
                        const struct hf_split *word) {
    struct buffer text = view_of(&state->words, word), *out = &state->other.text;
    size_t zero = word->zero;
    buffer_clear(&state->piece);
    if (rule->prefix_space && text.data[0] != ' ') {
        buffer_append_byte(&state->piece, ' ');
        zero += zero > 0;
    }
    buffer_append(&state->piece, text.data, text.length);
    const unsigned char *bytes = (const unsigned char *)state->piece.data;
    for (size_t at = 0; at < state->piece.length;) {
        size_t left = state->piece.length - at;
        size_t length = rule->use_regex ? split_text(hf->gpt2, bytes + at, left) : left;
        size_t begin = out->length, first = zero > at ? zero - at : 0;
        first = first > length ? length : first;
        byte_map_write(&hf->bytes, bytes + at, first, out);
        size_t aligned = out->length - begin;
        byte_map_write(&hf->bytes, bytes + at + first, length - first, out);
        hf_splits_add(&state->other, (struct hf_split){begin, out->length, -1, aligned});
        at += length;
    }
}

static int apply(const struct hf *hf, const struct hf_pretokenizer_step *rule, struct hf_state *state) {
    state->other.count = 0;
    buffer_clear(&state->other.text);
    bool changes = rule->kind == HF_PRETOKENIZER_METASPACE || rule->kind == HF_PRETOKENIZER_BYTES;
    for (size_t i = 0; i < state->words.count; i++) {
        const struct hf_split *word = &state->words.items[i];
        if (rule->kind == HF_PRETOKENIZER_METASPACE)
            apply_metaspace(rule, state, word);
        else if (rule->kind == HF_PRETOKENIZER_BYTES)
            apply_bytes(hf, rule, state, word);
        else
            TRY(cut_word(hf, rule, state, word));
    }
    if (!changes) {  // the words are spans of the same text
        struct buffer text = state->words.text;
        state->words.text = state->other.text;
        state->other.text = text;
    }
    struct hf_splits done = state->words;
    state->words = state->other;
    state->other = done;
    return 0;
}

int hf_pretokenize(const struct hf *hf, struct hf_state *state, size_t zero) {
    state->words.count = 0;
    buffer_clear(&state->words.text);
    buffer_append(&state->words.text, buffer_string(&state->normal), state->normal.length);
    if (state->normal.length > 0)
        hf_splits_add(&state->words, (struct hf_split){0, state->normal.length, -1, zero});
    for (size_t i = 0; i < hf->pretokenizer_count; i++)
        TRY(apply(hf, &hf->pretokenizers[i], state));
    return 0;
}

// ---- loading ----

static int load_behavior(const struct hf *hf, const struct json *value, enum hf_behavior *behavior) {
    static const char *const names[] = {[HF_REMOVED] = "Removed",
                                        [HF_ISOLATED] = "Isolated",
                                        [HF_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [HF_MERGED_WITH_NEXT] = "MergedWithNext",
                                        [HF_CONTIGUOUS] = "Contiguous"};
    const struct json *name;
    int found = hf_get_string(hf, value, "behavior", &name);
    TRY(found);
    *behavior = HF_ISOLATED;
    if (found == 0)
        return 0;
    found = hf_find_type(hf, "behavior", names, sizeof names / sizeof names[0], name->string);
    TRY(found);
    *behavior = (enum hf_behavior)found;
    return 0;
}

static int add_pretokenizer(struct hf *hf, const struct json *value, const char *type) {
    static const char *const types[] = {
        [HF_PRETOKENIZER_BERT] = "BertPreTokenizer",
        [HF_PRETOKENIZER_BYTES] = "ByteLevel",
        [HF_PRETOKENIZER_SPLIT] = "Split",
        [HF_PRETOKENIZER_METASPACE] = "Metaspace",
        [HF_PRETOKENIZER_DIGITS] = "Digits",
        [HF_PRETOKENIZER_PUNCTUATION] = "Punctuation",
        [HF_PRETOKENIZER_WHITESPACE] = "Whitespace",
        [HF_PRETOKENIZER_WHITESPACE_SPLIT] = "WhitespaceSplit",
        [HF_PRETOKENIZER_FIXED_LENGTH] = "FixedLength",
        [HF_PRETOKENIZER_DELIMITER] = "CharDelimiterSplit",
    };
    int kind = hf_find_type(hf, "pre_tokenizer", types, sizeof types / sizeof types[0], type);
    TRY(kind);
    hf->pretokenizers = hf_add_step(hf->pretokenizers, &hf->pretokenizer_count, sizeof *hf->pretokenizers);
    struct hf_pretokenizer_step *rule = &hf->pretokenizers[hf->pretokenizer_count - 1];
    rule->kind = (enum hf_pretokenizer)kind;
    rule->prefix_space = hf_get_bool(value, "add_prefix_space", true);
    rule->use_regex = hf_get_bool(value, "use_regex", true);
    rule->invert = hf_get_bool(value, "invert", false);
    rule->split = hf_get_bool(value, "split", true);
    switch (rule->kind) {
    case HF_PRETOKENIZER_DELIMITER:
        rule->kind = HF_PRETOKENIZER_SPLIT;
        rule->behavior = HF_REMOVED;
        return hf_copy_member(hf, value, "delimiter", &rule->pattern.literal);
    case HF_PRETOKENIZER_SPLIT:
        TRY(load_behavior(hf, value, &rule->behavior));
        TRY(hf_load_pattern(hf, json_member(value, "pattern"), "Split", &rule->pattern));
        if (rule->pattern.general)
            rule->pattern.splitter = splitter_create_pattern(rule->pattern.general, NULL);
        return 0;
    case HF_PRETOKENIZER_BYTES:
        if (rule->use_regex && !hf->gpt2)
            hf->gpt2 = splitter_create(split_pattern_by_name("gpt2"));
        return 0;
    case HF_PRETOKENIZER_METASPACE:
        return hf_load_metaspace(hf, value, &rule->prepend, &rule->replacement);
    case HF_PRETOKENIZER_DIGITS:
        rule->behavior = hf_get_bool(value, "individual_digits", false) ? HF_ISOLATED : HF_CONTIGUOUS;
        return 0;
    case HF_PRETOKENIZER_PUNCTUATION:
        return load_behavior(hf, value, &rule->behavior);
    case HF_PRETOKENIZER_FIXED_LENGTH:
        TRY(json_get_int(value, "length", &rule->length));
        return rule->length > 0 ? 0 : hf_error(hf, "FixedLength", "its length is not positive");
    default:
        return 0;
    }
}

int hf_load_pretokenizer(struct hf *hf, const struct json *pretokenizer) {
    return hf_for_each(hf, pretokenizer, "pretokenizers", add_pretokenizer);
}
