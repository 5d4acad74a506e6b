// Writes any kind of tokenizer into a GGUF file: the common part. See gguf_model.h.
#include "formats/gguf_model.h"

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/sample/vocabulary.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/hf_save.h"
#include "formats/hf_tokenizer_files.h"
#include "formats/names.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 28 };

int gguf_vocabulary_set(struct gguf_vocabulary *vocabulary, int64_t id, const char *text, size_t length,
                        enum gguf_token_type type) {
    if (id < 0 || id >= vocabulary->size)
        return error_set("the tokenizer has a token %" PRId64 " \"%.*s\", but the model has only %" PRId64
                         " rows: it belongs to another model",
                         id, (int)(length < 60 ? length : 60), text, vocabulary->size);
    struct gguf_token *token = &vocabulary->tokens[id];
    if (token->text)
        return error_set("two tokens have the id %" PRId64 ": \"%s\" and \"%.*s\"; llama.cpp allows one", id,
                         token->text, (int)(length < 60 ? length : 60), text);
    token->text = memory_alloc(length + 1);
    memcpy(token->text, text, length);
    token->length = length;
    token->type = type;
    return 0;
}

void gguf_vocabulary_free(struct gguf_vocabulary *vocabulary) {
    for (int64_t i = 0; i < vocabulary->size && vocabulary->tokens; i++)
        free(vocabulary->tokens[i].text);
    free(vocabulary->tokens);
    buffer_free(&vocabulary->merges.bytes);
    buffer_free(&vocabulary->charsmap);
    free(vocabulary->chat_template);
    *vocabulary = (struct gguf_vocabulary){0};
}

// ---- special tokens ----

// An id in config.json: a number, or the first of an array. -1 if there is none below `size`.
static int32_t id_of(const struct json *value, int64_t size) {
    if (value && value->type == JSON_ARRAY && value->count > 0)
        value = &value->items[0];
    if (!value || value->type != JSON_NUMBER || !(value->number >= 0) || value->number >= (double)size)
        return -1;
    return (int32_t)value->number;
}

static int32_t find_text(const struct gguf_vocabulary *vocabulary, const char *text, size_t length) {
    for (int64_t i = 0; i < vocabulary->size; i++)
        if (vocabulary->tokens[i].text && vocabulary->tokens[i].length == length &&
            memcmp(vocabulary->tokens[i].text, text, length) == 0)
            return (int32_t)i;
    return -1;
}

static int32_t named_id(const struct gguf_vocabulary *vocabulary, const struct json *config, const char *key) {
    const struct json *name = hf_token_text(config, key);
    return name ? find_text(vocabulary, name->string, name->length) : -1;
}

static char *read_template(const struct model_source *source, const struct json *config) {
    for (size_t i = 0; i < source->files.count; i++) {
        const char *path = source->files.items[i].path;
        OWNED_BY(buffer_free) struct buffer text = {0};
        if (!name_ends(path, "chat_template.jinja"))
            continue;
        char *copy = file_read_own(path, LARGEST_FILE, &text) == 0 ? memory_string(buffer_string(&text)) : NULL;
        error_clear();
        if (copy)
            return copy;
    }
    const struct json *text = config ? json_member(config, "chat_template") : NULL;
    return text && text->type == JSON_STRING ? memory_string(text->string) : NULL;
}

static int32_t first_of(int32_t a, int32_t b) {
    return a >= 0 ? a : b;
}

// Special ids, chosen as for Hugging Face. Ids that the builders found (a text's beginning and end) stay. Then
// tokenizer_config.json counts, then config.json if it is of this tokenizer, as in llama.cpp's converter, then the
// tokens' names. An end named by --eod-token takes precedence over tokenizer_config.json.
static void set_ids(struct gguf_vocabulary *v, const struct model_source *source, const struct tokenizer *tokenizer) {
    OWNED struct json *beside = hf_read_beside(source, "tokenizer_config.json");
    const struct json *config = source->has_foreign_tokenizer ? source->foreign_config : NULL;
    struct sample_vocabulary known;
    sample_vocabulary_make(&known, tokenizer);
    // T5 ends texts with its own token, not with the one between documents.
    int32_t end = source->config.model.form == CONFIG_T5 ? known.eos : tokenizer_eod(tokenizer);
    if (source->config.data.decoder_start_token < v->size)
        v->decoder_start = (int32_t)source->config.data.decoder_start_token;
    if (source->config.data.eod_token && !v->adds_eos && (hf_end_is_other(source) || !source->has_foreign_tokenizer))
        v->eos = end;
    const struct {
        int32_t *id;
        const char *number, *name;
        int32_t known;
    } rows[] = {{&v->eos, "eos_token_id", "eos_token", end},
                {&v->bos, "bos_token_id", "bos_token", known.bos},
                {&v->pad, "pad_token_id", "pad_token", known.pad},
                {&v->unk, "unk_token_id", "unk_token", -1},
                {&v->sep, "sep_token_id", "sep_token", known.sep},
                {&v->mask, "mask_token_id", "mask_token", known.mask},
                {&v->decoder_start, "decoder_start_token_id", "", first_of(config ? known.pad : known.bos, known.pad)}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        *rows[i].id = first_of(*rows[i].id, named_id(v, beside, rows[i].name));
        *rows[i].id = first_of(*rows[i].id, config ? id_of(json_member(config, rows[i].number), v->size) : -1);
        *rows[i].id = first_of(*rows[i].id, rows[i].known);
    }
    // Without a token that begins texts, a text starts with the token that ended the one before.
    v->bos = first_of(v->bos, v->eos);
    v->chat_template = read_template(source, beside);
    sample_vocabulary_free(&known);
}

