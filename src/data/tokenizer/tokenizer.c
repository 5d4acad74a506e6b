// The table of tokenizer kinds and their common parts: lookup by name, ownership, range checks.
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/token_list.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// ---- lists ----

void token_list_free(struct token_list *list) {
    free(list->ids);
    *list = (struct token_list){0};
}

void token_list_reserve(struct token_list *list, int64_t extra) {
    if (list->capacity - list->count >= extra)
        return;
    int64_t capacity = list->capacity ? list->capacity * 2 : 256;
    if (capacity < list->count + extra)
        capacity = list->count + extra;
    list->ids = memory_realloc(list->ids, (size_t)capacity * sizeof *list->ids);
    list->capacity = capacity;
}

// ---- kinds ----

static const struct tokenizer_kind *const kinds[] = {
    &tokenizer_kind_gpt2,
    &tokenizer_kind_bert_lower,
    &tokenizer_kind_bert_case,
    &tokenizer_kind_sentencepiece,
    &tokenizer_kind_gpt_sentencepiece,
    &tokenizer_kind_llama2,
    &tokenizer_kind_tiktoken,
    &tokenizer_kind_hf,
    &tokenizer_kind_fairseq,
    &tokenizer_kind_null,
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

// Megatron's other types, to tell them from misspellings.
static const char *const known_elsewhere[] = {
    "MultimodalTokenizer",
    "NullMultimodalTokenizer",
    "SFTTokenizer",
};

struct tokenizer_encoder {
    const struct tokenizer *tokenizer;
    void *state;
};

static void list_types(struct buffer *out) {
    for (size_t i = 0; i < KIND_COUNT; i++)
        buffer_printf(out, "%s%s", i ? ", " : "", kinds[i]->name);
}

static int unknown_type(const char *type) {
    struct buffer names = {0};
    list_types(&names);
    const char *why = "is not a tokenizer type";
    if (strcmp(type, "auto") == 0)
        why = "is for train with text; here, train a tokenizer first (`bevatron tokenizer train`), and name its files";
    for (size_t i = 0; i < sizeof known_elsewhere / sizeof known_elsewhere[0]; i++)
        if (strcmp(type, known_elsewhere[i]) == 0)
            why = "is not supported by this version";
    const char *meant = NULL;
    for (size_t i = 0; i < KIND_COUNT && *type && !meant; i++)
        meant = strncasecmp(kinds[i]->name, type, strlen(type)) == 0 ? kinds[i]->name : NULL;
    error_set_code(EXIT_CODE_USAGE, "--tokenizer-type %s %s%s%s%s; supported: %s", type, why,
                   meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "", buffer_string(&names));
    buffer_free(&names);
    return -1;
}

static bool is_named(const struct tokenizer *tokenizer, int32_t id, const char *text, size_t length) {
    size_t name_length;
    const char *name = tokenizer_token(tokenizer, id, &name_length);
    return name && name_length == length && memcmp(name, text, length) == 0;
}

static bool reads_like(const struct tokenizer *tokenizer, int32_t id, const char *text, size_t length,
                       struct buffer *decoded) {
    buffer_clear(decoded);
    if (tokenizer_decode(tokenizer, &id, 1, decoded) < 0) {
        error_clear();
        return false;
    }
    return decoded->length == length && memcmp(decoded->data, text, length) == 0;
}

// --eod-token: the token that the vocabulary writes like this ("<eos>"), else the only one that decodes to the text
// ("\n").
static int name_end(struct tokenizer *tokenizer, const char *text) {
    size_t length = strlen(text);
    int32_t found = -1, other = -1;
    if (length == 0)
        return error_set_code(EXIT_CODE_USAGE, "--eod-token is empty; give the text of one token, e.g. \"</s>\"");
    for (int32_t id = 0; found < 0 && id < tokenizer->vocab_size; id++)
        if (is_named(tokenizer, id, text, length))
            found = id;
    struct buffer decoded = {0};
    for (int32_t id = 0; found < 0 && other < 0 && id < tokenizer->vocab_size; id++)
        if (reads_like(tokenizer, id, text, length, &decoded))
            other = id;
    for (int32_t id = other + 1; other >= 0 && found < 0 && id < tokenizer->vocab_size; id++)
        if (reads_like(tokenizer, id, text, length, &decoded))
            found = id;
    buffer_free(&decoded);
    if (other >= 0 && found >= 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--eod-token \"%s\": the tokens %" PRId32 " and %" PRId32
                              " both read like it; give it as the vocabulary writes it",
                              text, other, found);
    tokenizer->eod = found >= 0 ? found : other;
    if (tokenizer->eod < 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--eod-token \"%s\" is not a token of this tokenizer; `bevatron tokenizer inspect "
                              "--tokens` lists its tokens",
                              text);
    return 0;
}

int tokenizer_open(struct tokenizer **tokenizer, const struct tokenizer_options *options) {
    *tokenizer = NULL;
    const char *type = options->type ? options->type : tokenizer_kind_gpt2.name;
    // Megatron-DeepSpeed's and BigCode's names, with the same ids.
    static const char *const forks[] = {"PretrainedFromHF", "HFTokenizer", "TokenizerFromFile"};
    for (size_t i = 0; i < sizeof forks / sizeof forks[0]; i++)
        if (strcmp(type, forks[i]) == 0)
            type = tokenizer_kind_hf.name;
    const struct tokenizer_kind *kind = NULL;
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (strcmp(type, kinds[i]->name) == 0)
            kind = kinds[i];
    if (!kind)
        return unknown_type(type);
    struct tokenizer *opened = memory_alloc(sizeof *opened);
    opened->kind = kind;
    if (kind->open(opened, options) < 0) {
        free(opened);
        return file_kind_explain(type, options);
    }
    CHECK(opened->vocab_size > 0 && opened->vocab_size <= INT32_MAX);
    CHECK(opened->eod >= -1 && opened->eod < opened->vocab_size);
    if (options->eod_token && name_end(opened, options->eod_token) < 0) {
        tokenizer_free(opened);
        return -1;
    }
    *tokenizer = opened;
    return 0;
}

int tokenizer_list_special(const struct tokenizer *tokenizer, bool *is_special) {
    struct hf_parts parts = {.unknown = -1, .bos = -1, .pad = -1};
    memset(is_special, 0, (size_t)tokenizer->vocab_size * sizeof *is_special);
    if (!tokenizer->kind->describe)
        return error_set_code(EXIT_CODE_USAGE, "%s does not know its special tokens; use HuggingFaceTokenizer",
                              tokenizer->kind->name);
    int status = tokenizer->kind->describe(tokenizer, &parts);
    for (size_t i = 0; status == 0 && i < parts.token_count; i++)
        if (parts.tokens[i].id >= 0 && parts.tokens[i].id < tokenizer->vocab_size)
            is_special[parts.tokens[i].id] = true;
    hf_parts_free(&parts);
    return status;
}

void tokenizer_free(struct tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    if (tokenizer->kind->close)
        tokenizer->kind->close(tokenizer);
    free(tokenizer);
}

const char *tokenizer_type(const struct tokenizer *tokenizer) {
    return tokenizer->kind->name;
}

int64_t tokenizer_vocab_size(const struct tokenizer *tokenizer) {
    return tokenizer->vocab_size;
}

int64_t tokenizer_own_size(const struct tokenizer *tokenizer) {
    return tokenizer->own_size ? tokenizer->own_size : tokenizer->vocab_size;
}

int32_t tokenizer_eod(const struct tokenizer *tokenizer) {
    return tokenizer->eod;
}

int tokenizer_no_token(int32_t id, int64_t index) {
    return error_set_code(
        EXIT_CODE_BAD_DATA,
        "no token has id %" PRId32 " (number %" PRId64 "); decode with the tokenizer that made the ids", id, index);
}

static int decode_tokens(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *text = tokenizer->kind->token(tokenizer, ids[i], &length);
        if (!text)
            return tokenizer_no_token(ids[i], i);
        buffer_append(out, text, length);
    }
    return 0;
}

int tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    // Without ids there may be no array.
    if (count == 0)
        return 0;
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= tokenizer->vocab_size)
            return error_set_code(EXIT_CODE_BAD_DATA,
                                  "token id %" PRId32 " (number %" PRId64 ") is outside the vocabulary of %" PRId64
                                  " tokens; decode with the tokenizer that made the ids",
                                  ids[i], i, tokenizer->vocab_size);
    size_t before = out->length;
    int (*decode)(const struct tokenizer *, const int32_t *, int64_t, struct buffer *) =
        tokenizer->kind->decode ? tokenizer->kind->decode : decode_tokens;
    if (decode(tokenizer, ids, count, out) < 0) {
        out->length = before;
        if (out->data)
            out->data[before] = 0;
        return -1;
    }
    return 0;
}

const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    *length = 0;
    if (!tokenizer->kind->token || id < 0 || id >= tokenizer->vocab_size)
        return NULL;
    return tokenizer->kind->token(tokenizer, id, length);
}

int tokenizer_encoder_create(struct tokenizer_encoder **encoder, const struct tokenizer *tokenizer) {
    void *state = NULL;
    *encoder = NULL;
    if (tokenizer->kind->state_create)
        TRY(tokenizer->kind->state_create(tokenizer, &state));
    *encoder = memory_alloc(sizeof **encoder);
    (*encoder)->tokenizer = tokenizer;
    (*encoder)->state = state;
    return 0;
}

void tokenizer_encoder_free(struct tokenizer_encoder *encoder) {
    if (!encoder)
        return;
    if (encoder->tokenizer->kind->state_free)
        encoder->tokenizer->kind->state_free(encoder->state);
    free(encoder);
}

