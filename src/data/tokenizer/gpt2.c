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
    struct splitter *splitter;
};

static int gpt2_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (options->model_file && !options->vocab_file)
        return error_set_code(EXIT_CODE_USAGE,
                              "--tokenizer-model %s is for another --tokenizer-type: HuggingFaceTokenizer for a "
                              "folder or a tokenizer.json, SentencePieceTokenizer, TikTokenizer, …; the default, "
                              "GPT2BPETokenizer, needs --vocab-file vocab.json and --merge-file merges.txt",
                              options->model_file);
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
    *model = (struct gpt2_model){bpe, splitter_create(split_pattern_by_name("gpt2"))};
    return 0;
}

static void gpt2_close(struct tokenizer *tokenizer) {
    struct gpt2_model *model = tokenizer->model;
    bpe_free(model->bpe);
    splitter_free(model->splitter);
    free(model);
}

static int encode_piece(const void *bpe, void *opaque, const unsigned char *piece, size_t length,
                        struct token_list *out) {
    struct piece_state *state = opaque;
    return bpe_encode(bpe, &state->merge, piece, length, out);
}

static int gpt2_encode(const struct tokenizer *tokenizer, void *opaque, const char *text, size_t length,
                       struct token_list *out) {
    const struct gpt2_model *model = tokenizer->model;
    struct piece_state *state = opaque;
    struct piece_model pieces = {.splitter = model->splitter, .encode = encode_piece, .model = model->bpe};
    return piece_encode(&pieces, &state->cache, state, text, length, out);
}

// The bytes, not the characters that stand for them in vocab.json.
static const char *gpt2_token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct gpt2_model *model = tokenizer->model;
    return bpe_token(model->bpe, id, length);
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
    .state_create = piece_state_create,
    .state_free = piece_state_free,
    .encode = gpt2_encode,
    .token = gpt2_token,
    .describe = gpt2_describe,
};
