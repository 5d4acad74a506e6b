// Sizes of vocabularies. See vocabulary_size.h.
#include "train/vocabulary_size.h"
#include "base/error.h"
#include "base/file.h"
#include "train/datasets.h"

#include <ctype.h>
#include <string.h>

// The file of the tokenizer that this machine does not have; NULL if it has all that the flags name.
static const char *missing_file(const struct config *config) {
    const char *files[] = {config->data.vocab_file, config->data.merge_file, config->data.tokenizer_model};
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
    if (config->data.published_size > 0)
        return config->data.published_size;
    const char *type = config->data.tokenizer_type ? config->data.tokenizer_type : types[0].type;
    if (strcmp(type, "FairseqTokenizer") == 0 && !config->data.vocab_file)
        return 267745;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i].type) == 0)
            return types[i].size;
    return 0;
}

// Of a published model, by the last part of its name at Hugging Face: deepseek-ai/DeepSeek-V3. 0 if it is none.
static int64_t size_of_name(const char *name) {
    static const struct {
        const char *name;
        int64_t size;
    } others[] = {{"t5-small", 32100}, {"mt5-base", 250100}};
    char preset[64] = "";
    const char *last = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    for (size_t i = 0; last[i] && i + 1 < sizeof preset; i++)
        preset[i] = (char)tolower((unsigned char)last[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(preset, others[i].name) == 0)
            return others[i].size;
    return config_preset_vocabulary(preset);
}

// The flags, the published tokenizer of this type, or that of the preset.
static int assume(struct config *config, const char *file) {
    if (config->data.vocab_size == 0 && config->model.padded_vocab_size > 0)
        return config_pad_vocab(config, config->model.padded_vocab_size);
    int64_t size = config->data.vocab_size > 0 ? config->data.vocab_size : size_of_type(config);
    if (size > 0 && size == config->data.published_size && config->data.extra_vocab_size >= 0)
        config->model.padded_vocab_size = size += config->data.extra_vocab_size;
    if (size == 0 && config->model.preset)
        size = config_preset_vocabulary(config->model.preset);
    if (size == 0)
        size = size_of_name(file);
    if (size == 0)
        return error_set_code(
            EXIT_CODE_USAGE,
            "%s is not on this machine, so the size of the vocabulary is unknown; give --vocab-size or "
            "--padded-vocab-size",
            file);
    return config_pad_vocab(config, size + config->data.vocab_extra_ids);
}

int planned_vocabulary_set(struct config *config, const char **assumed_for) {
    const char *missing = missing_file(config);
    *assumed_for = config->data.vocab_size > 0 || config->model.padded_vocab_size > 0 ? NULL : missing;
    if (missing)
        return assume(config, missing);
    struct tokenizer *tokenizer;
    TRY(datasets_open_tokenizer(&tokenizer, config));
    tokenizer_free(tokenizer);
    return 0;
}
