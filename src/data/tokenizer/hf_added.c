// Finding added tokens in a text: of those that begin first the longest, and on from its end.
#include "data/tokenizer/hf.h"
#include "base/utf8.h"

enum { BLOCK = 64 };

static bool is_word_character(const struct hf *hf, uint32_t c) {
    const uint32_t words =
        UNICODE_SET_L | UNICODE_SET_M | UNICODE_SET(UNICODE_ND) | UNICODE_SET(UNICODE_NL) | UNICODE_SET(UNICODE_PC);
    return unicode_in_set(hf->table, c, words) || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D;
}

// Where the character before `at` > 0 begins; the text is well-formed.
static size_t step_back(const char *text, size_t at) {
    do
        at--;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

static uint32_t character_at(const char *text, size_t length, size_t at, size_t *bytes) {
    uint32_t character;
    *bytes = utf8_decode((const unsigned char *)text + at, length - at, &character, NULL);
    return character;
}

// Whether no word goes on across either end.
static bool stands_alone(const struct hf *hf, const char *text, size_t length, struct pattern_match match) {
    size_t bytes;
    if (match.begin > 0 && is_word_character(hf, character_at(text, length, step_back(text, match.begin), &bytes)))
        return false;
    return match.end == length || !is_word_character(hf, character_at(text, length, match.end, &bytes));
}

static size_t blanks_before(const char *text, size_t length, size_t at) {
    size_t bytes;
    while (at > 0 && unicode_is_white_space(character_at(text, length, step_back(text, at), &bytes)))
        at = step_back(text, at);
    return at;
}

static size_t blanks_after(const char *text, size_t length, size_t at) {
    size_t bytes;
    while (at < length && unicode_is_white_space(character_at(text, length, at, &bytes)))
        at += bytes;
    return at;
}

// Whether a filter fits at one of 64 places in a row. Written so that a compiler makes vectors of it.
static bool may_start_in_block(const struct hf_starts *starts, const unsigned char *text) {
    unsigned char any = 0;
    for (int k = 0; k < starts->filter_count; k++) {
        const struct hf_filter filter = starts->filters[k];
        for (int i = 0; i < BLOCK; i++)
            any |= (text[i] == filter.first) & (((text[i + 1] ^ filter.second) & filter.mask) == 0);
    }
    return any;
}

// The first place at or after `at` where an added token may begin; length if there is none.
static size_t next_start(const struct hf_starts *starts, const char *text, size_t length, size_t at) {
    const unsigned char *bytes = (const unsigned char *)text;
    while (at < length) {
        size_t stop = length - at > BLOCK ? at + BLOCK : length;
        if (stop < length && starts->filter_count > 0 && !may_start_in_block(starts, bytes + at)) {
            at = stop;
            continue;
        }
        for (; at < stop; at++)
            if (starts->first[bytes[at]])
                return at;
    }
    return length;
}

// The next added token at or after *at, which moves behind it: its index, -1 if there is none.
static int64_t next_added(const struct hf *hf, bool normalized, const char *text, size_t length, size_t *at,
                          struct pattern_match *match) {
    const struct trie *trie = normalized ? &hf->normal_trie : &hf->raw_trie;
    const struct hf_starts *starts = normalized ? &hf->normal_starts : &hf->raw_starts;
    bool everywhere = normalized && hf->empty_added >= 0;
    while (everywhere ? *at <= length : trie->size > 0 && (*at = next_start(starts, text, length, *at)) < length) {
        struct trie_match found = {0};
        if (trie->size > 0)
            found = trie_longest(trie, text + *at, length - *at);
        *match = (struct pattern_match){*at, *at + found.length};
        if (found.length > 0) {
            *at = match->end;
            return found.value;
        }
        size_t bytes = 1;
        if (everywhere && *at < length)
            character_at(text, length, *at, &bytes);
        *at += bytes;
        if (everywhere)
            return hf->empty_added;
    }
    return -1;
}

void hf_find_added(const struct hf *hf, bool normalized, const char *text, size_t length, struct hf_splits *splits) {
    size_t done = 0, at = 0;
    int64_t found;
    struct pattern_match match;
    while ((found = next_added(hf, normalized, text, length, &at, &match)) >= 0) {
        const struct hf_added *added = &hf->added[found];
        if (added->single_word && !stands_alone(hf, text, length, match))
            continue;
        if (added->lstrip) {
            size_t begin = blanks_before(text, length, match.begin);
            match.begin = begin > done ? begin : done;
        }
        if (added->rstrip)
            match.end = blanks_after(text, length, match.end);
        if (done < match.begin)
            hf_splits_add(splits, (struct hf_split){done, match.begin, -1, 0});
        // Blanks of a token may lie in those that the one before has taken: what is left of it may be nothing, and the
        // text goes on behind it nonetheless.
        if (match.begin < match.end)
            hf_splits_add(splits, (struct hf_split){match.begin, match.end, added->id, 0});
        done = match.end;
    }
    if (done < length)
        hf_splits_add(splits, (struct hf_split){done, length, -1, 0});
}
