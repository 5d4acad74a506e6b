// A tokenizer.json of Hugging Face, read into tables. Encoding follows their library: non-normalized added tokens are
// cut out of the text, the rest is normalized, normalized added tokens are cut out of that, the pre-tokenizer splits
// the rest into words, the model turns words into ids, and the post-processor puts ids around all of them. Decoding
// goes through a chain of decoders. A component that is not supported is an error when the file is read; none is ever
// ignored.
#ifndef DATA_TOKENIZER_HF_H
#define DATA_TOKENIZER_HF_H

#include "base/buffer.h"
#include "base/json.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/byte_table.h"
#include "data/tokenizer/charsmap.h"
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/piece_encode.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/token_list.h"
#include "data/tokenizer/trie.h"
#include "data/tokenizer/unigram.h"
#include "data/tokenizer/wordpiece.h"

// A string from the file.
struct hf_string {
    char *text;
    size_t length;
};

// The target of a Split, a Replace or a Metaspace: exactly one of these.
struct hf_pattern {
    struct hf_string literal;  // if not NULL
    struct pattern *general;
    char *text;                         // of it
    const struct split_pattern *known;  // a built-in pattern, which only the splitter has
    struct splitter *splitter;          // of a Split, if the pattern has one
};

enum hf_normalizer {
    HF_NORMALIZER_BERT,
    HF_NORMALIZER_STRIP,
    HF_NORMALIZER_STRIP_ACCENTS,
    HF_NORMALIZER_NFD,  // the forms in the order of enum normal_form
    HF_NORMALIZER_NFKD,
    HF_NORMALIZER_NFC,
    HF_NORMALIZER_NFKC,
    HF_NORMALIZER_LOWER,
    HF_NORMALIZER_NMT,
    HF_NORMALIZER_CHARSMAP,
    HF_NORMALIZER_REPLACE,
    HF_NORMALIZER_PREPEND,
    HF_NORMALIZER_BYTES,
};

struct hf_normalizer_step {
    enum hf_normalizer kind;
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
    HF_PRETOKENIZER_DELIMITER,  // becomes a SPLIT
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
    struct hf_string normalized;  // its form in normalized text, if it is searched for there
    int32_t id;
    bool special, single_word, lstrip, rstrip, is_normalized;
};

// How added tokens begin: by their first bytes and, if there are few, by their first two, which is fast to search for.
// The second byte of a filter is compared only in the bits of its mask.
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
    int64_t model_count;  // tokens of the model as Hugging Face counts them: distinct ones; for Unigram all in the list
    int32_t *same;        // (model_count) for Unigram: the id of the last token that is equal; else NULL
    struct hf_string *strings;  // (size) by id; text is NULL if no token has the id; views into vocab and added
    int64_t size;               // highest id + 1
    int64_t count;              // tokens, as Hugging Face counts them

    struct hf_added *added;
    int64_t added_count;
    struct trie raw_trie, normal_trie;  // values are indices into added; size 0 if there are none
    struct hf_starts raw_starts, normal_starts;
    int64_t empty_added;  // index of one that is empty in normalized text and so matches everywhere; -1

    struct hf_normalizer_step *normalizers;
    size_t normalizer_count;
    struct hf_pretokenizer_step *pretokenizers;
    size_t pretokenizer_count;
    struct hf_decoder_step *decoders;
    size_t decoder_count;
    bool has_decoder;
    struct token_list before, after;  // put around every text

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

    bool is_bert;  // the whole pipeline is BERT's: bert_encode does it
    struct bert bert;
    const struct splitter *byte_splitter;  // the whole pipeline is byte-level BPE of these pieces
    struct splitter *in_turn;              // by several patterns, one within the pieces of another
    struct splitter *gpt2;                 // for ByteLevel; NULL if it does not split
    bool byte_prefix_space, byte_nfc;
    bool is_spaced;  // words between spaces pass through the whole pipeline one by one, split by these
    struct split_rules space_rules;
    struct splitter *spaces;
    bool is_marked;  // the whole pipeline is BPE of words that begin with U+2581, which replaces spaces
    struct split_rules mark_rules;
    struct splitter *marks;
    enum hf_prepend mark_first;  // where one is prepended to a text that does not begin with a space
    bool mark_doubles;           // also if it begins with one

    struct unicode_table *table;        // for splitters and patterns
    struct unicode_table *old, *older;  // editions 9 and 8
    struct normal_form_pairs *pairs;
    struct byte_map bytes;
};

// Reads a tokenizer.json in memory; errors call it `name`. On error nothing is left to free.
int hf_parse(struct hf **hf, const char *text, size_t length, const char *name);
void hf_free(struct hf *hf);  // NULL is fine

// ---- loading, part by part ----

