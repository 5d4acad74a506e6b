// WordPiece of one word, and the walk over a text that finds the words. Runs of ASCII letters and digits between spaces
// and punctuation, nearly all words of most texts, are looked up in the cache unchanged; a part with any other
// character is first cleaned character by character. Both may use one cache: a part that is already clean has the same
// ids as its raw form.
#include "data/tokenizer/wordpiece.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

enum { KEPT_BYTES = 1 << 20 };

static int unknown_word(const struct wordpiece *model, struct token_list *out) {
    if (model->unknown < 0)
        return error_set("a word is not in the vocabulary, and neither is [UNK]; add it to the vocabulary");
    token_list_append(out, model->unknown);
    return 0;
}

static bool too_long(const struct wordpiece *model, const unsigned char *word, size_t length) {
    if ((int64_t)length <= model->most_chars)
        return false;
    int64_t characters = 0;
    for (size_t i = 0; i < length; i++)
        characters += (word[i] & 0xC0) != 0x80;
    return characters > model->most_chars;
}

// Tokens are well-formed UTF-8, so the longest match always ends with a character.
int wordpiece_encode_word(const struct wordpiece *model, const unsigned char *word, size_t length,
                          struct token_list *out) {
    if (too_long(model, word, length))
        return unknown_word(model, out);
    int64_t before = out->count;
    for (size_t begin = 0; begin < length;) {
        int32_t node = begin ? model->continued : TRIE_ROOT, id = -1;
        size_t end = begin;
        for (size_t at = begin; at < length && node >= 0; at++) {
            node = trie_step(model->trie, node, word[at]);
            if (node >= 0 && model->trie->values[node] >= 0) {
                id = model->trie->values[node];
                end = at + 1;
            }
        }
        if (id < 0) {
            out->count = before;
            return unknown_word(model, out);
        }
        token_list_append(out, id);
        begin = end;
    }
    return 0;
}

// ---- finding words ----

void bert_state_create(struct bert_state *state) {
    *state = (struct bert_state){0};
    word_cache_create(&state->cache);
}

void bert_state_free(struct bert_state *state) {
    word_cache_free(&state->cache);
    character_list_free(&state->characters);
    character_list_free(&state->middle);
    character_list_free(&state->normal);
    buffer_free(&state->word);
}

// Bytes of a text, and how many can be read there.
struct span {
    const unsigned char *text;
    size_t length, readable;
};

// A word that is not in the cache, and goes into its bucket if that is not NULL. `lowers`: it is ASCII, and upper case
// becomes lower case.
static int encode_new(const struct bert *bert, struct bert_state *state, struct span span, bool lowers,
                      struct word_bucket *bucket, struct token_list *out) {
    int64_t before = out->count;
    const unsigned char *word = span.text;
    if (lowers) {
        buffer_clear(&state->word);
        buffer_append(&state->word, span.text, span.length);
        for (size_t i = 0; i < span.length; i++)
            if (word[i] >= 'A' && word[i] <= 'Z')
                state->word.data[i] = (char)(word[i] + 32);
        word = (const unsigned char *)state->word.data;
    }
    TRY(wordpiece_encode_word(&bert->model, word, span.length, out));
    if (bucket)
        word_cache_add(bucket, word_key_of(span.text, span.length, span.readable), out->ids + before,
                       out->count - before);
    return 0;
}

// Long words are not cached. Inline, since nearly all words of a text end here.
static inline int encode_span(const struct bert *bert, struct bert_state *state, struct span span, bool lowers,
                              struct token_list *out) {
    struct word_bucket *bucket = NULL;
    if (span.length <= WORD_CACHE_MAX_BYTES &&
        word_cache_append(&state->cache, word_key_of(span.text, span.length, span.readable), &bucket, out))
        return 0;
    return encode_new(bert, state, span, lowers, bucket, out);
}

// Encodes the word in state->word, which is clean, and clears it.
static int end_word(const struct bert *bert, struct bert_state *state, struct token_list *out) {
    size_t length = state->word.length;
    if (length > 0)
        TRY(encode_span(bert, state, (struct span){(const unsigned char *)state->word.data, length, length}, false,
                        out));
    buffer_clear(&state->word);
    return 0;
}

// Splits state->normal at punctuation and encodes the words.
static int encode_normal(const struct bert *bert, struct bert_state *state, struct token_list *out) {
    buffer_clear(&state->word);
    for (size_t i = 0; i < state->normal.count; i++) {
        uint32_t c = state->normal.items[i];
        char bytes[4];
        bool alone = bert_classify(&bert->rules, c) == BERT_PUNCTUATION;
        if (alone)
            TRY(end_word(bert, state, out));
        buffer_append(&state->word, bytes, utf8_encode(c, bytes));
        if (alone)
            TRY(end_word(bert, state, out));
    }
    return end_word(bert, state, out);
}

