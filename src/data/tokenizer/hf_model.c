// The model of a tokenizer.json, and how it encodes one word: BPE, WordPiece, Unigram or WordLevel, each with its own
// rule for characters that have no token. Old files do not name the type.
#include "data/tokenizer/hf.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- BPE ----

// Characters without a token: held back, so that a run of them can become one.
struct unknown_run {
    const struct hf *hf;
    struct token_list *out;
    bool pending;
};

static void flush_unknown(struct unknown_run *run) {
    if (run->pending)
        token_list_append(run->out, run->hf->unknown);
    run->pending = false;
}

static int add_unknown(struct unknown_run *run) {
    if (run->hf->drops_unknown)
        return 0;
    if (run->hf->unknown < 0)
        return error_set("%s: a character is unknown, and \"unk_token\" is not in the vocabulary", run->hf->name);
    if (!run->hf->fuse_unknown)
        flush_unknown(run);
    run->pending = true;
    return 0;
}

static bool add_bytes(const struct hf *hf, const char *text, size_t length, struct token_list *out) {
    for (size_t i = 0; i < length; i++)
        if (hf->byte_tokens[(unsigned char)text[i]] < 0)
            return false;
    for (size_t i = 0; i < length; i++)
        token_list_append(out, hf->byte_tokens[(unsigned char)text[i]]);
    return true;
}

// The symbol of one character, with the prefix of pieces inside a word and the suffix of its end.
static int add_symbol(const struct hf *hf, struct hf_state *state, struct pattern_match character, const char *word,
                      size_t length, struct unknown_run *run) {
    const char *text = word + character.begin;
    size_t bytes = character.end - character.begin;
    bool prefixed = character.begin > 0 && hf->prefix.length > 0;
    bool suffixed = character.end == length && hf->suffix.length > 0;
    if (prefixed || suffixed) {
        buffer_clear(&state->piece);
        if (prefixed)
            buffer_append(&state->piece, hf->prefix.text, hf->prefix.length);
        buffer_append(&state->piece, text, bytes);
        if (suffixed)
            buffer_append(&state->piece, hf->suffix.text, hf->suffix.length);
        text = state->piece.data;
        bytes = state->piece.length;
    }
    int32_t id = byte_table_find(&hf->vocab, text, bytes);
    if (id >= 0) {
        flush_unknown(run);
        token_list_append(run->out, id);
        return 0;
    }
    if (hf->byte_fallback && add_bytes(hf, text, bytes, run->out))
        return 0;
    return add_unknown(run);
}

int hf_encode_bpe(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                  struct token_list *out) {
    if (hf->ignore_merges) {
        int32_t id = byte_table_find(&hf->vocab, word, length);
        if (id >= 0) {
            token_list_append(out, id);
            return 0;
        }
    }
    TRY(bpe_check_length(length));
    int64_t before = out->count;
    struct unknown_run run = {hf, out, false};
    for (size_t at = 0; at < length;) {
        uint32_t character;
        size_t bytes = utf8_decode((const unsigned char *)word + at, length - at, &character, NULL);
        TRY(add_symbol(hf, state, (struct pattern_match){at, at + bytes}, word, length, &run));
        at += bytes;
    }
    flush_unknown(&run);
    if (out->count > before)
        out->count = before + merge_ids(&hf->bpe, &state->merge, out->ids + before, out->count - before);
    return 0;
}

// ---- Unigram ----

// A run of unknown pieces is one string, which may be a token after all.
static int add_unknown_pieces(const struct hf *hf, const char *text, size_t length, struct token_list *out) {
    int32_t id = trie_find(&hf->unigram.trie, text, length);
    if (id < 0) {
        if (hf->byte_fallback && add_bytes(hf, text, length, out))
            return 0;
        id = hf->unknown;
    }
    if (id < 0)
        return error_set("%s: a character is unknown, and there is no \"unk_id\"", hf->name);
    token_list_append(out, id);
    return 0;
}

static int encode_unigram(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                          struct token_list *out) {
    TRY(bpe_check_length(length));
    unigram_best(&hf->unigram, &state->unigram, word, length);
    size_t at = 0, unknown = 0;  // bytes of unknown pieces before `at`
    for (int64_t i = 0; i < state->unigram.count; i++) {
        struct unigram_piece piece = state->unigram.pieces[i];
        if (piece.id == hf->unknown) {
            unknown += (size_t)piece.length;
        } else {
            if (unknown > 0)
                TRY(add_unknown_pieces(hf, word + at - unknown, unknown, out));
            unknown = 0;
            token_list_append(out, piece.id);
        }
        at += (size_t)piece.length;
    }
    return unknown > 0 ? add_unknown_pieces(hf, word + at - unknown, unknown, out) : 0;
}

