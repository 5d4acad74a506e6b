// A tokenizer.json for GGUF. llama.cpp has byte-level BPE as "gpt2", with a name for each pre-tokenizer that it knows;
// BPE over U+2581 with byte fallback as "llama", unigram models as "t5" and WordPiece as "bert". The file is read by
// the tokenizer's own reader, so nothing is written that this program does not understand itself.
#include "formats/gguf_model.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/tokenizer/base64.h"
#include "data/tokenizer/hf.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char other_way[] = "export with --to huggingface instead";

static int refuse(const struct hf *hf, const char *what) {
    return error_set("%s: %s, which llama.cpp does not support; %s", hf->name, what, other_way);
}

// The remedy names the original SentencePiece model, which can be exported directly.
static int refuse_pieces(const struct hf *hf, const char *what) {
    return error_set("%s: %s, which llama.cpp does not support; give the SentencePiece model it was made from with "
                     "--tokenizer-type GPTSentencePieceTokenizer --tokenizer-model FILE, or %s",
                     hf->name, what, other_way);
}

// ---- tokens ----

static int add_tokens(struct gguf_vocabulary *vocabulary, const struct hf *hf) {
    for (int64_t id = 0; id < hf->size; id++)
        if (hf->strings[id].text)
            TRY(gguf_vocabulary_set(vocabulary, id, hf->strings[id].text, hf->strings[id].length, GGUF_TOKEN_NORMAL));
    for (int64_t i = 0; i < hf->added_count; i++) {
        const struct hf_added *added = &hf->added[i];
        vocabulary->tokens[added->id].type = added->special ? GGUF_TOKEN_CONTROL : GGUF_TOKEN_USER_DEFINED;
    }
    return 0;
}

static int add_merges(struct gguf_vocabulary *vocabulary, const struct hf *hf, const struct json *merges) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (size_t i = 0; merges && i < merges->count; i++) {
        const struct json *merge = &merges->items[i];
        buffer_clear(&text);
        if (merge->type == JSON_ARRAY) {
            buffer_append(&text, merge->items[0].string, merge->items[0].length);
            buffer_append_byte(&text, ' ');
            buffer_append(&text, merge->items[1].string, merge->items[1].length);
        } else if (strncmp(merge->string, "#version", 8) != 0) {
            buffer_append(&text, merge->string, merge->length);
        }
        if (text.length > 0) {
            gguf_append_string(&vocabulary->merges, buffer_string(&text), text.length);
            vocabulary->merges.count++;
        }
    }
    return vocabulary->merges.count > 0 ? 0 : refuse(hf, "it has no merges");
}

// At most one token may precede a text, and one may follow it.
static int set_ends(struct gguf_vocabulary *vocabulary, const struct hf *hf) {
    if (hf->before.count > 1 || hf->after.count > 1)
        return refuse(hf, "it adds several tokens before or after a text");
    vocabulary->adds_bos = hf->before.count == 1;
    vocabulary->adds_eos = hf->after.count == 1;
    if (vocabulary->adds_bos)
        vocabulary->bos = hf->before.ids[0];
    if (vocabulary->adds_eos)
        vocabulary->eos = hf->after.ids[0];
    return 0;
}

// ---- byte-level BPE ----

// A pattern may have two names: for some, llama.cpp looks whole words up before it merges.
static const struct {
    const char *ours;
    bool ignores_merges;
    const char *theirs;
    const char *note;  // how they differ
} cuts[] = {
    {"gpt2", false, "gpt-2", NULL},
    {"llama3", true, "llama-bpe", NULL},
    {"llama3", false, "smaug-bpe", NULL},
    {"cl100k", true, "llama-bpe", "line feeds among spaces at the end of a text"},
    {"qwen", false, "qwen2", NULL},
    {"o200k", false, "gpt-4o", "marks, and words of mixed case outside ASCII"},
    {"v2", true, "tekken", "marks, and words of mixed case outside ASCII"},
    {"digits", false, "starcoder", NULL},
};
enum { CUT_COUNT = sizeof cuts / sizeof cuts[0] };

