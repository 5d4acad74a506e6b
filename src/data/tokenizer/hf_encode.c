// How a text passes through a tokenizer.json. Four common configurations have dedicated code, which rarely rewrites the
// text: BERT's; byte-level BPE with a known pattern; BPE of words that begin with U+2581; and T5's and Falcon's, word
// by word.
#include "data/tokenizer/hf.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

static const char mark[] = "\xE2\x96\x81";

void hf_state_init(struct hf_state *state) {
    *state = (struct hf_state){0};
    word_cache_create(&state->cache);
    piece_cache_create(&state->pieces);
    bert_state_create(&state->bert);
}

static void splits_free(struct hf_splits *splits) {
    buffer_free(&splits->text);
    free(splits->items);
}

void hf_state_free(struct hf_state *state) {
    splits_free(&state->parts);
    splits_free(&state->words);
    splits_free(&state->other);
    buffer_free(&state->normal);
    buffer_free(&state->swap);
    buffer_free(&state->piece);
    character_list_free(&state->characters);
    character_list_free(&state->more);
    pattern_scratch_free(&state->pattern);
    merge_scratch_free(&state->merge);
    unigram_scratch_free(&state->unigram);
    word_cache_free(&state->cache);
    piece_cache_free(&state->pieces);
    bert_state_free(&state->bert);
}

// ---- byte-level BPE ----

static int encode_byte_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                             struct token_list *out) {
    const struct hf *hf = opaque;
    struct hf_state *state = opaque_state;
    if (hf->ignore_merges) {
        buffer_clear(&state->piece);
        byte_map_write(&hf->bytes, piece, length, &state->piece);
        int32_t id = byte_table_find(&hf->vocab, state->piece.data, state->piece.length);
        if (id >= 0) {
            token_list_append(out, id);
            return 0;
        }
    }
    return merge_bytes(&hf->bpe, &state->merge, piece, length, out);
}

static int encode_bytes(const struct hf *hf, struct hf_state *state, const char *text, size_t length,
                        struct token_list *out) {
    if (hf->byte_prefix_space && length > 0 && text[0] != ' ') {
        buffer_clear(&state->swap);
        buffer_append_byte(&state->swap, ' ');
        buffer_append(&state->swap, text, length);
        text = state->swap.data;
        length++;
    }
    struct piece_model pieces = {.splitter = hf->byte_splitter, .encode = encode_byte_piece, .model = hf};
    return piece_encode(&pieces, &state->pieces, state, text, length, out);
}

// ---- BPE of marked words ----

static int encode_marked_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                               struct token_list *out) {
    struct hf_state *state = opaque_state;
    buffer_clear(&state->piece);
    for (size_t i = 0; i < length; i++)
        if (piece[i] == ' ')
            buffer_append(&state->piece, mark, sizeof mark - 1);
        else
            buffer_append_byte(&state->piece, (char)piece[i]);
    return hf_encode_bpe(opaque, state, state->piece.data, state->piece.length, out);
}

// In the text that is split and cached, a space stands for the mark; `text` itself contains no marks.
static int encode_marked(const struct hf *hf, struct hf_state *state, const char *text, size_t length, bool is_first,
                         struct token_list *out) {
    struct piece_model pieces = {.splitter = hf->marks, .encode = encode_marked_piece, .model = hf};
    if (length == 0)
        return 0;
    if ((hf->mark_first == HF_PREPEND_ALWAYS || (hf->mark_first == HF_PREPEND_FIRST && is_first)) &&
        (text[0] != ' ' || hf->mark_doubles)) {
        size_t first = split_text(hf->marks, (const unsigned char *)text, length);
        buffer_clear(&state->swap);
        buffer_append_byte(&state->swap, ' ');
        buffer_append(&state->swap, text, first);
        TRY(piece_encode(&pieces, &state->pieces, state, state->swap.data, state->swap.length, out));
        text += first;
        length -= first;
    }
    return piece_encode(&pieces, &state->pieces, state, text, length, out);
}

