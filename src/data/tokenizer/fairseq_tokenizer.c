// FairseqTokenizer: --tokenizer-model dict.txt. By itself it splits text into words at spaces. With --vocab-file
// encoder.json and --merge-file vocab.bpe the text, without spaces at its ends, is first encoded by GPT-2's BPE, and
// the symbols are its ids, as for RoBERTa. fairseq's processing of a line is applied here to a whole text; </s>, which
// fairseq puts at the end of every line, ends a document. fairseq's masked-word task adds <mask> after the dictionary
// unless it has one; here <mask> always follows a BPE, and follows words in a model of masked words.
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/fairseq.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/piece_encode.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fairseq_model {
    struct vocabulary dictionary;
    struct bpe *bpe;  // NULL: words
    int32_t *of_bpe;  // (bpe->vocab_size) id in the dictionary of each id of the BPE
    int32_t *bpe_of;  // (dictionary.size) the reverse, -1 if there is none
    int32_t mask;     // <mask> after a dictionary of words; -1 if there is none
    struct splitter *splitter;
};

static void model_free(struct fairseq_model *model) {
    vocabulary_free(&model->dictionary);
    bpe_free(model->bpe);
    free(model->of_bpe);
    free(model->bpe_of);
    splitter_free(model->splitter);
    free(model);
}

static int open_bpe(struct fairseq_model *model, const struct tokenizer_options *options) {
    struct vocabulary vocabulary;
    TRY(vocabulary_read_json(&vocabulary, options->vocab_file));
    int status = bpe_open(&model->bpe, &vocabulary, options->vocab_file, options->merge_file);
    vocabulary_free(&vocabulary);
    TRY(status);
    vocabulary_append(&model->dictionary, "<mask>", 6);
    model->of_bpe = memory_alloc((size_t)model->bpe->vocab_size * sizeof *model->of_bpe);
    model->bpe_of = memory_alloc((size_t)model->dictionary.size * sizeof *model->bpe_of);
    memset(model->bpe_of, 0xFF, (size_t)model->dictionary.size * sizeof *model->bpe_of);
    for (int64_t i = 0; i < model->bpe->vocab_size; i++) {
        char symbol[24];
        int length = snprintf(symbol, sizeof symbol, "%" PRId64, i);
        int32_t id = fairseq_dictionary_find(&model->dictionary, symbol, (size_t)length);
        model->of_bpe[i] = id;
        if (id != FAIRSEQ_UNK)
            model->bpe_of[id] = (int32_t)i;
    }
    return 0;
}

static void add_mask(struct fairseq_model *model) {
    static const char mask[] = "<mask>";
    if (fairseq_dictionary_find(&model->dictionary, mask, sizeof mask - 1) == FAIRSEQ_UNK)
        model->mask = vocabulary_append(&model->dictionary, mask, sizeof mask - 1);
}

static int fairseq_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (!options->model_file || !options->vocab_file != !options->merge_file)
        return error_set_code(EXIT_CODE_USAGE, "FairseqTokenizer needs --tokenizer-model dict.txt; for a dictionary of "
                                               "GPT-2's BPE also --vocab-file encoder.json and --merge-file vocab.bpe");
    struct file_map file;
    TRY(file_map_open(&file, options->model_file));
    struct fairseq_model *model = memory_alloc(sizeof *model);
    model->mask = -1;
    const char *text = file.size ? (const char *)file.data : "";
    int status = whole_check_end(text, file.size, options->model_file);
    if (status == 0)
        status = whole_check_known(text, file.size, options->model_file, options->vocab_size);
    if (status == 0)
        status = fairseq_dictionary_parse(&model->dictionary, text, file.size, options->model_file);
    file_map_close(&file);
    if (status == 0 && model->dictionary.size == FAIRSEQ_SPECIALS)
        status = error_set("%s has no words; a dictionary has a word and a count on each line", options->model_file);
    if (status == 0 && options->vocab_file)
        status = open_bpe(model, options);
    else if (status == 0 && options->needs_mask)
        add_mask(model);
    if (status < 0) {
        model_free(model);
        return -1;
    }
    model->splitter = splitter_create(split_pattern_by_name("gpt2"));
    tokenizer->vocab_size = model->dictionary.size;
    tokenizer->eod = FAIRSEQ_EOS;
    tokenizer->model = model;
    return 0;
}

