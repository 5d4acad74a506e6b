// Writing steps, patterns and models of a tokenizer.json.
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/token_list.h"
#include "data/tokenizer/unicode_category.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void hf_parts_free(struct hf_parts *parts) {
    buffer_free(&parts->normalizer);
    buffer_free(&parts->pre_tokenizer);
    buffer_free(&parts->decoder);
    buffer_free(&parts->model);
    buffer_free(&parts->post_processor);
    buffer_free(&parts->whole);
    buffer_free(&parts->probes);
    buffer_free(&parts->names);
    free(parts->tokens);
    *parts = (struct hf_parts){0};
}

void hf_parts_add(struct hf_parts *parts, const char *text, size_t length, int32_t id) {
    MEMORY_GROW(parts->tokens, parts->token_count, parts->token_capacity);
    parts->tokens[parts->token_count++] =
        (struct hf_part_token){.begin = parts->names.length, .length = length, .id = id};
    buffer_append(&parts->names, text, length);
}

struct json_writer hf_part(struct buffer *out) {
    return (struct json_writer){.out = out, .depth = 1, .indent = 1, .after_key = true};
}

// ---- members ----

void hf_member_bool(struct json_writer *json, const char *key, bool value) {
    json_put_bool(json, key, value);
}

void hf_member_null(struct json_writer *json, const char *key) {
    json_key(json, key);
    json_null(json);
}

// ---- steps ----

void hf_step(struct json_writer *json, const char *type) {
    json_begin_object(json);
    json_put_string(json, "type", type);
}

void hf_step_plain(struct json_writer *json, const char *type) {
    hf_step(json, type);
    json_end_object(json);
}

static void write_pattern(struct json_writer *json, const char *kind, const char *text, size_t length) {
    json_key(json, "pattern");
    json_begin_object(json);
    json_key(json, kind);
    json_string(json, text, length);
    json_end_object(json);
}

void hf_step_replace(struct json_writer *json, const char *text, const char *content) {
    hf_step(json, "Replace");
    write_pattern(json, "String", text, strlen(text));
    json_put_string(json, "content", content);
    json_end_object(json);
}

void hf_step_replace_pattern(struct json_writer *json, const struct buffer *pattern, const char *content) {
    hf_step(json, "Replace");
    write_pattern(json, "Regex", buffer_string(pattern), pattern->length);
    json_put_string(json, "content", content);
    json_end_object(json);
}

void hf_step_split(struct json_writer *json, const struct buffer *pattern, const char *behavior, bool invert) {
    hf_step(json, "Split");
    write_pattern(json, "Regex", buffer_string(pattern), pattern->length);
    json_put_string(json, "behavior", behavior);
    hf_member_bool(json, "invert", invert);
    json_end_object(json);
}

void hf_step_byte_level(struct json_writer *json, bool prefix_space, bool use_regex) {
    hf_step(json, "ByteLevel");
    hf_member_bool(json, "add_prefix_space", prefix_space);
    hf_member_bool(json, "trim_offsets", true);
    hf_member_bool(json, "use_regex", use_regex);
    json_end_object(json);
}

void hf_begin_sequence(struct json_writer *json, const char *list) {
    hf_step(json, "Sequence");
    json_key(json, list);
    json_begin_array(json);
}

void hf_end_sequence(struct json_writer *json) {
    json_end_array(json);
    json_end_object(json);
}

// ---- patterns ----

// Characters stand for themselves, since not every reader of these files understands \x{…}.
static void append_character(struct buffer *pattern, uint32_t character, const char *special) {
    char bytes[4];
    if (character > 0 && character < 0x80 && strchr(special, (int)character))
        buffer_append_byte(pattern, '\\');
    buffer_append(pattern, bytes, utf8_encode(character, bytes));
}

void hf_pattern_text(struct buffer *pattern, const char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        uint32_t character;
        at += utf8_decode((const unsigned char *)text + at, length - at, &character, NULL);
        append_character(pattern, character, "\\[](){}^$|.*+?");
    }
}