// ---- words between spaces ----

static bool is_printable(const unsigned char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] >= 0x7F)
            return false;
    return true;
}

// Encodes state->normal, of which `zero` bytes come from the beginning of the text.
static int encode_words(const struct hf *hf, struct hf_state *state, size_t zero, struct token_list *out) {
    TRY(hf_pretokenize(hf, state, zero));
    for (size_t i = 0; i < state->words.count; i++) {
        const struct hf_split *word = &state->words.items[i];
        TRY(hf_encode_word(hf, state, state->words.text.data + word->begin, word->end - word->begin, out));
    }
    return 0;
}

// A word with the spaces before it; spaces and line feeds that only separate words are dropped.
static int encode_spaced_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                               struct token_list *out) {
    const struct hf *hf = opaque;
    struct hf_state *state = opaque_state;
    while (hf->space_rules.feeds && length > 0 && (*piece == ' ' || *piece == '\n')) {
        piece++;
        length--;
    }
    buffer_clear(&state->normal);
    if (hf->normalizer_count == 0 || is_printable(piece, length))
        buffer_append(&state->normal, piece, length);
    else
        TRY(hf_normalize(hf, state, (const char *)piece, length, &(size_t){0}));
    return encode_words(hf, state, 0, out);
}

// Characters that do not form a cluster with a space beside them, from blocks that are common in texts. A charsmap
// replaces whole clusters, so a word that begins or ends with any other character may not be taken by itself.
static bool stands_by_itself(uint32_t c) {
    static const uint32_t ranges[][2] = {{0, 0x2FF},        {0x388, 0x482},     {0x48A, 0x52F},     {0x2010, 0x2027},
                                         {0x2030, 0x205E},  {0x20A0, 0x20C0},   {0x2190, 0x23FF},   {0x2600, 0x27BF},
                                         {0x3001, 0x3029},  {0x3041, 0x3096},   {0x30A1, 0x30FE},   {0x4E00, 0x9FFF},
                                         {0xAC00, 0xD7A3},  {0x1F300, 0x1F3FA}, {0x1F400, 0x1F64F}, {0x1F680, 0x1F6FF},
                                         {0x1F900, 0x1FAFF}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c <= ranges[i][1])
            return c >= ranges[i][0];
    return false;
}

static bool words_stand_by_themselves(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t character;
    for (size_t at = 1; at < length; at++) {
        bool high = bytes[at] >= 0x80, high_before = bytes[at - 1] >= 0x80;
        if (high == high_before)
            continue;
        unsigned char other = high ? bytes[at - 1] : bytes[at];
        if (other != ' ' && other != '\n')
            continue;
        size_t begin = at - !high;
        while (!high && begin > 0 && (bytes[begin] & 0xC0) == 0x80)
            begin--;
        utf8_decode(bytes + begin, length - begin, &character, NULL);
        if (!stands_by_itself(character))
            return false;
    }
    return true;
}

static int encode_spaced(const struct hf *hf, struct hf_state *state, const char *text, size_t length,
                         struct token_list *out) {
    struct piece_model pieces = {.splitter = hf->spaces, .encode = encode_spaced_piece, .model = hf};
    return piece_encode(&pieces, &state->pieces, state, text, length, out);
}

// ---- general configurations ----

// Encodes normalized text without added tokens.
static int encode_normal(const struct hf *hf, struct hf_state *state, const struct hf_split *part, const char *text,
                         struct token_list *out) {
    size_t length = part->end - part->begin;
    if (hf->byte_splitter)
        return encode_bytes(hf, state, text + part->begin, length, out);
    // The pre-tokenizer owns the words' buffers; the normalized text is copied so that it can stay in place.
    buffer_clear(&state->normal);
    buffer_append(&state->normal, text + part->begin, length);
    return encode_words(hf, state, part->zero, out);
}

