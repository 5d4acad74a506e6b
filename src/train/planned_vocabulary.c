// Sizes of vocabularies. See planned_vocabulary.h.
#include "train/planned_vocabulary.h"
#include "base/error.h"
#include "base/file.h"
#include "train/datasets.h"

#include <string.h>

// Vocabularies of the published models, by the beginning of a preset's name.
static const struct {
    const char *prefix;
    int64_t size;
} vocabularies[] = {{"megatron-bert", 30522}, {"bert", 30522},      {"roberta", 50265},    {"t5", 32100},
                    {"opt", 50265},           {"llama3", 128256},   {"llama", 32000},      {"mistral", 32000},
                    {"cpu-", 8192},           {"gpu-", 32000},      {"qwen2.5-0", 151936}, {"qwen2.5-1.", 151936},
                    {"qwen2.5-3b", 151936},   {"qwen2", 152064},    {"qwen3", 151936},     {"phi3", 32064},
                    {"phi4-mini", 200064},    {"phi4", 100352},     {"starcoder", 49152},  {"stablelm-", 50304},
                    {"stablelm2", 100352},    {"minitron", 256000}, {"nemotron4", 256000}, {"xlm-roberta", 250002},
                    {"camembert", 32005},     {"mt5", 250112},      {"umt5", 256384},      {"", 50257}};

int64_t planned_vocabulary_of(const char *preset) {
    size_t i = 0;
    while (strncmp(preset, vocabularies[i].prefix, strlen(vocabularies[i].prefix)) != 0)
        i++;
    return vocabularies[i].size;
}

// The file of the tokenizer that this machine does not have; NULL if it has all that the flags name.
static const char *missing_file(const struct config *config) {
    const char *files[] = {config->vocab_file, config->merge_file, config->tokenizer_model};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i] && !file_exists(files[i]))
            return files[i];
    return NULL;
}

// Published tokenizers, by their type: GPT-2's, Llama 2's, BERT's, and of fairseq RoBERTa's and the words of
// WikiText-103 with the mask. 0 if the type does not say.
static int64_t size_of_type(const struct config *config) {
    static const struct {
        const char *type;
        int64_t size;
    } types[] = {{"GPT2BPETokenizer", 50257},
                 {"Llama2Tokenizer", 32000},
                 {"BertWordPieceLowerCase", 30522},
                 {"BertWordPieceCase", 28996},
                 {"FairseqTokenizer", 50265}};
    const char *type = config->tokenizer_type ? config->tokenizer_type : types[0].type;
    if (strcmp(type, "FairseqTokenizer") == 0 && !config->vocab_file)
        return 267745;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i].type) == 0)
            return types[i].size;
    return 0;
}

// The flag, the published tokenizer of this type, or that of the preset.
static int assume(struct config *config, const char *file) {
    int64_t size = config->vocab_size > 0 ? config->vocab_size : size_of_type(config);
    if (size == 0 && config->preset)
        size = planned_vocabulary_of(config->preset);
    if (size == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s is not on this machine, so the size of the vocabulary is unknown; give --vocab-size",
                              file);
    return config_pad_vocab(config, size + config->vocab_extra_ids);
}

int planned_vocabulary_set(struct config *config, const char **assumed_for) {
    const char *missing = missing_file(config);
    *assumed_for = config->vocab_size > 0 ? NULL : missing;
    if (missing)
        return assume(config, missing);
    struct tokenizer *tokenizer;
    TRY(datasets_open_tokenizer(&tokenizer, config));
    tokenizer_free(tokenizer);
    return 0;
}
