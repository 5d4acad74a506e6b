// Tokenizers for Hugging Face. A file that transformers reads as it is goes over byte by byte; what it cannot read is
// written anew: fairseq's dictionary over GPT-2's ids becomes RoBERTa's vocab.json, and a vocab.txt that Megatron's
// tokenizer puts [BOS], [EOS] and <extra_id_0>… behind gets these as lines.
#include "checkpoint/hf_tokenizer_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/extra.h"
#include "checkpoint/hf_surroundings.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/from_config.h"
#include <stdlib.h>
#include <string.h>

static bool is_of_type(const struct model_source *source, const char *prefix) {
    const char *type = source->config.tokenizer_type;
    return type && strncmp(type, prefix, strlen(prefix)) == 0;
}

void hf_tokenizer_open(struct hf_tokenizer *tokenizer, const struct model_source *source) {
    *tokenizer = (struct hf_tokenizer){0};
    const struct config *config = &source->config;
    const struct checkpoint_file_list *files = &source->files;
    if (source->has_foreign_tokenizer || files->count == 0 || !config->tokenizer_type)
        return;
    struct tokenizer_options options = tokenizer_options_of(config);
    options.vocab_file = checkpoint_file_find(files, "vocab-file");
    options.merge_file = checkpoint_file_find(files, "merge-file");
    options.model_file = checkpoint_file_find(files, "tokenizer-model");
    if (tokenizer_open(&tokenizer->tokenizer, &options) < 0) {
        log_warn("%s; config.json will not name the tokens that begin and end a text", error_message());
        error_clear();
        return;
    }
    sample_vocabulary_make(&tokenizer->vocabulary, tokenizer->tokenizer);
}

void hf_tokenizer_close(struct hf_tokenizer *tokenizer) {
    tokenizer_free(tokenizer->tokenizer);
    sample_vocabulary_free(&tokenizer->vocabulary);
}

struct hf_token_ids hf_tokenizer_ids(const struct hf_tokenizer *tokenizer, const struct hf_family *family) {
    const struct sample_vocabulary *v = &tokenizer->vocabulary;
    if (!tokenizer->tokenizer)
        return (struct hf_token_ids){0};
    if (strstr(family->model_type, "t5"))
        return (struct hf_token_ids){true, -1, v->eos, v->pad, v->bos};
    if (strcmp(family->prefix, "roberta.") == 0)
        return (struct hf_token_ids){true, v->cls, v->sep, v->pad, -1};
    if (strstr(family->model_type, "bert"))
        return (struct hf_token_ids){true, -1, -1, v->pad, -1};
    // A decoder's text begins with what begins one, if the vocabulary has such a token; else behind the end of one.
    int32_t eos = tokenizer_eod(tokenizer->tokenizer);
    size_t length = 0;
    const char *bos = v->bos >= 0 && v->bos != v->pad ? tokenizer_token(tokenizer->tokenizer, v->bos, &length) : NULL;
    bool is_sentence = length == 5 && memcmp(bos, "[CLS]", 5) == 0;
    return (struct hf_token_ids){true, bos && !is_sentence ? v->bos : eos, eos, v->pad, -1};
}

static const char *extension(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    return dot && (!slash || dot > slash) ? dot : "";
}

// What the file is called there; NULL if Hugging Face has no use for it. To be freed.
static char *name_there(const struct model_source *source, const struct checkpoint_file *file) {
    if (hf_surroundings_is_role(file->role))  // written as they are, see hf_surroundings_write
        return NULL;
    if (strcmp(file->role, "merge-file") == 0)
        return memory_string("merges.txt");
    if (strcmp(file->role, "vocab-file") == 0)
        return memory_string(strcmp(extension(file->path), ".txt") == 0 ? "vocab.txt" : "vocab.json");
    if (is_of_type(source, "FairseqTokenizer"))
        return NULL;
    bool is_json = strcmp(extension(file->path), ".json") == 0;
    bool is_spiece = strstr(file->path, "spiece.model") != NULL;
    return memory_string(is_json ? "tokenizer.json" : is_spiece ? "spiece.model" : "tokenizer.model");
}

static int write_text(const char *folder, const char *name, const struct buffer *text) {
    char *path = file_join(folder, name);
    int result = file_write_all(path, buffer_string(text), text->length);
    free(path);
    return result;
}

// {"token": id, …}, bytes as GPT-2 writes them. Names of special tokens are letters that stand for themselves there.
static int write_vocab_json(const struct tokenizer *tokenizer, const char *folder) {
    struct byte_map map;
    byte_map_init(&map);
    struct buffer text = {0}, token = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    for (int64_t id = 0; id < tokenizer_vocab_size(tokenizer); id++) {
        size_t length;
        const char *bytes = tokenizer_token(tokenizer, (int32_t)id, &length);
        if (!bytes)
            continue;
        buffer_clear(&token);
        byte_map_write(&map, (const unsigned char *)bytes, length, &token);
        json_key(&json, buffer_string(&token));
        json_int(&json, id);
    }
    json_end_object(&json);
    int result = write_text(folder, "vocab.json", &text);
    buffer_free(&text);
    buffer_free(&token);
    return result;
}

