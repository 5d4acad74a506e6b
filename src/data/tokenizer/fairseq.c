// Reads and builds fairseq's dictionaries. The order of lines gives the ids, so everything that affects lines or their
// order follows fairseq: the definition of a space, which of two equal symbols counts, how ties are broken.
#include "data/tokenizer/fairseq.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/piece_encode.h"
#include "data/tokenizer/unicode_category.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 30 };
static const char *const specials[FAIRSEQ_SPECIALS] = {"<s>", "<pad>", "</s>", "<unk>"};

// The next word of text at or after *at, split at spaces: false if there is none.
static bool fairseq_next_word(const char *text, size_t length, size_t *at, size_t *word_length) {
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t character;
    while (*at < length) {
        size_t step = utf8_decode(bytes + *at, length - *at, &character, NULL);
        if (!unicode_is_python_space(character))
            break;
        *at += step;
    }
    size_t end = *at;
    while (end < length) {
        size_t step = utf8_decode(bytes + end, length - end, &character, NULL);
        if (unicode_is_python_space(character))
            break;
        end += step;
    }
    *word_length = end - *at;
    return end > *at;
}

// ---- reading ----

int32_t fairseq_dictionary_find(const struct vocabulary *dictionary, const char *symbol, size_t length) {
    int32_t id = vocabulary_find(dictionary, symbol, length);
    return id < 0 ? FAIRSEQ_UNK : id;
}

// Splits off the part of a line after the last space; false if there is no space.
static bool cut_field(struct token_line *line, struct token_line *field) {
    size_t at = line->length;
    while (at > 0 && line->text[at - 1] != ' ')
        at--;
    if (at == 0)
        return false;
    *field = (struct token_line){line->text + at, line->length - at};
    line->length = at - 1;
    return true;
}

static bool is_integer(struct token_line field) {
    size_t at = field.length > 0 && (field.text[0] == '-' || field.text[0] == '+');
    if (at == field.length)
        return false;
    for (; at < field.length; at++)
        if (field.text[at] < '0' || field.text[at] > '9')
            return false;
    return true;
}

bool fairseq_dictionary_begins(const char *begin, size_t length) {
    const char *at = begin;
    struct token_line line = token_line_next(&at, begin + length), field;
    return cut_field(&line, &field) && is_integer(field);
}

static void strip_end(struct token_line *line) {
    size_t kept = 0;
    for (size_t at = 0; at < line->length;) {
        uint32_t character;
        at += utf8_decode((const unsigned char *)line->text + at, line->length - at, &character, NULL);
        if (!unicode_is_python_space(character))
            kept = at;
    }
    line->length = kept;
}

static int add_line(struct vocabulary *dictionary, struct token_line line, const char *place) {
    static const char overwrite[] = "#fairseq:overwrite";
    struct token_line field = {0};
    strip_end(&line);
    bool good = cut_field(&line, &field), overwrites = false;
    if (good && field.length == sizeof overwrite - 1 && memcmp(field.text, overwrite, field.length) == 0) {
        overwrites = true;
        good = cut_field(&line, &field);
    }
    if (!good || !is_integer(field))
        return error_set("%s: expected a symbol, a space and a count; this is not a fairseq dictionary", place);
    if (!overwrites && vocabulary_find(dictionary, line.text, line.length) >= 0)
        return error_set(
            "%s: the symbol \"%.*s\" occurs twice; write #fairseq:overwrite after the count, or remove one", place,
            line.length < 60 ? (int)line.length : 60, line.text);
    vocabulary_append(dictionary, line.text, line.length);
    return 0;
}

int fairseq_dictionary_parse(struct vocabulary *dictionary, const char *text, size_t length, const char *name) {
    size_t bad = utf8_check(text, length);
    if (bad < length)
        return error_set("%s: byte %zu is not UTF-8; this is not a fairseq dictionary", name, bad);
    if (length > MOST_BYTES)
        return error_set("%s: %zu bytes are too many for a dictionary", name, length);
    // fairseq would make the byte order mark part of the first word, which then matches no text.
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return error_set("%s: it starts with a byte order mark; save it as UTF-8 without one", name);
    *dictionary = (struct vocabulary){0};
    for (int i = 0; i < FAIRSEQ_SPECIALS; i++)
        vocabulary_append(dictionary, specials[i], strlen(specials[i]));
    const char *end = text + length;
    struct buffer place = {0};
    int status = 0;
    for (int64_t line = 1; status == 0 && text < end; line++) {
        buffer_clear(&place);
        buffer_printf(&place, "%s:%" PRId64, name, line);
        status = add_line(dictionary, token_line_next(&text, end), place.data);
    }
    buffer_free(&place);
    if (status < 0)
        vocabulary_free(dictionary);
    return status;
}

// ---- building ----

void fairseq_count_words(struct byte_table *words, const char *text, size_t length) {
    size_t at = 0, bytes;
    while (fairseq_next_word(text, length, &at, &bytes)) {
        byte_table_get(words, text + at, bytes)->value++;
        at += bytes;
    }
}

struct counted_word {
    const unsigned char *bytes;
    size_t length;
    int64_t count;
};

static int compare_counted(const void *left, const void *right) {
    const struct counted_word *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static bool is_special(const struct counted_word *word) {
    for (int i = 0; i < FAIRSEQ_SPECIALS; i++)
        if (strlen(specials[i]) == word->length && memcmp(specials[i], word->bytes, word->length) == 0)
            return true;
    return false;
}

static bool is_word(const struct byte_table *words, const char *word) {
    for (int64_t i = 0; i < words->count; i++)
        if (words->strings[i].length == strlen(word) &&
            memcmp(words->bytes.data + words->strings[i].begin, word, words->strings[i].length) == 0)
            return true;
    return false;
}

void fairseq_build_dictionary(const struct byte_table *words, const struct fairseq_build *build, struct buffer *out) {
    struct counted_word *sorted = memory_alloc((size_t)(words->count + 1) * sizeof *sorted);
    int64_t count = 0, size = FAIRSEQ_SPECIALS;
    for (int64_t i = 0; i < words->count; i++) {
        struct counted_word word = {(const unsigned char *)words->bytes.data + words->strings[i].begin,
                                    words->strings[i].length, words->strings[i].value};
        if (!is_special(&word))  // already in the dictionary, and not written
            sorted[count++] = word;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare_counted);
    for (int64_t i = 0; i < count && sorted[i].count >= build->threshold; i++) {
        if (build->most_words > 0 && size >= build->most_words)
            break;
        buffer_append(out, sorted[i].bytes, sorted[i].length);
        buffer_printf(out, " %" PRId64 "\n", sorted[i].count);
        size++;
    }
    free(sorted);
    for (int i = 0; build->multiple > 1 && size % build->multiple != 0; i++) {
        char *name = memory_printf("madeupword%04d", i);
        if (!is_word(words, name)) {  // if it is an existing word, only its count grows
            buffer_printf(out, "%s 0\n", name);
            size++;
        }
        free(name);
    }
}

// ---- the tokenizer ----

// FairseqTokenizer: --tokenizer-model dict.txt. By itself it splits text into words at spaces. With --vocab-file
// encoder.json and --merge-file vocab.bpe the text, without spaces at its ends, is first encoded by GPT-2's BPE, and
// the symbols are its ids, as for RoBERTa. fairseq's processing of a line is applied here to a whole text; </s>, which
// fairseq puts at the end of every line, ends a document. fairseq's masked-word task adds <mask> after the dictionary
// unless it has one; here <mask> always follows a BPE, and follows words in a model of masked words.

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
