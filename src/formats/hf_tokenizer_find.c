// The tokenizer in a folder of Hugging Face: tokenizer.json if there is one, since it says everything; else the files
// of the older classes. See hf_tokenizer_files.h.
#include "formats/hf_tokenizer_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/source_kind.h"
#include "store/extra.h"
#include <stdlib.h>
#include <string.h>

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
            source_add_file(source, rows[i].role, path);
            if (second) {
                config->data.merge_file = realpath(second, NULL);
                source_add_file(source, "merge-file", second);
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