int tokenizer_encode(struct tokenizer_encoder *encoder, const char *text, size_t length, struct token_list *out) {
    const struct tokenizer *tokenizer = encoder->tokenizer;
    int64_t before = out->count;
    if (tokenizer->kind->encode(tokenizer, encoder->state, text, length, out) < 0) {
        out->count = before;
        return -1;
    }
    return 0;
}

// ---- text that grows ----

// Both decodings, with and without the new ids, start at the same id,
// so that changes that a tokenizer makes at the beginning of a text are in both and cancel out.

void token_stream_begin(struct token_stream *stream, const int32_t *ids, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        token_list_append(&stream->ids, ids[i]);
    stream->said = stream->ids.count;
}

// Whether the text ends in U+FFFD, which stands for an incomplete character.
static bool is_cut(const struct buffer *text) {
    return text->length >= 3 && memcmp(text->data + text->length - 3, "\xEF\xBF\xBD", 3) == 0;
}

static int say(struct token_stream *stream, bool is_last, struct buffer *out) {
    const int32_t *ids = stream->ids.ids + stream->start;
    struct buffer before = {0}, after = {0};
    int status = tokenizer_decode(stream->tokenizer, ids, stream->said - stream->start, &before);
    if (status == 0)
        status = tokenizer_decode(stream->tokenizer, ids, stream->ids.count - stream->start, &after);
    if (status == 0 && (is_last || !is_cut(&after))) {
        size_t common = 0;
        while (common < before.length && common < after.length && before.data[common] == after.data[common])
            common++;
        buffer_append(out, buffer_string(&after) + common, after.length - common);
        // If nothing was added, the next token would look like the beginning of a text.
        if (after.length > common)
            stream->start = stream->said;
        stream->said = stream->ids.count;
    }
    buffer_free(&before);
    buffer_free(&after);
    return status;
}

int token_stream_add(struct token_stream *stream, int32_t id, struct buffer *out) {
    token_list_append(&stream->ids, id);
    return say(stream, false, out);
}

int token_stream_end(struct token_stream *stream, struct buffer *out) {
    return stream->said == stream->ids.count ? 0 : say(stream, true, out);
}

void token_stream_free(struct token_stream *stream) {
    token_list_free(&stream->ids);
    *stream = (struct token_stream){0};
}

// ---- NullTokenizer ----

// NullTokenizer: the text consists of ids, decimal numbers separated by spaces, for data that was tokenized elsewhere.
// --vocab-size N gives ids 0…N-1 and one more, N, that ends a document, as in Megatron up to core 0.14. With
// --null-tokenizer-eod-id E there are N ids in total, and E ends a document, as in later versions.

static int null_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (options->vocab_size < 1 || options->vocab_size >= INT32_MAX)
        return error_set_code(EXIT_CODE_USAGE, "NullTokenizer needs --vocab-size N, 1 <= N < %d", INT32_MAX);
    tokenizer->vocab_size = options->vocab_size + 1;
    tokenizer->eod = (int32_t)options->vocab_size;
    if (options->null_eod_given) {
        if (options->null_eod_id < 0 || options->null_eod_id >= options->vocab_size)
            return error_set_code(EXIT_CODE_USAGE,
                                  "--null-tokenizer-eod-id %" PRId64 " is not in [0, --vocab-size %" PRId64 ")",
                                  options->null_eod_id, options->vocab_size);
        tokenizer->vocab_size = options->vocab_size;
        tokenizer->eod = (int32_t)options->null_eod_id;
    }
    return 0;
}

static int null_encode(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                       struct token_list *out) {
    (void)state;
    size_t at = 0;
    while (at < length) {
        char byte = text[at];
        if (byte == ' ' || (byte >= '\t' && byte <= '\r')) {
            at++;
            continue;
        }
        int64_t id = 0;
        size_t begin = at;
        while (at < length && text[at] >= '0' && text[at] <= '9' && id < tokenizer->vocab_size)
            id = id * 10 + (text[at++] - '0');
        if (at == begin || (at < length && text[at] != ' ' && (text[at] < '\t' || text[at] > '\r')) ||
            id >= tokenizer->vocab_size)
            return error_set_code(EXIT_CODE_BAD_DATA,
                                  "byte %zu of the text is not part of a token id in [0, %" PRId64
                                  "); NullTokenizer takes decimal ids separated by spaces",
                                  begin, tokenizer->vocab_size);
        token_list_append(out, (int32_t)id);
    }
    return 0;
}

static int null_decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    (void)tokenizer;
    for (int64_t i = 0; i < count; i++)
        buffer_printf(out, "%s%" PRId32, i ? " " : "", ids[i]);
    return 0;
}

const struct tokenizer_kind tokenizer_kind_null = {
    .name = "NullTokenizer",
    .open = null_open,
    .encode = null_encode,
    .decode = null_decode,
};
