// HuggingFaceTokenizer: --tokenizer-model is a tokenizer.json, or a folder that has one. As in Megatron, the ids of a
// text are those of a plain call of the tokenizer, so a file that puts a begin or an end around texts does so here;
// --tokenizer-hf-no-include-special-tokens leaves them out. The end of a document is "eos_token" of the
// tokenizer_config.json beside the file, else one of the usual names.
#include "data/tokenizer/hf_tokenizer.h"
#include "data/tokenizer/hf.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 28 };

struct hf_tokenizer {
    struct hf *hf;
    struct buffer text;  // of a tokenizer.json that is not a file; else empty
    bool adds_specials;
};

static int32_t find_token(const struct hf *hf, const char *name, size_t length) {
    for (int64_t i = 0; i < hf->added_count; i++)
        if (hf->added[i].content.length == length && memcmp(hf->added[i].content.text, name, length) == 0)
            return hf->added[i].id;
    return byte_table_find(&hf->vocab, name, length);
}

// "eos_token": "</s>" or {"content": "</s>", …}. -1 if the configuration has none that is a token.
static int32_t configured_end(const struct hf *hf, const char *path) {
    struct json *root;
    if (!file_exists(path))
        return -1;
    if (json_parse_file(&root, path, LARGEST_FILE) < 0) {
        error_clear();
        return -1;
    }
    const struct json *end = json_member(root, "eos_token");
    if (end && end->type == JSON_OBJECT)
        end = json_member(end, "content");
    int32_t id = end && end->type == JSON_STRING ? find_token(hf, end->string, end->length) : -1;
    json_free(root);
    return id;
}

static int32_t find_end(const struct hf *hf, const char *path) {
    static const char *const usual[] = {"<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "[EOS]", "<|im_end|>"};
    // The second is what a checkpoint of ours calls its copy.
    static const char *const configs[] = {"tokenizer_config.json", "huggingface_tokenizer_config.json"};
    char *folder = file_parent(path);
    int32_t id = -1;
    for (size_t i = 0; id < 0 && i < sizeof configs / sizeof configs[0]; i++) {
        char *config = file_join(folder, configs[i]);
        id = configured_end(hf, config);
        free(config);
    }
    free(folder);
    for (size_t i = 0; id < 0 && i < sizeof usual / sizeof usual[0]; i++)
        id = find_token(hf, usual[i], strlen(usual[i]));
    return id;
}

static int check_ids(const struct hf *hf, const struct token_list *ids) {
    for (int64_t i = 0; i < ids->count; i++)
        if (ids->ids[i] >= hf->size)
            return hf_error(hf, "post_processor", "adds an id that no token has");
    return 0;
}

int hf_tokenizer_open_text(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                           const struct buffer *text, const char *name) {
    struct hf *hf;
    TRY(hf_parse(&hf, buffer_string(text), text->length, name));
    if (check_ids(hf, &hf->before) < 0 || check_ids(hf, &hf->after) < 0) {
        hf_free(hf);
        return -1;
    }
    struct hf_tokenizer *model = tokenizer->model = memory_alloc(sizeof *model);
    model->hf = hf;
    model->adds_specials = !options->hf_without_specials;
    tokenizer->kind = &tokenizer_kind_hf;
    tokenizer->vocab_size = hf->size > hf->count ? hf->size : hf->count;
    tokenizer->eod = find_end(hf, name);
    return 0;
}

static int hf_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (!options->model_file)
        return error_set_code(EXIT_CODE_USAGE, "HuggingFaceTokenizer needs --tokenizer-model tokenizer.json, or the "
                                               "folder that has it");
    char *path = file_is_folder(options->model_file) ? file_join(options->model_file, "tokenizer.json")
                                                     : memory_string(options->model_file);
    struct buffer text = {0};
    int status = file_read_all(path, LARGEST_FILE, &text);
    if (status == 0)
        status = hf_tokenizer_open_text(tokenizer, options, &text, path);
    buffer_free(&text);
    free(path);
    return status;
}

const struct hf *hf_tokenizer_hf(const struct tokenizer *tokenizer) {
    const struct hf_tokenizer *model = tokenizer->model;
    return model->hf;
}

static void hf_close(struct tokenizer *tokenizer) {
    struct hf_tokenizer *model = tokenizer->model;
    hf_free(model->hf);
    buffer_free(&model->text);
    free(model);
}

void hf_tokenizer_keep(struct tokenizer *tokenizer, const struct buffer *text) {
    struct hf_tokenizer *model = tokenizer->model;
    buffer_append(&model->text, buffer_string(text), text->length);
}

static int state_create(const struct tokenizer *tokenizer, void **state) {
    (void)tokenizer;
    *state = memory_alloc(sizeof(struct hf_state));
    hf_state_init(*state);
    return 0;
}

static void state_free(void *state) {
    hf_state_free(state);
    free(state);
}

static void append_all(struct token_list *out, const struct token_list *ids) {
    for (int64_t i = 0; i < ids->count; i++)
        token_list_append(out, ids->ids[i]);
}

static int encode(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                  struct token_list *out) {
    const struct hf_tokenizer *model = tokenizer->model;
    if (model->adds_specials)
        append_all(out, &model->hf->before);
    TRY(hf_encode(model->hf, state, text, length, out));
    if (model->adds_specials)
        append_all(out, &model->hf->after);
    return 0;
}

static int decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    const struct hf_tokenizer *model = tokenizer->model;
    return hf_decode(model->hf, ids, count, out);
}

static const char *token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct hf *hf = hf_tokenizer_hf(tokenizer);
    if (id >= hf->size)
        return NULL;
    *length = hf->strings[id].length;
    return hf->strings[id].text;
}

// The file as it is, and its special tokens.
static int describe(const struct tokenizer *tokenizer, struct hf_parts *parts) {
    const struct hf_tokenizer *model = tokenizer->model;
    const struct hf *hf = model->hf;
    if (model->text.length > 0)
        buffer_append(&parts->whole, model->text.data, model->text.length);
    else
        TRY(file_read_all(hf->name, LARGEST_FILE, &parts->whole));
    for (int64_t i = 0; i < hf->added_count; i++) {
        const struct hf_added *added = &hf->added[i];
        if (!added->special)
            continue;
        hf_parts_add(parts, added->content.text, added->content.length, added->id);
        struct hf_part_token *token = &parts->tokens[parts->token_count - 1];
        token->lstrip = added->lstrip;
        token->rstrip = added->rstrip;
        token->single_word = added->single_word;
        token->normalized = added->is_normalized;
    }
    parts->unknown = hf->unknown;
    parts->is_bert = hf->model == HF_MODEL_WORDPIECE;
    for (size_t i = 0; i < hf->normalizer_count; i++)
        parts->lowers |= hf->normalizers[i].kind == HF_NORMALIZER_LOWER ||
                         (hf->normalizers[i].kind == HF_NORMALIZER_BERT && hf->normalizers[i].lower);
    return 0;
}

const struct tokenizer_kind tokenizer_kind_hf = {
    .name = "HuggingFaceTokenizer",
    .open = hf_open,
    .close = hf_close,
    .state_create = state_create,
    .state_free = state_free,
    .encode = encode,
    .decode = decode,
    .token = token,
    .describe = describe,
};
