// Compares a tokenizer with the tokenizer.json made from it.
#include "data/tokenizer/hf_parts.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/tokenizer/kind.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
