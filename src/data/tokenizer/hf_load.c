// Loads tokenizer.json: its parts, and the tokens put around a text. Truncation and padding are ignored: callers must
// request them, and Megatron and transformers do not.
#include "data/tokenizer/hf.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int hf_error(const struct hf *hf, const char *part, const char *what) {
    return error_set("%s: %s: %s", hf->name, part, what);
}

int hf_too_long(const struct hf *hf, const char *part) {
    return hf_error(hf, part, "makes a text more than 64 times as long, which is not supported");
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
    return (*string)->type == JSON_STRING ? 1 : hf_error(hf, key, "is not a string");
}

static int hf_not_supported(const struct hf *hf, const char *part, const char *type) {
    return error_set("%s: the %s \"%s\" is not supported", hf->name, part, type);
}

int hf_find_type(const struct hf *hf, const char *part, const char *const *names, size_t count, const char *type) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(type, names[i]) == 0)
            return (int)i;
    return hf_not_supported(hf, part, type);
}

void *hf_add_step(void *steps, size_t *count, size_t step_bytes) {
    char *grown = memory_realloc(steps, (*count + 1) * step_bytes);
    memset(grown + (*count)++ * step_bytes, 0, step_bytes);
    return grown;
}

int hf_copy_member(const struct hf *hf, const struct json *value, const char *key, struct hf_string *out) {
    const struct json *string;
    int found = hf_get_string(hf, value, key, &string);
    if (found == 0)
        return hf_error(hf, key, "is missing");
    TRY(found);
    *out = hf_copy(string->string, string->length);
    return 0;
}

int hf_load_metaspace(const struct hf *hf, const struct json *value, enum hf_prepend *prepend,
                      struct hf_string *replacement) {
    static const char *const schemes[] = {
        [HF_PREPEND_ALWAYS] = "always", [HF_PREPEND_FIRST] = "first", [HF_PREPEND_NEVER] = "never"};
    const struct json *scheme;
    int found = hf_get_string(hf, value, "prepend_scheme", &scheme);
    TRY(found);
    if (found == 1)
        found = hf_find_type(hf, "prepend_scheme", schemes, sizeof schemes / sizeof schemes[0], scheme->string);
    TRY(found);
    *prepend = (enum hf_prepend)found;  // also if there is none: always
    if (!hf_get_bool(value, "add_prefix_space", true))
        *prepend = HF_PREPEND_NEVER;
    return hf_copy_member(hf, value, "replacement", replacement);
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
        TRY(hf_for_each(hf, &items->items[i], list, add));  // at most as deep as JSON may be nested
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
    if (out->known) {
        out->splitter = splitter_create(out->known);
        return 0;
    }
    if (strlen(regex->string) == regex->length)
        out->text = memory_string(regex->string);
    char *name = memory_printf("%s: %s: the pattern \"%.200s\"", hf->name, part, regex->string);
    int status = pattern_compile(&out->general, PATTERN_ONIGURUMA, regex->string, regex->length, name);
    free(name);
    return status;
}

static void free_pattern(struct hf_pattern *pattern) {
    free(pattern->literal.text);
    pattern_free(pattern->general);
    free(pattern->text);
    splitter_free(pattern->splitter);
}

// ---- post-processors ----

// ["[SEP]", 102]
static int pair_id(const struct hf *hf, const struct json *value, const char *key, int32_t *id) {
    const struct json *pair = json_member(value, key);
    if (!pair || pair->type != JSON_ARRAY || pair->count != 2 || pair->items[1].type != JSON_NUMBER ||
        !(pair->items[1].number >= 0 && pair->items[1].number < INT32_MAX))
        return hf_error(hf, "post_processor", "a special token is not [token, id]");
    *id = (int32_t)pair->items[1].number;
    return 0;
}

// Real templates put one or two tokens there.
enum { MOST_AROUND = 1000 };

static int template_token(struct hf *hf, const struct json *value, const struct json *token, struct token_list *out) {
    const struct json *name = json_member(token, "id");
    const struct json *ids = NULL;
    if (name && name->type == JSON_STRING)
        ids = json_member(json_member(json_member(value, "special_tokens"), name->string), "ids");
    if (!ids || ids->type != JSON_ARRAY)
        return hf_error(hf, "post_processor", "a special token of its template has no ids");
    if (ids->count > MOST_AROUND || out->count > MOST_AROUND)
        return hf_error(hf, "post_processor", "adds thousands of tokens around a text, which is not supported");
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->items[i].type != JSON_NUMBER || !(ids->items[i].number >= 0 && ids->items[i].number < INT32_MAX))
            return hf_error(hf, "post_processor", "an id is not a non-negative integer");
        token_list_append(out, (int32_t)ids->items[i].number);
    }
    return 0;
}