// ---- tokens ----

static int compare_tokens(const void *a, const void *b) {
    const struct gguf_token *one = *(const struct gguf_token *const *)a, *other = *(const struct gguf_token *const *)b;
    int order = memcmp(one->text, other->text, one->length < other->length ? one->length : other->length);
    return order != 0 ? order : (one->length > other->length) - (one->length < other->length);
}

// llama.cpp stops if two tokens have the same text.
static int check_texts(const struct gguf_vocabulary *vocabulary) {
    OWNED const struct gguf_token **sorted = memory_alloc((size_t)(vocabulary->size + 1) * sizeof sorted[0]);
    for (int64_t i = 0; i < vocabulary->size; i++)
        sorted[i] = &vocabulary->tokens[i];
    qsort(sorted, (size_t)vocabulary->size, sizeof sorted[0], compare_tokens);
    for (int64_t i = 1; i < vocabulary->size; i++)
        if (compare_tokens(&sorted[i - 1], &sorted[i]) == 0)
            return error_set("the tokens %td and %td are both \"%.60s\", but llama.cpp needs distinct texts; export "
                             "with --to huggingface instead",
                             sorted[i - 1] - vocabulary->tokens, sorted[i] - vocabulary->tokens, sorted[i]->text);
    return 0;
}

// Names rows of the embedding that have no token.
static void name_padding(struct gguf_vocabulary *vocabulary) {
    for (int64_t i = 0; i < vocabulary->size; i++) {
        struct gguf_token *token = &vocabulary->tokens[i];
        if (token->text)
            continue;
        token->text = memory_printf("[PAD%" PRId64 "]", i);
        token->length = strlen(token->text);
        token->type = GGUF_TOKEN_UNUSED;
        token->score = -10000;
        token->is_padding = true;
        vocabulary->padding_count++;
    }
}

// ---- kinds ----

static bool begins(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Any tokenizer can be written as a tokenizer.json; one that came as such a file is read from there.
static int from_json(struct gguf_vocabulary *vocabulary, const struct tokenizer_options *options,
                     const struct tokenizer *tokenizer) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED char *path = NULL;
    int result = 0;
    if (begins(options->type, "HuggingFace")) {
        path = file_is_folder(options->model_file) ? file_join(options->model_file, "tokenizer.json")
                                                   : memory_string(options->model_file);
        result = file_read_own(path, LARGEST_FILE, &text);
    } else {
        struct hf_roles roles = hf_save_roles(tokenizer);
        path = memory_string(options->vocab_file ? options->vocab_file : options->model_file);
        result = hf_save_json(tokenizer, &roles, &text);
    }
    if (result == 0)
        result = gguf_vocabulary_from_json(vocabulary, buffer_string(&text), text.length, path);
    if (result == 0 && options->hf_without_specials)
        vocabulary->adds_bos = vocabulary->adds_eos = vocabulary->adds_sep = false;
    return result;
}

static int from_kind(struct gguf_vocabulary *vocabulary, const struct tokenizer_options *options,
                     const struct tokenizer *tokenizer) {
    const char *type = options->type;
    if (strstr(type, "SentencePiece") || begins(type, "Llama2")) {
        TRY(gguf_vocabulary_from_spm(vocabulary, options->model_file, tokenizer));
        vocabulary->adds_bos = begins(type, "Llama2") && !options->as_today;
        return 0;
    }
    if (begins(type, "BertWordPiece") && !options->as_today)
        return gguf_vocabulary_from_wordpiece(vocabulary, tokenizer, strcmp(type, "BertWordPieceLowerCase") == 0);
    return from_json(vocabulary, options, tokenizer);
}