// Encodes normalized text after cutting out added tokens.
static int encode_normalized(const struct hf *hf, struct hf_state *state, const char *text, size_t length, size_t zero,
                             struct token_list *out) {
    size_t begin = state->parts.count;
    hf_find_added(hf, true, text, length, &state->parts);
    int status = 0;
    for (size_t i = begin; status == 0 && i < state->parts.count; i++) {
        struct hf_split part = state->parts.items[i];
        part.zero = zero > part.begin ? zero - part.begin : 0;
        if (part.id >= 0)
            token_list_append(out, part.id);
        else
            status = encode_normal(hf, state, &part, text, out);
    }
    state->parts.count = begin;
    return status;
}

// Encodes original text, from which the added tokens that are not normalized were cut out.
static int encode_raw(const struct hf *hf, struct hf_state *state, const char *text, size_t length, size_t zero,
                      struct token_list *out) {
    if (hf->is_bert && hf->normal_trie.size == 0)
        return bert_encode(&hf->bert, &state->bert, text, length, out);
    if (hf->is_marked && !memmem(text, length, mark, sizeof mark - 1))
        return encode_marked(hf, state, text, length, zero > 0, out);
    if (hf->is_spaced && !hf->byte_splitter && (hf->normalizer_count == 0 || words_stand_by_themselves(text, length)))
        return encode_spaced(hf, state, text, length, out);
    if (hf->normalizer_count == 0)
        return encode_normalized(hf, state, text, length, zero, out);
    TRY(hf_normalize(hf, state, text, length, &zero));
    // Pass on the whole buffer, since the following code uses state->normal.
    struct buffer normal = state->normal;
    state->normal = (struct buffer){0};
    int status = encode_normalized(hf, state, buffer_string(&normal), normal.length, zero, out);
    buffer_free(&state->normal);
    state->normal = normal;
    return status;
}

static int encode_well_formed(const struct hf *hf, struct hf_state *state, const char *text, size_t length,
                              struct token_list *out) {
    state->parts.count = 0;
    hf_find_added(hf, false, text, length, &state->parts);
    size_t count = state->parts.count, first = 0;
    uint32_t character;
    if (length > 0)
        first = utf8_decode((const unsigned char *)text, length, &character, NULL);
    for (size_t i = 0; i < count; i++) {
        struct hf_split part = state->parts.items[i];
        if (part.id >= 0)
            token_list_append(out, part.id);
        else
            TRY(encode_raw(hf, state, text + part.begin, part.end - part.begin, part.begin == 0 ? first : 0, out));
    }
    return 0;
}

int hf_encode(const struct hf *hf, struct hf_state *state, const char *text, size_t length, struct token_list *out) {
    token_list_reserve(out, 1);  // a word may give no ids, but the list must still have memory
    if (utf8_check(text, length) == length)
        return encode_well_formed(hf, state, text, length, out);
    struct buffer clean = {0};
    for (size_t at = 0; at < length;) {
        uint32_t character;
        char bytes[4];
        at += utf8_decode((const unsigned char *)text + at, length - at, &character, NULL);
        buffer_append(&clean, bytes, utf8_encode(character, bytes));
    }
    int status = encode_well_formed(hf, state, clean.data, clean.length, out);
    buffer_free(&clean);
    return status;
}

// ---- choosing ----

static bool is_string(const struct hf_string *string, const char *text) {
    return string->text && string->length == strlen(text) && memcmp(string->text, text, string->length) == 0;
}

static bool has_normalized_added(const struct hf *hf) {
    for (int64_t i = 0; i < hf->added_count; i++)
        if (hf->added[i].is_normalized)
            return true;
    return false;
}

