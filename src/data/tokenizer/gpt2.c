// GPT2BPETokenizer, as in Megatron up to core 0.14 and in OpenAI's encoder: GPT-2's pattern splits the text, and each
// piece is merged. Text that reads like a special token ("<|endoftext|>") is ordinary text. Every byte string can be
// encoded and decodes to itself.
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/piece_encode.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>

static const char end_of_text[] = "<|endoftext|>";

struct gpt2_model {
    struct bpe *bpe;
    struct unicode_table *table;
};

struct gpt2_state {
    struct piece_cache cache;
    struct merge_scratch scratch;
};

static int gpt2_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (!options->vocab_file || !options->merge_file)
        return error_set_code(EXIT_CODE_USAGE,
                              "GPT2BPETokenizer needs --vocab-file vocab.json and --merge-file merges.txt");
    if (options->as_today)
        return hf_tokenizer_open_gpt2(tokenizer, options);
    struct vocabulary vocabulary;
    TRY(vocabulary_read_json(&vocabulary, options->vocab_file));
    struct bpe *bpe = NULL;
    int status = bpe_open(&bpe, &vocabulary, options->vocab_file, options->merge_file);
    tokenizer->vocab_size = vocabulary.size;
    tokenizer->eod = vocabulary_find(&vocabulary, end_of_text, sizeof end_of_text - 1);
    vocabulary_free(&vocabulary);
    TRY(status);
    if (tokenizer->eod < 0 && !options->eod_token) {
        bpe_free(bpe);
        return error_set("%s has no end-of-document token \"%s\"; name another token with --eod-token TEXT, or add "
                         "this one with its own id",
                         options->vocab_file, end_of_text);
    }
    struct gpt2_model *model = tokenizer->model = memory_alloc(sizeof *model);
    *model = (struct gpt2_model){bpe, split_table_create()};
    return 0;
}

static void gpt2_close(struct tokenizer *tokenizer) {
    struct gpt2_model *model = tokenizer->model;
    bpe_free(model->bpe);
    free(model->table);
    free(model);
}

static int gpt2_state_create(const struct tokenizer *tokenizer, void **opaque) {
    (void)tokenizer;
    struct gpt2_state *state = memory_alloc(sizeof *state);
    piece_cache_create(&state->cache);
    *opaque = state;
    return 0;
}

static void gpt2_state_free(void *opaque) {
    struct gpt2_state *state = opaque;
    piece_cache_free(&state->cache);
    merge_scratch_free(&state->scratch);
    free(state);
}

static int encode_piece(const void *bpe, void *opaque, const unsigned char *piece, size_t length,
                        struct token_list *out) {
    struct gpt2_state *state = opaque;
    return bpe_encode(bpe, &state->scratch, piece, length, out);
}

static int gpt2_encode(const struct tokenizer *tokenizer, void *opaque, const char *text, size_t length,
                       struct token_list *out) {
    const struct gpt2_model *model = tokenizer->model;
    struct gpt2_state *state = opaque;
    struct piece_model pieces = {
        .rules = &split_rules_gpt2, .table = model->table, .encode = encode_piece, .model = model->bpe};
    return piece_encode(&pieces, &state->cache, state, text, length, out);
}

static int gpt2_decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    const struct gpt2_model *model = tokenizer->model;
    const struct bpe *bpe = model->bpe;
    for (int64_t i = 0; i < count; i++) {
        size_t begin = bpe->begin[ids[i]], end = bpe->begin[ids[i] + 1];
        if (begin == end)
            return error_set_code(EXIT_CODE_BAD_DATA,
                                  "no token has id %" PRId32 " (number %" PRId64
                                  "); decode with the tokenizer that made the ids",
                                  ids[i], i);
        buffer_append(out, bpe->bytes + begin, end - begin);
    }
    return 0;
}

// The bytes, not the characters that stand for them in vocab.json.
static const char *gpt2_token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct gpt2_model *model = tokenizer->model;
    const struct bpe *bpe = model->bpe;
    *length = bpe->begin[id + 1] - bpe->begin[id];
    return *length > 0 ? (const char *)bpe->bytes + bpe->begin[id] : NULL;
}

static int gpt2_describe(const struct tokenizer *tokenizer, struct hf_parts *parts) {
    const struct gpt2_model *model = tokenizer->model;
    hf_describe_gpt2(model->bpe, parts);
    return 0;
}

const struct tokenizer_kind tokenizer_kind_gpt2 = {
    .name = "GPT2BPETokenizer",
    .open = gpt2_open,
    .close = gpt2_close,
    .state_create = gpt2_state_create,
    .state_free = gpt2_state_free,
    .encode = gpt2_encode,
    .decode = gpt2_decode,
    .token = gpt2_token,
    .describe = gpt2_describe,
};