// The template for one text: special tokens around the sequence A.
static int load_template(struct hf *hf, const struct json *value) {
    const struct json *single = json_member(value, "single");
    if (!single || single->type != JSON_ARRAY)
        return hf_error(hf, "post_processor", "has no template for one text");
    bool seen = false;
    for (size_t i = 0; i < single->count; i++) {
        const struct json *token = json_member(&single->items[i], "SpecialToken");
        if (token)
            TRY(template_token(hf, value, token, seen ? &hf->after : &hf->before));
        else if (!json_member(&single->items[i], "Sequence") || seen)
            return hf_error(hf, "post_processor", "its template does not have the text exactly once");
        else
            seen = true;
    }
    return seen ? 0 : hf_error(hf, "post_processor", "its template does not have the text exactly once");
}

// Processors in a Sequence are applied in order, each around the result of those before.
static int add_processor(struct hf *hf, const struct json *value, const char *type) {
    if (strcmp(type, "ByteLevel") == 0)
        return 0;  // affects offsets only
    if (hf->before.count + hf->after.count > 0)
        return hf_error(hf, "post_processor", "two of them add tokens, which is not supported");
    if (strcmp(type, "TemplateProcessing") == 0)
        return load_template(hf, value);
    if (strcmp(type, "RobertaProcessing") != 0 && strcmp(type, "BertProcessing") != 0)
        return hf_not_supported(hf, "post_processor", type);
    int32_t cls = 0, sep = 0;
    TRY(pair_id(hf, value, "cls", &cls));
    TRY(pair_id(hf, value, "sep", &sep));
    token_list_append(&hf->before, cls);
    token_list_append(&hf->after, sep);
    return 0;
}

// ---- the whole file ----

// Strings by id, added tokens before those of the model.
static void index_strings(struct hf *hf) {
    for (int64_t i = 0; i < hf->vocab.count; i++)
        hf->size = hf->vocab.strings[i].value >= hf->size ? hf->vocab.strings[i].value + 1 : hf->size;
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
        hf->strings[string->value] = (struct hf_string){hf->vocab.bytes.data + string->begin, string->length};
    }
    for (int64_t i = 0; hf->same && i < hf->model_count; i++)
        hf->strings[i] = hf->strings[hf->same[i]];
    for (int64_t i = 0; i < hf->added_count; i++)
        hf->strings[hf->added[i].id] = hf->added[i].normalized.text ? hf->added[i].normalized : hf->added[i].content;
}

// A part that is there twice is read differently by programs. Tokens may be: every program takes the last one's id.
static int check_parts(const struct hf *hf, const struct json *object, const char *except) {
    for (size_t i = 0; object->type == JSON_OBJECT && i < object->count; i++) {
        const char *key = object->keys[i].string;
        bool is_first = json_member(object, key) == &object->items[i], is_except = strcmp(key, except) == 0;
        if (!is_first || (!is_except && json_repeated(&object->items[i])))
            return hf_error(hf, key, "it, or a part of it, is there twice, and programs differ in which one they read");
    }
    return 0;
}

static int load(struct hf *hf, const struct json *root) {
    if (root->type != JSON_OBJECT || !json_member(root, "model"))
        return hf_error(hf, "model", "is missing; this is not a tokenizer.json");
    TRY(check_parts(hf, root, "model"));
    TRY(check_parts(hf, json_member(root, "model"), "vocab"));
    TRY(hf_load_model(hf, json_member(root, "model")));
    TRY(hf_load_added(hf, json_member(root, "added_tokens")));
    TRY(hf_load_normalizer(hf, json_member(root, "normalizer")));
    TRY(hf_load_pretokenizer(hf, json_member(root, "pre_tokenizer")));
    TRY(hf_load_decoder(hf, json_member(root, "decoder")));
    TRY(hf_for_each(hf, json_member(root, "post_processor"), "processors", add_processor));
    TRY(hf_check_insertions(hf));
    TRY(hf_prepare_added(hf));
    index_strings(hf);
    hf_find_shortcuts(hf);
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
    splitter_free(hf->in_turn);
    splitter_free(hf->gpt2);
    splitter_free(hf->spaces);
    splitter_free(hf->marks);
    free(hf->table);
    free(hf->old);
    free(hf->older);
    free(hf->name);
    free(hf);
}