static void fairseq_close(struct tokenizer *tokenizer) {
    model_free(tokenizer->model);
}

// ---- encoding ----

static int encode_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                        struct token_list *out) {
    const struct fairseq_model *model = opaque;
    struct piece_state *state = opaque_state;
    int64_t before = out->count;
    TRY(bpe_encode(model->bpe, &state->merge, piece, length, out));
    for (int64_t i = before; i < out->count; i++)
        out->ids[i] = model->of_bpe[out->ids[i]];
    return 0;
}

static int encode_bpe(const struct fairseq_model *model, struct piece_state *state, const unsigned char *begin,
                      const unsigned char *end, struct token_list *out) {
    struct piece_model pieces = {.splitter = model->splitter, .encode = encode_piece, .model = model};
    return piece_encode(&pieces, &state->cache, state, (const char *)begin, (size_t)(end - begin), out);
}

// Strips the spaces at both ends. At the end, the last character is decoded from where it may begin; bytes that are not
// UTF-8 are never spaces.
static void strip(const unsigned char **begin, const unsigned char **end) {
    uint32_t character;
    while (*begin < *end) {
        size_t bytes = utf8_decode(*begin, (size_t)(*end - *begin), &character, NULL);
        if (!unicode_is_python_space(character))
            break;
        *begin += bytes;
    }
    while (*begin < *end) {
        const unsigned char *last = *end - 1;
        while (last > *begin && *end - last < 4 && (*last & 0xC0) == 0x80)
            last--;
        if (utf8_decode(last, (size_t)(*end - last), &character, NULL) != (size_t)(*end - last) ||
            !unicode_is_python_space(character))
            break;
        *end = last;
    }
}

static int encode(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                  struct token_list *out) {
    const struct fairseq_model *model = tokenizer->model;
    if (model->bpe) {
        const unsigned char *begin = (const unsigned char *)text, *end = begin + length;
        strip(&begin, &end);
        return encode_bpe(model, state, begin, end, out);
    }
    size_t at = 0, bytes;
    while (fairseq_next_word(text, length, &at, &bytes)) {
        token_list_append(out, fairseq_dictionary_find(&model->dictionary, text + at, bytes));
        at += bytes;
    }
    return 0;
}

// ---- decoding ----

// With a BPE the bytes, else the symbol of dict.txt.
static const char *token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct fairseq_model *model = tokenizer->model;
    if (model->bpe && model->bpe_of[id] >= 0) {
        const char *bytes = bpe_token(model->bpe, model->bpe_of[id], length);
        return bytes ? bytes : "";
    }
    return vocabulary_string(&model->dictionary, id, length);
}

// Begin and end symbols are dropped; a symbol that is not of the BPE, or not a word, is written by its name.
static int decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    const struct fairseq_model *model = tokenizer->model;
    bool first = true;
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] == FAIRSEQ_BOS || ids[i] == FAIRSEQ_EOS)
            continue;
        size_t length;
        const char *text = token(tokenizer, ids[i], &length);
        if (!model->bpe && !first)
            buffer_append_byte(out, ' ');
        first = false;
        buffer_append(out, text, length);
    }
    return 0;
}

// ---- as a tokenizer.json ----

static bool is_blank(const void *context, uint32_t character) {
    (void)context;
    return unicode_is_python_space(character);
}

