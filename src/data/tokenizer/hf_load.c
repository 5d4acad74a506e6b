// tokenizer.json from the top: the parts, and the added tokens. What the file says of truncation and padding is for
// those who ask for it at the call; Megatron and transformers do not, and so it is not looked at.
#include "data/tokenizer/hf.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\xE2\x96\x81"  // U+2581

enum { MOST_ADDED = 1 << 17 };

int hf_error(const struct hf *hf, const char *part, const char *what) {
    return error_set("%s: %s: %s", hf->name, part, what);
}

struct hf_string hf_copy(const char *text, size_t length) {
    struct hf_string copy = {memory_realloc(NULL, length + 1), length};
    memcpy(copy.text, text, length);
    copy.text[length] = 0;
    return copy;
}

bool hf_get_bool(const struct json *object, const char *key, bool otherwise) {
    const struct json *value = json_member(object, key);
    return value && (value->type == JSON_TRUE || value->type == JSON_FALSE) ? value->type == JSON_TRUE : otherwise;
}

int hf_get_string(const struct hf *hf, const struct json *object, const char *key, const struct json **string) {
    *string = json_member(object, key);
    if (!*string || (*string)->type == JSON_NULL)
        return 0;
    return (*string)->type == JSON_STRING ? 1 : hf_error(hf, key, "is no string");
}

int hf_for_each(struct hf *hf, const struct json *value, const char *list,
                int (*add)(struct hf *hf, const struct json *value, const char *type)) {
    if (!value || value->type == JSON_NULL)
        return 0;
    const struct json *type = json_member(value, "type");
    if (!type || type->type != JSON_STRING)
        return hf_error(hf, list, "a component without a \"type\"");
    if (strcmp(type->string, "Sequence") != 0)
        return add(hf, value, type->string);
    const struct json *items = json_member(value, list);
    if (!items || items->type != JSON_ARRAY)
        return hf_error(hf, list, "a Sequence without its list");
    for (size_t i = 0; i < items->count; i++)
        TRY(hf_for_each(hf, &items->items[i], list, add));  // as deep as JSON may be nested
    return 0;
}

int hf_load_pattern(struct hf *hf, const struct json *pattern, const char *part, struct hf_pattern *out) {
    const struct json *literal = json_member(pattern, "String"), *regex = json_member(pattern, "Regex");
    *out = (struct hf_pattern){0};
    if (literal && literal->type == JSON_STRING) {
        out->literal = hf_copy(literal->string, literal->length);
        return 0;
    }
    if (!regex || regex->type != JSON_STRING)
        return hf_error(hf, part, "its pattern is neither a String nor a Regex");
    out->known = split_pattern_by_text(regex->string, regex->length);
    if (out->known)
        return 0;
    char *name = memory_printf("%s: %s: the pattern \"%.200s\"", hf->name, part, regex->string);
    int status = pattern_compile(&out->general, PATTERN_ONIGURUMA, regex->string, regex->length, name);
    free(name);
    return status;
}

static void free_pattern(struct hf_pattern *pattern) {
    free(pattern->literal.text);
    pattern_free(pattern->general);
}

// ---- added tokens ----

static int load_added(struct hf *hf, const struct json *value, struct hf_added *added) {
    const struct json *content = json_member(value, "content");
    if (!content || content->type != JSON_STRING)
        return hf_error(hf, "added_tokens", "a token without \"content\"");
    *added = (struct hf_added){
        .content = hf_copy(content->string, content->length),
        .special = hf_get_bool(value, "special", false),
        .single_word = hf_get_bool(value, "single_word", false),
        .lstrip = hf_get_bool(value, "lstrip", false),
        .rstrip = hf_get_bool(value, "rstrip", false),
        .is_normalized = hf_get_bool(value, "normalized", true),
    };
    return 0;
}

