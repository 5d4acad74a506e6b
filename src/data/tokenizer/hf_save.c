// Assembles the parts of a tokenizer.json, and writes the files that go with it.
#include "data/tokenizer/hf_save.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// ---- special tokens ----

static const struct {
    const char *key;  // in tokenizer_config.json
    size_t offset;
} role_keys[] = {
    {"bos_token", offsetof(struct hf_roles, bos)},     {"eos_token", offsetof(struct hf_roles, eos)},
    {"unk_token", offsetof(struct hf_roles, unknown)}, {"sep_token", offsetof(struct hf_roles, sep)},
    {"pad_token", offsetof(struct hf_roles, pad)},     {"cls_token", offsetof(struct hf_roles, cls)},
    {"mask_token", offsetof(struct hf_roles, mask)},
};
enum { ROLES = sizeof role_keys / sizeof role_keys[0] };

static int32_t *role_of(struct hf_roles *roles, size_t i) {
    return (int32_t *)(void *)((char *)roles + role_keys[i].offset);
}

static int compare_tokens(const void *left, const void *right) {
    const struct hf_part_token *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

static int describe(const struct tokenizer *tokenizer, struct hf_parts *parts) {
    *parts = (struct hf_parts){.unknown = -1, .bos = -1, .pad = -1};
    int status = tokenizer->kind->describe
                     ? tokenizer->kind->describe(tokenizer, parts)
                     : error_set("%s cannot be written as a tokenizer.json", tokenizer->kind->name);
    if (status < 0) {
        hf_parts_free(parts);
        return -1;
    }
    if (parts->token_count > 0)
        qsort(parts->tokens, parts->token_count, sizeof *parts->tokens, compare_tokens);
    return 0;
}

static const struct hf_part_token *token_of(const struct hf_parts *parts, int32_t id) {
    for (size_t i = 0; i < parts->token_count; i++)
        if (parts->tokens[i].id == id)
            return &parts->tokens[i];
    return NULL;
}

static int32_t find_named(const struct hf_parts *parts, const char *const *names) {
    for (; *names; names++)
        for (size_t i = 0; i < parts->token_count; i++)
            if (parts->tokens[i].length == strlen(*names) &&
                memcmp(parts->names.data + parts->tokens[i].begin, *names, strlen(*names)) == 0)
                return parts->tokens[i].id;
    return -1;
}

static struct hf_roles roles_of(const struct hf_parts *parts, int32_t eod) {
    static const char *const bos[] = {"[BOS]", "<BOS>", "<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", NULL};
    static const char *const cls[] = {"[CLS]", "<CLS>", "<cls>", NULL};
    static const char *const sep[] = {"[SEP]", "<SEP>", "<sep>", NULL};
    static const char *const pad[] = {"[PAD]", "<PAD>", "<pad>", NULL};
    static const char *const mask[] = {"[MASK]", "<MASK>", "<mask>", NULL};
    struct hf_roles roles = {
        .bos = parts->bos >= 0 ? parts->bos : find_named(parts, bos),
        .eos = eod,
        .unknown = parts->unknown,
        .sep = parts->is_roberta ? eod : find_named(parts, sep),
        .pad = parts->pad >= 0 ? parts->pad : find_named(parts, pad),
        .mask = find_named(parts, mask),
        .is_unigram = parts->adds_scores,
    };
    roles.cls = parts->is_roberta ? roles.bos : find_named(parts, cls);
    roles.around = parts->whole.length ? HF_AROUND_OWN
                   : parts->is_bert    ? HF_AROUND_CLS_SEP
                   : parts->is_roberta ? HF_AROUND_ROBERTA
                   : parts->begins     ? HF_AROUND_BOS
                                       : HF_AROUND_NOTHING;
    return roles;
}

struct hf_roles hf_save_roles(const struct tokenizer *tokenizer) {
    struct hf_parts parts;
    if (describe(tokenizer, &parts) < 0) {
        error_clear();
        return (struct hf_roles){-1, tokenizer->eod, -1, -1, -1, -1, -1, HF_AROUND_NOTHING, false, false, 0};
    }
    struct hf_roles roles = roles_of(&parts, tokenizer->eod);
    hf_parts_free(&parts);
    return roles;
}

// ---- tokenizer.json ----

static void write_part(struct json_writer *json, const char *key, const struct buffer *part) {
    json_key(json, key);
    if (part->length > 0)
        json_raw(json, part->data, part->length);
    else
        json_null(json);
}

static void write_flags(struct json_writer *json, const struct hf_parts *parts, const struct hf_part_token *token) {
    json_key(json, "content");
    json_string(json, parts->names.data + token->begin, token->length);
    hf_member_bool(json, "single_word", token->single_word);
    hf_member_bool(json, "lstrip", token->lstrip);
    hf_member_bool(json, "rstrip", token->rstrip);
    hf_member_bool(json, "normalized", token->normalized);
    hf_member_bool(json, "special", true);
}

static void write_added(struct json_writer *json, const struct hf_parts *parts) {
    json_key(json, "added_tokens");
    json_begin_array(json);
    for (size_t i = 0; i < parts->token_count; i++) {
        json_begin_object(json);
        json_put_int(json, "id", parts->tokens[i].id);
        write_flags(json, parts, &parts->tokens[i]);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_name(struct json_writer *json, const struct hf_parts *parts, int32_t id) {
    const struct hf_part_token *token = token_of(parts, id);
    CHECK(token);
    json_string(json, parts->names.data + token->begin, token->length);
}

// {"SpecialToken": {"id": NAME, "type_id": 0}}, or a Sequence if id is -1.
static void write_template_item(struct json_writer *json, const struct hf_parts *parts, int32_t id, int type) {
    json_begin_object(json);
    json_key(json, id < 0 ? "Sequence" : "SpecialToken");
    json_begin_object(json);
    json_key(json, "id");
    if (id >= 0)
        write_name(json, parts, id);
    else
        json_cstring(json, type ? "B" : "A");
    json_put_int(json, "type_id", type);
    json_end_object(json);
    json_end_object(json);
}

static void write_template_token(struct json_writer *json, const struct hf_parts *parts, int32_t id) {
    const struct hf_part_token *token = token_of(parts, id);
    json_key_bytes(json, parts->names.data + token->begin, token->length);
    json_begin_object(json);
    json_key(json, "id");
    write_name(json, parts, id);
    json_key(json, "ids");
    json_begin_array(json);
    json_int(json, id);
    json_end_array(json);
    json_key(json, "tokens");
    json_begin_array(json);
    write_name(json, parts, id);
    json_end_array(json);
    json_end_object(json);
}

// `before` and `after` are put around each text; with two texts, `before` is put once if there is an `after`.
static void write_template(struct json_writer *json, const struct hf_parts *parts, int32_t before, int32_t after) {
    hf_step(json, "TemplateProcessing");
    for (int texts = 1; texts <= 2; texts++) {
        json_key(json, texts == 1 ? "single" : "pair");
        json_begin_array(json);
        for (int type = 0; type < texts; type++) {
            if (type == 0 || after < 0)
                write_template_item(json, parts, before, type);
            write_template_item(json, parts, -1, type);
            if (after >= 0)
                write_template_item(json, parts, after, type);
        }
        json_end_array(json);
    }
    json_key(json, "special_tokens");
    json_begin_object(json);
    write_template_token(json, parts, before);
    if (after >= 0 && after != before)
        write_template_token(json, parts, after);
    json_end_object(json);
    json_end_object(json);
}

static void write_pair(struct json_writer *json, const char *key, const struct hf_parts *parts, int32_t id) {
    json_key(json, key);
    json_begin_array(json);
    write_name(json, parts, id);
    json_int(json, id);
    json_end_array(json);
}

static void write_post_processor(struct json_writer *json, const struct hf_parts *parts, const struct hf_roles *roles) {
    switch (roles->around) {
    case HF_AROUND_BOS:
        json_key(json, "post_processor");
        write_template(json, parts, roles->bos, -1);
        return;
    case HF_AROUND_CLS_SEP:
        json_key(json, "post_processor");
        write_template(json, parts, roles->cls, roles->sep);
        return;
    case HF_AROUND_ROBERTA:
        json_key(json, "post_processor");
        hf_step(json, "RobertaProcessing");
        write_pair(json, "sep", parts, roles->sep);
        write_pair(json, "cls", parts, roles->cls);
        hf_member_bool(json, "trim_offsets", true);
        hf_member_bool(json, "add_prefix_space", false);
        json_end_object(json);
        return;
    case HF_AROUND_NOTHING:
    case HF_AROUND_OWN:
    default:
        write_part(json, "post_processor", &parts->post_processor);
    }
}

static void write_json(const struct hf_parts *parts, const struct hf_roles *roles, struct buffer *out) {
    struct json_writer json = {.out = out, .indent = 1};
    if (parts->whole.length > 0) {
        buffer_append(out, parts->whole.data, parts->whole.length);
        return;
    }
    json_begin_object(&json);
    json_put_string(&json, "version", "1.0");
    hf_member_null(&json, "truncation");
    hf_member_null(&json, "padding");
    write_added(&json, parts);
    write_part(&json, "normalizer", &parts->normalizer);
    write_part(&json, "pre_tokenizer", &parts->pre_tokenizer);
    write_post_processor(&json, parts, roles);
    write_part(&json, "decoder", &parts->decoder);
    write_part(&json, "model", &parts->model);
    json_end_object(&json);
    buffer_append_byte(out, '\n');
}

// A token that is not special cannot have a role, nor be put around a text.
static struct hf_roles known_roles(const struct hf_roles *roles, const struct hf_parts *parts) {
    struct hf_roles known = *roles;
    if (parts->whole.length > 0)
        known.around = HF_AROUND_OWN;
    for (size_t i = 0; i < ROLES; i++)
        if (!token_of(parts, *role_of(&known, i)))
            *role_of(&known, i) = -1;
    if ((known.around == HF_AROUND_BOS && known.bos < 0) ||
        ((known.around == HF_AROUND_CLS_SEP || known.around == HF_AROUND_ROBERTA) && (known.cls < 0 || known.sep < 0)))
        known.around = HF_AROUND_NOTHING;
    return known;
}

void hf_write_parts(struct hf_parts *parts, int32_t eod, struct buffer *out) {
    if (parts->token_count > 0)
        qsort(parts->tokens, parts->token_count, sizeof *parts->tokens, compare_tokens);
    struct hf_roles roles = roles_of(parts, eod), known = known_roles(&roles, parts);
    write_json(parts, &known, out);
}

int hf_write_gpt2(const char *vocab_file, const char *merge_file, struct buffer *out) {
    struct vocabulary vocabulary;
    struct bpe *bpe = NULL;
    TRY(vocabulary_read_json(&vocabulary, vocab_file));
    int status = bpe_open(&bpe, &vocabulary, vocab_file, merge_file);
    vocabulary_free(&vocabulary);
    TRY(status);
    struct hf_parts parts = {.unknown = -1, .bos = -1, .pad = -1};
    hf_describe_gpt2(bpe, &parts);
    hf_write_parts(&parts, -1, out);
    hf_parts_free(&parts);
    bpe_free(bpe);
    return 0;
}

int hf_save_json(const struct tokenizer *tokenizer, const struct hf_roles *roles, struct buffer *out) {
    struct hf_parts parts;
    TRY(describe(tokenizer, &parts));
    struct hf_roles known = known_roles(roles, &parts);
    write_json(&parts, &known, out);
    hf_parts_free(&parts);
    return 0;
}

// ---- tokenizer_config.json, special_tokens_map.json ----

static bool is_sentinel(const struct hf_parts *parts, const struct hf_part_token *token) {
    static const char prefix[] = "<extra_id_";
    return token->length > sizeof prefix && memcmp(parts->names.data + token->begin, prefix, sizeof prefix - 1) == 0;
}

static void write_roles(struct json_writer *json, const struct hf_parts *parts, const struct hf_roles *roles) {
    struct hf_roles copy = *roles;
    for (size_t i = 0; i < ROLES; i++) {
        int32_t id = *role_of(&copy, i);
        if (id < 0)
            continue;
        json_key(json, role_keys[i].key);
        write_name(json, parts, id);
    }
    bool has_sentinels = false;
    for (size_t i = 0; i < parts->token_count; i++) {
        if (!is_sentinel(parts, &parts->tokens[i]))
            continue;
        if (!has_sentinels) {
            json_key(json, "additional_special_tokens");
            json_begin_array(json);
        }
        has_sentinels = true;
        write_name(json, parts, parts->tokens[i].id);
    }
    if (has_sentinels)
        json_end_array(json);
}

// Custom code takes precedence over the class of a model family; if it is not trusted, tokenizer_class counts.
static const char own_code[] = "from transformers import PreTrainedTokenizerFast as ExactTokenizer  # noqa: F401\n";

static void write_auto_map(struct json_writer *json) {
    static const char class[] = "tokenization_exact.ExactTokenizer";
    json_key(json, "auto_map");
    json_begin_object(json);
    json_key(json, "AutoTokenizer");
    json_begin_array(json);
    json_cstring(json, class);
    json_cstring(json, class);
    json_end_array(json);
    json_end_object(json);
}

static void write_config(const struct hf_parts *parts, const struct hf_roles *roles, struct buffer *out) {
    struct json_writer json = {.out = out, .indent = 2};
    bool has_types = roles->around == HF_AROUND_CLS_SEP || (roles->around == HF_AROUND_OWN && parts->is_bert);
    json_begin_object(&json);
    // This class uses tokenizer.json as is; those of model families build their own tokenizer instead.
    json_put_string(&json, "tokenizer_class", "PreTrainedTokenizerFast");
    if (roles->is_overruled)
        write_auto_map(&json);
    if (roles->around == HF_AROUND_NOTHING || roles->around == HF_AROUND_BOS) {
        hf_member_bool(&json, "add_bos_token", roles->around == HF_AROUND_BOS);
        hf_member_bool(&json, "add_eos_token", false);
    }
    json_key(&json, "added_tokens_decoder");
    json_begin_object(&json);
    for (size_t i = 0; i < parts->token_count; i++) {
        char *key = memory_printf("%" PRId32, parts->tokens[i].id);
        json_key(&json, key);
        free(key);
        json_begin_object(&json);
        write_flags(&json, parts, &parts->tokens[i]);
        json_end_object(&json);
    }
    json_end_object(&json);
    write_roles(&json, parts, roles);
    hf_member_bool(&json, "clean_up_tokenization_spaces", parts->cleans_up);
    if (parts->is_bert)
        hf_member_bool(&json, "do_lower_case", parts->lowers);
    json_key(&json, "model_input_names");
    json_begin_array(&json);
    json_cstring(&json, "input_ids");
    if (has_types)
        json_cstring(&json, "token_type_ids");
    json_cstring(&json, "attention_mask");
    json_end_array(&json);
    if (roles->longest > 0) {
        json_put_int(&json, "model_max_length", roles->longest);
    }
    json_end_object(&json);
    buffer_append_byte(out, '\n');
}

static void write_map(const struct hf_parts *parts, const struct hf_roles *roles, struct buffer *out) {
    struct json_writer json = {.out = out, .indent = 2};
    json_begin_object(&json);
    write_roles(&json, parts, roles);
    json_end_object(&json);
    buffer_append_byte(out, '\n');
}

int hf_save_folder(const struct tokenizer *tokenizer, const struct hf_roles *roles, const char *folder) {
    struct hf_parts parts;
    TRY(describe(tokenizer, &parts));
    struct hf_roles known = known_roles(roles, &parts);
    struct {
        const char *name;
        struct buffer text;
    } files[] = {{.name = "tokenizer.json"},
                 {.name = "tokenizer_config.json"},
                 {.name = "special_tokens_map.json"},
                 {.name = "tokenization_exact.py"}};
    enum { FILES = sizeof files / sizeof files[0] };
    write_json(&parts, &known, &files[0].text);
    write_config(&parts, &known, &files[1].text);
    write_map(&parts, &known, &files[2].text);
    buffer_append_string(&files[3].text, own_code);
    int status = hf_check(tokenizer, &parts, &files[0].text);
    for (int i = 0; status == 0 && i < (known.is_overruled ? FILES : FILES - 1); i++) {
        char *path = file_join(folder, files[i].name);
        status = file_write_all(path, files[i].text.data, files[i].text.length);
        free(path);
    }
    for (int i = 0; i < FILES; i++)
        buffer_free(&files[i].text);
    hf_parts_free(&parts);
    return status;
}