static const char *pattern_name(const struct hf *hf) {
    const struct hf_pretokenizer_step *steps = hf->pretokenizers;
    size_t count = hf->pretokenizer_count;
    if (count == 0 || steps[count - 1].kind != HF_PRETOKENIZER_BYTES)
        return NULL;
    bool uses_regex = steps[count - 1].use_regex;
    if (count == 1)
        return uses_regex ? "gpt2" : NULL;
    if (count != 2)
        return NULL;
    if (steps[0].kind == HF_PRETOKENIZER_DIGITS && steps[0].behavior == HF_ISOLATED && uses_regex)
        return "digits";
    bool is_known = steps[0].kind == HF_PRETOKENIZER_SPLIT && steps[0].pattern.known && !uses_regex;
    return is_known ? steps[0].pattern.known->name : NULL;
}

// Encodes a text with ignore_merges (a word that is a token is not merged) set to `ignores`.
static int encode_as(struct hf *hf, bool ignores, const struct buffer *text, struct token_list *ids) {
    struct hf_state state;
    bool before = hf->ignore_merges;
    hf_state_init(&state);
    hf->ignore_merges = ignores;
    ids->count = 0;
    int result = hf_encode(hf, &state, buffer_string(text), text->length, ids);
    hf->ignore_merges = before;
    hf_state_free(&state);
    return result;
}

// Whether merges yield the token from its own text, or no text makes it a word of its own.
static bool is_merged(struct hf *hf, struct hf_state *state, int32_t id) {
    OWNED_BY(token_list_free) struct token_list merged = {0}, whole = {0};
    OWNED_BY(buffer_free) struct buffer text = {0};
    const struct hf_string *token = &hf->strings[id];
    bool is_same = hf_encode_bpe(hf, state, token->text, token->length, &merged) == 0 && merged.count == 1;
    if (!is_same && hf_decode(hf, &id, 1, &text) == 0 && utf8_check(buffer_string(&text), text.length) == text.length)
        is_same = encode_as(hf, false, &text, &merged) == 0 && encode_as(hf, true, &text, &whole) == 0 &&
                  merged.count == whole.count &&
                  memcmp(merged.ids, whole.ids, (size_t)merged.count * sizeof merged.ids[0]) == 0;
    else
        is_same = true;
    error_clear();
    return is_same;
}

// llama.cpp looks words up or merges them by the pre-tokenizer's name alone. Most vocabularies do not depend on it.
static int check_merges(const struct gguf_vocabulary *vocabulary, struct hf *hf) {
    struct hf_state state;
    int32_t found = -1;
    bool ignores = hf->ignore_merges;
    hf_state_init(&state);
    hf->ignore_merges = false;
    for (int32_t id = 0; id < hf->size && found < 0; id++)
        if (hf->strings[id].text && vocabulary->tokens[id].type == GGUF_TOKEN_NORMAL && !is_merged(hf, &state, id))
            found = id;
    hf->ignore_merges = ignores;
    hf_state_free(&state);
    if (found < 0)
        return 0;
    const struct hf_string *token = &hf->strings[found];
    return error_set(
        "%s: \"ignore_merges\" is %s, but llama.cpp's pre-tokenizer %s does the opposite, which gives other "
        "ids, e.g. for token %" PRId32 " \"%.*s\"; %s",
        hf->name, ignores ? "true" : "false", vocabulary->pre, found, (int)(token->length < 40 ? token->length : 40),
        token->text, other_way);
}

static int set_pre(struct gguf_vocabulary *vocabulary, struct hf *hf) {
    const char *name = pattern_name(hf);
    for (size_t i = 0; i < hf->pretokenizer_count; i++)
        if (hf->pretokenizers[i].kind == HF_PRETOKENIZER_BYTES && hf->pretokenizers[i].prefix_space)
            return refuse(hf, "it adds a space before a text (add_prefix_space)");
    if (!name)
        return refuse(hf, "it splits text into words in a way of its own (pre_tokenizer)");
    size_t chosen = CUT_COUNT;
    // Prefers the name that treats merges alike, else takes any.
    for (int exact = 1; exact >= 0 && chosen == CUT_COUNT; exact--)
        for (size_t i = 0; i < CUT_COUNT && chosen == CUT_COUNT; i++)
            if (strcmp(cuts[i].ours, name) == 0 && (!exact || cuts[i].ignores_merges == hf->ignore_merges))
                chosen = i;
    if (chosen == CUT_COUNT)
        return refuse(hf, "it splits text into words by a pattern (pre_tokenizer)");
    vocabulary->pre = cuts[chosen].theirs;
    if (cuts[chosen].ignores_merges != hf->ignore_merges)
        TRY(check_merges(vocabulary, hf));
    if (cuts[chosen].note)
        log_warn("llama.cpp's pre-tokenizer %s splits some texts differently: %s", vocabulary->pre, cuts[chosen].note);
    return 0;
}

