// TikTokenizer: rank files of tiktoken, Megatron's JSON form of them, and Mistral's tekken.json. As in Megatron up to
// core 0.14, text that reads like a special token is ordinary text (tiktoken's encode_ordinary); with
// --no-legacy-tokenizer it is that token. Bytes that are not UTF-8 are encoded as they are, so every byte string
// decodes to itself.
#include "data/tokenizer/tiktoken.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/piece_encode.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// ---- encoding ----

static void tiktoken_close(struct tokenizer *tokenizer) {
    tiktoken_model_free(tokenizer->model);
}

static int encode_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                        struct token_list *out) {
    const struct tiktoken_model *model = opaque;
    struct piece_state *state = opaque_state;
    int32_t rank = byte_table_find(&model->ranks.tokens, piece, length);
    if (rank >= 0) {
        token_list_append(out, rank + model->shift);
        return 0;
    }
    return merge_bytes(&model->bpe, &state->merge, piece, length, out);
}

// Pieces are the matches of the pattern; as in tiktoken, text between matches is dropped.
static int encode_matches(const struct tiktoken_model *model, struct piece_state *state, const char *text,
                          size_t length, struct token_list *out) {
    const unsigned char *bytes = (const unsigned char *)text;
    struct pattern_match match;
    uint32_t character;
    for (size_t from = 0; from < length;) {
        int found = pattern_find(model->pattern, &state->pattern, bytes, length, from, &match);
        if (found != 1)
            return found;
        if (match.begin < match.end)
            TRY(encode_piece(model, state, bytes + match.begin, match.end - match.begin, out));
        from = match.end;
        if (match.begin == match.end && from < length)
            from += utf8_decode(bytes + from, length - from, &character, NULL);
    }
    return 0;
}

static int encode_ordinary(const struct tiktoken_model *model, struct piece_state *state, const char *begin,
                           const char *end, struct token_list *out) {
    if (!model->splitter)
        return encode_matches(model, state, begin, (size_t)(end - begin), out);
    struct piece_model pieces = {.splitter = model->splitter, .encode = encode_piece, .model = model};
    return piece_encode(&pieces, &state->cache, state, begin, (size_t)(end - begin), out);
}

static int encode(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                  struct token_list *out) {
    const struct tiktoken_model *model = tokenizer->model;
    const char *begin = text, *end = text + length;
    for (const char *at = text; model->special_trie.size && at < end; at++) {
        if (!model->begins_special[(unsigned char)*at])
            continue;
        struct trie_match match = trie_longest(&model->special_trie, at, (size_t)(end - at), INT_MAX);
        if (match.length == 0)
            continue;
        TRY(encode_ordinary(model, state, begin, at, out));
        token_list_append(out, match.value);
        begin = at + match.length;
        at = begin - 1;
    }
    return encode_ordinary(model, state, begin, end, out);
}

// ---- decoding ----

static const struct byte_string *find_special(const struct tiktoken_model *model, int32_t id) {
    for (int64_t i = 0; i < model->specials.count; i++)
        if (model->specials.strings[i].value == id)
            return &model->specials.strings[i];
    return NULL;
}

// The name of a special token, the bytes of any other.
static const char *token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct tiktoken_model *model = tokenizer->model;
    const char *bytes = id < model->bpe.vocab_size ? bpe_token(&model->bpe, id, length) : NULL;
    if (bytes)
        return bytes;
    const struct byte_string *special = find_special(model, id);
    *length = special ? special->length : 0;
    return special ? byte_table_text(&model->specials, special) : NULL;
}

static int decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    const struct tiktoken_model *model = tokenizer->model;
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *text = token(tokenizer, ids[i], &length);
        if (text)
            buffer_append(out, text, length);
        else if (model->ranks.empty < 0 || ids[i] != model->ranks.empty + model->shift)
            return tokenizer_no_token(ids[i], i);
    }
    return 0;
}

static int describe(const struct tokenizer *tokenizer, struct hf_parts *parts) {
    const struct tiktoken_model *model = tokenizer->model;
    for (int64_t i = 0; i < model->specials.count; i++) {
        const struct byte_string *special = &model->specials.strings[i];
        const char *name = model->specials.bytes.data + special->begin;
        hf_parts_add(parts, name, special->length, (int32_t)special->value);
        if (special->length == 5 && memcmp(name, "<unk>", 5) == 0)
            parts->unknown = (int32_t)special->value;
    }
    hf_write_byte_model(parts, &(struct hf_byte_model){.bpe = &model->bpe, .ignore_merges = true});
    struct buffer pattern = {0};
    buffer_append_string(&pattern, model->pattern_text);
    struct json_writer json = hf_part(&parts->pre_tokenizer);
    hf_begin_sequence(&json, "pretokenizers");
    if (!model->splitter)  // text that a custom pattern does not match is dropped
        hf_step_split(&json, &pattern, "Removed", true);
    else
        hf_step_split(&json, &pattern, "Isolated", false);
    hf_step_byte_level(&json, false, false);
    hf_end_sequence(&json);
    buffer_free(&pattern);
    return 0;
}

const struct tokenizer_kind tokenizer_kind_tiktoken = {
    .name = "TikTokenizer",
    .open = tiktoken_open,
    .close = tiktoken_close,
    .state_create = piece_state_create,
    .state_free = piece_state_free,
    .encode = encode,
    .decode = decode,
    .token = token,
    .describe = describe,
};
