// BertWordPieceLowerCase and BertWordPieceCase, as in Megatron up to core 0.14: Google's tokenizer with vocab.txt.
// [BOS], [EOS] and --vocab-extra-ids further tokens follow the vocabulary; [EOS] ends a document; encoding adds
// nothing.
#include "data/tokenizer/kind.h"
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/unicode_category.h"
#include "data/tokenizer/wordpiece.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

// ---- vocab.txt ----

enum { MOST_BYTES = 1 << 26 };

static struct token_line strip(struct token_line line) {
    const unsigned char *text = (const unsigned char *)line.text;
    size_t first = line.length, last = 0;
    for (size_t at = 0; at < line.length;) {
        uint32_t character;
        size_t bytes = utf8_decode(text + at, line.length - at, &character, NULL);
        if (!unicode_is_python_space(character)) {
            first = at < first ? at : first;
            last = at + bytes;
        }
        at += bytes;
    }
    return first < last ? (struct token_line){line.text + first, last - first} : (struct token_line){line.text, 0};
}

// An empty line is a token too, but no text can contain it.
static void build_trie(struct wordpiece_vocab *vocab) {
    const struct byte_table *tokens = &vocab->lines.tokens;
    struct trie_key *keys = memory_alloc((size_t)tokens->count * sizeof *keys);
    int64_t count = 0;
    for (int64_t i = 0; i < tokens->count; i++) {
        const struct byte_string *token = &tokens->strings[i];
        if (token->length > 0)
            keys[count++] = (struct trie_key){byte_table_text(tokens, token), token->length, (int32_t)token->value};
    }
    trie_build(&vocab->trie, keys, count);
    free(keys);
}

int wordpiece_vocab_parse(struct wordpiece_vocab *vocab, const char *text, size_t length, const char *name) {
    size_t bad = utf8_check(text, length);
    if (bad < length)
        return error_set("%s: byte %zu is not UTF-8; this is not a vocab.txt", name, bad);
    if (length == 0 || length > MOST_BYTES)
        return error_set("%s: has %zu bytes; vocab.txt has one token on each line, and %d bytes at most", name, length,
                         MOST_BYTES);
    *vocab = (struct wordpiece_vocab){0};
    for (const char *end = text + length; text < end;) {
        struct token_line line = strip(token_line_next(&text, end));
        vocabulary_append(&vocab->lines, line.text, line.length);
    }
    vocab->distinct = vocab->lines.tokens.count;
    build_trie(vocab);
    return 0;
}

void wordpiece_vocab_free(struct wordpiece_vocab *vocab) {
    trie_free(&vocab->trie);
    vocabulary_free(&vocab->lines);
}

int32_t wordpiece_vocab_append(struct wordpiece_vocab *vocab, const char *string) {
    int32_t id = trie_find(&vocab->trie, string, strlen(string));
    if (id >= 0)
        return id;
    // If lines were equal, this id is already that of a line; decoding then gives the line.
    id = (int32_t)vocab->distinct++;
    if (id == vocab->lines.size)
        vocabulary_append(&vocab->lines, string, strlen(string));
    return id;
}

// ---- the kinds ----

enum { MOST_CHARS = 200 };
static const char unknown[] = "[UNK]", prefix[] = "##";

struct bert_model {
    struct bert bert;
    struct wordpiece_vocab vocab;
    struct unicode_table *table;
};

static int check_specials(const struct wordpiece_vocab *vocab, const char *path) {
    static const char *const names[] = {unknown, "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (trie_find(&vocab->trie, names[i], strlen(names[i])) < 0)
            return error_set("%s: has no line %s, which BERT needs; use the vocab.txt of a BERT model", path, names[i]);
    return 0;
}

static int open_model(struct tokenizer *tokenizer, const struct tokenizer_options *options, bool lower) {
    if (!options->vocab_file)
        return error_set_code(EXIT_CODE_USAGE, "%s needs --vocab-file vocab.txt", tokenizer->kind->name);
    if (options->as_today)
        return hf_tokenizer_open_bert(tokenizer, options, lower);
    struct file_map file;
    TRY(file_map_open(&file, options->vocab_file));
    struct wordpiece_vocab vocab;
    const char *text = file.size ? (const char *)file.data : "";
    int status = whole_check_end(text, file.size, options->vocab_file);
    if (status == 0)
        status = whole_check_known(text, file.size, options->vocab_file, options->vocab_size);
    if (status == 0)
        status = wordpiece_vocab_parse(&vocab, text, file.size, options->vocab_file);
    file_map_close(&file);
    if (status < 0)
        return -1;
    if (check_specials(&vocab, options->vocab_file) < 0) {
        wordpiece_vocab_free(&vocab);
        return -1;
    }
    wordpiece_vocab_append(&vocab, "[BOS]");
    tokenizer->eod = wordpiece_vocab_append(&vocab, "[EOS]");
    for (int64_t i = 0; i < options->extra_ids; i++) {
        char *name = memory_printf("<extra_id_%d>", (int)i);
        wordpiece_vocab_append(&vocab, name);
        free(name);
    }
    struct bert_model *model = memory_alloc(sizeof *model);
    model->vocab = vocab;
    model->table = unicode_table_create(UNICODE_EDITION_16);
    model->table->category[0x1171E] = UNICODE_MN;  // as in Python at that time; Unicode 15.1 made it Mc
    model->bert.model = (struct wordpiece){
        .trie = &model->vocab.trie,
        .continued = trie_walk(&vocab.trie, prefix, sizeof prefix - 1),
        .unknown = trie_find(&vocab.trie, unknown, sizeof unknown - 1),
        .most_chars = MOST_CHARS,
    };
    model->bert.rules = (struct bert_rules){
        .table = model->table,
        .decomposed = model->table,
        .google = true,
        .lower = lower,
        .strip_accents = lower,
    };
    tokenizer->vocab_size = vocab.lines.size;
    tokenizer->model = model;
    return 0;
}

static int lower_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    return open_model(tokenizer, options, true);
}