// ---- all models ----

static int encode_wordlevel(const struct hf *hf, const char *word, size_t length, struct token_list *out) {
    int32_t id = byte_table_find(&hf->vocab, word, length);
    if (id < 0)
        id = hf->unknown;
    if (id < 0)
        return error_set("%s: a word is unknown, and so is \"unk_token\"", hf->name);
    token_list_append(out, id);
    return 0;
}

static int encode_piece(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                        struct token_list *out) {
    switch (hf->model) {
    case HF_MODEL_BPE:
        return hf_encode_bpe(hf, state, word, length, out);
    case HF_MODEL_WORDPIECE:
        return wordpiece_encode_word(&hf->wordpiece, (const unsigned char *)word, length, out);
    case HF_MODEL_UNIGRAM:
        return encode_unigram(hf, state, word, length, out);
    case HF_MODEL_WORDLEVEL:
    default:
        return encode_wordlevel(hf, word, length, out);
    }
}

static int encode_cached(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                         struct token_list *out) {
    if (length > WORD_CACHE_MAX_BYTES)
        return encode_piece(hf, state, word, length, out);
    struct word_key key = word_key_of((const unsigned char *)word, length, length);
    struct word_bucket *bucket;
    if (word_cache_append(&state->cache, key, &bucket, out))
        return 0;
    int64_t before = out->count;
    TRY(encode_piece(hf, state, word, length, out));
    word_cache_add(bucket, key, out->ids + before, out->count - before);
    return 0;
}

// End of the piece of a long word that begins at `at`: the next mark that follows another character.
static size_t next_cut(const char *word, size_t length, size_t at) {
    static const char mark[] = "\xE2\x96\x81";
    while (length - at >= 3 && memcmp(word + at, mark, 3) == 0)
        at += 3;
    const char *found = memmem(word + at, length - at, mark, 3);
    return found ? (size_t)(found - word) : length;
}

int hf_encode_word(const struct hf *hf, struct hf_state *state, const char *word, size_t length,
                   struct token_list *out) {
    if (hf->model != HF_MODEL_BPE || !hf->cuts_at_mark)
        return encode_cached(hf, state, word, length, out);
    for (size_t at = 0; at < length;) {
        size_t end = next_cut(word, length, at);
        TRY(encode_cached(hf, state, word + at, end - at, out));
        at = end;
    }
    return 0;
}

// ---- loading ----

static int read_id(const struct hf *hf, const struct json *value, int32_t *id) {
    double number = value->type == JSON_NUMBER ? value->number : -1;
    if (!(number >= 0 && number < INT32_MAX) || number != (double)(int32_t)number)
        return hf_error(hf, "model", "an id in \"vocab\" is not a non-negative integer");
    *id = (int32_t)number;
    return 0;
}

// {"token": id, …} without large gaps. As in Hugging Face, several tokens may share an id, which decodes to the last of
// them, and of equal tokens the last counts.
static int load_vocab(struct hf *hf, const struct json *vocab) {
    if (!vocab || vocab->type != JSON_OBJECT || vocab->count == 0)
        return hf_error(hf, "model", "\"vocab\" is not an object of tokens");
    size_t limit = vocab->count * 4 + 65536;
    for (size_t i = 0; i < vocab->count; i++) {
        int32_t id = 0;
        TRY(read_id(hf, &vocab->items[i], &id));
        if ((size_t)id >= limit)
            return error_set("%s: model: the id %" PRId32 " of \"%.60s\" is far above all others", hf->name, id,
                             vocab->keys[i].string);
        byte_table_set(&hf->vocab, vocab->keys[i].string, vocab->keys[i].length, id);
    }
    hf->model_count = hf->vocab.count;
    return 0;
}

static int load_unknown(struct hf *hf, const struct json *model) {
    const struct json *unknown;
    hf->unknown = -1;
    hf->drops_unknown = true;
    int found = hf_get_string(hf, model, "unk_token", &unknown);
    if (found <= 0)
        return found;
    hf->drops_unknown = false;
    hf->unknown = byte_table_find(&hf->vocab, unknown->string, unknown->length);
    return 0;
}

struct merge_text {
    const char *left, *right;
    size_t left_length, right_length;
};