// A token that the model has too has the model's id. Others follow the model's tokens in the order of the list,
// whatever ids the file gives: so does Hugging Face, with a warning. Of equal ones the last counts.
static int load_added_tokens(struct hf *hf, const struct json *list) {
    if (!list || list->type == JSON_NULL)
        return 0;
    if (list->type != JSON_ARRAY || list->count > MOST_ADDED)
        return hf_error(hf, "added_tokens", "is no list, or one of too many tokens");
    hf->added = memory_alloc((list->count + 1) * sizeof *hf->added);
    int32_t next = (int32_t)hf->model_count;
    struct byte_table seen = {0};  // indices of added
    int status = 0;
    for (size_t i = 0; status == 0 && i < list->count; i++) {
        struct hf_added added;
        status = load_added(hf, &list->items[i], &added);
        if (status < 0)
            break;
        if (added.content.length == 0) {
            free(added.content.text);
            continue;
        }
        int32_t same = byte_table_find(&seen, added.content.text, added.content.length);
        if (same >= 0) {
            added.id = hf->added[same].id;
            free(hf->added[same].content.text);
            hf->added[same] = added;
            continue;
        }
        added.id = byte_table_find(&hf->vocab, added.content.text, added.content.length);
        if (added.id < 0)
            added.id = next++;
        byte_table_add(&seen, added.content.text, added.content.length, (int32_t)hf->added_count);
        hf->added[hf->added_count++] = added;
    }
    byte_table_free(&seen);
    return status;
}

// Strings by id, added tokens before those of the model.
static void index_strings(struct hf *hf) {
    for (int64_t i = 0; i < hf->vocab.count; i++)
        hf->size = hf->vocab.strings[i].id >= hf->size ? hf->vocab.strings[i].id + 1 : hf->size;
    hf->count = hf->model_count;
    if (hf->same && hf->size < hf->model_count)
        hf->size = hf->model_count;
    for (int64_t i = 0; i < hf->added_count; i++) {
        const struct hf_added *added = &hf->added[i];
        hf->size = added->id >= hf->size ? added->id + 1 : hf->size;
        hf->count += byte_table_find(&hf->vocab, added->content.text, added->content.length) < 0;
    }
    hf->strings = memory_alloc((size_t)(hf->size + 1) * sizeof *hf->strings);
    for (int64_t i = 0; i < hf->vocab.count; i++) {
        const struct byte_string *string = &hf->vocab.strings[i];
        hf->strings[string->id] = (struct hf_string){hf->vocab.bytes.data + string->begin, string->length};
    }
    for (int64_t i = 0; hf->same && i < hf->model_count; i++)
        hf->strings[i] = hf->strings[hf->same[i]];
    for (int64_t i = 0; i < hf->added_count; i++)
        hf->strings[hf->added[i].id] = hf->added[i].normalized.text ? hf->added[i].normalized : hf->added[i].content;
}

// One filter for each beginning there is; false, with none, where they are too many. A token of one byte has no second.
static bool add_filters(struct hf_starts *starts, const struct trie_key *keys, int64_t count, unsigned char mask) {
    starts->filter_count = 0;
    for (int64_t i = 0; i < count; i++) {
        struct hf_filter filter = {(unsigned char)keys[i].text[0], 0, keys[i].length > 1 ? mask : 0};
        filter.second = filter.mask ? (unsigned char)keys[i].text[1] : 0;
        int at = 0;
        while (at < starts->filter_count && memcmp(&starts->filters[at], &filter, sizeof filter) != 0)
            at++;
        if (at == sizeof starts->filters / sizeof starts->filters[0]) {
            starts->filter_count = 0;
            return false;
        }
        starts->filters[at] = filter;
        starts->filter_count += at == starts->filter_count;
    }
    return true;
}