void hf_pattern_set(struct buffer *pattern, bool (*is_in)(const void *context, uint32_t character),
                    const void *context) {
    enum { SURROGATES = 0xD800, AFTER_SURROGATES = 0xE000 };
    static const char in_set[] = "\\[]^-";
    uint32_t first = UNICODE_LIMIT, last = 0;
    buffer_append_byte(pattern, '[');
    for (uint32_t c = 0; c <= UNICODE_LIMIT; c++) {
        if (c == SURROGATES)
            c = AFTER_SURROGATES;
        if (c < UNICODE_LIMIT && is_in(context, c)) {
            first = first == UNICODE_LIMIT ? c : first;
            last = c;
        } else if (first < UNICODE_LIMIT) {
            append_character(pattern, first, in_set);
            if (last > first + 1)
                buffer_append_byte(pattern, '-');
            if (last > first)
                append_character(pattern, last, in_set);
            first = UNICODE_LIMIT;
        }
    }
    buffer_append_byte(pattern, ']');
}

// ---- models ----

void hf_begin_bpe(struct json_writer *json, const char *unknown, bool byte_fallback, bool ignore_merges) {
    hf_step(json, "BPE");
    hf_member_null(json, "dropout");
    json_put_string(json, "unk_token", unknown);
    hf_member_null(json, "continuing_subword_prefix");
    hf_member_null(json, "end_of_word_suffix");
    hf_member_bool(json, "fuse_unk", unknown != NULL);
    hf_member_bool(json, "byte_fallback", byte_fallback);
    hf_member_bool(json, "ignore_merges", ignore_merges);
}

void hf_vocab_entry(struct json_writer *json, const char *text, size_t length, int64_t id) {
    json_key_bytes(json, text, length);
    json_int(json, id);
}

static int compare_merges(const void *left, const void *right) {
    const struct hf_merge *a = left, *b = right;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    return (a->left_length > b->left_length) - (a->left_length < b->left_length);
}

void hf_write_merges(struct json_writer *json, struct hf_merge *merges, size_t count) {
    if (count > 0)
        qsort(merges, count, sizeof *merges, compare_merges);
    json_key(json, "merges");
    json_begin_array(json);
    int indent = json->indent;
    for (size_t i = 0; i < count; i++) {
        json_begin_array(json);
        json->indent = 0;
        json_string(json, merges[i].left, merges[i].left_length);
        json_string(json, merges[i].right, merges[i].right_length);
        json_end_array(json);
        json->indent = indent;
    }
    json_end_array(json);
}

// Offsets of the names of tokens in a buffer.
struct names {
    struct buffer text;
    size_t *begin;  // (size + 1)
};

static void name_tokens(struct names *names, const struct hf_parts *parts, const struct hf_byte_model *model) {
    const struct bpe *bpe = model->bpe;
    struct byte_map map;
    byte_map_init(&map);
    names->begin = memory_alloc((size_t)(bpe->vocab_size + 1) * sizeof *names->begin);
    bool *is_special = memory_alloc((size_t)bpe->vocab_size * sizeof *is_special);
    for (size_t i = 0; !model->of && i < parts->token_count; i++)
        if (parts->tokens[i].id < bpe->vocab_size)
            is_special[parts->tokens[i].id] = true;
    for (int64_t i = 0; i < bpe->vocab_size; i++) {
        names->begin[i] = names->text.length;
        size_t length;
        const char *text = bpe_token(bpe, (int32_t)i, &length);
        if (!is_special[i])
            byte_map_write(&map, (const unsigned char *)text, length, &names->text);
    }
    names->begin[bpe->vocab_size] = names->text.length;
    free(is_special);
}

// An entry of the vocabulary.
struct entry {
    const char *text;
    size_t length;
    int32_t id;
};