// SentencePiece's BPE as Hugging Face writes it: Llama-2 with two normalizers, Mistral with a pre-tokenizer. Every byte
// must have a token, so that nothing is unknown.
static void find_marked(struct hf *hf) {
    const struct hf_normalizer_step *normal = hf->normalizers;
    const struct hf_pretokenizer_step *cut = hf->pretokenizers;
    bool fits = hf->model == HF_MODEL_BPE && hf->cuts_at_mark && hf->byte_fallback;
    for (int byte = 0; byte < 256; byte++)
        fits = fits && hf->byte_tokens[byte] >= 0;
    if (!fits || has_normalized_added(hf))
        return;
    if (hf->normalizer_count == 2 && hf->pretokenizer_count == 0 && normal[0].kind == HF_NORMALIZER_PREPEND &&
        is_string(&normal[0].content, mark) && normal[1].kind == HF_NORMALIZER_REPLACE &&
        is_string(&normal[1].pattern.literal, " ") && is_string(&normal[1].content, mark)) {
        hf->is_marked = hf->mark_doubles = true;
        hf->mark_first = HF_PREPEND_ALWAYS;
    }
    if (hf->normalizer_count == 0 && hf->pretokenizer_count == 1 && cut->kind == HF_PRETOKENIZER_METASPACE &&
        !cut->split && is_string(&cut->replacement, mark)) {
        hf->is_marked = true;
        hf->mark_first = cut->prepend;
    }
}

// Byte-level in several steps, like Falcon's: punctuation is split off, then GPT-2's pattern, which always splits
// before a space between letters, then steps that split its pieces further.
static void find_spaced_bytes(struct hf *hf) {
    bool after_bytes = false, fits = hf->normalizer_count == 0 && !has_normalized_added(hf);
    for (size_t i = 0; i < hf->pretokenizer_count; i++) {
        const struct hf_pretokenizer_step *cut = &hf->pretokenizers[i];
        bool is_bytes = cut->kind == HF_PRETOKENIZER_BYTES && cut->use_regex && !cut->prefix_space;
        fits = fits && cut->kind != HF_PRETOKENIZER_METASPACE &&
               (after_bytes || is_bytes || cut->kind == HF_PRETOKENIZER_PUNCTUATION);
        after_bytes = after_bytes || is_bytes;
    }
    if (!fits || !after_bytes)
        return;
    hf->is_spaced = true;
    hf->space_rules = (struct split_rules){.words = SPLIT_WORDS_SPACES, .between_letters = true};
}

// T5's: a charsmap that keeps printable ASCII and turns a space and a line feed into spaces, then words between spaces.
// Words can therefore be encoded one by one.
static void find_spaced(struct hf *hf) {
    const struct hf_pretokenizer_step *cut = hf->pretokenizers;
    if (hf->model != HF_MODEL_UNIGRAM || hf->normalizer_count != 1 || hf->normalizers->kind != HF_NORMALIZER_CHARSMAP ||
        hf->pretokenizer_count != 2 || cut[0].kind != HF_PRETOKENIZER_WHITESPACE_SPLIT ||
        cut[1].kind != HF_PRETOKENIZER_METASPACE || cut[1].prepend == HF_PREPEND_FIRST)
        return;
    bool fits = !has_normalized_added(hf);
    struct hf_state state;
    hf_state_init(&state);
    for (int c = '\n'; fits && c < 0x7F; c = c == '\n' ? ' ' : c + 1) {
        char byte = (char)c;
        const char *expected = c == '\n' ? " " : &byte;
        fits = hf_normalize(hf, &state, &byte, 1, &(size_t){0}) == 0 && state.normal.length == 1 &&
               state.normal.data[0] == *expected;
    }
    fits = fits && hf_normalize(hf, &state, "\r\n", 2, &(size_t){0}) == 0;
    for (size_t i = 0; fits && i < state.normal.length; i++)
        fits = state.normal.data[i] == ' ';
    hf_state_free(&state);
    hf->is_spaced = fits;
    hf->space_rules = (struct split_rules){.words = SPLIT_WORDS_SPACES, .feeds = true};
}

