// A tokenizer.json of Hugging Face, read into tables. Encoding goes the way that their library does: added tokens
// that are not normalized are cut out of the text, the rest is normalized, added tokens that are normalized are cut
// out of that, the rest is cut into words by the pre-tokenizer, the model makes ids of the words, the post-processor
// puts ids around all of them. Decoding goes through a chain of decoders. A component that is not here is an error
// when the file is read, never something left out.
#ifndef DATA_TOKENIZER_HF_H
#define DATA_TOKENIZER_HF_H

#include "base/buffer.h"
#include "base/json.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/byte_table.h"
#include "data/tokenizer/charsmap.h"
#include "data/tokenizer/merge_ids.h"
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/piece_encode.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/token_list.h"
#include "data/tokenizer/trie.h"
#include "data/tokenizer/unigram.h"
#include "data/tokenizer/wordpiece.h"

// A string out of the file.
struct hf_string {
    char *text;
    size_t length;
};

// What a Split, a Replace or a Metaspace looks for: exactly one of these.
struct hf_pattern {
    struct hf_string literal;           // where not NULL
    const struct split_pattern *known;  // a pattern that covers every text
    struct pattern *general;
};

enum hf_normalizer {
    HF_NORMALIZER_BERT,
    HF_NORMALIZER_STRIP,
    HF_NORMALIZER_STRIP_ACCENTS,
    HF_NORMALIZER_FORM,
    HF_NORMALIZER_LOWER,
    HF_NORMALIZER_NMT,
    HF_NORMALIZER_CHARSMAP,
    HF_NORMALIZER_REPLACE,
    HF_NORMALIZER_PREPEND,
    HF_NORMALIZER_BYTES,
};

struct hf_normalizer_step {
    enum hf_normalizer kind;
    enum normal_form form;
    bool left, right;                       // Strip
    bool clean, cjk, strip_accents, lower;  // BertNormalizer
    struct charsmap map;
    struct hf_pattern pattern;
    struct hf_string content;  // of Replace and Prepend
};

enum hf_pretokenizer {
    HF_PRETOKENIZER_BERT,
    HF_PRETOKENIZER_BYTES,
    HF_PRETOKENIZER_SPLIT,
    HF_PRETOKENIZER_METASPACE,
    HF_PRETOKENIZER_DIGITS,
    HF_PRETOKENIZER_PUNCTUATION,
    HF_PRETOKENIZER_WHITESPACE,
    HF_PRETOKENIZER_WHITESPACE_SPLIT,
    HF_PRETOKENIZER_FIXED_LENGTH,
};

enum hf_behavior { HF_REMOVED, HF_ISOLATED, HF_MERGED_WITH_PREVIOUS, HF_MERGED_WITH_NEXT, HF_CONTIGUOUS };
enum hf_prepend { HF_PREPEND_ALWAYS, HF_PREPEND_FIRST, HF_PREPEND_NEVER };

struct hf_pretokenizer_step {
    enum hf_pretokenizer kind;
    enum hf_behavior behavior;
    bool invert;
    bool prefix_space, use_regex;  // ByteLevel
    enum hf_prepend prepend;       // Metaspace
    bool split;
    struct hf_string replacement;
    struct hf_pattern pattern;
    int64_t length;  // FixedLength
};

enum hf_model { HF_MODEL_BPE, HF_MODEL_WORDPIECE, HF_MODEL_UNIGRAM, HF_MODEL_WORDLEVEL };

enum hf_decoder {
    HF_DECODER_BYTES,
    HF_DECODER_WORDPIECE,
    HF_DECODER_BPE,
    HF_DECODER_BYTE_FALLBACK,
    HF_DECODER_FUSE,
    HF_DECODER_STRIP,
    HF_DECODER_METASPACE,
    HF_DECODER_REPLACE,
};

struct hf_decoder_step {
    enum hf_decoder kind;
    struct hf_string text;  // prefix, suffix, content or replacement, by kind
    struct hf_pattern pattern;
    bool cleanup;
    bool prepends;        // Metaspace
    int64_t start, stop;  // Strip
};

struct hf_added {
    struct hf_string content;
    struct hf_string normalized;  // what it is in normalized text, where it is looked for there
    int32_t id;
    bool special, single_word, lstrip, rstrip, is_normalized;
};

// How added tokens begin: by their first bytes and, where there are few, by their first two, which a text can be
// searched for quickly. A filter's second byte counts in the bits of its mask.
struct hf_starts {
    bool first[256];
    int filter_count;  // 0: too many to filter by
    struct hf_filter {
        unsigned char first, second, mask;
    } filters[4];
};

struct hf {
    char *name;  // of the file, for errors
    struct byte_table vocab;
    int64_t model_count;  // tokens of the model as Hugging Face counts them: different ones, of Unigram all in the list
    int32_t *same;        // (model_count) of Unigram: the id of the last token that is the same; else NULL
    struct hf_string *strings;  // (size) by id; text NULL for a hole; views into vocab and added
    int64_t size;               // highest id + 1
    int64_t count;              // tokens, as Hugging Face counts them

    struct hf_added *added;
    int64_t added_count;
    struct trie raw_trie, normal_trie;  // values are indices of added; size 0 if there are none
    struct hf_starts raw_starts, normal_starts;
    int64_t empty_added;  // index of one that is nothing in normalized text, and so stands everywhere in it; -1

    struct hf_normalizer_step *normalizers;
    size_t normalizer_count;
    struct hf_pretokenizer_step *pretokenizers;
    size_t pretokenizer_count;
    struct hf_decoder_step *decoders;
    size_t decoder_count;
    bool has_decoder;
    struct token_list before, after;  // of every text