int hf_error(const struct hf *hf, const char *part, const char *what);  // "FILE: PART: WHAT"
int hf_too_long(const struct hf *hf, const char *part);
struct hf_string hf_copy(const char *text, size_t length);
bool hf_get_bool(const struct json *object, const char *key, bool otherwise);
// Member `key`: 1 if a string; 0 if absent or null; else -1 with an error.
int hf_get_string(const struct hf *hf, const struct json *object, const char *key, const struct json **string);
// {"String": …} or {"Regex": …}
int hf_load_pattern(struct hf *hf, const struct json *pattern, const char *part, struct hf_pattern *out);
// Calls add for an object with a "type", or for each object of a "Sequence", whose list is the member `list`.
int hf_for_each(struct hf *hf, const struct json *value, const char *list,
                int (*add)(struct hf *hf, const struct json *value, const char *type));
// Member `key`, which must be a string.
int hf_copy_member(const struct hf *hf, const struct json *value, const char *key, struct hf_string *out);
// The index of a type among the names; -1 with an error if it is none of them.
int hf_find_type(const struct hf *hf, const char *part, const char *const *names, size_t count, const char *type);
// A list of steps with one more, which is zeroed.
void *hf_add_step(void *steps, size_t *count, size_t step_bytes);
int hf_load_metaspace(const struct hf *hf, const struct json *value, enum hf_prepend *prepend,
                      struct hf_string *replacement);
int hf_load_model(struct hf *hf, const struct json *model);
int hf_load_added(struct hf *hf, const struct json *list);
// A number as parsed by Hugging Face's JSON library; `otherwise` if its exponent is beyond the range in which this is
// reproducible.
double hf_number(const char *text, size_t length, double otherwise);
int hf_load_normalizer(struct hf *hf, const struct json *normalizer);
int hf_load_pretokenizer(struct hf *hf, const struct json *pretokenizer);
int hf_load_decoder(struct hf *hf, const struct json *decoder);
// Called after the parts are loaded.
int hf_check_insertions(const struct hf *hf);
int hf_prepare_added(struct hf *hf);
// Finds common configurations with dedicated code, many times faster than going through the parts.
void hf_find_shortcuts(struct hf *hf);

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
    size_t count;
    int64_t capacity;
};

struct hf_state {
    struct hf_splits parts, words, other;
    struct buffer normal, swap, piece;
    size_t most_bytes;  // limit for the normalized form of the current text
    struct character_list characters, more;
    struct pattern_scratch pattern;
    struct merge_scratch merge;
    struct unigram_scratch unigram;
    struct word_cache cache;    // of words, for general configurations
    struct piece_cache pieces;  // for a byte-level one
    struct bert_state bert;
};

void hf_splits_add(struct hf_splits *splits, struct hf_split split);
// Limit for the result of a file's steps on `length` bytes: no real file comes near it.
static inline size_t hf_most_bytes(size_t length) {
    return 64 * length + (1 << 20);
}
// Normalizes text[0…length) into state->normal. Its first `zero` bytes, the first character, come from the beginning of
// the whole text; *zero becomes the number of bytes made from them. Hugging Face tracks the origin of every byte, and
// Metaspace's "first" checks whether a word's origin is the beginning: if a normalizer removes it, no word's is.
int hf_normalize(const struct hf *hf, struct hf_state *state, const char *text, size_t length, size_t *zero);
// Splits state->normal, of which `zero` bytes come from the beginning, into state->words (cleared first).
int hf_pretokenize(const struct hf *hf, struct hf_state *state, size_t zero);
// Appends the ids of one word of a BPE model, at most one per byte.
int hf_encode_bpe(const struct hf *hf, struct hf_state *state, const char *word, size_t length, struct token_list *out);
// Appends the ids of one word.
int hf_encode_word(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                   struct token_list *out);
// Appends the added tokens in a text, and the parts between them, to splits; text is not copied.
void hf_find_added(const struct hf *hf, bool normalized, const char *text, size_t length, struct hf_splits *splits);
// Converts ids to text through the decoders.
int hf_decode(const struct hf *hf, const int32_t *ids, int64_t count, struct buffer *out);

// The state of a search for all matches in a text; zeroed, it is at the beginning.
struct hf_search {
    size_t from;
    struct pattern_match match;  // the last one
    bool found;                  // there was one
};

// The next match of a pattern in text: 1, 0, -1 as in pattern_find. An empty match right after another match is
// ignored.
int hf_next_match(const struct hf_pattern *pattern, struct pattern_scratch *scratch, const struct buffer *text,
                  struct hf_search *search);

int hf_encode(const struct hf *hf, struct hf_state *state, const char *text, size_t length, struct token_list *out);
void hf_state_init(struct hf_state *state);
void hf_state_free(struct hf_state *state);

#endif