// The pattern of a step that splits at it and keeps everything; NULL if it does anything else.
static struct pattern *step_pattern(const struct hf_pretokenizer_step *cut) {
    static const char digits[] = "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]+";  // with those of Unicode 17.0
    const char *text = NULL;
    size_t length = 0;
    if (cut->kind == HF_PRETOKENIZER_DIGITS) {
        text = digits;
        length = sizeof digits - 1 - (cut->behavior == HF_ISOLATED);
    } else if (cut->kind == HF_PRETOKENIZER_SPLIT && cut->behavior == HF_ISOLATED && !cut->invert) {
        text = cut->pattern.known ? cut->pattern.known->texts[0] : cut->pattern.text;
    } else if (cut->kind == HF_PRETOKENIZER_BYTES && cut->use_regex) {
        text = split_pattern_by_name("gpt2")->texts[0];
    }
    struct pattern *pattern = NULL;
    if (text && pattern_compile(&pattern, PATTERN_ONIGURUMA, text, length ? length : strlen(text), "pattern") < 0)
        return NULL;
    return pattern;
}

// Byte-level steps that split by patterns, each within the pieces of the one before.
static void find_byte_splitter(struct hf *hf) {
    const struct hf_pretokenizer_step *cut = hf->pretokenizers;
    size_t count = hf->pretokenizer_count;
    if (count == 0 || cut[count - 1].kind != HF_PRETOKENIZER_BYTES || (count > 1 && cut[count - 1].prefix_space))
        return;
    hf->byte_prefix_space = cut[count - 1].prefix_space;
    count -= !cut[count - 1].use_regex;
    bool is_split = count == 1 && cut[0].kind == HF_PRETOKENIZER_SPLIT && cut[0].pattern.splitter;
    if (count == 1 && cut[0].kind == HF_PRETOKENIZER_BYTES)
        hf->byte_splitter = hf->gpt2;
    else if (is_split && cut[0].behavior == HF_ISOLATED && !cut[0].invert)
        hf->byte_splitter = cut[0].pattern.splitter;
    else if (is_split && cut[0].behavior == HF_REMOVED && cut[0].invert && splitter_covers(cut[0].pattern.splitter))
        hf->byte_splitter = cut[0].pattern.splitter;
    for (size_t i = 0; i < count && !hf->byte_splitter && (i == 0 || hf->in_turn); i++) {
        struct pattern *pattern = step_pattern(&cut[i]);
        struct splitter *before = hf->in_turn;
        hf->in_turn = pattern ? splitter_create_pattern(pattern, before) : NULL;
        if (!pattern)
            splitter_free(before);
        pattern_free(pattern);
    }
    if (!hf->byte_splitter)
        hf->byte_splitter = hf->in_turn;
}

void hf_find_shortcuts(struct hf *hf) {
    const struct hf_normalizer_step *normal = hf->normalizers;
    const struct hf_pretokenizer_step *cut = hf->pretokenizers;
    if (hf->model == HF_MODEL_WORDPIECE && hf->normalizer_count == 1 && normal->kind == HF_NORMALIZER_BERT &&
        normal->clean && normal->cjk && hf->pretokenizer_count == 1 && cut->kind == HF_PRETOKENIZER_BERT) {
        hf->is_bert = true;
        hf->bert = (struct bert){
            .model = hf->wordpiece,
            .rules = {.table = hf->older,
                      .decomposed = hf->old,
                      .lower = normal->lower,
                      .strip_accents = normal->strip_accents},
        };
    }
    find_marked(hf);
    find_spaced(hf);
    find_spaced_bytes(hf);
    if (hf->is_marked)
        hf->marks = splitter_create_spaces(&hf->mark_rules);
    if (hf->is_spaced)
        hf->spaces = splitter_create_spaces(&hf->space_rules);
    hf->byte_nfc = hf->normalizer_count == 1 && normal->kind == HF_NORMALIZER_NFC;
    if (hf->model != HF_MODEL_BPE || !hf->has_byte_tokens || hf->prefix.length || hf->suffix.length ||
        (hf->normalizer_count > 0 && !hf->byte_nfc))
        return;
    find_byte_splitter(hf);
}