// fairseq's pattern, which strips the spaces at both ends of a text.
static bool is_trimming(const struct json *root) {
    static const char start[] = "(?<![\\s\\S])";
    const struct json *normalizer = json_member(root, "normalizer"), *content = json_member(normalizer, "content");
    const struct json *pattern = json_member(json_member(normalizer, "pattern"), "Regex");
    return content && content->type == JSON_STRING && content->length == 0 && pattern && pattern->type == JSON_STRING &&
           strncmp(pattern->string, start, sizeof start - 1) == 0;
}

static int from_bytes(struct gguf_vocabulary *vocabulary, struct hf *hf, const struct json *root) {
    bool is_nfc = hf->normalizer_count == 1 && hf->normalizers[0].kind == HF_NORMALIZER_NFC;
    bool trims = hf->normalizer_count == 1 && is_trimming(root);
    if (hf->normalizer_count > 0 && !is_nfc && !trims)
        return refuse(hf, "it normalizes text (normalizer)");
    if (trims)
        log_warn("llama.cpp keeps spaces at the beginning and the end of a text, but this tokenizer removes them");
    if (is_nfc)
        log_warn("llama.cpp does not normalize text to NFC, as this tokenizer does; most text is already in NFC");
    if (hf->prefix.length > 0 || hf->suffix.length > 0)
        return refuse(hf, "its pieces have a prefix or a suffix");
    TRY(set_pre(vocabulary, hf));
    vocabulary->model = "gpt2";
    return add_merges(vocabulary, hf, json_member(json_member(root, "model"), "merges"));
}

// ---- the other models ----

// llama.cpp adds a space before the first word of a text and after every special token. Some tokenizers do so at the
// beginning of a text alone, which is the same only if no such token stands within texts.
static void set_space(struct gguf_vocabulary *vocabulary, const struct hf *hf, enum hf_prepend prepend) {
    static const char *const ends[] = {"<s>", "</s>", "<pad>", "<unk>"};
    vocabulary->adds_space = prepend != HF_PREPEND_NEVER;
    for (int64_t i = 0; i < hf->added_count && prepend == HF_PREPEND_FIRST; i++) {
        int32_t id = (int32_t)hf->added[i].id;
        const char *text = vocabulary->tokens[id].text;
        bool is_end = id == vocabulary->bos || id == vocabulary->eos || id == hf->unknown;
        for (size_t k = 0; text && k < sizeof ends / sizeof ends[0] && !is_end; k++)
            is_end = strcmp(text, ends[k]) == 0;
        if (text && !is_end && !vocabulary->spaced)
            vocabulary->spaced = text;
    }
}

// ---- scores ----

// SentencePiece's BPE joins the two neighbours whose piece has the highest score; a tokenizer.json ranks pairs instead.

// The merges that make a token: their number, and the first and last of their ranks.
struct made {
    int64_t count, first, last;
};

static int64_t count_splits(const struct hf *hf, const struct gguf_token *token) {
    int64_t count = 0;
    for (size_t at = 1; at < token->length; at++) {
        bool is_inside = ((unsigned char)token->text[at] & 0xc0) == 0x80;  // of a character
        if (!is_inside && byte_table_find(&hf->vocab, token->text, at) >= 0 &&
            byte_table_find(&hf->vocab, token->text + at, token->length - at) >= 0)
            count++;
    }
    return count;
}

static void count_merges(const struct hf *hf, struct made *made) {
    for (size_t slot = 0; slot <= hf->bpe.pair_mask; slot++) {
        const struct bpe_pair *pair = &hf->bpe.pairs[slot];
        if (pair->left < 0)
            continue;
        struct made *of = &made[pair->id];
        of->first = of->count == 0 || pair->rank < of->first ? pair->rank : of->first;
        of->last = of->count == 0 || pair->rank > of->last ? pair->rank : of->last;
        of->count++;
    }
}

