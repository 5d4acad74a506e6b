// The way of a text through a tokenizer.json. Four shapes of it have a way of their own, in which the text is
// hardly ever rewritten: BERT's; byte-level BPE with a known pattern; BPE of words that U+2581 begins; T5's and
// Falcon's, word by word.
#include "data/tokenizer/hf.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

static const char mark[] = "\xE2\x96\x81";

void hf_state_init(struct hf_state *state) {
    *state = (struct hf_state){0};
    word_cache_create(&state->cache);
    piece_cache_create(&state->pieces);
    bert_state_create(&state->bert);
}

static void splits_free(struct hf_splits *splits) {
    buffer_free(&splits->text);
    free(splits->items);
}

void hf_state_free(struct hf_state *state) {
    splits_free(&state->parts);
    splits_free(&state->words);
    splits_free(&state->other);
    buffer_free(&state->normal);
    buffer_free(&state->swap);
    buffer_free(&state->piece);
    character_list_free(&state->characters);
    character_list_free(&state->more);
    pattern_scratch_free(&state->pattern);
    merge_scratch_free(&state->merge);
    unigram_scratch_free(&state->unigram);
    word_cache_free(&state->cache);
    piece_cache_free(&state->pieces);
    bert_state_free(&state->bert);
}

// ---- byte-level BPE ----

static int encode_byte_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                             struct token_list *out) {
    const struct hf *hf = opaque;
    struct hf_state *state = opaque_state;
    if (hf->ignore_merges) {
        buffer_clear(&state->piece);
        byte_map_write(&hf->bytes, piece, length, &state->piece);
        int32_t id = byte_table_find(&hf->vocab, state->piece.data, state->piece.length);
        if (id >= 0) {
            token_list_append(out, id);
            return 0;
        }
    }
    return merge_bytes(&hf->bpe, &state->merge, piece, length, out);
}

static int encode_bytes(const struct hf *hf, struct hf_state *state, const char *text, size_t length,
                        struct token_list *out) {
    if (hf->byte_prefix_space && length > 0 && text[0] != ' ') {
        buffer_clear(&state->swap);
        buffer_append_byte(&state->swap, ' ');
        buffer_append(&state->swap, text, length);
        text = state->swap.data;
        length++;
    }
    struct piece_model pieces = {.rules = hf->byte_rules, .table = hf->table, .encode = encode_byte_piece, .model = hf};
    return piece_encode(&pieces, &state->pieces, state, text, length, out);
}

// ---- BPE of marked words ----

static int encode_marked_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                               struct token_list *out) {
    struct hf_state *state = opaque_state;
    buffer_clear(&state->piece);
    for (size_t i = 0; i < length; i++)
        if (piece[i] == ' ')
            buffer_append(&state->piece, mark, sizeof mark - 1);
        else
            buffer_append_byte(&state->piece, (char)piece[i]);
    return hf_encode_bpe(opaque, state, state->piece.data, state->piece.length, out);
}

// A space stands for the mark in the text that is cut and remembered; `text` itself has none of the marks.
static int encode_marked(const struct hf *hf, struct hf_state *state, const char *text, size_t length, bool is_first,
                         struct token_list *out) {
    struct piece_model pieces = {
        .rules = &hf->mark_rules, .table = hf->table, .encode = encode_marked_piece, .model = hf};
    if (length == 0)
        return 0;
    if ((hf->mark_first == HF_PREPEND_ALWAYS || (hf->mark_first == HF_PREPEND_FIRST && is_first)) &&
        (text[0] != ' ' || hf->mark_doubles)) {
        size_t first = split_text(&hf->mark_rules, hf->table, (const unsigned char *)text, length);
        buffer_clear(&state->swap);
        buffer_append_byte(&state->swap, ' ');
        buffer_append(&state->swap, text, first);
        TRY(piece_encode(&pieces, &state->pieces, state, state->swap.data, state->swap.length, out));
        text += first;
        length -= first;
    }
    return piece_encode(&pieces, &state->pieces, state, text, length, out);
}

// ---- words between spaces ----

static bool is_printable(const unsigned char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] >= 0x7F)
            return false;
    return true;
}

// A word with the spaces before it; spaces and line feeds that only part words are left out.
static int encode_spaced_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                               struct token_list *out) {
    const struct hf *hf = opaque;
    struct hf_state *state = opaque_state;
    while (hf->space_rules.feeds && length > 0 && (*piece == ' ' || *piece == '\n')) {
        piece++;
        length--;
    }
    buffer_clear(&state->normal);
    if (hf->normalizer_count == 0 || is_printable(piece, length))
        buffer_append(&state->normal, piece, length);
    else
        TRY(hf_normalize(hf, state, (const char *)piece, length, &(size_t){0}));
    TRY(hf_pretokenize(hf, state, 0));
    for (size_t i = 0; i < state->words.count; i++) {
        const struct hf_split *word = &state->words.items[i];
        TRY(hf_encode_word(hf, state, state->words.text.data + word->begin, word->end - word->begin, out));
    }
    return 0;
}

// Characters that form no cluster with a blank beside them, in blocks that texts are full of. A charsmap takes
// clusters whole, so a word that begins or ends with another one may not be taken by itself.
static bool stands_by_itself(uint32_t c) {
    static const uint32_t ranges[][2] = {{0, 0x2FF},        {0x388, 0x482},     {0x48A, 0x52F},     {0x2010, 0x2027},
                                         {0x2030, 0x205E},  {0x20A0, 0x20C0},   {0x2190, 0x23FF},   {0x2600, 0x27BF},
                                         {0x3001, 0x3029},  {0x3041, 0x3096},   {0x30A1, 0x30FE},   {0x4E00, 0x9FFF},
                                         {0xAC00, 0xD7A3},  {0x1F300, 0x1F3FA}, {0x1F400, 0x1F64F}, {0x1F680, 0x1F6FF},
                                         {0x1F900, 0x1FAFF}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c <= ranges[i][1])
            return c >= ranges[i][0];
    return false;
}

