// Mistral's tekken.json: a pattern, tokens in rank order, and special tokens, whose ids come before the ranks. As in
// mistral-common, the file has more tokens than are used: "default_vocab_size" is the number of ids,
// "default_num_special_tokens" how many of them are special, and those without a name are called <SPECIAL_20>, ….
#include "data/tokenizer/tiktoken.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// For files up to version 7 that do not name any.
static const char *const first_specials[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};
enum { FIRST_SPECIALS = sizeof first_specials / sizeof first_specials[0], LAST_WITHOUT_SPECIALS = 7 };

struct tekken {
    const struct json *root, *config;
    const char *path;
    int64_t vocab_size, specials;
};

static int add_named(const struct tekken *tekken, struct tokenizer *tokenizer, const char *name, int64_t id) {
    if (id < 0 || id >= tekken->specials)
        return error_set("%s: the special token %s has rank %" PRId64 ", but there are only %" PRId64, tekken->path,
                         name, id, tekken->specials);
    TRY(tiktoken_add_special(tokenizer->model, name, (int32_t)id, tekken->path));
    if (strcmp(name, "</s>") == 0)
        tokenizer->eod = (int32_t)id;
    return 0;
}

static int add_listed(const struct tekken *tekken, struct tokenizer *tokenizer, const struct json *list,
                      unsigned char *taken) {
    for (size_t i = 0; i < list->count; i++) {
        const struct json *name = json_member(&list->items[i], "token_str");
        int64_t rank;
        if (!name || name->type != JSON_STRING || name->length == 0 || memchr(name->string, 0, name->length))
            return error_set("%s: special token %zu has no string \"token_str\"", tekken->path, i);
        if (json_get_int(&list->items[i], "rank", &rank) < 0)
            return error_context("%s: special token %zu", tekken->path, i);
        TRY(add_named(tekken, tokenizer, name->string, rank));
        if (taken[rank]++)
            return error_set("%s: two special tokens have the rank %" PRId64, tekken->path, rank);
    }
    return 0;
}

// "v3" is 3.
static int64_t version_of(const struct tekken *tekken) {
    const struct json *version = json_member(tekken->config, "version");
    bool is_number = version && version->type == JSON_STRING && version->string[0] == 'v';
    return is_number ? strtol(version->string + 1, NULL, 10) : 0;
}

static int add_specials(const struct tekken *tekken, struct tokenizer *tokenizer) {
    const struct json *list = json_member(tekken->root, "special_tokens");
    unsigned char *taken = memory_alloc((size_t)tekken->specials);
    int status = 0;
    tokenizer->eod = -1;
    if (list && list->type == JSON_ARRAY) {
        status = add_listed(tekken, tokenizer, list, taken);
    } else if (version_of(tekken) > LAST_WITHOUT_SPECIALS) {
        status = error_set("%s: has no list \"special_tokens\", which version %" PRId64 " needs; the file is damaged",
                           tekken->path, version_of(tekken));
    } else {
        for (int64_t i = 0; status == 0 && i < FIRST_SPECIALS; i++) {
            status = add_named(tekken, tokenizer, first_specials[i], i);
            taken[status == 0 ? i : 0] = 1;
        }
    }
    for (int64_t id = 0; status == 0 && id < tekken->specials; id++) {
        if (taken[id])
            continue;
        char *name = memory_printf("<SPECIAL_%" PRId64 ">", id);
        status = tiktoken_add_made(tokenizer->model, name, (int32_t)id, tekken->path);
    }
    free(taken);
    return status;
}

static int read_tekken(struct tekken *tekken, struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    struct tiktoken_model *model = tokenizer->model;
    const struct json *config = tekken->config = json_member(tekken->root, "config");
    const struct json *pattern = json_member(config, "pattern"), *vocab = json_member(tekken->root, "vocab");
    if (!config || !vocab || vocab->type != JSON_ARRAY || !pattern || pattern->type != JSON_STRING)
        return error_set("%s: is not a tekken.json, which has \"config\" with a \"pattern\", and a list \"vocab\"",
                         tekken->path);
    if (json_get_int(config, "default_vocab_size", &tekken->vocab_size) < 0 ||
        json_get_int(config, "default_num_special_tokens", &tekken->specials) < 0)
        return error_context("%s: config", tekken->path);
    if (tekken->specials < 1 || tekken->vocab_size <= tekken->specials || tekken->vocab_size >= INT32_MAX ||
        tekken->vocab_size - tekken->specials > (int64_t)vocab->count)
        return error_set("%s: has %zu tokens, and \"default_vocab_size\" %" PRId64 " less %" PRId64
                         " special tokens needs more; the file is damaged",
                         tekken->path, vocab->count, tekken->vocab_size, tekken->specials);
    const char *given = options->tiktoken_pattern;
    TRY(tiktoken_choose_pattern(model, given ? given : pattern->string, given ? "--tiktoken-pattern" : tekken->path));
    TRY(tiktoken_parse_list(&model->ranks, vocab, tekken->path, tekken->vocab_size - tekken->specials));
    model->shift = (int32_t)tekken->specials;
    tokenizer->vocab_size = tekken->vocab_size;
    return add_specials(tekken, tokenizer);
}

int tiktoken_open_tekken(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                         const struct file_map *file) {
    struct json *root;
    TRY(json_parse(&root, (const char *)file->data, file->size, options->model_file));
    struct tekken tekken = {.root = root, .path = options->model_file};
    int status = read_tekken(&tekken, tokenizer, options);
    json_free(root);
    return status;
}