// Gives tokens scores that join in the order of the merges. Fails if no scores can: a pair that is not in the list
// would be joined, or pairs of one token rank both before and after another token's.
static int score_by_merges(struct gguf_vocabulary *vocabulary, const struct hf *hf, const struct json *merges) {
    OWNED struct made *made = memory_alloc((size_t)(hf->size + 1) * sizeof made[0]);
    int result = merges && merges->count > 0 ? 0 : error_set("%s: its model has no merges", hf->name);
    if (result == 0)
        count_merges(hf, made);
    for (int64_t id = 0; id < hf->size && result == 0; id++) {
        struct gguf_token *token = &vocabulary->tokens[id];
        if (!token->text)
            continue;
        token->score = made[id].count > 0 ? -(float)made[id].first : 0;
        bool is_plain = token->type == GGUF_TOKEN_NORMAL;
        if (is_plain && (made[id].count != count_splits(hf, token) ||
                         (made[id].count > 0 && made[id].last - made[id].first + 1 != made[id].count)))
            result =
                error_set("%s: the merges that make token %" PRId64 " \"%.60s\" are not in the order of any scores, "
                          "which llama.cpp goes by; export with --to huggingface instead",
                          hf->name, id, token->text);
    }
    return result;
}

// ---- kinds ----

static int from_marks(struct gguf_vocabulary *vocabulary, const struct hf *hf, const struct json *model) {
    if (!hf->is_marked || !hf->byte_fallback)
        return refuse_pieces(hf, "its BPE is neither byte-level nor SentencePiece's with byte fallback");
    if (hf->mark_first != HF_PREPEND_NEVER && !hf->mark_doubles)
        log_warn("llama.cpp adds a space before a text that already starts with one, unlike this tokenizer");
    vocabulary->model = "llama";
    vocabulary->pre = "default";
    vocabulary->has_scores = vocabulary->has_space_rules = true;
    set_space(vocabulary, hf, hf->mark_first);
    vocabulary->unk = hf->unknown;
    if (hf->unknown >= 0)
        vocabulary->tokens[hf->unknown].type = GGUF_TOKEN_UNKNOWN;
    for (int byte = 0; byte < 256; byte++) {
        if (hf->byte_tokens[byte] < 0)
            return refuse_pieces(hf, "some bytes have no token");
        vocabulary->tokens[hf->byte_tokens[byte]].type = GGUF_TOKEN_BYTE;
    }
    return score_by_merges(vocabulary, hf, json_member(model, "merges"));
}

static const struct json *find_charsmap(const struct json *normalizer) {
    const struct json *type = json_member(normalizer, "type"), *list = json_member(normalizer, "normalizers");
    if (type && type->type == JSON_STRING && strcmp(type->string, "Precompiled") == 0)
        return json_member(normalizer, "precompiled_charsmap");
    for (size_t i = 0; list && i < list->count; i++) {
        const struct json *found = find_charsmap(&list->items[i]);
        if (found)
            return found;
    }
    return NULL;
}