static void build_added_trie(struct hf *hf, bool normalized) {
    struct trie_key *keys = memory_alloc((size_t)(hf->added_count + 1) * sizeof *keys);
    struct hf_starts *starts = normalized ? &hf->normal_starts : &hf->raw_starts;
    int64_t count = 0;
    for (int64_t i = 0; i < hf->added_count; i++) {
        struct hf_string text = hf->added[i].normalized.text ? hf->added[i].normalized : hf->added[i].content;
        if (hf->added[i].is_normalized != normalized)
            continue;
        if (text.length == 0) {
            hf->empty_added = i;
            continue;
        }
        keys[count++] = (struct trie_key){text.text, text.length, (int32_t)i};
        starts->first[(unsigned char)text.text[0]] = true;
    }
    if (count > 0)
        trie_build(normalized ? &hf->normal_trie : &hf->raw_trie, keys, count);
    if (!add_filters(starts, keys, count, 0xFF))
        add_filters(starts, keys, count, 0);
    free(keys);
}

// Tokens to be found in normalized text are normalized themselves.
static int normalize_added(struct hf *hf) {
    struct hf_state state;
    hf_state_init(&state);
    int status = 0;
    for (int64_t i = 0; status == 0 && i < hf->added_count; i++) {
        struct hf_added *added = &hf->added[i];
        if (!added->is_normalized || hf->normalizer_count == 0)
            continue;
        status = hf_normalize(hf, &state, added->content.text, added->content.length, &(size_t){0});
        if (status == 0)
            added->normalized = hf_copy(buffer_string(&state.normal), state.normal.length);
    }
    hf_state_free(&state);
    return status;
}

// ---- the whole file ----

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
        is_string(&normal[0].content, MARK) && normal[1].kind == HF_NORMALIZER_REPLACE &&
        is_string(&normal[1].pattern.literal, " ") && is_string(&normal[1].content, MARK)) {
        hf->is_marked = hf->mark_doubles = true;
        hf->mark_first = HF_PREPEND_ALWAYS;
    }
    if (hf->normalizer_count == 0 && hf->pretokenizer_count == 1 && cut->kind == HF_PRETOKENIZER_METASPACE &&
        !cut->split && is_string(&cut->replacement, MARK)) {
        hf->is_marked = true;
        hf->mark_first = cut->prepend;
    }
}

// Byte-level in several steps, as Falcon's: punctuation apart, then GPT-2's pattern, which cuts before a space between
// letters whatever else stands around, then steps that cut its pieces further.
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

// T5's: a charsmap that leaves printable ASCII alone and makes blanks of a space and a line feed, then words between
// blanks. So words can be taken one by one.
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

// Shapes that have a way of their own, many times faster than going through the parts.
static void find_shortcuts(struct hf *hf) {
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
    hf->byte_nfc = hf->normalizer_count == 1 && normal->kind == HF_NORMALIZER_FORM && normal->form == NORMAL_FORM_C;
    if (hf->model != HF_MODEL_BPE || !hf->has_byte_tokens || hf->prefix.length || hf->suffix.length ||
        (hf->normalizer_count > 0 && !hf->byte_nfc))
        return;
    if (hf->pretokenizer_count == 1 && cut->kind == HF_PRETOKENIZER_BYTES && cut->use_regex) {
        hf->byte_rules = &split_rules_gpt2;
        hf->byte_prefix_space = cut->prefix_space;
    } else if (hf->pretokenizer_count == 2 && cut[0].kind == HF_PRETOKENIZER_SPLIT && cut[0].pattern.known &&
               ((cut[0].behavior == HF_ISOLATED && !cut[0].invert) ||
                (cut[0].behavior == HF_REMOVED && cut[0].invert)) &&
               cut[1].kind == HF_PRETOKENIZER_BYTES && !cut[1].use_regex && !cut[1].prefix_space) {
        hf->byte_rules = &cut[0].pattern.known->rules;
    }
}

