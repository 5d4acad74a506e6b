// The members "normalizer", "pre_tokenizer", "decoder" and "post_processor" of tokenizer.json. Sequences become flat
// lists of steps. A type that is not in a table here is an error that names it.
#include "data/tokenizer/base64.h"
#include "data/tokenizer/hf.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int not_supported(const struct hf *hf, const char *part, const char *type) {
    return error_set("%s: the %s \"%s\" is not supported", hf->name, part, type);
}

static int copy_member(const struct hf *hf, const struct json *value, const char *key, struct hf_string *out) {
    const struct json *string;
    int found = hf_get_string(hf, value, key, &string);
    if (found == 0)
        return hf_error(hf, key, "is missing");
    TRY(found);
    *out = hf_copy(string->string, string->length);
    return 0;
}

// ---- normalizers ----

static int load_charsmap(struct hf *hf, const struct json *value, struct charsmap *map) {
    const struct json *text;
    int found = hf_get_string(hf, value, "precompiled_charsmap", &text);
    TRY(found);
    if (found == 0)
        return 0;
    struct buffer bytes = {0};
    int status = base64_decode(text->string, text->length, &bytes)
                     ? charsmap_read(map, bytes.data, bytes.length, hf->name)
                     : hf_error(hf, "precompiled_charsmap", "is not base64");
    buffer_free(&bytes);
    return status;
}

static int fill_normalizer(struct hf *hf, const struct json *value, const char *type, struct hf_normalizer_step *step) {
    static const struct {
        const char *type;
        enum hf_normalizer kind;
        enum normal_form form;
    } kinds[] = {
        {"BertNormalizer", HF_NORMALIZER_BERT, 0},
        {"Strip", HF_NORMALIZER_STRIP, 0},
        {"StripAccents", HF_NORMALIZER_STRIP_ACCENTS, 0},
        {"NFC", HF_NORMALIZER_FORM, NORMAL_FORM_C},
        {"NFD", HF_NORMALIZER_FORM, NORMAL_FORM_D},
        {"NFKC", HF_NORMALIZER_FORM, NORMAL_FORM_KC},
        {"NFKD", HF_NORMALIZER_FORM, NORMAL_FORM_KD},
        {"Lowercase", HF_NORMALIZER_LOWER, 0},
        {"Nmt", HF_NORMALIZER_NMT, 0},
        {"Precompiled", HF_NORMALIZER_CHARSMAP, 0},
        {"Replace", HF_NORMALIZER_REPLACE, 0},
        {"Prepend", HF_NORMALIZER_PREPEND, 0},
        {"ByteLevel", HF_NORMALIZER_BYTES, 0},
    };
    size_t i = 0;
    while (i < sizeof kinds / sizeof kinds[0] && strcmp(type, kinds[i].type) != 0)
        i++;
    if (i == sizeof kinds / sizeof kinds[0])
        return not_supported(hf, "normalizer", type);
    step->kind = kinds[i].kind;
    step->form = kinds[i].form;
    step->left = hf_get_bool(value, "strip_left", true);
    step->right = hf_get_bool(value, "strip_right", true);
    step->clean = hf_get_bool(value, "clean_text", true);
    step->cjk = hf_get_bool(value, "handle_chinese_chars", true);
    step->lower = hf_get_bool(value, "lowercase", true);
    step->strip_accents = hf_get_bool(value, "strip_accents", step->lower);
    bool forms = step->kind == HF_NORMALIZER_FORM || (step->kind == HF_NORMALIZER_BERT && step->strip_accents);
    if (forms && normal_form_require() < 0)
        return error_context("%s", hf->name);
    if (step->kind == HF_NORMALIZER_FORM && !hf->pairs && (step->form == NORMAL_FORM_C || step->form == NORMAL_FORM_KC))
        hf->pairs = normal_form_pairs_create(hf->old);
    if (step->kind == HF_NORMALIZER_CHARSMAP)
        return load_charsmap(hf, value, &step->map);
    if (step->kind == HF_NORMALIZER_PREPEND)
        return copy_member(hf, value, "prepend", &step->content);
    if (step->kind != HF_NORMALIZER_REPLACE)
        return 0;
    TRY(copy_member(hf, value, "content", &step->content));
    return hf_load_pattern(hf, json_member(value, "pattern"), "Replace", &step->pattern);
}

static int add_normalizer(struct hf *hf, const struct json *value, const char *type) {
    hf->normalizers = memory_realloc(hf->normalizers, (hf->normalizer_count + 1) * sizeof *hf->normalizers);
    struct hf_normalizer_step *step = &hf->normalizers[hf->normalizer_count++];
    *step = (struct hf_normalizer_step){0};
    return fill_normalizer(hf, value, type, step);
}

int hf_load_normalizer(struct hf *hf, const struct json *normalizer) {
    return hf_for_each(hf, normalizer, "normalizers", add_normalizer);
}

// ---- pre-tokenizers ----

