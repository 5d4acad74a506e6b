// What the model of a tokenizer.json makes of one word: BPE, WordPiece, Unigram or WordLevel, each with its own rule
// for characters that no token stands for.
#include "data/tokenizer/hf.h"
#include "base/error.h"
#include "base/utf8.h"
#include <string.h>

// ---- BPE ----

// Characters that no token stands for: kept back, so that a run of them can become one.
struct unknown_run {
    const struct hf *hf;
    struct token_list *out;
    bool pending;
};

static void flush_unknown(struct unknown_run *run) {
    if (run->pending)
        token_list_append(run->out, run->hf->unknown);
    run->pending = false;
}

static int add_unknown(struct unknown_run *run) {
    if (run->hf->drops_unknown)
        return 0;
    if (run->hf->unknown < 0)
        return error_set("%s: a character is unknown, and \"unk_token\" is not in the vocabulary", run->hf->name);
    if (!run->hf->fuse_unknown)
        flush_unknown(run);
    run->pending = true;
    return 0;
}

static bool add_bytes(const struct hf *hf, const char *text, size_t length, struct token_list *out) {
    for (size_t i = 0; i < length; i++)
        if (hf->byte_tokens[(unsigned char)text[i]] < 0)
            return false;
    for (size_t i = 0; i < length; i++)
        token_list_append(out, hf->byte_tokens[(unsigned char)text[i]]);
    return true;
}

// The symbol of one character, with the prefix of pieces inside a word and the suffix of its end.
static int add_symbol(const struct hf *hf, struct hf_state *state, struct pattern_match character, const char *word,
                      size_t length, struct unknown_run *run) {
    const char *text = word + character.begin;
    size_t bytes = character.end - character.begin;
    bool prefixed = character.begin > 0 && hf->prefix.length > 0;
    bool suffixed = character.end == length && hf->suffix.length > 0;
    if (prefixed || suffixed) {
        buffer_clear(&state->piece);
        if (prefixed)
            buffer_append(&state->piece, hf->prefix.text, hf->prefix.length);
        buffer_append(&state->piece, text, bytes);
        if (suffixed)
            buffer_append(&state->piece, hf->suffix.text, hf->suffix.length);
        text = state->piece.data;
        bytes = state->piece.length;
    }
    int32_t id = byte_table_find(&hf->vocab, text, bytes);
    if (id >= 0) {
        flush_unknown(run);
        token_list_append(run->out, id);
        return 0;
    }
    if (hf->byte_fallback && add_bytes(hf, text, bytes, run->out))
        return 0;
    return add_unknown(run);
}

int hf_encode_bpe(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                  struct token_list *out) {
    if (hf->ignore_merges) {
        int32_t id = byte_table_find(&hf->vocab, word, length);
        if (id >= 0) {
            token_list_append(out, id);
            return 0;
        }
    }
    TRY(bpe_check_length(length));
    int64_t before = out->count;
    struct unknown_run run = {hf, out, false};
    for (size_t at = 0; at < length;) {
        uint32_t character;
        size_t bytes = utf8_decode((const unsigned char *)word + at, length - at, &character, NULL);
        TRY(add_symbol(hf, state, (struct pattern_match){at, at + bytes}, word, length, &run));
        at += bytes;
    }
    flush_unknown(&run);
    if (out->count > before)
        out->count = before + merge_ids(&hf->bpe, &state->merge, out->ids + before, out->count - before);
    return 0;
}

// ---- Unigram ----

// A run of unknown pieces is one string, which may be a token after all.
static int add_unknown_pieces(const struct hf *hf, const char *text, size_t length, struct token_list *out) {
    int32_t id = trie_find(&hf->unigram.trie, text, length);
    if (id < 0) {
        if (hf->byte_fallback && add_bytes(hf, text, length, out))
            return 0;
        id = hf->unknown;
    }
    if (id < 0)
        return error_set("%s: a character is unknown, and there is no \"unk_id\"", hf->name);
    token_list_append(out, id);
    return 0;
}

static int encode_unigram(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                          struct token_list *out) {
    TRY(bpe_check_length(length));
    unigram_best(&hf->unigram, &state->unigram, word, length);
    size_t at = 0, unknown = 0;  // bytes of unknown pieces before `at`
    for (int64_t i = 0; i < state->unigram.count; i++) {
        struct unigram_piece piece = state->unigram.pieces[i];
        if (piece.id == hf->unknown) {
            unknown += (size_t)piece.length;
        } else {
            if (unknown > 0)
                TRY(add_unknown_pieces(hf, word + at - unknown, unknown, out));
            unknown = 0;
            token_list_append(out, piece.id);
        }
        at += (size_t)piece.length;
    }
    return unknown > 0 ? add_unknown_pieces(hf, word + at - unknown, unknown, out) : 0;
}

// ---- all models ----

static int encode_wordlevel(const struct hf *hf, const char *word, size_t length, struct token_list *out) {
    int32_t id = byte_table_find(&hf->vocab, word, length);
    if (id < 0)
        id = hf->unknown;
    if (id < 0)
        return error_set("%s: a word is unknown, and so is \"unk_token\"", hf->name);
    token_list_append(out, id);
    return 0;
}

static int encode_piece(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                        struct token_list *out) {
    switch (hf->model) {
    case HF_MODEL_BPE:
        return hf_encode_bpe(hf, state, word, length, out);
    case HF_MODEL_WORDPIECE:
        return wordpiece_encode_word(&hf->wordpiece, (const unsigned char *)word, length, out);
    case HF_MODEL_UNIGRAM:
        return encode_unigram(hf, state, word, length, out);
    case HF_MODEL_WORDLEVEL:
    default:
        return encode_wordlevel(hf, word, length, out);
    }
}

static int encode_cached(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                         struct token_list *out) {
    if (length > WORD_CACHE_MAX_BYTES)
        return encode_piece(hf, state, word, length, out);
    struct word_key key = word_key_of((const unsigned char *)word, length, length);
    struct word_bucket *bucket = word_cache_bucket(&state->cache, key);
    const struct word_entry *entry = word_cache_find(bucket, key);
    if (entry) {
        for (int i = 0; i < WORD_CACHE_MAX_IDS && entry->ids[i] >= 0; i++)
            token_list_append(out, entry->ids[i]);
        return 0;
    }
    int64_t before = out->count;
    TRY(encode_piece(hf, state, word, length, out));
    word_cache_add(bucket, key, out->ids + before, out->count - before);
    return 0;
}

// End of the piece of a long word that begins at `at`: the next mark that another character stands before.
static size_t next_cut(const char *word, size_t length, size_t at) {
    static const char mark[] = "\xE2\x96\x81";
    while (length - at >= 3 && memcmp(word + at, mark, 3) == 0)
        at += 3;
    const char *found = memmem(word + at, length - at, mark, 3);
    return found ? (size_t)(found - word) : length;
}

int hf_encode_word(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                   struct token_list *out) {
    if (hf->model != HF_MODEL_BPE || !hf->cuts_at_mark)
        return encode_cached(hf, state, word, length, out);
    for (size_t at = 0; at < length;) {
        size_t end = next_cut(word, length, at);
        TRY(encode_cached(hf, state, word + at, end - at, out));
        at = end;
    }
    return 0;
}
