// Tokenizers for Hugging Face. For every kind, hf_save.h writes a complete tokenizer.json. The original files are
// copied beside it for programs that want them, unchanged except that fairseq's dictionary over GPT-2's ids becomes
// RoBERTa's vocab.json, and a vocab.txt gets the [BOS], [EOS] and <extra_id_0>… that Megatron's tokenizer appends as
// lines.
#include "formats/hf_tokenizer_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/tokenizer.h"
#include "formats/hf_surroundings.h"
#include "formats/source_kind.h"
#include "store/extra.h"
#include <stdlib.h>
#include <string.h>

static bool is_of_type(const struct model_source *source, const char *prefix) {
    const char *type = source->config.data.tokenizer_type;
    return type && strncmp(type, prefix, strlen(prefix)) == 0;
}

static int32_t find_named(const struct tokenizer *tokenizer, const struct json *name) {
    for (int64_t id = 0; name && id < tokenizer_vocab_size(tokenizer); id++) {
        size_t length;
        const char *text = tokenizer_token(tokenizer, (int32_t)id, &length);
        if (text && length == name->length && memcmp(text, name->string, length) == 0)
            return (int32_t)id;
    }
    return -1;
}

// The tokenizer's own tokenizer_config.json overrides guesses from the tokens' names.
static void take_named(struct model_tokenizer *tokenizer, const struct model_source *source) {
    OWNED struct json *root = hf_read_beside(source, "tokenizer_config.json");
    const struct {
        int32_t *id;
        const char *key;
    } rows[] = {{&tokenizer->roles.bos, "bos_token"}, {&tokenizer->roles.pad, "pad_token"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int32_t id = find_named(tokenizer->tokenizer, hf_token_text(root, rows[i].key));
        *rows[i].id = id >= 0 ? id : *rows[i].id;
    }
}

void hf_tokenizer_open(struct model_tokenizer *tokenizer, const struct model_source *source) {
    *tokenizer = (struct model_tokenizer){.has_other_end = hf_end_is_other(source)};
    const struct config *config = &source->config;
    const struct checkpoint_file_list *files = &source->files;
    if ((source->has_foreign_tokenizer && !tokenizer->has_other_end) || files->count == 0 ||
        !config->data.tokenizer_type)
        return;
    struct tokenizer_options options = tokenizer_options_of(config);
    options.vocab_file = checkpoint_file_find(files, "vocab-file");
    options.merge_file = checkpoint_file_find(files, "merge-file");
    options.model_file = checkpoint_file_find(files, "tokenizer-model");
    if (tokenizer_open(&tokenizer->tokenizer, &options) < 0) {
        log_warn("%s; config.json is written without bos and eos token ids", error_message());
        error_clear();
        return;
    }
    sample_vocabulary_make(&tokenizer->vocabulary, tokenizer->tokenizer);
    tokenizer->roles = hf_save_roles(tokenizer->tokenizer);
    take_named(tokenizer, source);
}

void hf_tokenizer_close(struct model_tokenizer *tokenizer) {
    tokenizer_free(tokenizer->tokenizer);
    sample_vocabulary_free(&tokenizer->vocabulary);
}

struct hf_token_ids hf_tokenizer_ids(const struct model_tokenizer *tokenizer, const struct hf_family *family) {
    const struct sample_vocabulary *v = &tokenizer->vocabulary;
    if (!tokenizer->tokenizer)
        return (struct hf_token_ids){0};
    if (strstr(family->model_type, "t5"))
        return (struct hf_token_ids){true, -1, v->eos, v->pad, v->bos};
    if (strcmp(family->prefix, "roberta.") == 0)
        return (struct hf_token_ids){true, v->cls, v->sep, v->pad, -1};
    if (strstr(family->model_type, "bert"))
        return (struct hf_token_ids){true, -1, -1, v->pad, -1};
    // A decoder's text starts with bos if the vocabulary has one, else with eos.
    const struct hf_roles *roles = &tokenizer->roles;
    return (struct hf_token_ids){true, roles->bos >= 0 ? roles->bos : roles->eos, roles->eos, roles->pad, -1};
}

// The ids for tokenizer_config.json, and the tokens that the family puts around a text.
static struct hf_roles roles_for(const struct model_tokenizer *tokenizer, const struct hf_family *family) {
    const struct sample_vocabulary *v = &tokenizer->vocabulary;
    struct hf_token_ids ids = hf_tokenizer_ids(tokenizer, family);
    struct hf_roles roles = tokenizer->roles;
    bool is_roberta = strcmp(family->prefix, "roberta.") == 0;
    roles.bos = ids.bos;
    roles.eos = ids.eos;
    roles.pad = ids.pad;
    if (is_roberta || strstr(family->model_type, "bert")) {
        roles.cls = v->cls;
        roles.sep = v->sep;
        roles.mask = v->mask;
        roles.around = is_roberta ? HF_AROUND_ROBERTA : HF_AROUND_CLS_SEP;
    } else if (roles.around != HF_AROUND_BOS) {
        roles.around = HF_AROUND_NOTHING;
    }
    return roles;
}

static const char *extension(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    return dot && (!slash || dot > slash) ? dot : "";
}

// A Hugging Face tokenizer that training used with its own tokenizer_config.json is copied back unchanged.
static bool is_theirs(const struct model_source *source) {
    bool has_configuration = false;
    for (size_t i = 0; i < source->files.count; i++)
        has_configuration =
            has_configuration || (strcmp(source->files.items[i].role, HF_ROLE) == 0 &&
                                  strcmp(extra_name(&source->files.items[i]), "tokenizer_config.json") == 0);
    return source->has_foreign_tokenizer || (has_configuration && is_of_type(source, "HuggingFaceTokenizer"));
}

// The file's name for Hugging Face, to be freed; NULL if it is not needed beside tokenizer.json.
static char *name_there(const struct model_tokenizer *tokenizer, const struct model_source *source,
                        const struct hf_family *family, const struct checkpoint_file *file) {
    if (hf_surroundings_is_role(file->role))  // copied unchanged by hf_surroundings_write
        return NULL;
    if (strcmp(file->role, "merge-file") == 0)
        return memory_string("merges.txt");
    if (strcmp(file->role, "vocab-file") == 0)
        return memory_string(strcmp(extension(file->path), ".txt") == 0 ? "vocab.txt" : "vocab.json");
    bool is_written = tokenizer->tokenizer && !is_theirs(source);
    if (is_written && !is_of_type(source, "SentencePieceTokenizer") &&
        !is_of_type(source, "GPTSentencePieceTokenizer") && !is_of_type(source, "Llama2Tokenizer"))
        return NULL;
    // Programs that read a decoder's .model assume BPE.
    if (is_written && tokenizer->roles.is_unigram && !strstr(family->model_type, "t5"))
        return NULL;
    bool is_json = strcmp(extension(file->path), ".json") == 0;
    bool is_spiece = strstr(file->path, "spiece.model") != NULL;
    return memory_string(is_json ? "tokenizer.json" : is_spiece ? "spiece.model" : "tokenizer.model");
}

// Writes {"token": id, …} with bytes as in GPT-2. Names of special tokens are plain letters, which need no mapping.
static int write_vocab_json(const struct tokenizer *tokenizer, const char *folder) {
    struct byte_map map;
    byte_map_init(&map);
    OWNED_BY(buffer_free) struct buffer text = {0}, token = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    for (int64_t id = 0; id < tokenizer_vocab_size(tokenizer); id++) {
        size_t length;
        const char *bytes = tokenizer_token(tokenizer, (int32_t)id, &length);
        if (!bytes)
            continue;
        buffer_clear(&token);
        byte_map_write(&map, (const unsigned char *)bytes, length, &token);
        json_put_int(&json, buffer_string(&token), id);
    }
    json_end_object(&json);
    return file_write_in(folder, "vocab.json", text.data, text.length);
}

static int write_vocab_txt(const struct tokenizer *tokenizer, const char *folder) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (int64_t id = 0; id < tokenizer_vocab_size(tokenizer); id++) {
        size_t length;
        const char *token = tokenizer_token(tokenizer, (int32_t)id, &length);
        buffer_append(&text, token ? token : "", token ? length : 0);
        buffer_append_byte(&text, '\n');
    }
    return file_write_in(folder, "vocab.txt", text.data, text.length);
}

