// HuggingFaceTokenizer: --tokenizer-model is a tokenizer.json, or a folder with one. As in Megatron, the ids of a text
// are those of a plain call of the tokenizer, so a file that puts begin or end tokens around texts does so here;
// --tokenizer-hf-no-include-special-tokens omits them. The end of a document is "eos_token" of the
// tokenizer_config.json beside the file, else one of the usual names.
#include "data/tokenizer/hf.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/hf_save.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/wordpiece.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// Megatron adds EXTRA_IDS <extra_id_N> to BERT's cased vocabulary, whatever --vocab-extra-ids says.
enum { LARGEST_FILE = 1 << 28, EXTRA_IDS = 100 };

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

// "eos_token": "</s>" or {"content": "</s>", …}. -1 if the configuration does not name a token.
static int32_t configured_end(const struct hf *hf, const char *path) {
    struct json *root;
    if (!file_exists(path))
        return -1;
    if (json_parse_own(&root, path, LARGEST_FILE) < 0) {
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
    // The second is the name of the copy in our checkpoints.
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
    tokenizer->own_size = hf->model_count;
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

static void hf_close(struct tokenizer *tokenizer) {
    struct hf_tokenizer *model = tokenizer->model;
    hf_free(model->hf);
    buffer_free(&model->text);
    free(model);
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
    const struct hf *hf = ((const struct hf_tokenizer *)tokenizer->model)->hf;
    if (id >= hf->size)
        return NULL;
    *length = hf->strings[id].length;
    return hf->strings[id].text;
}

// The file unchanged, and its special tokens.
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

// ---- GPT-2's and BERT's files with --no-legacy-tokenizer ----

// Writes in memory the tokenizer.json that Hugging Face's library would build from them, and opens it.

// Keeps the text, so that the tokenizer can be saved again.
static int open_made(struct tokenizer *tokenizer, const struct tokenizer_options *options, const struct buffer *text) {
    TRY(hf_tokenizer_open_text(tokenizer, options, text, options->vocab_file));
    struct hf_tokenizer *model = tokenizer->model;
    buffer_append(&model->text, buffer_string(text), text->length);
    return 0;
}

int hf_tokenizer_open_gpt2(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    struct buffer text = {0};
    int status = hf_write_gpt2(options->vocab_file, options->merge_file, &text);
    if (status == 0)
        status = open_made(tokenizer, options, &text);
    buffer_free(&text);
    return status;
}

static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

// A line without its line end is a token; of equal lines only the last is added.
static int read_vocab(const struct buffer *lines, struct byte_table *tokens, const char *name) {
    const char *at = buffer_string(lines), *end = at + lines->length;
    for (int32_t id = 0; at < end; id++) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((next ? next : end) - at);
        byte_table_set(tokens, at, length > 0 && at[length - 1] == '\r' ? length - 1 : length, id);
        at = next ? next + 1 : end;
    }
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
        if (byte_table_find(tokens, specials[i], strlen(specials[i])) < 0)
            return error_set("%s: has no line %s, which BERT needs; use the vocab.txt of a BERT model", name,
                             specials[i]);
    return 0;
}

static void write_normalizer(struct hf_parts *parts, bool lower) {
    struct json_writer json = hf_part(&parts->normalizer);
    hf_step(&json, "BertNormalizer");
    hf_member_bool(&json, "clean_text", true);
    hf_member_bool(&json, "handle_chinese_chars", true);
    hf_member_null(&json, "strip_accents");
    hf_member_bool(&json, "lowercase", lower);
    json_end_object(&json);
    json = hf_part(&parts->pre_tokenizer);
    hf_step_plain(&json, "BertPreTokenizer");
}

static void describe_bert(const struct byte_table *tokens, bool lower, struct hf_parts *parts) {
    enum { MOST_CHARS = 100 };
    struct json_writer json = hf_part(&parts->model);
    wordpiece_begin_model(&json, MOST_CHARS);
    json_key(&json, "vocab");
    json_begin_object(&json);
    for (int64_t i = 0; i < tokens->count; i++)
        hf_vocab_entry(&json, tokens->bytes.data + tokens->strings[i].begin, tokens->strings[i].length,
                       tokens->strings[i].value);
    json_end_object(&json);
    json_end_object(&json);
    write_normalizer(parts, lower);
    wordpiece_write_decoder(parts, true);
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
        hf_parts_add(parts, specials[i], strlen(specials[i]),
                     byte_table_find(tokens, specials[i], strlen(specials[i])));
    int32_t next = (int32_t)tokens->count;
    for (int i = 0; !lower && i < EXTRA_IDS; i++) {
        char *extra = memory_printf("<extra_id_%d>", i);
        int32_t id = byte_table_find(tokens, extra, strlen(extra));
        hf_parts_add(parts, extra, strlen(extra), id >= 0 ? id : next++);
        free(extra);
    }
    parts->is_bert = true;
}

static int write_bert(struct buffer *out, const struct buffer *lines, bool lower, const char *name) {
    struct byte_table tokens = {0};
    struct hf_parts parts = {.unknown = -1, .bos = -1, .pad = -1};
    int status = read_vocab(lines, &tokens, name);
    if (status == 0) {
        describe_bert(&tokens, lower, &parts);
        hf_write_parts(&parts, byte_table_find(&tokens, "[SEP]", 5), out);
    }
    hf_parts_free(&parts);
    byte_table_free(&tokens);
    return status;
}

int hf_tokenizer_open_bert(struct tokenizer *tokenizer, const struct tokenizer_options *options, bool lower) {
    struct buffer lines = {0}, text = {0};
    int status = file_read_all(options->vocab_file, LARGEST_FILE, &lines);
    if (status == 0)
        status = whole_check_end(buffer_string(&lines), lines.length, options->vocab_file);
    if (status == 0)
        status = whole_check_known(buffer_string(&lines), lines.length, options->vocab_file, options->vocab_size);
    if (status == 0)
        status = write_bert(&text, &lines, lower, options->vocab_file);
    if (status == 0)
        status = open_made(tokenizer, options, &text);
    if (status == 0) {  // Megatron uses [SEP] as the end if a tokenizer names none
        const struct hf_tokenizer *model = tokenizer->model;
        tokenizer->eod = byte_table_find(&model->hf->vocab, "[SEP]", 5);
    }
    buffer_free(&lines);
    buffer_free(&text);
    return status;
}