static bool words_stand_by_themselves(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t character;
    for (size_t at = 1; at < length; at++) {
        bool high = bytes[at] >= 0x80, high_before = bytes[at - 1] >= 0x80;
        if (high == high_before)
            continue;
        unsigned char other = high ? bytes[at - 1] : bytes[at];
        if (other != ' ' && other != '\n')
            continue;
        size_t begin = at - !high;
        while (!high && begin > 0 && (bytes[begin] & 0xC0) == 0x80)
            begin--;
        utf8_decode(bytes + begin, length - begin, &character, NULL);
        if (!stands_by_itself(character))
            return false;
    }
    return true;
}

static int encode_spaced(const struct hf *hf, struct hf_state *state, const char *text, size_t length,
                         struct token_list *out) {
    struct piece_model pieces = {
        .rules = &hf->space_rules, .table = hf->table, .encode = encode_spaced_piece, .model = hf};
    return piece_encode(&pieces, &state->pieces, state, text, length, out);
}

// ---- any way ----

// Text without added tokens, normalized.
static int encode_normal(const struct hf *hf, struct hf_state *state, const struct hf_split *part, const char *text,
                         struct token_list *out) {
    size_t length = part->end - part->begin;
    if (hf->byte_rules)
        return encode_bytes(hf, state, text + part->begin, length, out);
    // The words' buffers are the pre-tokenizer's; the normalized text is copied so that it may stay where it is.
    buffer_clear(&state->normal);
    buffer_append(&state->normal, text + part->begin, length);
    TRY(hf_pretokenize(hf, state, part->zero));
    for (size_t i = 0; i < state->words.count; i++) {
        const struct hf_split *word = &state->words.items[i];
        TRY(hf_encode_word(hf, state, state->words.text.data + word->begin, word->end - word->begin, out));
    }
    return 0;
}

// Normalized text, out of which added tokens are cut.
static int encode_normalized(const struct hf *hf, struct hf_state *state, const char *text, size_t length, size_t zero,
                             struct token_list *out) {
    size_t begin = state->parts.count;
    hf_find_added(hf, true, text, length, &state->parts);
    int status = 0;
    for (size_t i = begin; status == 0 && i < state->parts.count; i++) {
        struct hf_split part = state->parts.items[i];
        part.zero = zero > part.begin ? zero - part.begin : 0;
        if (part.id >= 0)
            token_list_append(out, part.id);
        else
            status = encode_normal(hf, state, &part, text, out);
    }
    state->parts.count = begin;
    return status;
}

// Text as it came, out of which the added tokens that are not normalized have been cut.
static int encode_raw(const struct hf *hf, struct hf_state *state, const char *text, size_t length, size_t zero,
                      struct token_list *out) {
    if (hf->is_bert && hf->normal_trie.size == 0)
        return bert_encode(&hf->bert, &state->bert, text, length, out);
    if (hf->is_marked && !memmem(text, length, mark, sizeof mark - 1))
        return encode_marked(hf, state, text, length, zero > 0, out);
    if (hf->is_spaced && !hf->byte_rules && (hf->normalizer_count == 0 || words_stand_by_themselves(text, length)))
        return encode_spaced(hf, state, text, length, out);
    if (hf->normalizer_count == 0)
        return encode_normalized(hf, state, text, length, zero, out);
    TRY(hf_normalize(hf, state, text, length, &zero));
    // The buffer is handed on whole, since what follows uses state->normal.
    struct buffer normal = state->normal;
    state->normal = (struct buffer){0};
    int status = encode_normalized(hf, state, buffer_string(&normal), normal.length, zero, out);
    buffer_free(&state->normal);
    state->normal = normal;
    return status;
}

static int encode_well_formed(const struct hf *hf, struct hf_state *state, const char *text, size_t length,
                              struct token_list *out) {
    state->parts.count = 0;
    hf_find_added(hf, false, text, length, &state->parts);
    size_t count = state->parts.count, first = 0;
    uint32_t character;
    if (length > 0)
        first = utf8_decode((const unsigned char *)text, length, &character, NULL);
    for (size_t i = 0; i < count; i++) {
        struct hf_split part = state->parts.items[i];
        if (part.id >= 0)
            token_list_append(out, part.id);
        else
            TRY(encode_raw(hf, state, text + part.begin, part.end - part.begin, part.begin == 0 ? first : 0, out));
    }
    return 0;
}

int hf_encode(const struct hf *hf, struct hf_state *state, const char *text, size_t length, struct token_list *out) {
    token_list_reserve(out, 1);  // a word may give no ids, and then the list must still be a place
    if (utf8_check(text, length) == length)
        return encode_well_formed(hf, state, text, length, out);
    struct buffer clean = {0};
    for (size_t at = 0; at < length;) {
        uint32_t character;
        char bytes[4];
        at += utf8_decode((const unsigned char *)text + at, length - at, &character, NULL);
        buffer_append(&clean, bytes, utf8_encode(character, bytes));
    }
    int status = encode_well_formed(hf, state, clean.data, clean.length, out);
    buffer_free(&clean);
    return status;
}