static int copy_files(const struct model_tokenizer *tokenizer, const struct model_source *source,
                      const struct hf_family *family, const char *folder) {
    for (size_t i = 0; i < source->files.count; i++) {
        OWNED char *name = name_there(tokenizer, source, family, &source->files.items[i]);
        if (!name)
            continue;
        OWNED char *to = file_join(folder, name);
        uint64_t bytes = 0;
        TRY(extra_copy(source->files.items[i].path, to, &bytes, NULL));
    }
    return 0;
}

int hf_tokenizer_write(const struct model_tokenizer *tokenizer, const struct model_source *source,
                       const struct hf_family *family, const char *folder) {
    TRY(copy_files(tokenizer, source, family, folder));
    if (!tokenizer->tokenizer)
        return 0;
    if (is_theirs(source))
        return tokenizer->has_other_end ? hf_end_write(folder, source, tokenizer->tokenizer) : 0;
    if (is_of_type(source, "FairseqTokenizer") && checkpoint_file_find(&source->files, "merge-file"))
        TRY(write_vocab_json(tokenizer->tokenizer, folder));
    if (is_of_type(source, "BertWordPiece"))
        TRY(write_vocab_txt(tokenizer->tokenizer, folder));
    struct hf_roles roles = roles_for(tokenizer, family);
    const struct config *config = &source->config;
    roles.longest = config->run.seq_length > config->model.max_position_embeddings
                        ? config->run.seq_length
                        : config->model.max_position_embeddings;
    roles.is_overruled = strcmp(family->model_type, "qwen2") == 0;
    if (hf_save_folder(tokenizer->tokenizer, &roles, folder) < 0)
        return error_context("cannot write the tokenizer for Hugging Face (leave it out with --no-tokenizer)");
    return 0;
}

