// Google's rules and those of Hugging Face's BertNormalizer and BertPreTokenizer differ, and so do their Unicode
// versions (wordpiece.h). So the rules are written as general steps, with the characters of each class listed.
#include "data/tokenizer/wordpiece.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

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