// "LEFT RIGHT" or ["LEFT", "RIGHT"]: 1, 0 for a comment.
static int split_merge(const struct hf *hf, const struct json *merge, struct merge_text *out) {
    if (merge->type == JSON_ARRAY && merge->count == 2 && merge->items[0].type == JSON_STRING &&
        merge->items[1].type == JSON_STRING) {
        *out = (struct merge_text){merge->items[0].string, merge->items[1].string, merge->items[0].length,
                                   merge->items[1].length};
        return 1;
    }
    if (merge->type != JSON_STRING)
        return hf_error(hf, "model", "a merge is neither a string nor a pair");
    if (merge->length >= 8 && memcmp(merge->string, "#version", 8) == 0)
        return 0;
    const char *blank = memchr(merge->string, ' ', merge->length);
    size_t left = blank ? (size_t)(blank - merge->string) : 0;
    if (!blank || memchr(blank + 1, ' ', merge->length - left - 1))
        return error_set("%s: model: the merge \"%.60s\" is not two tokens separated by one space", hf->name,
                         merge->string);
    *out = (struct merge_text){merge->string, blank + 1, left, merge->length - left - 1};
    return 1;
}

static int find_merge(const struct hf *hf, const struct merge_text *text, struct buffer *joined,
                      struct bpe_pair *pair) {
    if (text->right_length < hf->prefix.length)
        return error_set("%s: model: the merge of \"%.60s\" and \"%.60s\" lacks the prefix of pieces", hf->name,
                         text->left, text->right);
    buffer_clear(joined);
    buffer_append(joined, text->left, text->left_length);
    buffer_append(joined, text->right + hf->prefix.length, text->right_length - hf->prefix.length);
    pair->left = byte_table_find(&hf->vocab, text->left, text->left_length);
    pair->right = byte_table_find(&hf->vocab, text->right, text->right_length);
    pair->id = byte_table_find(&hf->vocab, buffer_string(joined), joined->length);
    if (pair->left < 0 || pair->right < 0 || pair->id < 0)
        return error_set("%s: model: a part or the result of the merge of \"%.60s\" and \"%.60s\" is not in the "
                         "vocabulary",
                         hf->name, text->left, text->right);
    return 0;
}

// Whether U+2581 follows another character in a string.
static bool has_mark_inside(const char *text, size_t length) {
    static const char mark[] = "\xE2\x96\x81";
    for (size_t at = 1; at + 3 <= length; at++)
        if (memcmp(text + at, mark, 3) == 0 && (at < 3 || memcmp(text + at - 3, mark, 3) != 0))
            return true;
    return false;
}

// Notes where a word of marks can be cut further, since no merge spans the place.
static void note_cuts(struct split_rules *rules, const char *text, size_t length) {
    for (size_t at = 0; at < length; at++) {
        unsigned char byte = (unsigned char)text[at], before = at > 0 ? (unsigned char)text[at - 1] : 0;
        if (byte == '\n')
            rules->lines = false;
        if (split_is_ascii_other(byte) && ((before | 0x20) >= 'a' && (before | 0x20) <= 'z'))
            rules->after_letters = false;
    }
}

// The last of equal merges counts, so they are added from the end.
static int load_merges(struct hf *hf, const struct json *merges) {
    if (!merges || merges->type != JSON_ARRAY || merges->count >= BPE_NO_RANK)
        return hf_error(hf, "model", "\"merges\" is not a list");
    bpe_pairs_create(&hf->bpe, (int64_t)merges->count);
    hf->cuts_at_mark = true;
    hf->mark_rules = (struct split_rules){.words = SPLIT_WORDS_SPACES, .lines = true, .after_letters = true};
    struct buffer joined = {0};
    int status = 0;
    int32_t comments = 0;
    for (size_t i = 0; i < merges->count; i++)
        comments += merges->items[i].type == JSON_STRING && merges->items[i].length >= 8 &&
                    memcmp(merges->items[i].string, "#version", 8) == 0;
    int32_t rank = (int32_t)merges->count - comments;
    for (size_t i = merges->count; status == 0 && i-- > 0;) {
        struct merge_text text = {0};
        struct bpe_pair pair = {0};
        int found = split_merge(hf, &merges->items[i], &text);
        status = found < 0 ? -1 : 0;
        if (found != 1)
            continue;
        status = find_merge(hf, &text, &joined, &pair);
        pair.rank = --rank;
        if (status == 0)
            bpe_pairs_add(&hf->bpe, pair);
        note_cuts(&hf->mark_rules, joined.data, joined.length);
        if (has_mark_inside(joined.data, joined.length))
            hf->cuts_at_mark = false;
    }
    buffer_free(&joined);
    return status;
}