// Where a Replace has put text before the first character, Hugging Face repeats it in the next step that changes the
// text. Nobody means that, so such a file is refused.
static int check_insertions(const struct hf *hf) {
    bool inserts = false, changes = false;
    for (size_t i = 0; i < hf->normalizer_count; i++) {
        const struct hf_normalizer_step *step = &hf->normalizers[i];
        changes = changes || (inserts && step->kind != HF_NORMALIZER_REPLACE && step->kind != HF_NORMALIZER_PREPEND);
        const struct hf_pattern *pattern = &step->pattern;
        bool may_insert = pattern->general ? pattern_may_insert_first(pattern->general)
                                           : !pattern->known && pattern->literal.length == 0;
        if (step->kind == HF_NORMALIZER_REPLACE && step->content.length > 0 && may_insert)
            inserts = true;
    }
    for (size_t i = 0; i < hf->pretokenizer_count; i++)
        changes = changes || (inserts && hf->pretokenizers[i].kind == HF_PRETOKENIZER_BYTES);
    return changes ? hf_error(hf, "Replace",
                              "puts text before the first character, and a later step changes it, "
                              "which is not supported; use Prepend to put text at the beginning")
                   : 0;
}

static int load(struct hf *hf, const struct json *root) {
    if (root->type != JSON_OBJECT || !json_member(root, "model"))
        return hf_error(hf, "model", "is missing; this is no tokenizer.json");
    TRY(hf_load_model(hf, json_member(root, "model")));
    TRY(load_added_tokens(hf, json_member(root, "added_tokens")));
    TRY(hf_load_normalizer(hf, json_member(root, "normalizer")));
    TRY(hf_load_pretokenizer(hf, json_member(root, "pre_tokenizer")));
    TRY(hf_load_decoder(hf, json_member(root, "decoder")));
    TRY(hf_load_post_processor(hf, json_member(root, "post_processor")));
    TRY(check_insertions(hf));
    TRY(normalize_added(hf));
    index_strings(hf);
    hf->empty_added = -1;
    build_added_trie(hf, false);
    build_added_trie(hf, true);
    find_shortcuts(hf);
    return 0;
}

int hf_parse(struct hf **hf, const char *text, size_t length, const char *name) {
    struct json *root;
    *hf = NULL;
    TRY(json_parse(&root, text, length, name));
    struct hf *loaded = memory_alloc(sizeof *loaded);
    loaded->name = memory_string(name);
    loaded->table = split_table_create();
    loaded->old = unicode_table_create(UNICODE_EDITION_9);
    loaded->older = unicode_table_create(UNICODE_EDITION_8);
    byte_map_init(&loaded->bytes);
    int status = load(loaded, root);
    json_free(root);
    if (status < 0) {
        hf_free(loaded);
        return -1;
    }
    *hf = loaded;
    return 0;
}

static void free_steps(struct hf *hf) {
    for (size_t i = 0; i < hf->normalizer_count; i++) {
        charsmap_free(&hf->normalizers[i].map);
        free_pattern(&hf->normalizers[i].pattern);
        free(hf->normalizers[i].content.text);
    }
    for (size_t i = 0; i < hf->pretokenizer_count; i++) {
        free(hf->pretokenizers[i].replacement.text);
        free_pattern(&hf->pretokenizers[i].pattern);
    }
    for (size_t i = 0; i < hf->decoder_count; i++) {
        free(hf->decoders[i].text.text);
        free_pattern(&hf->decoders[i].pattern);
    }
    free(hf->normalizers);
    free(hf->pretokenizers);
    free(hf->decoders);
}

void hf_free(struct hf *hf) {
    if (!hf)
        return;
    free_steps(hf);
    for (int64_t i = 0; i < hf->added_count; i++) {
        free(hf->added[i].content.text);
        free(hf->added[i].normalized.text);
    }
    free(hf->added);
    trie_free(&hf->raw_trie);
    trie_free(&hf->normal_trie);
    byte_table_free(&hf->vocab);
    free(hf->strings);
    free(hf->same);
    token_list_free(&hf->before);
    token_list_free(&hf->after);
    free(hf->bpe.pairs);
    free(hf->prefix.text);
    free(hf->suffix.text);
    trie_free(&hf->wordpiece_trie);
    unigram_free(&hf->unigram);
    normal_form_pairs_free(hf->pairs);
    free(hf->table);
    free(hf->old);
    free(hf->older);
    free(hf->name);
    free(hf);
}