// ---- the tokenizer in a folder of Hugging Face ----
//
// That is tokenizer.json if there is one, since it says everything; else the files of the older classes.

enum { MAX_CONFIG_BYTES = 16 << 20, MAX_VOCABULARY_BYTES = 64 << 20 };

// A JSON file of the folder, to be freed; NULL if there is none that can be read.
static struct json *read_json(const struct model_source *source, const char *name) {
    OWNED char *path = file_join(source->path, name);
    struct json *root = NULL;
    if (file_exists(path) && json_parse_own(&root, path, MAX_CONFIG_BYTES) < 0)
        error_clear();
    return root;
}

// A vocab.txt does not say whether text is lowercased; tokenizer_config.json may, and BERT's class does by default.
// Megatron's BERT adds two tokens after those of the file; a model with as many rows as the file has lines lacks them.
static void refine_wordpiece(struct model_source *source) {
    struct config *config = &source->config;
    OWNED struct json *root = read_json(source, "tokenizer_config.json");
    const struct json *lower = root ? json_member(root, "do_lower_case") : NULL;
    if (lower && lower->type == JSON_FALSE) {
        free(config->data.tokenizer_type);
        config->data.tokenizer_type = memory_string("BertWordPieceCase");
    }
    OWNED_BY(buffer_free) struct buffer text = {0};
    if (file_read_own(config->data.vocab_file, MAX_VOCABULARY_BYTES, &text) == 0) {
        int64_t lines = text.length > 0 && text.data[text.length - 1] != '\n';
        for (size_t i = 0; i < text.length; i++)
            lines += text.data[i] == '\n';
        config->data.no_legacy_tokenizer = config->model.padded_vocab_size < lines + 2;
    }
}