static void load_byte_tokens(struct hf *hf) {
    hf->has_byte_tokens = true;
    for (int byte = 0; byte < 256; byte++) {
        char name[8], symbol[4];
        snprintf(name, sizeof name, "<0x%02X>", byte);
        hf->byte_tokens[byte] = byte_table_find(&hf->vocab, name, strlen(name));
        size_t length = utf8_encode(hf->bytes.character[byte], symbol);
        hf->bpe.byte_id[byte] = byte_table_find(&hf->vocab, symbol, length);
        bool occurs = byte != 0xC0 && byte != 0xC1 && byte < 0xF5;  // in UTF-8
        if (hf->bpe.byte_id[byte] < 0 && occurs)
            hf->has_byte_tokens = false;
    }
}

static int load_affix(struct hf *hf, const struct json *model, const char *key, struct hf_string *affix) {
    const struct json *string;
    int found = hf_get_string(hf, model, key, &string);
    if (found == 1)
        *affix = hf_copy(string->string, string->length);
    return found;
}

static int load_bpe(struct hf *hf, const struct json *model) {
    const struct json *dropout = json_member(model, "dropout");
    if (dropout && dropout->type != JSON_NULL && !(dropout->type == JSON_NUMBER && dropout->number == 0))
        return hf_error(hf, "model", "\"dropout\" makes ids random, which is not supported; set it to null");
    TRY(load_vocab(hf, json_member(model, "vocab")));
    TRY(load_unknown(hf, model));
    TRY(load_affix(hf, model, "continuing_subword_prefix", &hf->prefix));
    TRY(load_affix(hf, model, "end_of_word_suffix", &hf->suffix));
    hf->fuse_unknown = hf_get_bool(model, "fuse_unk", false);
    hf->byte_fallback = hf_get_bool(model, "byte_fallback", false);
    hf->ignore_merges = hf_get_bool(model, "ignore_merges", false);
    load_byte_tokens(hf);
    TRY(load_merges(hf, json_member(model, "merges")));
    // A cut changes the first and last symbol of a word, and must not split a run of unknown characters.
    int32_t mark = byte_table_find(&hf->vocab, "\xE2\x96\x81", 3);
    hf->cuts_at_mark = hf->cuts_at_mark && mark >= 0 && !hf->prefix.length && !hf->suffix.length && !hf->ignore_merges;
    return 0;
}

static void build_vocab_trie(const struct hf *hf, struct trie *trie) {
    struct trie_key *keys = memory_alloc((size_t)(hf->vocab.count + 1) * sizeof *keys);
    int64_t count = 0;
    for (int64_t i = 0; i < hf->vocab.count; i++) {
        const struct byte_string *string = &hf->vocab.strings[i];
        if (string->length > 0)
            keys[count++] =
                (struct trie_key){hf->vocab.bytes.data + string->begin, string->length, (int32_t)string->value};
    }
    trie_build(trie, keys, count);
    free(keys);
}

static int load_wordpiece(struct hf *hf, const struct json *model) {
    const struct json *prefix, *most = json_member(model, "max_input_chars_per_word");
    TRY(load_vocab(hf, json_member(model, "vocab")));
    TRY(load_unknown(hf, model));
    TRY(hf_get_string(hf, model, "continuing_subword_prefix", &prefix));
    build_vocab_trie(hf, &hf->wordpiece_trie);
    const char *text = prefix && prefix->type == JSON_STRING ? prefix->string : "##";
    hf->wordpiece = (struct wordpiece){
        .trie = &hf->wordpiece_trie,
        .continued = trie_walk(&hf->wordpiece_trie, text, strlen(text)),
        .unknown = hf->unknown,
        .most_chars = most && most->type == JSON_NUMBER ? (int64_t)most->number : 100,
    };
    return 0;
}

// All digits form one integer, which is rounded, divided by a power of ten, and rounded again. For a few numbers the
// last bit differs from exact rounding, and it decides ties between pieces.
double hf_number(const char *text, size_t length, double otherwise) {
    uint64_t digits = 0;
    int64_t exponent = 0, given = 0;
    bool after_point = false;
    const char *at = text, *end = at + length;
    bool negative = at < end && *at == '-';
    for (at += negative; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            after_point = true;
            continue;
        }
        uint64_t digit = (uint64_t)(*at - '0');
        if (digits > (UINT64_MAX - digit) / 10)
            exponent += !after_point;  // digits that no longer fit are ignored
        else {
            digits = digits * 10 + digit;
            exponent -= after_point;
        }
    }
    if (at < end)
        given = strtol(at + 1, NULL, 10);
    exponent += given > 1000 ? 1000 : given < -1000 ? -1000 : given;
    if (exponent < -308 || exponent > 308)
        return otherwise;
    double value = (double)digits;
    char power[8];
    snprintf(power, sizeof power, "1e%d", (int)(exponent < 0 ? -exponent : exponent));
    double ten = strtod(power, NULL);
    value = exponent < 0 ? value / ten : value * ten;
    return negative ? -value : value;
}