// The position in a text.
struct text_walk {
    const unsigned char *begin, *at, *end;
};

// Encodes the text at walk->at, up to the next space or CJK character, or one CJK character, and advances.
static int encode_part(const struct bert *bert, struct bert_state *state, struct text_walk *walk,
                       struct token_list *out) {
    const unsigned char *part = walk->at;
    state->characters.count = 0;
    state->normal.count = 0;
    while (walk->at < walk->end) {
        uint32_t c;
        size_t bytes = utf8_decode(walk->at, (size_t)(walk->end - walk->at), &c, NULL);
        enum bert_class class = bert_classify(&bert->rules, c);
        if (class == BERT_BLANK || (class == BERT_CJK && state->characters.count > 0))
            break;
        walk->at += bytes;
        if (class != BERT_DROPPED)
            character_list_append(&state->characters, c);
        if (class == BERT_CJK)
            break;
    }
    if (walk->at == part) {  // a space
        uint32_t c;
        walk->at += utf8_decode(part, (size_t)(walk->end - part), &c, NULL);
        return 0;
    }
    bert_normalize(&bert->rules, &(struct bert_part){walk->begin, part, &state->characters}, state);
    return encode_normal(bert, state, out);
}

enum ascii_class { ASCII_OTHER, ASCII_WORD, ASCII_PUNCTUATION, ASCII_BLANK };
#define O ASCII_OTHER
#define W ASCII_WORD
#define P ASCII_PUNCTUATION
#define B ASCII_BLANK
static const unsigned char ascii_class[256] = {
    O, O, O, O, O, O, O, O, O, B, B, O, O, B, O, O,  // 0x00: tab, line feed, return
    O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,  // 0x10
    B, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P,  // 0x20
    W, W, W, W, W, W, W, W, W, W, P, P, P, P, P, P,  // 0x30
    P, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W,  // 0x40
    W, W, W, W, W, W, W, W, W, W, W, P, P, P, P, P,  // 0x50
    P, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W,  // 0x60
    W, W, W, W, W, W, W, W, W, W, W, P, P, P, P, O,  // 0x70; the rest, 0x80 and up, is 0: other
};
#undef O
#undef W
#undef P
#undef B

int bert_encode(const struct bert *bert, struct bert_state *state, const char *text, size_t length,
                struct token_list *out) {
    struct text_walk walk = {(const unsigned char *)text, (const unsigned char *)text,
                             (const unsigned char *)text + length};
    while (walk.at < walk.end) {
        const unsigned char *word = walk.at;
        enum ascii_class class = (enum ascii_class)ascii_class[*word];
        if (class == ASCII_BLANK) {
            walk.at++;
            continue;
        }
        const unsigned char *end = word + (class == ASCII_PUNCTUATION);
        if (class == ASCII_WORD)
            while (end < walk.end && ascii_class[*end] == ASCII_WORD)
                end++;
        // A character follows that may belong to the word, or be dropped from it: this is not an ASCII word.
        bool plain = class == ASCII_PUNCTUATION ||
                     (class == ASCII_WORD && (end == walk.end || ascii_class[*end] != ASCII_OTHER));
        if (!plain) {
            TRY(encode_part(bert, state, &walk, out));
            continue;
        }
        struct span span = {word, (size_t)(end - word), (size_t)(walk.end - word)};
        TRY(encode_span(bert, state, span, bert->rules.lower, out));
        walk.at = end;
    }
    if (state->word.capacity > KEPT_BYTES)
        buffer_free(&state->word);
    return 0;
}

// ---- as a tokenizer.json ----

// Google's rules and those of Hugging Face's BertNormalizer and BertPreTokenizer differ, and so do their Unicode
// versions (wordpiece.h). So the rules are written as general steps, with the characters of each class listed.

static bool is_dropped(const void *rules, uint32_t c) {
    return bert_classify(rules, c) == BERT_DROPPED;
}

static bool is_alone(const void *rules, uint32_t c) {
    enum bert_class class = bert_classify(rules, c);
    return class == BERT_PUNCTUATION || class == BERT_CJK;
}

static bool is_mark(const void *opaque, uint32_t c) {
    const struct bert_rules *rules = opaque;
    return unicode_category(rules->table, c) == UNICODE_MN;
}

static bool is_ignorable(const void *opaque, uint32_t c) {
    const struct bert_rules *rules = opaque;
    return bert_is_case_ignorable(rules->table, c);
}

static bool is_cased(const void *opaque, uint32_t c) {
    const struct bert_rules *rules = opaque;
    return bert_is_cased(rules->table, c) && !bert_is_case_ignorable(rules->table, c);
}