static int from_unigram(struct gguf_vocabulary *vocabulary, const struct hf *hf, const struct json *root) {
    if (hf->pretokenizer_count == 0 || hf->byte_fallback)
        return refuse_pieces(hf, "its unigram model is not a plain SentencePiece model");
    const struct hf_pretokenizer_step *last = &hf->pretokenizers[hf->pretokenizer_count - 1];
    bool merges_spaces = false;
    for (size_t i = 0; i < hf->normalizer_count; i++) {
        enum hf_normalizer kind = hf->normalizers[i].kind;
        if (kind != HF_NORMALIZER_CHARSMAP && kind != HF_NORMALIZER_STRIP && kind != HF_NORMALIZER_REPLACE)
            return refuse_pieces(hf, "it normalizes text by more than a table (normalizer)");
        merges_spaces = merges_spaces || (kind == HF_NORMALIZER_REPLACE && hf->normalizers[i].pattern.general);
    }
    for (size_t i = 0; i + 1 < hf->pretokenizer_count; i++) {
        if (hf->pretokenizers[i].kind != HF_PRETOKENIZER_WHITESPACE_SPLIT)
            return refuse_pieces(hf, "it splits text into words in a way of its own (pre_tokenizer)");
        merges_spaces = true;
    }
    if (last->kind != HF_PRETOKENIZER_METASPACE)
        return refuse_pieces(hf, "its unigram model is not a plain SentencePiece model");
    const struct json *map = find_charsmap(json_member(root, "normalizer"));
    if (map && map->type == JSON_STRING && !base64_decode(map->string, map->length, &vocabulary->charsmap))
        return refuse_pieces(hf, "its normalization table is not base64");
    vocabulary->model = "t5";
    vocabulary->pre = "default";
    vocabulary->has_scores = vocabulary->has_space_rules = true;
    set_space(vocabulary, hf, last->prepend);
    vocabulary->merges_spaces = merges_spaces;
    for (int64_t id = 0; id < hf->size; id++)
        if (hf->strings[id].text && byte_table_find(&hf->vocab, hf->strings[id].text, hf->strings[id].length) == id)
            vocabulary->tokens[id].score = (float)hf->unigram.scores[id];
    vocabulary->unk = hf->unigram.unknown_id;
    if (vocabulary->unk >= 0)
        vocabulary->tokens[vocabulary->unk].type = GGUF_TOKEN_UNKNOWN;
    return 0;
}

// "##ing" becomes "ing" and "ing" becomes "▁ing".
static int from_wordpiece(struct gguf_vocabulary *vocabulary, const struct hf *hf) {
    if (!hf->is_bert)
        return refuse(hf, "its WordPiece is not BERT's");
    for (int64_t id = 0; id < hf->size; id++) {
        struct gguf_token *token = &vocabulary->tokens[id];
        if (!token->text || token->type != GGUF_TOKEN_NORMAL)
            continue;
        bool continues = token->length > 2 && memcmp(token->text, "##", 2) == 0;
        char *text = continues ? memory_string(token->text + 2) : memory_printf("\u2581%s", token->text);
        free(token->text);
        token->text = text;
        token->length = strlen(text);
    }
    vocabulary->model = "bert";
    vocabulary->pre = "default";
    vocabulary->unk = hf->unknown;
    vocabulary->sep = vocabulary->eos;
    vocabulary->adds_sep = vocabulary->adds_eos;
    vocabulary->adds_eos = false;
    vocabulary->has_case_rules = true;
    vocabulary->lowers = hf->bert.rules.lower;
    vocabulary->strips_accents = hf->bert.rules.strip_accents;
    gguf_vocabulary_warn_accents(vocabulary);
    if (vocabulary->unk < 0 || !vocabulary->adds_bos || !vocabulary->adds_sep)
        return refuse(hf, "it does not add [CLS] and [SEP] around a text, or has no [UNK]");
    return 0;
}

static bool is_of_bytes(const struct hf *hf) {
    for (size_t i = 0; i < hf->pretokenizer_count; i++)
        if (hf->pretokenizers[i].kind == HF_PRETOKENIZER_BYTES)
            return true;
    return false;
}

static int from_model(struct gguf_vocabulary *vocabulary, struct hf *hf, const struct json *root) {
    const struct json *model = json_member(root, "model");
    TRY(add_tokens(vocabulary, hf));
    TRY(set_ends(vocabulary, hf));
    switch (hf->model) {
    case HF_MODEL_BPE:
        return is_of_bytes(hf) ? from_bytes(vocabulary, hf, root) : from_marks(vocabulary, hf, model);
    case HF_MODEL_UNIGRAM:
        return from_unigram(vocabulary, hf, root);
    case HF_MODEL_WORDPIECE:
        return from_wordpiece(vocabulary, hf);
    case HF_MODEL_WORDLEVEL:
        break;
    }
    return refuse(hf, "it is a word list");
}

int gguf_vocabulary_from_json(struct gguf_vocabulary *vocabulary, const char *text, size_t length, const char *name) {
    struct hf *hf;
    OWNED struct json *root = NULL;
    TRY(hf_parse(&hf, text, length, name));
    int result = json_parse(&root, text, length, name);
    if (result == 0)
        result = from_model(vocabulary, hf, root);
    hf_free(hf);
    return result;
}