// A list of [piece, score]; of equal pieces the last counts.
static int load_unigram(struct hf *hf, const struct json *model) {
    const struct json *vocab = json_member(model, "vocab"), *unknown = json_member(model, "unk_id");
    if (!vocab || vocab->type != JSON_ARRAY || vocab->count == 0 || vocab->count >= INT32_MAX)
        return hf_error(hf, "model", "\"vocab\" is not a list of pieces");
    hf->unigram.scores = memory_alloc(vocab->count * sizeof *hf->unigram.scores);
    hf->model_count = (int64_t)vocab->count;
    hf->same = memory_alloc(vocab->count * sizeof *hf->same);
    double lowest = 1e300;
    for (size_t i = vocab->count; i-- > 0;) {
        const struct json *piece = &vocab->items[i];
        if (piece->type != JSON_ARRAY || piece->count != 2 || piece->items[0].type != JSON_STRING ||
            piece->items[1].type != JSON_NUMBER)
            return hf_error(hf, "model", "a member of \"vocab\" is not [piece, score]");
        byte_table_add(&hf->vocab, piece->items[0].string, piece->items[0].length, (int32_t)i);
        hf->same[i] = byte_table_find(&hf->vocab, piece->items[0].string, piece->items[0].length);
        hf->unigram.scores[i] = hf_number(piece->items[1].string, piece->items[1].length, piece->items[1].number);
        lowest = hf->unigram.scores[i] < lowest ? hf->unigram.scores[i] : lowest;
    }
    build_vocab_trie(hf, &hf->unigram.trie);
    hf->unknown = -1;
    if (unknown && unknown->type == JSON_NUMBER) {
        if (!(unknown->number >= 0 && unknown->number < (double)vocab->count))
            return hf_error(hf, "model", "\"unk_id\" is not in the vocabulary");
        hf->unknown = (int32_t)unknown->number;
    }
    hf->unigram.unknown_id = hf->unknown;
    hf->unigram.unknown_score = lowest - 10;
    hf->byte_fallback = hf_get_bool(model, "byte_fallback", false);
    load_byte_tokens(hf);
    return 0;
}

// Guesses the type from the members, in the order in which Hugging Face tries them.
static enum hf_model guess_type(const struct json *model) {
    if (json_member(model, "merges"))
        return HF_MODEL_BPE;
    const struct json *vocab = json_member(model, "vocab");
    if (vocab && vocab->type == JSON_ARRAY)
        return HF_MODEL_UNIGRAM;
    return json_member(model, "max_input_chars_per_word") || json_member(model, "continuing_subword_prefix")
               ? HF_MODEL_WORDPIECE
               : HF_MODEL_WORDLEVEL;
}

int hf_load_model(struct hf *hf, const struct json *model) {
    static const char *const names[] = {
        [HF_MODEL_BPE] = "BPE",
        [HF_MODEL_WORDPIECE] = "WordPiece",
        [HF_MODEL_UNIGRAM] = "Unigram",
        [HF_MODEL_WORDLEVEL] = "WordLevel",
    };
    const struct json *type;
    int found = hf_get_string(hf, model, "type", &type);
    TRY(found);
    int kind = -1;
    for (int i = 0; found == 1 && i < 4; i++)
        if (strcmp(type->string, names[i]) == 0)
            kind = i;
    if (found == 1 && kind < 0)
        return error_set("%s: the model type \"%s\" is not supported; it must be BPE, WordPiece, Unigram or WordLevel",
                         hf->name, type->string);
    hf->model = kind < 0 ? guess_type(model) : (enum hf_model)kind;
    switch (hf->model) {
    case HF_MODEL_BPE:
        return load_bpe(hf, model);
    case HF_MODEL_WORDPIECE:
        return load_wordpiece(hf, model);
    case HF_MODEL_UNIGRAM:
        return load_unigram(hf, model);
    case HF_MODEL_WORDLEVEL:
    default:
        TRY(load_vocab(hf, json_member(model, "vocab")));
        return load_unknown(hf, model);
    }
}