static int case_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    return open_model(tokenizer, options, false);
}

static void bert_close(struct tokenizer *tokenizer) {
    struct bert_model *model = tokenizer->model;
    wordpiece_vocab_free(&model->vocab);
    free(model->table);
    free(model);
}

static int state_create(const struct tokenizer *tokenizer, void **state) {
    const struct bert_model *model = tokenizer->model;
    if (model->bert.rules.strip_accents)
        TRY(normal_form_require());
    *state = memory_alloc(sizeof(struct bert_state));
    bert_state_create(*state);
    return 0;
}

static void state_free(void *state) {
    bert_state_free(state);
    free(state);
}

static int encode(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                  struct token_list *out) {
    const struct bert_model *model = tokenizer->model;
    return bert_encode(&model->bert, state, text, length, out);
}

// ---- decoding ----

// Replaces every `then` in text[begin…) by `now`.
static void replace(struct buffer *text, size_t begin, const char *then, const char *now) {
    size_t then_length = strlen(then), now_length = strlen(now);
    size_t kept = begin;
    for (size_t at = begin; at < text->length;) {
        bool found = text->length - at >= then_length && memcmp(text->data + at, then, then_length) == 0;
        if (found) {
            memmove(text->data + kept, now, now_length);  // never longer than what it replaces
            kept += now_length;
            at += then_length;
        } else {
            text->data[kept++] = text->data[at++];
        }
    }
    text->length = kept;
    if (text->data)
        text->data[kept] = 0;
}

void wordpiece_tidy(struct buffer *text, size_t begin, bool contracts) {
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (contracts || pairs[i][1][0] != ' ')
            replace(text, begin, pairs[i][0], pairs[i][1]);
}

// Removes the spaces that empty tokens leave at both ends of text[begin…).
static void trim(struct buffer *text, size_t begin) {
    size_t first = begin;
    while (first < text->length && text->data[first] == ' ')
        first++;
    while (text->length > first && text->data[text->length - 1] == ' ')
        text->length--;
    if (first > begin)
        memmove(text->data + begin, text->data + first, text->length - first);
    text->length -= first - begin;
    if (text->data)
        text->data[text->length] = 0;
}

// Words separated by spaces, pieces joined, and without the spaces that English does not have: Megatron's detokenize.
static int decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    const struct bert_model *model = tokenizer->model;
    size_t begin = out->length;
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *string = vocabulary_string(&model->vocab.lines, ids[i], &length);
        if (i > 0)
            buffer_append_byte(out, ' ');
        buffer_append(out, string, length);
    }
    replace(out, begin, " ##", "");
    trim(out, begin);
    wordpiece_tidy(out, begin, false);
    return 0;
}

static const char *token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct bert_model *model = tokenizer->model;
    return vocabulary_string(&model->vocab.lines, id, length);
}

static int describe(const struct tokenizer *tokenizer, struct hf_parts *parts) {
    const struct bert_model *model = tokenizer->model;
    return wordpiece_describe(&model->bert, &model->vocab, parts);
}

#define BERT_KIND(type, opener)                                                                                        \
    {                                                                                                                  \
        .name = type, .open = opener, .close = bert_close, .state_create = state_create, .state_free = state_free,     \
        .encode = encode, .decode = decode, .token = token, .describe = describe,                                      \
    }

const struct tokenizer_kind tokenizer_kind_bert_lower = BERT_KIND("BertWordPieceLowerCase", lower_open);
const struct tokenizer_kind tokenizer_kind_bert_case = BERT_KIND("BertWordPieceCase", case_open);
