// The added tokens of a tokenizer.json. A search takes the longest of those that begin first, and continues at its end.
#include "data/tokenizer/hf.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, MOST_ADDED = 1 << 17 };

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

// Whether neither end is inside a word.
static bool stands_alone(const struct hf *hf, const char *text, size_t length, struct pattern_match match) {
    size_t bytes;
    if (match.begin > 0 && unicode_is_word(hf->table, character_at(text, length, step_back(text, match.begin), &bytes)))
        return false;
    return match.end == length || !unicode_is_word(hf->table, character_at(text, length, match.end, &bytes));
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

// Whether a filter matches at one of 64 consecutive places. Written so that compilers vectorize it.
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

// The next added token at or after *at, which moves past it: its index, -1 if there is none.
static int64_t next_added(const struct hf *hf, bool normalized, const char *text, size_t length, size_t *at,
                          struct pattern_match *match) {
    const struct trie *trie = normalized ? &hf->normal_trie : &hf->raw_trie;
    const struct hf_starts *starts = normalized ? &hf->normal_starts : &hf->raw_starts;
    bool everywhere = normalized && hf->empty_added >= 0;
    while (everywhere ? *at <= length : trie->size > 0 && (*at = next_start(starts, text, length, *at)) < length) {
        struct trie_match found = {0};
        if (trie->size > 0)
            found = trie_longest(trie, text + *at, length - *at, INT_MAX);
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
        // The spaces around a token may already belong to the previous one: then nothing of it may be left, but the
        // text still continues after it.
        if (match.begin < match.end)
            hf_splits_add(splits, (struct hf_split){match.begin, match.end, added->id, 0});
        done = match.end;
    }
    if (done < length)
        hf_splits_add(splits, (struct hf_split){done, length, -1, 0});
}

// ---- loading ----

static int load_added(struct hf *hf, const struct json *value, struct hf_added *added) {
    const struct json *content = json_member(value, "content");
    if (!content || content->type != JSON_STRING)
        return hf_error(hf, "added_tokens", "a token without \"content\"");
    *added = (struct hf_added){
        .content = hf_copy(content->string, content->length),
        .special = hf_get_bool(value, "special", false),
        .single_word = hf_get_bool(value, "single_word", false),
        .lstrip = hf_get_bool(value, "lstrip", false),
        .rstrip = hf_get_bool(value, "rstrip", false),
        .is_normalized = hf_get_bool(value, "normalized", true),
    };
    return 0;
}

// If the model has an added token, the model's id is used. Others follow the model's tokens in the order of the list,
// whatever ids the file gives: so does Hugging Face, with a warning. Of equal ones the last counts.
int hf_load_added(struct hf *hf, const struct json *list) {
    if (!list || list->type == JSON_NULL)
        return 0;
    if (list->type != JSON_ARRAY || list->count > MOST_ADDED)
        return hf_error(hf, "added_tokens", "is not a list, or has too many tokens");
    hf->added = memory_alloc((list->count + 1) * sizeof *hf->added);
    int32_t next = (int32_t)hf->model_count;
    struct byte_table seen = {0};  // indices into added
    int status = 0;
    for (size_t i = 0; status == 0 && i < list->count; i++) {
        struct hf_added added;
        status = load_added(hf, &list->items[i], &added);
        if (status < 0)
            break;
        if (added.content.length == 0) {
            free(added.content.text);
            continue;
        }
        int32_t same = byte_table_find(&seen, added.content.text, added.content.length);
        if (same >= 0) {
            added.id = hf->added[same].id;
            free(hf->added[same].content.text);
            hf->added[same] = added;
            continue;
        }
        added.id = byte_table_find(&hf->vocab, added.content.text, added.content.length);
        if (added.id < 0)
            added.id = next++;
        byte_table_add(&seen, added.content.text, added.content.length, (int32_t)hf->added_count);
        hf->added[hf->added_count++] = added;
    }
    byte_table_free(&seen);
    return status;
}

// One filter for each distinct beginning; false, with none, if there are too many. A token of one byte has no second
// byte.
static bool add_filters(struct hf_starts *starts, const struct trie_key *keys, int64_t count, unsigned char mask) {
    starts->filter_count = 0;
    for (int64_t i = 0; i < count; i++) {
        struct hf_filter filter = {(unsigned char)keys[i].text[0], 0, keys[i].length > 1 ? mask : 0};
        filter.second = filter.mask ? (unsigned char)keys[i].text[1] : 0;
        int at = 0;
        while (at < starts->filter_count && memcmp(&starts->filters[at], &filter, sizeof filter) != 0)
            at++;
        if (at == sizeof starts->filters / sizeof starts->filters[0]) {
            starts->filter_count = 0;
            return false;
        }
        starts->filters[at] = filter;
        starts->filter_count += at == starts->filter_count;
    }
    return true;
}

static void build_trie(struct hf *hf, bool normalized) {
    struct trie_key *keys = memory_alloc((size_t)(hf->added_count + 1) * sizeof *keys);
    struct hf_starts *starts = normalized ? &hf->normal_starts : &hf->raw_starts;
    int64_t count = 0;
    for (int64_t i = 0; i < hf->added_count; i++) {
        struct hf_string text = hf->added[i].normalized.text ? hf->added[i].normalized : hf->added[i].content;
        if (hf->added[i].is_normalized != normalized)
            continue;
        if (text.length == 0) {
            hf->empty_added = i;
            continue;
        }
        keys[count++] = (struct trie_key){text.text, text.length, (int32_t)i};
        starts->first[(unsigned char)text.text[0]] = true;
    }
    if (count > 0)
        trie_build(normalized ? &hf->normal_trie : &hf->raw_trie, keys, count);
    if (!add_filters(starts, keys, count, 0xFF))
        add_filters(starts, keys, count, 0);
    free(keys);
}

// Tokens that are searched for in normalized text are normalized themselves.
int hf_prepare_added(struct hf *hf) {
    struct hf_state state;
    hf_state_init(&state);
    int status = 0;
    for (int64_t i = 0; status == 0 && i < hf->added_count; i++) {
        struct hf_added *added = &hf->added[i];
        if (!added->is_normalized || hf->normalizer_count == 0)
            continue;
        status = hf_normalize(hf, &state, added->content.text, added->content.length, &(size_t){0});
        if (status == 0)
            added->normalized = hf_copy(buffer_string(&state.normal), state.normal.length);
    }
    hf_state_free(&state);
    if (status < 0)
        return -1;
    hf->empty_added = -1;
    build_trie(hf, false);
    build_trie(hf, true);
    return 0;
}