// Every token of the BPE that text can become must be a symbol: others become <unk>, which the vocabulary of a BPE
// cannot express.
static int map_bpe(const struct fairseq_model *model, int32_t *ids) {
    int64_t missing = 0;
    for (int64_t i = 0; i < model->bpe->vocab_size; i++) {
        size_t length;
        const char *text = bpe_token(model->bpe, (int32_t)i, &length);
        bool is_symbol = model->of_bpe[i] != FAIRSEQ_UNK;
        ids[i] = is_symbol ? model->of_bpe[i] : -1;
        missing += !is_symbol && length > 0 && !bpe_is_bracketed(text, length);
    }
    return missing == 0 ? 0
                        : error_set("%" PRId64 " tokens of the BPE are not in the dictionary and become <unk>, which a "
                                    "tokenizer.json cannot express",
                                    missing);
}

static void add_symbol(const struct fairseq_model *model, struct hf_parts *parts, int32_t id) {
    size_t length;
    const char *text = vocabulary_string(&model->dictionary, id, &length);
    hf_parts_add(parts, text, length, id);
}

static int describe_bpe(const struct fairseq_model *model, struct hf_parts *parts) {
    int32_t *ids = memory_alloc((size_t)model->bpe->vocab_size * sizeof *ids);
    if (map_bpe(model, ids) < 0) {
        free(ids);
        return -1;
    }
    for (int32_t id = 0; id < model->dictionary.size; id++)
        if (model->bpe_of[id] < 0)
            add_symbol(model, parts, id);
    parts->tokens[parts->token_count - 1].lstrip = true;  // <mask>, so that it replaces a word with its space
    hf_write_byte_model(parts, &(struct hf_byte_model){.bpe = model->bpe, .of = ids});
    free(ids);
    struct buffer pattern = {0};
    buffer_append_string(&pattern, "(?<![\\s\\S])");
    hf_pattern_set(&pattern, is_blank, NULL);
    buffer_append_string(&pattern, "+|");
    hf_pattern_set(&pattern, is_blank, NULL);
    buffer_append_string(&pattern, "+(?![\\s\\S])");
    struct json_writer json = hf_part(&parts->normalizer);
    hf_step_replace_pattern(&json, &pattern, "");
    buffer_free(&pattern);
    json = hf_part(&parts->pre_tokenizer);
    hf_step_byte_level(&json, false, true);
    parts->is_roberta = true;
    return 0;
}

static void describe_words(const struct fairseq_model *model, struct hf_parts *parts) {
    struct json_writer json = hf_part(&parts->model);
    hf_step(&json, "WordLevel");
    json_key(&json, "vocab");
    json_begin_object(&json);
    for (int32_t id = 0; id < model->dictionary.size; id++) {
        size_t length;
        const char *text = vocabulary_string(&model->dictionary, id, &length);
        if (fairseq_dictionary_find(&model->dictionary, text, length) == id)
            hf_vocab_entry(&json, text, length, id);
        if (id < FAIRSEQ_SPECIALS || id == model->mask)
            add_symbol(model, parts, id);
    }
    json_end_object(&json);
    json_put_string(&json, "unk_token", "<unk>");
    json_end_object(&json);
    struct buffer pattern = {0};
    hf_pattern_set(&pattern, is_blank, NULL);
    json = hf_part(&parts->pre_tokenizer);
    hf_step_split(&json, &pattern, "Removed", false);
    buffer_free(&pattern);
}

static int describe(const struct tokenizer *tokenizer, struct hf_parts *parts) {
    const struct fairseq_model *model = tokenizer->model;
    parts->bos = FAIRSEQ_BOS;
    parts->pad = FAIRSEQ_PAD;
    parts->unknown = FAIRSEQ_UNK;
    if (model->bpe)
        return describe_bpe(model, parts);
    describe_words(model, parts);
    return 0;
}

const struct tokenizer_kind tokenizer_kind_fairseq = {
    .name = "FairseqTokenizer",
    .open = fairseq_open,
    .close = fairseq_close,
    .state_create = piece_state_create,
    .state_free = piece_state_free,
    .encode = encode,
    .decode = decode,
    .token = token,
    .describe = describe,
};