static int compare_entries(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

static void write_byte_vocab(struct json_writer *json, const struct hf_parts *parts, const struct hf_byte_model *model,
                             const struct names *names) {
    size_t count = 0;
    struct entry *entries = memory_alloc(((size_t)model->bpe->vocab_size + parts->token_count + 1) * sizeof *entries);
    for (int64_t i = 0; i < model->bpe->vocab_size; i++) {
        int32_t id = model->of ? model->of[i] : (int32_t)i;
        size_t length = names->begin[i + 1] - names->begin[i];
        if (length > 0 && id >= 0)
            entries[count++] = (struct entry){names->text.data + names->begin[i], length, id};
    }
    for (size_t i = 0; i < parts->token_count; i++)
        entries[count++] =
            (struct entry){parts->names.data + parts->tokens[i].begin, parts->tokens[i].length, parts->tokens[i].id};
    if (count > 0)
        qsort(entries, count, sizeof *entries, compare_entries);
    json_key(json, "vocab");
    json_begin_object(json);
    for (size_t i = 0; i < count; i++)
        hf_vocab_entry(json, entries[i].text, entries[i].length, entries[i].id);
    json_end_object(json);
    free(entries);
}

static void write_byte_merges(struct json_writer *json, const struct bpe *bpe, const struct names *names) {
    struct hf_merge *merges = memory_alloc((size_t)(bpe->merge_count + 1) * sizeof *merges);
    size_t count = 0;
    for (size_t slot = 0; slot <= bpe->pair_mask; slot++) {
        const struct bpe_pair *pair = &bpe->pairs[slot];
        if (pair->left < 0)
            continue;
        size_t left = names->begin[pair->left], right = names->begin[pair->right];
        merges[count++] =
            (struct hf_merge){names->text.data + left, names->text.data + right, names->begin[pair->left + 1] - left,
                              names->begin[pair->right + 1] - right, pair->rank};
    }
    hf_write_merges(json, merges, count);
    free(merges);
}

void hf_write_byte_model(struct hf_parts *parts, const struct hf_byte_model *model) {
    struct names names = {0};
    name_tokens(&names, parts, model);
    struct json_writer json = hf_part(&parts->model);
    hf_begin_bpe(&json, model->unk_token, false, model->ignore_merges);
    write_byte_vocab(&json, parts, model, &names);
    write_byte_merges(&json, model->bpe, &names);
    json_end_object(&json);
    buffer_free(&names.text);
    free(names.begin);
    json = hf_part(&parts->decoder);
    hf_step_byte_level(&json, true, true);
    json = hf_part(&parts->post_processor);
    hf_step_byte_level(&json, false, true);
}

void hf_describe_gpt2(const struct bpe *bpe, struct hf_parts *parts) {
    bool *is_made = bpe_find_made(bpe);
    for (int64_t id = 0; id < bpe->vocab_size; id++) {
        size_t length;
        const char *text = bpe_token(bpe, (int32_t)id, &length);
        if (!is_made[id] && bpe_is_bracketed(text, length))
            hf_parts_add(parts, text, length, (int32_t)id);
    }
    free(is_made);
    hf_write_byte_model(parts, &(struct hf_byte_model){.bpe = bpe});
    struct json_writer json = hf_part(&parts->pre_tokenizer);
    hf_step_byte_level(&json, false, true);
}

// ---- checking ----

// Compares a tokenizer with the tokenizer.json made from it.

// Strings on which tokenizers differ.
static const char *const strings[] = {
    "",
    " ",
    "a",
    " a",
    "a ",
    "  a  b   c    ",
    "Hello, world!",
    "\ttab\n\nlines\r\n  and \v\f blanks \n ",
    "it's I'M we'll don'T '\"'s",
    "12345678 3.14 1e-9 \xC2\xBD \xC2\xB2 \xE2\x85\xA8 \xD9\xA3\xD9\xA4",
    "int main(void) {\n\treturn a[0] == b->c && !d; // \xE2\x86\x92\n}\n",
    "\x01\x02\x1C\x1F\x7F\xC2\x85\xC2\xA0\xE3\x80\x80\xE2\x80\x8B\xEF\xBB\xBF\xC2\xAD",
    "e\xCC\x81 \xC3\xA9 a\xCC\x88\xCC\x81 e\xCC\xA3\xCC\x82 \xEF\xBD\x81\xCC\x81",
    "\xEF\xAC\x81 \xE2\x84\xA2 \xEF\xBC\xA1\xEF\xBC\xA2 \xE2\x80\xA6 \xE2\x84\xAB \xEF\xB7\xBA",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C \xE3\x81\x93\xE3\x82\x93 \xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4",
    "\xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7 \xD7\xA9\xD7\x81\xD7\x9C\xD7\x95\xD7\x9D \xE0\xA4\xA8\xE0\xA4\xAE",
    "\xCE\x9F\xCE\x94\xCE\x9F\xCE\xA3 \xCE\xA3 \xC4\xB0stanbul Stra\xC3\x9F"
    "e \xE1\xBA\x9E",
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7 \xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD "
    "1\xEF\xB8\x8F\xE2\x83\xA3",
    "\xE2\x96\x81 a\xE2\x96\x81\xE2\x96\x81"
    "b \xE2\x96\x81",
    "<0x41> <0x0A> <|x|> [x] ##a </ <extra",
    "supercalifragilisticexpialidocious_antidisestablishmentarianism",
    "========---------........aaaaaaaaaa          z",
    "\xF0\x90\x8D\x88\xF0\x9D\x94\xB8\xF0\xAB\xA0\xA0\xEE\x80\x80\xF4\x8F\xBF\xBD\xEF\xBF\xBD",
};

struct comparison {
    const struct hf_parts *parts;
    struct tokenizer_encoder *ours, *theirs;
    struct token_list our_ids, their_ids;
};

// In a tokenizer.json, text that reads like a special token always is that token, and all text is UTF-8.
static bool has_special(const struct hf_parts *parts, const char *text, size_t length) {
    for (size_t i = 0; i < parts->token_count; i++)
        if (memmem(text, length, parts->names.data + parts->tokens[i].begin, parts->tokens[i].length))
            return true;
    return false;
}

static int compare_ids(const void *left, const void *right) {
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

// SentencePiece sums scores in fp32, Hugging Face in fp64: if a run of one character can be split in several ways with
// the same score, they may return the same tokens in a different order.
static bool are_same(int32_t *ours, int32_t *theirs, int64_t count, bool in_any_order) {
    size_t bytes = (size_t)count * sizeof *ours;
    if (count == 0 || memcmp(ours, theirs, bytes) == 0)
        return true;
    if (!in_any_order)
        return false;
    qsort(ours, (size_t)count, sizeof *ours, compare_ids);
    qsort(theirs, (size_t)count, sizeof *theirs, compare_ids);
    return memcmp(ours, theirs, bytes) == 0;
}

static int compare(struct comparison *c, const char *text, size_t length) {
    if (has_special(c->parts, text, length) || utf8_check(text, length) < length)
        return 0;
    c->our_ids.count = c->their_ids.count = 0;
    TRY(tokenizer_encode(c->ours, text, length, &c->our_ids));
    TRY(tokenizer_encode(c->theirs, text, length, &c->their_ids));
    int64_t skip = c->parts->begins ? 1 : 0, count = c->our_ids.count - skip;
    if (count == c->their_ids.count && are_same(c->our_ids.ids + skip, c->their_ids.ids, count, c->parts->adds_scores))
        return 0;
    return error_set("a tokenizer.json cannot express this tokenizer: it would give other ids for \"%.*s\"",
                     (int)(length < 60 ? length : 60), text);
}

// Texts of some tokens, and of two in a row.
static int compare_tokens(struct comparison *c, const struct tokenizer *tokenizer) {
    enum { TOKENS = 500 };
    struct buffer text = {0};
    int64_t size = tokenizer_vocab_size(tokenizer);
    int status = 0;
    for (int64_t i = 0; status == 0 && i < TOKENS; i++) {
        int32_t ids[2] = {(int32_t)(i * size / TOKENS), (int32_t)((i * 7919 + 13) % size)};
        buffer_clear(&text);
        if (tokenizer_decode(tokenizer, ids, 2, &text) < 0) {  // no such token
            error_clear();
            continue;
        }
        status = compare(c, buffer_string(&text), text.length);
    }
    buffer_free(&text);
    return status;
}

static int compare_all(const struct tokenizer *tokenizer, const struct tokenizer *theirs,
                       const struct hf_parts *parts) {
    struct comparison c = {.parts = parts};
    int status = tokenizer_encoder_create(&c.ours, tokenizer);
    if (status == 0)
        status = tokenizer_encoder_create(&c.theirs, theirs);
    for (size_t i = 0; status == 0 && i < sizeof strings / sizeof strings[0]; i++)
        status = compare(&c, strings[i], strlen(strings[i]));
    for (size_t at = 0; status == 0 && at < parts->probes.length; at += strlen(parts->probes.data + at) + 1)
        status = compare(&c, parts->probes.data + at, strlen(parts->probes.data + at));
    if (status == 0)
        status = compare_tokens(&c, tokenizer);
    tokenizer_encoder_free(c.ours);
    tokenizer_encoder_free(c.theirs);
    token_list_free(&c.our_ids);
    token_list_free(&c.their_ids);
    return status;
}

int hf_check(const struct tokenizer *tokenizer, const struct hf_parts *parts, const struct buffer *json) {
    if (parts->whole.length > 0)
        return 0;
    struct tokenizer theirs = {.kind = &tokenizer_kind_hf};
    TRY(hf_tokenizer_open_text(&theirs, &(struct tokenizer_options){.hf_without_specials = true}, json,
                               "tokenizer.json"));
    int status = compare_all(tokenizer, &theirs, parts);
    theirs.kind->close(&theirs);
    return status;
}