// The "eos_token" in a file of the folder, to be freed; NULL if absent.
static char *read_end(const struct model_source *source, const char *name) {
    OWNED struct json *root = read_json(source, name);
    const struct json *token = hf_token_text(root, "eos_token");
    return token && strlen(token->string) == token->length ? memory_string(token->string) : NULL;
}

static bool has_token(const char *path, const char *token) {
    OWNED char *quoted = memory_printf("\"%s\"", token);
    OWNED_BY(file_map_close) struct file_map map = {0};
    if (path && file_map_open(&map, path) == 0)
        return map.size > 0 && memmem(map.data, map.size, quoted, strlen(quoted));
    error_clear();
    return false;
}

// The name of the token that ends a text is in another file. A run of ours keeps it as a flag, because the files are
// not together in its checkpoints.
static void take_end(struct model_source *source) {
    struct config *config = &source->config;
    OWNED char *end = read_end(source, "tokenizer_config.json");
    end = end ? end : read_end(source, "special_tokens_map.json");
    if (end && has_token(config->data.vocab_file ? config->data.vocab_file : config->data.tokenizer_model, end)) {
        free(config->data.eod_token);
        config->data.eod_token = end;
        end = NULL;
    }
}

// Reads whether texts begin with bos. OPT's older files state it beside the vocabulary; a tokenizer.json contains it.
static void note_beginning(struct model_source *source) {
    OWNED struct json *root = read_json(source, "tokenizer_config.json");
    const struct json *adds = root ? json_member(root, "add_bos_token") : NULL;
    if (adds && adds->type == JSON_TRUE)
        buffer_printf(
            &source->notes,
            "transformers adds a token before every text (add_bos_token in %s/tokenizer_config.json), but "
            "GPT2BPETokenizer here does not; save a tokenizer.json there (AutoTokenizer.save_pretrained), which is "
            "read with it",
            source->path);
}

int hf_tokenizer_find(struct model_source *source) {
    static const struct {
        const char *name, *role, *type, *second;
    } rows[] = {
        {"tokenizer.json", "tokenizer-model", "HuggingFaceTokenizer", NULL},
        {"vocab.json", "vocab-file", "GPT2BPETokenizer", "merges.txt"},
        {"tokenizer.model", "tokenizer-model", "Llama2Tokenizer", NULL},
        {"spiece.model", "tokenizer-model", "SentencePieceTokenizer", NULL},
        {"vocab.txt", "vocab-file", "BertWordPieceLowerCase", NULL},
    };
    struct config *config = &source->config;
    int result = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !config->data.tokenizer_type && result == 0; i++) {
        OWNED char *path = file_join(source->path, rows[i].name);
        OWNED char *second = rows[i].second ? file_join(source->path, rows[i].second) : NULL;
        bool is_there = file_exists(path) && (!second || file_exists(second));
        if (is_there)
            result = extra_check_inside(source->path, path);
        if (is_there && second && result == 0)
            result = extra_check_inside(source->path, second);
        if (is_there && result == 0) {
            config->data.tokenizer_type = memory_string(rows[i].type);
            char **slot =
                strcmp(rows[i].role, "vocab-file") == 0 ? &config->data.vocab_file : &config->data.tokenizer_model;
            *slot = realpath(path, NULL);
            checkpoint_file_list_add(&source->files, rows[i].role, path);
            if (second) {
                config->data.merge_file = realpath(second, NULL);
                checkpoint_file_list_add(&source->files, "merge-file", second);
            }
            if (strcmp(rows[i].name, "vocab.txt") == 0 && config->data.vocab_file)
                refine_wordpiece(source);
            if (i < 2)  // the others contain it
                take_end(source);
            if (second)
                note_beginning(source);
        }
    }
    return result;
}