static int write_vocab_txt(const struct tokenizer *tokenizer, const char *folder) {
    struct buffer text = {0};
    for (int64_t id = 0; id < tokenizer_vocab_size(tokenizer); id++) {
        size_t length;
        const char *token = tokenizer_token(tokenizer, (int32_t)id, &length);
        buffer_append(&text, token ? token : "", token ? length : 0);
        buffer_append_byte(&text, '\n');
    }
    int result = write_text(folder, "vocab.txt", &text);
    buffer_free(&text);
    return result;
}

static void name_token(struct json_writer *json, const char *key, const struct tokenizer *tokenizer, int32_t id) {
    size_t length;
    const char *token = id >= 0 ? tokenizer_token(tokenizer, id, &length) : NULL;
    if (!token)
        return;
    json_key(json, key);
    json_string(json, token, length);
}

static void name_sentinels(struct json_writer *json, const struct hf_tokenizer *tokenizer) {
    const struct sample_vocabulary *vocabulary = &tokenizer->vocabulary;
    if (vocabulary->sentinel_count == 0)
        return;
    json_key(json, "additional_special_tokens");
    json_begin_array(json);
    for (int64_t i = 0; i < vocabulary->sentinel_count; i++) {
        size_t length;
        const char *token = tokenizer_token(tokenizer->tokenizer, vocabulary->sentinels[i], &length);
        json_string(json, token, length);
    }
    json_end_array(json);
}

static const char *class_of(const struct model_source *source, const char *folder) {
    static const struct {
        const char *file, *class;
    } rows[] = {{"tokenizer.json", "PreTrainedTokenizerFast"},
                {"vocab.json", "GPT2Tokenizer"},
                {"vocab.txt", "BertTokenizer"},
                {"tokenizer.model", "LlamaTokenizer"},
                {"spiece.model", "T5Tokenizer"}};
    if (is_of_type(source, "FairseqTokenizer"))
        return "RobertaTokenizer";
    if (is_of_type(source, "TikTokenizer"))
        return "PreTrainedTokenizerFast";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *path = file_join(folder, rows[i].file);
        bool exists = file_exists(path);
        free(path);
        if (exists)
            return rows[i].class;
    }
    return NULL;
}

// So that AutoTokenizer finds its class where the model was not Hugging Face's before.
static int write_configuration(const struct hf_tokenizer *tokenizer, const struct model_source *source,
                               const char *folder) {
    char *path = file_join(folder, "tokenizer_config.json");
    bool exists = file_exists(path);
    free(path);
    const char *class = exists ? NULL : class_of(source, folder);
    if (!class)
        return 0;
    struct buffer text = {0};
    struct json_writer json = {.out = &text, .indent = 2};
    json_begin_object(&json);
    json_key(&json, "tokenizer_class");
    json_cstring(&json, class);
    if (is_of_type(source, "BertWordPieceCase")) {  // their BERT lowers unless it is told
        json_key(&json, "do_lower_case");
        json_bool(&json, false);
    }
    if (is_of_type(source, "Llama2Tokenizer") && !source->config.no_legacy_tokenizer) {
        json_key(&json, "add_bos_token");
        json_bool(&json, true);
    }
    // The other classes know their own.
    bool is_plain = strcmp(class, "PreTrainedTokenizerFast") == 0, is_bert = strcmp(class, "BertTokenizer") == 0;
    if (tokenizer->tokenizer && is_plain)
        name_token(&json, "eos_token", tokenizer->tokenizer, tokenizer_eod(tokenizer->tokenizer));
    if (tokenizer->tokenizer && is_bert && tokenizer->vocabulary.sentinel_count > 0) {
        name_token(&json, "bos_token", tokenizer->tokenizer, tokenizer->vocabulary.bos);
        name_token(&json, "eos_token", tokenizer->tokenizer, tokenizer->vocabulary.eos);
        name_sentinels(&json, tokenizer);
    }
    json_end_object(&json);
    buffer_append_byte(&text, '\n');
    int result = write_text(folder, "tokenizer_config.json", &text);
    buffer_free(&text);
    return result;
}

static int copy_files(const struct model_source *source, const char *folder) {
    int result = 0;
    for (size_t i = 0; i < source->files.count && result == 0; i++) {
        char *name = name_there(source, &source->files.items[i]);
        if (!name)
            continue;
        char *to = file_join(folder, name);
        uint64_t bytes = 0;
        result = extra_copy(source->files.items[i].path, to, &bytes, NULL);
        free(to);
        free(name);
    }
    return result;
}

int hf_tokenizer_write(const struct hf_tokenizer *tokenizer, const struct model_source *source, const char *folder) {
    bool is_fairseq = is_of_type(source, "FairseqTokenizer");
    if (is_fairseq && !checkpoint_file_find(&source->files, "merge-file")) {
        log_info("note: transformers has no tokenizer for a dictionary of words, so none is written");
        return 0;
    }
    TRY(copy_files(source, folder));
    if (tokenizer->tokenizer && is_fairseq)
        TRY(write_vocab_json(tokenizer->tokenizer, folder));
    if (tokenizer->tokenizer && is_of_type(source, "BertWordPiece"))
        TRY(write_vocab_txt(tokenizer->tokenizer, folder));
    return write_configuration(tokenizer, source, folder);
}