int gguf_vocabulary_make(struct gguf_vocabulary *vocabulary, const struct model_source *source, int64_t rows) {
    *vocabulary = (struct gguf_vocabulary){
        .bos = -1, .eos = -1, .unk = -1, .sep = -1, .pad = -1, .mask = -1, .decoder_start = -1};
    struct tokenizer_options options = tokenizer_options_of(&source->config);
    if (options.type && strcmp(options.type, "NullTokenizer") == 0) {
        vocabulary->model = "no_vocab";
        return 0;
    }
    options.vocab_file = checkpoint_file_find(&source->files, "vocab-file");
    options.merge_file = checkpoint_file_find(&source->files, "merge-file");
    options.model_file = checkpoint_file_find(&source->files, "tokenizer-model");
    if (!options.type || (!options.vocab_file && !options.model_file))
        return error_set_code(EXIT_CODE_USAGE, "a GGUF file needs the tokenizer, but the input has none; give "
                                               "--tokenizer-type with --vocab-file, --merge-file or --tokenizer-model");
    struct tokenizer *tokenizer;
    TRY(tokenizer_open(&tokenizer, &options));
    vocabulary->size = rows;
    vocabulary->tokens = memory_alloc((size_t)(rows + 1) * sizeof vocabulary->tokens[0]);
    int result = from_kind(vocabulary, &options, tokenizer);
    if (result == 0) {
        set_ids(vocabulary, source, tokenizer);
        name_padding(vocabulary);
        result = check_texts(vocabulary);
    }
    tokenizer_free(tokenizer);
    if (result < 0)
        gguf_vocabulary_free(vocabulary);
    return result;
}

// ---- writing ----

static void write_tokens(const struct gguf_vocabulary *v, struct gguf_pairs *pairs) {
    gguf_begin_array(pairs, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)v->size);
    for (int64_t i = 0; i < v->size; i++)
        gguf_append_string(pairs, v->tokens[i].text, v->tokens[i].length);
    if (v->has_scores) {
        gguf_begin_array(pairs, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)v->size);
        for (int64_t i = 0; i < v->size; i++)
            buffer_append(&pairs->bytes, &v->tokens[i].score, sizeof(float));
    }
    gguf_begin_array(pairs, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)v->size);
    for (int64_t i = 0; i < v->size; i++) {
        int32_t type = (int32_t)v->tokens[i].type;
        buffer_append(&pairs->bytes, &type, sizeof type);
    }
    // These rows are untrained, so their logits mean nothing.
    if (v->padding_count > 0)
        gguf_begin_array(pairs, "tokenizer.ggml.suppress_tokens", GGUF_I32, (uint64_t)v->padding_count);
    for (int32_t i = 0; i < v->size; i++)
        if (v->tokens[i].is_padding)
            buffer_append(&pairs->bytes, &i, sizeof i);
    if (v->merges.count > 0) {
        gguf_begin_array(pairs, "tokenizer.ggml.merges", GGUF_STRING, v->merges.count);
        buffer_append(&pairs->bytes, v->merges.bytes.data, v->merges.bytes.length);
    }
}

static void write_id(struct gguf_pairs *pairs, const char *key, int32_t id) {
    if (id >= 0)
        gguf_add_u32(pairs, key, (uint32_t)id);
}

void gguf_vocabulary_write(const struct gguf_vocabulary *v, struct gguf_pairs *pairs) {
    gguf_add_string(pairs, "tokenizer.ggml.model", v->model, strlen(v->model));
    if (strcmp(v->model, "no_vocab") == 0)
        return;
    if (v->pre)
        gguf_add_string(pairs, "tokenizer.ggml.pre", v->pre, strlen(v->pre));
    write_tokens(v, pairs);
    write_id(pairs, "tokenizer.ggml.bos_token_id", v->bos);
    write_id(pairs, "tokenizer.ggml.eos_token_id", v->eos);
    write_id(pairs, "tokenizer.ggml.unknown_token_id", v->unk);
    write_id(pairs, "tokenizer.ggml.seperator_token_id", v->sep);  // their spelling
    write_id(pairs, "tokenizer.ggml.padding_token_id", v->pad);
    write_id(pairs, "tokenizer.ggml.mask_token_id", v->mask);
    gguf_add_bool(pairs, "tokenizer.ggml.add_bos_token", v->adds_bos);
    gguf_add_bool(pairs, "tokenizer.ggml.add_eos_token", v->adds_eos);
    if (v->adds_sep)
        gguf_add_bool(pairs, "tokenizer.ggml.add_sep_token", true);
    if (v->has_space_rules) {
        gguf_add_bool(pairs, "tokenizer.ggml.add_space_prefix", v->adds_space);
        gguf_add_bool(pairs, "tokenizer.ggml.remove_extra_whitespaces", v->merges_spaces);
    }
    if (v->has_case_rules) {
        gguf_add_bool(pairs, "tokenizer.ggml.normalizer.lowercase", v->lowers);
        gguf_add_bool(pairs, "tokenizer.ggml.normalizer.strip_accents", v->strips_accents);
    }
    if (v->charsmap.length > 0) {
        gguf_begin_array(pairs, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, v->charsmap.length);
        buffer_append(&pairs->bytes, v->charsmap.data, v->charsmap.length);
    }
    if (v->chat_template)
        gguf_add_string(pairs, "tokenizer.chat_template", v->chat_template, strlen(v->chat_template));
}