static void replace_set(struct json_writer *json, const struct bert_rules *rules,
                        bool (*is_in)(const void *, uint32_t)) {
    struct buffer pattern = {0};
    hf_pattern_set(&pattern, is_in, rules);
    hf_step_replace_pattern(json, &pattern, "");
    buffer_free(&pattern);
}

// Σ at the end of a word is ς: after a cased letter, and not before one. Case-ignorable characters may be in between;
// two of them are enough, since marks were removed.
static void end_sigma(struct json_writer *json, const struct bert_rules *rules) {
    enum { BETWEEN = 2 };
    struct buffer pattern = {0};
    buffer_append_string(&pattern, "(?<=");
    for (int count = 0; count <= BETWEEN; count++) {
        if (count > 0)
            buffer_append_byte(&pattern, '|');
        hf_pattern_set(&pattern, is_cased, rules);
        for (int i = 0; i < count; i++)
            hf_pattern_set(&pattern, is_ignorable, rules);
    }
    buffer_append_string(&pattern, ")\xCE\xA3(?!");
    hf_pattern_set(&pattern, is_ignorable, rules);
    buffer_append_byte(&pattern, '*');
    hf_pattern_set(&pattern, is_cased, rules);
    buffer_append_byte(&pattern, ')');
    hf_step_replace_pattern(json, &pattern, "\xCF\x82");
    buffer_free(&pattern);
}

static void write_normalizer(const struct bert_rules *rules, struct hf_parts *parts) {
    struct json_writer json = hf_part(&parts->normalizer);
    hf_begin_sequence(&json, "normalizers");
    replace_set(&json, rules, is_dropped);
    // Accents first: the rest of each character has the same lower case, and no mark is between a Σ and its letter.
    if (rules->strip_accents) {
        hf_step_plain(&json, "NFD");
        replace_set(&json, rules, is_mark);
    }
    if (rules->lower) {
        end_sigma(&json, rules);
        hf_step_plain(&json, "Lowercase");
    }
    hf_end_sequence(&json);
}

static void write_pretokenizer(const struct bert_rules *rules, struct hf_parts *parts) {
    struct json_writer json = hf_part(&parts->pre_tokenizer);
    struct buffer pattern = {0};
    hf_begin_sequence(&json, "pretokenizers");
    hf_step_plain(&json, "WhitespaceSplit");
    hf_pattern_set(&pattern, is_alone, rules);
    hf_step_split(&json, &pattern, "Isolated", false);
    hf_end_sequence(&json);
    buffer_free(&pattern);
}

void wordpiece_begin_model(struct json_writer *json, int64_t most_chars) {
    hf_step(json, "WordPiece");
    json_put_string(json, "unk_token", "[UNK]");
    json_put_string(json, "continuing_subword_prefix", "##");
    json_put_int(json, "max_input_chars_per_word", most_chars);
}

void wordpiece_write_decoder(struct hf_parts *parts, bool cleans_up) {
    struct json_writer json = hf_part(&parts->decoder);
    hf_step(&json, "WordPiece");
    json_put_string(&json, "prefix", "##");
    hf_member_bool(&json, "cleanup", cleans_up);
    json_end_object(&json);
}

static bool is_special(const char *text, size_t length) {
    static const char *const names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[BOS]", "[EOS]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (length == strlen(names[i]) && memcmp(text, names[i], length) == 0)
            return true;
    return length > 11 && memcmp(text, "<extra_id_", 10) == 0;
}

// The last of equal lines counts. An appended token is not in the trie of the lines.
int wordpiece_describe(const struct bert *bert, const struct wordpiece_vocab *vocab, struct hf_parts *parts) {
    struct json_writer json = hf_part(&parts->model);
    wordpiece_begin_model(&json, bert->model.most_chars);
    json_key(&json, "vocab");
    json_begin_object(&json);
    for (int64_t id = 0; id < vocab->lines.size; id++) {
        size_t length;
        const char *text = vocabulary_string(&vocab->lines, (int32_t)id, &length);
        int32_t last = length > 0 ? trie_find(&vocab->trie, text, length) : -1;
        if (length == 0 || (last >= 0 && last != id))
            continue;
        hf_vocab_entry(&json, text, length, id);
        if (is_special(text, length)) {
            hf_parts_add(parts, text, length, (int32_t)id);
            if (length == 5 && memcmp(text, "[UNK]", 5) == 0)
                parts->unknown = (int32_t)id;
        }
    }
    json_end_object(&json);
    json_end_object(&json);
    write_normalizer(&bert->rules, parts);
    write_pretokenizer(&bert->rules, parts);
    wordpiece_write_decoder(parts, false);
    parts->is_bert = true;
    parts->lowers = bert->rules.lower;
    parts->cleans_up = true;
    return 0;
}
