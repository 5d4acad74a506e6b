// Characters in BERT's basic tokenizer: which are dropped, which separate words, lower case and accents.
#include "data/tokenizer/wordpiece.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/unicode_category.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

static bool in_range(uint32_t c, uint32_t first, uint32_t last) {
    return c >= first && c <= last;
}

// Hugging Face's table begins its sixth range at U+2B920, Google's at U+2B820.
static bool is_cjk(const struct bert_rules *rules, uint32_t c) {
    if (c < 0x3400)
        return false;
    return in_range(c, 0x4E00, 0x9FFF) || in_range(c, 0x3400, 0x4DBF) || in_range(c, 0x20000, 0x2A6DF) ||
           in_range(c, 0x2A700, 0x2B81F) || in_range(c, rules->google ? 0x2B820 : 0x2B920, 0x2CEAF) ||
           in_range(c, 0xF900, 0xFAFF) || in_range(c, 0x2F800, 0x2FA1F);
}

static bool is_ascii_punctuation(uint32_t c) {
    return in_range(c, 33, 47) || in_range(c, 58, 64) || in_range(c, 91, 96) || in_range(c, 123, 126);
}

enum bert_class bert_classify(const struct bert_rules *rules, uint32_t c) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        return BERT_BLANK;
    if (c == 0 || c == 0xFFFD)
        return BERT_DROPPED;
    if (is_ascii_punctuation(c))
        return BERT_PUNCTUATION;
    enum unicode_category category = unicode_category(rules->table, c);
    uint32_t dropped = UNICODE_SET(UNICODE_CC) | UNICODE_SET(UNICODE_CF);
    if (!rules->google)
        dropped |= UNICODE_SET(UNICODE_CO);
    if (dropped >> category & 1)
        return BERT_DROPPED;
    if (UNICODE_SET_P >> category & 1)
        return BERT_PUNCTUATION;
    // Python's split and Rust's treat line and paragraph separators as spaces.
    if (UNICODE_SET_Z >> category & 1)
        return BERT_BLANK;
    return is_cjk(rules, c) ? BERT_CJK : BERT_WORD;
}

// ---- the two small sigmas ----

// The properties Other_Lowercase and Other_Uppercase: cased characters that are neither Lu, Ll nor Lt.
static bool is_otherwise_cased(uint32_t c) {
    static const uint32_t ranges[][2] = {
        {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},     {0x2E0, 0x2E4},
        {0x345, 0x345},     {0x37A, 0x37A},     {0x10FC, 0x10FC},   {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},
        {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2160, 0x217F},
        {0x24B6, 0x24E9},   {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F2, 0xA7F4},
        {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},   {0xAB69, 0xAB69},   {0x10780, 0x10780}, {0x10783, 0x10785},
        {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x1E030, 0x1E06D}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169},
        {0x1F170, 0x1F189},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (in_range(c, ranges[i][0], ranges[i][1]))
            return true;
    return false;
}

bool bert_is_cased(const struct unicode_table *table, uint32_t c) {
    return unicode_in_set(table, c, UNICODE_SET_RANGE(UNICODE_LU, UNICODE_LT)) || is_otherwise_cased(c);
}

// The property Case_Ignorable: some categories, and characters that may occur inside a word.
bool bert_is_case_ignorable(const struct unicode_table *table, uint32_t c) {
    static const uint32_t inside_words[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                            0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof inside_words / sizeof inside_words[0]; i++)
        if (c == inside_words[i])
            return true;
    return unicode_in_set(table, c,
                          UNICODE_SET(UNICODE_MN) | UNICODE_SET(UNICODE_ME) | UNICODE_SET(UNICODE_CF) |
                              UNICODE_SET(UNICODE_LM) | UNICODE_SET(UNICODE_SK));
}

// The character that ends before `at`, which is after `begin`.
static uint32_t character_before(const unsigned char *begin, const unsigned char **at) {
    const unsigned char *lead = *at - 1;
    while (lead > begin && *at - lead < 4 && (*lead & 0xC0) == 0x80)
        lead--;
    uint32_t character;
    if (utf8_decode(lead, (size_t)(*at - lead), &character, NULL) != (size_t)(*at - lead)) {
        lead = *at - 1;
        character = 0xFFFD;
    }
    *at = lead;
    return character;
}

// Whether a cased letter precedes characters[index], ignoring characters that case ignores. The search continues into
// the text before the part, which was already processed, up to the previous space or CJK character.
static bool cased_before(const struct bert_rules *rules, const struct bert_part *part, size_t index) {
    while (index > 0) {
        uint32_t c = part->characters->items[--index];
        if (!bert_is_case_ignorable(rules->table, c))
            return bert_is_cased(rules->table, c);
    }
    for (const unsigned char *at = part->part; at > part->before;) {
        uint32_t c = character_before(part->before, &at);
        enum bert_class class = bert_classify(rules, c);
        if (class == BERT_DROPPED)
            continue;
        if (class == BERT_BLANK || class == BERT_CJK)
            return false;
        if (!bert_is_case_ignorable(rules->table, c))
            return bert_is_cased(rules->table, c);
    }
    return false;
}

static bool cased_after(const struct bert_rules *rules, const struct bert_part *part, size_t index) {
    while (++index < part->characters->count) {
        uint32_t c = part->characters->items[index];
        if (!bert_is_case_ignorable(rules->table, c))
            return bert_is_cased(rules->table, c);
    }
    return false;
}

// ---- lower case and accents ----

static void append_lower(const struct bert_rules *rules, const struct bert_part *part, size_t index,
                         struct character_list *out) {
    uint32_t c = part->characters->items[index];
    if (c == 0x3A3 && rules->google) {
        bool final = cased_before(rules, part, index) && !cased_after(rules, part, index);
        character_list_append(out, final ? 0x3C2 : 0x3C3);
    } else if (c == 0x130) {
        character_list_append(out, 'i');
        character_list_append(out, 0x307);
    } else {
        character_list_append(out, unicode_lower(c));
    }
}

static void strip_accents(const struct bert_rules *rules, const struct character_list *in, struct character_list *out) {
    size_t begin = out->count, kept = begin;
    struct normal_form_rules form = {.form = NORMAL_FORM_D, .known = rules->decomposed};
    normal_form_apply(&form, in->items, in->count, out);
    for (size_t i = begin; i < out->count; i++)
        if (unicode_category(rules->table, out->items[i]) != UNICODE_MN)
            out->items[kept++] = out->items[i];
    out->count = kept;
}

static void lower(const struct bert_rules *rules, const struct bert_part *part, struct character_list *out) {
    for (size_t i = 0; i < part->characters->count; i++)
        if (rules->lower)
            append_lower(rules, part, i, out);
        else
            character_list_append(out, part->characters->items[i]);
}

void bert_normalize(const struct bert_rules *rules, const struct bert_part *part, struct bert_state *state) {
    state->middle.count = 0;
    if (!rules->strip_accents) {
        lower(rules, part, &state->normal);
    } else if (rules->google) {
        lower(rules, part, &state->middle);
        strip_accents(rules, &state->middle, &state->normal);
    } else {
        strip_accents(rules, part->characters, &state->middle);
        lower(rules, &(struct bert_part){part->before, part->part, &state->middle}, &state->normal);
    }
}

// ---- the tokenizer ----

// BertWordPieceLowerCase and BertWordPieceCase, as in Megatron up to core 0.14: Google's tokenizer with vocab.txt.
// [BOS], [EOS] and --vocab-extra-ids further tokens follow the vocabulary; [EOS] ends a document; encoding adds
// nothing.

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