    enum hf_model model;
    struct bpe bpe;
    bool byte_fallback, fuse_unknown, ignore_merges, drops_unknown;
    bool cuts_at_mark;         // no merge has U+2581 after another character: words can be cut before it
    int32_t byte_tokens[256];  // <0x00>…, -1 if there is none
    bool has_byte_tokens;
    struct hf_string prefix, suffix;  // of pieces inside a word, and at its end
    struct wordpiece wordpiece;
    struct trie wordpiece_trie;
    struct unigram unigram;
    int32_t unknown;  // -1 if there is none

    bool is_bert;  // the whole way is BERT's: bert_encode does it
    struct bert bert;
    const struct split_rules *byte_rules;  // the whole way is byte-level BPE split by these
    bool byte_prefix_space, byte_nfc;
    bool is_spaced;  // words between spaces go the whole way one by one, cut by these rules
    struct split_rules space_rules;
    bool is_marked;  // the whole way is BPE of words that begin with U+2581, which spaces become
    struct split_rules mark_rules;
    enum hf_prepend mark_first;  // where one is put before a text that does not begin with a space
    bool mark_doubles;           // or with one

    struct unicode_table *table;        // of splitters and patterns
    struct unicode_table *old, *older;  // editions 9 and 8
    struct normal_form_pairs *pairs;
    struct byte_map bytes;
};

// Reads a tokenizer.json in memory, which errors call `name`. On error nothing is left to free.
int hf_parse(struct hf **hf, const char *text, size_t length, const char *name);
void hf_free(struct hf *hf);  // NULL is fine

// ---- loading, part by part ----

int hf_error(const struct hf *hf, const char *part, const char *what);  // "FILE: PART: WHAT"
struct hf_string hf_copy(const char *text, size_t length);
bool hf_get_bool(const struct json *object, const char *key, bool otherwise);
// Member `key`: a string, 1; absent or null, 0; something else, -1 with an error.
int hf_get_string(const struct hf *hf, const struct json *object, const char *key, const struct json **string);
// {"String": …} or {"Regex": …}
int hf_load_pattern(struct hf *hf, const struct json *pattern, const char *part, struct hf_pattern *out);
// Calls add for an object with a "type", or for each in a "Sequence", whose list is the member `list`.
int hf_for_each(struct hf *hf, const struct json *value, const char *list,
                int (*add)(struct hf *hf, const struct json *value, const char *type));
int hf_load_model(struct hf *hf, const struct json *model);
// A number as the library that Hugging Face reads JSON with makes it of its digits; `otherwise` where its exponent is
// beyond what that does so.
double hf_number(const char *text, size_t length, double otherwise);
int hf_load_normalizer(struct hf *hf, const struct json *normalizer);
int hf_load_pretokenizer(struct hf *hf, const struct json *pretokenizer);
int hf_load_decoder(struct hf *hf, const struct json *decoder);
int hf_load_post_processor(struct hf *hf, const struct json *processor);

// ---- encoding, part by part ----

// A part of a text: an added token, or bytes of a buffer.
struct hf_split {
    size_t begin, end;
    int32_t id;   // of an added token; -1: text
    size_t zero;  // how many of its first bytes come from the first character of the whole text; see hf_normalize
};

struct hf_splits {
    struct buffer text;
    struct hf_split *items;
    size_t count, capacity;
};

struct hf_state {
    struct hf_splits parts, words, other;
    struct buffer normal, swap, piece;
    size_t most_bytes;  // that normalizers may make of the text at hand
    struct character_list characters, more;
    struct pattern_scratch pattern;
    struct merge_scratch merge;
    struct unigram_scratch unigram;
    struct word_cache cache;    // of words of general ways
    struct piece_cache pieces;  // of a byte-level one
    struct bert_state bert;
};

void hf_splits_add(struct hf_splits *splits, struct hf_split split);
// The most that the steps of a file may make of so many bytes: none that is in use comes near it.
static inline size_t hf_most_bytes(size_t length) {
    return 64 * length + (1 << 20);
}
// Normalizes text[0…length) into state->normal. `zero` of its bytes, the first character, come from the beginning of
// the whole text; *zero becomes the number of bytes made of them. Hugging Face keeps the origin of every byte, and
// Metaspace's "first" asks whether a word's is the beginning: after a normalizer that removes it, none is.
int hf_normalize(const struct hf *hf, struct hf_state *state, const char *text, size_t length, size_t *zero);
// Cuts state->normal, of which so many bytes come from the beginning, into state->words (cleared before).
int hf_pretokenize(const struct hf *hf, struct hf_state *state, size_t zero);
// Appends the ids of one word of a BPE model, at most one for each byte.
int hf_encode_bpe(const struct hf *hf, struct hf_state *state, const char *word, size_t length, struct token_list *out);
// Appends the ids of one word.
int hf_encode_word(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                   struct token_list *out);
// Appends the parts of a text between added tokens, and those, to splits; text is not copied.
void hf_find_added(const struct hf *hf, bool normalized, const char *text, size_t length, struct hf_splits *splits);
// The text of ids through the decoders.
int hf_decode(const struct hf *hf, const int32_t *ids, int64_t count, struct buffer *out);

// Where a search for all matches in a text is; zeroed, it is at the beginning.
struct hf_search {
    size_t from;
    struct pattern_match match;  // the last one
    bool found;                  // there was one
};

// The next match of a pattern in text: 1, 0, -1 as pattern_find. An empty match right after another match does not
// count.
int hf_next_match(const struct hf *hf, const struct hf_pattern *pattern, struct pattern_scratch *scratch,
                  const struct buffer *text, struct hf_search *search);

int hf_encode(const struct hf *hf, struct hf_state *state, const char *text, size_t length, struct token_list *out);
void hf_state_init(struct hf_state *state);
void hf_state_free(struct hf_state *state);

#endif