static int load_behavior(const struct hf *hf, const struct json *value, enum hf_behavior *behavior) {
    static const char *const names[] = {[HF_REMOVED] = "Removed",
                                        [HF_ISOLATED] = "Isolated",
                                        [HF_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [HF_MERGED_WITH_NEXT] = "MergedWithNext",
                                        [HF_CONTIGUOUS] = "Contiguous"};
    const struct json *name;
    int found = hf_get_string(hf, value, "behavior", &name);
    TRY(found);
    *behavior = HF_ISOLATED;
    if (found == 0)
        return 0;
    for (int i = 0; i < 5; i++)
        if (strcmp(name->string, names[i]) == 0) {
            *behavior = (enum hf_behavior)i;
            return 0;
        }
    return not_supported(hf, "behavior", name->string);
}

static int load_metaspace(const struct hf *hf, const struct json *value, enum hf_prepend *prepend,
                          struct hf_string *replacement) {
    const struct json *scheme;
    int found = hf_get_string(hf, value, "prepend_scheme", &scheme);
    TRY(found);
    *prepend = HF_PREPEND_ALWAYS;
    if (found == 1) {
        if (strcmp(scheme->string, "first") == 0)
            *prepend = HF_PREPEND_FIRST;
        else if (strcmp(scheme->string, "never") == 0)
            *prepend = HF_PREPEND_NEVER;
        else if (strcmp(scheme->string, "always") != 0)
            return not_supported(hf, "prepend_scheme", scheme->string);
    }
    if (!hf_get_bool(value, "add_prefix_space", true))
        *prepend = HF_PREPEND_NEVER;
    return copy_member(hf, value, "replacement", replacement);
}

static int fill_pretokenizer(struct hf *hf, const struct json *value, const char *type,
                             struct hf_pretokenizer_step *step) {
    static const struct {
        const char *type;
        enum hf_pretokenizer kind;
    } kinds[] = {
        {"BertPreTokenizer", HF_PRETOKENIZER_BERT},
        {"ByteLevel", HF_PRETOKENIZER_BYTES},
        {"Split", HF_PRETOKENIZER_SPLIT},
        {"Metaspace", HF_PRETOKENIZER_METASPACE},
        {"Digits", HF_PRETOKENIZER_DIGITS},
        {"Punctuation", HF_PRETOKENIZER_PUNCTUATION},
        {"Whitespace", HF_PRETOKENIZER_WHITESPACE},
        {"WhitespaceSplit", HF_PRETOKENIZER_WHITESPACE_SPLIT},
        {"CharDelimiterSplit", HF_PRETOKENIZER_SPLIT},
        {"FixedLength", HF_PRETOKENIZER_FIXED_LENGTH},
    };
    size_t i = 0;
    while (i < sizeof kinds / sizeof kinds[0] && strcmp(type, kinds[i].type) != 0)
        i++;
    if (i == sizeof kinds / sizeof kinds[0])
        return not_supported(hf, "pre_tokenizer", type);
    step->kind = kinds[i].kind;
    step->prefix_space = hf_get_bool(value, "add_prefix_space", true);
    step->use_regex = hf_get_bool(value, "use_regex", true);
    step->invert = hf_get_bool(value, "invert", false);
    step->split = hf_get_bool(value, "split", true);
    switch (step->kind) {
    case HF_PRETOKENIZER_SPLIT:
        if (strcmp(type, "CharDelimiterSplit") == 0) {
            step->behavior = HF_REMOVED;
            return copy_member(hf, value, "delimiter", &step->pattern.literal);
        }
        TRY(load_behavior(hf, value, &step->behavior));
        return hf_load_pattern(hf, json_member(value, "pattern"), "Split", &step->pattern);
    case HF_PRETOKENIZER_METASPACE:
        return load_metaspace(hf, value, &step->prepend, &step->replacement);
    case HF_PRETOKENIZER_DIGITS:
        step->behavior = hf_get_bool(value, "individual_digits", false) ? HF_ISOLATED : HF_CONTIGUOUS;
        return 0;
    case HF_PRETOKENIZER_PUNCTUATION:
        return load_behavior(hf, value, &step->behavior);
    case HF_PRETOKENIZER_FIXED_LENGTH:
        TRY(json_get_int(value, "length", &step->length));
        return step->length > 0 ? 0 : hf_error(hf, "FixedLength", "its length is not positive");
    default:
        return 0;
    }
}

static int add_pretokenizer(struct hf *hf, const struct json *value, const char *type) {
    hf->pretokenizers = memory_realloc(hf->pretokenizers, (hf->pretokenizer_count + 1) * sizeof *hf->pretokenizers);
    struct hf_pretokenizer_step *step = &hf->pretokenizers[hf->pretokenizer_count++];
    *step = (struct hf_pretokenizer_step){0};
    return fill_pretokenizer(hf, value, type, step);
}

int hf_load_pretokenizer(struct hf *hf, const struct json *pretokenizer) {
    return hf_for_each(hf, pretokenizer, "pretokenizers", add_pretokenizer);
}

// ---- decoders ----

static int fill_decoder(struct hf *hf, const struct json *value, const char *type, struct hf_decoder_step *step) {
    static const struct {
        const char *type;
        enum hf_decoder kind;
    } kinds[] = {
        {"ByteLevel", HF_DECODER_BYTES},     {"WordPiece", HF_DECODER_WORDPIECE},
        {"BPEDecoder", HF_DECODER_BPE},      {"ByteFallback", HF_DECODER_BYTE_FALLBACK},
        {"Fuse", HF_DECODER_FUSE},           {"Strip", HF_DECODER_STRIP},
        {"Metaspace", HF_DECODER_METASPACE}, {"Replace", HF_DECODER_REPLACE},
    };
    size_t i = 0;
    while (i < sizeof kinds / sizeof kinds[0] && strcmp(type, kinds[i].type) != 0)
        i++;
    if (i == sizeof kinds / sizeof kinds[0])
        return not_supported(hf, "decoder", type);
    step->kind = kinds[i].kind;
    enum hf_prepend prepend;
    switch (step->kind) {
    case HF_DECODER_WORDPIECE:
        step->cleanup = hf_get_bool(value, "cleanup", true);
        return copy_member(hf, value, "prefix", &step->text);
    case HF_DECODER_BPE:
        return copy_member(hf, value, "suffix", &step->text);
    case HF_DECODER_STRIP:
        TRY(json_get_int(value, "start", &step->start));
        TRY(json_get_int(value, "stop", &step->stop));
        return copy_member(hf, value, "content", &step->text);
    case HF_DECODER_METASPACE:
        TRY(load_metaspace(hf, value, &prepend, &step->text));
        step->prepends = prepend != HF_PREPEND_NEVER;
        return 0;
    case HF_DECODER_REPLACE:
        TRY(copy_member(hf, value, "content", &step->text));
        return hf_load_pattern(hf, json_member(value, "pattern"), "Replace", &step->pattern);
    default:
        return 0;
    }
}

static int add_decoder(struct hf *hf, const struct json *value, const char *type) {
    hf->decoders = memory_realloc(hf->decoders, (hf->decoder_count + 1) * sizeof *hf->decoders);
    struct hf_decoder_step *step = &hf->decoders[hf->decoder_count++];
    *step = (struct hf_decoder_step){0};
    return fill_decoder(hf, value, type, step);
}

int hf_load_decoder(struct hf *hf, const struct json *decoder) {
    hf->has_decoder = decoder && decoder->type != JSON_NULL;
    return hf_for_each(hf, decoder, "decoders", add_decoder);
}

// ---- post-processors ----

// ["[SEP]", 102]
static int pair_id(const struct hf *hf, const struct json *value, const char *key, int32_t *id) {
    const struct json *pair = json_member(value, key);
    if (!pair || pair->type != JSON_ARRAY || pair->count != 2 || pair->items[1].type != JSON_NUMBER ||
        !(pair->items[1].number >= 0 && pair->items[1].number < INT32_MAX))
        return hf_error(hf, "post_processor", "a token of it is not [token, id]");
    *id = (int32_t)pair->items[1].number;
    return 0;
}

// Real templates put one or two there.
enum { MOST_AROUND = 1000 };

static int template_token(struct hf *hf, const struct json *value, const struct json *token, struct token_list *out) {
    const struct json *name = json_member(token, "id");
    const struct json *ids = NULL;
    if (name && name->type == JSON_STRING)
        ids = json_member(json_member(json_member(value, "special_tokens"), name->string), "ids");
    if (!ids || ids->type != JSON_ARRAY)
        return hf_error(hf, "post_processor", "a special token of its template has no ids");
    if (ids->count > MOST_AROUND || out->count > MOST_AROUND)
        return hf_error(hf, "post_processor", "puts thousands of tokens around a text, which is not supported");
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->items[i].type != JSON_NUMBER || !(ids->items[i].number >= 0 && ids->items[i].number < INT32_MAX))
            return hf_error(hf, "post_processor", "an id is no integer from 0");
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
            return hf_error(hf, "post_processor", "its template has not the text just once");
        else
            seen = true;
    }
    return seen ? 0 : hf_error(hf, "post_processor", "its template has not the text just once");
}

// Processors in a Sequence come one after another, each around what those before have made.
static int add_processor(struct hf *hf, const struct json *value, const char *type) {
    if (strcmp(type, "ByteLevel") == 0)
        return 0;  // deals with offsets only
    if (hf->before.count + hf->after.count > 0)
        return hf_error(hf, "post_processor", "two of them add tokens, which is not supported");
    if (strcmp(type, "TemplateProcessing") == 0)
        return load_template(hf, value);
    if (strcmp(type, "RobertaProcessing") != 0 && strcmp(type, "BertProcessing") != 0)
        return not_supported(hf, "post_processor", type);
    int32_t cls = 0, sep = 0;
    TRY(pair_id(hf, value, "cls", &cls));
    TRY(pair_id(hf, value, "sep", &sep));
    token_list_append(&hf->before, cls);
    token_list_append(&hf->after, sep);
    return 0;
}

int hf_load_post_processor(struct hf *hf, const struct json *processor) {
    return hf_for_each(hf, processor, "processors", add_processor);
}
