// TikTokenizer: rank files of tiktoken, and Megatron's JSON form of them. As Megatron had it up to core 0.14, text
// that reads like a special token is ordinary text (tiktoken's encode_ordinary); with --no-legacy-tokenizer it is
// that token. Bytes that are not UTF-8 are encoded as they are, so every byte string decodes to itself.
#include "data/tokenizer/tiktoken.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/merge_ids.h"
#include "data/tokenizer/piece_encode.h"
#include "data/tokenizer/trie.h"
#include "data/tokenizer/whole.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MEGATRON_VOCAB_SIZE = 1 << 17 };

struct tiktoken_model {
    struct bpe bpe;
    struct tiktoken_ranks ranks;
    int32_t shift;  // id less rank
    struct split_rules rules;
    const char *pattern_text;  // the same as Hugging Face writes it
    struct unicode_table *table;
    struct byte_table specials;
    struct trie special_trie;  // empty if specials are ordinary text
    bool begins_special[256];  // which bytes one begins with
};

struct tiktoken_state {
    struct piece_cache cache;
    struct merge_scratch scratch;
};

// ---- opening ----

static int add_special(struct tiktoken_model *model, const char *name, int32_t id, const char *path) {
    if (byte_table_add(&model->specials, name, strlen(name), id) < 0)
        return error_set("%s: the special token %s is there twice", path, name);
    return 0;
}

static void add_reserved(struct tiktoken_model *model, const struct tiktoken_known *known) {
    for (int32_t id = known->first_reserved; known->reserved && id < known->vocab_size; id++) {
        const char *number = strstr(known->reserved, "%d");
        char *name = memory_printf("%.*s%" PRId32 "%s", (int)(number - known->reserved), known->reserved,
                                   known->reserved_number + (id - known->first_reserved), number + 2);
        CHECK(byte_table_add(&model->specials, name, strlen(name), id) == 0);
        free(name);
    }
}

static int choose_pattern(struct tiktoken_model *model, const char *name, const char *path) {
    const struct split_pattern *pattern = name ? split_pattern_by_name(name) : NULL;
    if (name && !pattern)
        return error_set_code(EXIT_CODE_USAGE,
                              "--tiktoken-pattern %s is not known; it is gpt2, cl100k, llama3, qwen, o200k, v1 or v2",
                              name);
    if (!pattern)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s: %" PRId64 " ranks are none of the known rank files; say how text is split with "
                              "--tiktoken-pattern gpt2, cl100k, llama3, qwen, o200k, v1 or v2",
                              path, model->ranks.tokens.count);
    model->rules = pattern->rules;
    model->pattern_text = pattern->texts[0];
    return 0;
}

// A rank file that is cut between two lines looks like a small one. What is known to be longer is refused; people's own
// files are held against --vocab-size, where that is given.
static int check_whole(const struct tiktoken_model *model, const struct tokenizer_options *options,
                       const struct file_map *file, const struct tiktoken_known *known) {
    int64_t count = model->ranks.tokens.count;
    TRY(whole_check_known((const char *)file->data, file->size, options->model_file, options->vocab_size));
    if (known)
        return 0;
    if (options->vocab_size && options->vocab_size != count)
        return error_set("%s has %" PRId64 " ranks, but --vocab-size says %" PRId64
                         "; give the number of its ranks, or copy it again if it is cut",
                         options->model_file, count, options->vocab_size);
    if (!options->vocab_size)
        log_info("note: %s has %" PRId64 " ranks and is none of the known files; with --vocab-size %" PRId64
                 " a copy that is cut would be noticed",
                 options->model_file, count, count);
    return 0;
}

static int open_ranks(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                      const struct file_map *file) {
    struct tiktoken_model *model = tokenizer->model;
    const char *path = options->model_file;
    TRY(tiktoken_parse_ranks(&model->ranks, file->size ? (const char *)file->data : "", file->size, path));
    const struct tiktoken_known *known = tiktoken_find_known(model->ranks.tokens.count);
    TRY(choose_pattern(model,
                       options->tiktoken_pattern ? options->tiktoken_pattern
                       : known                   ? known->pattern
                                                 : NULL,
                       path));
    TRY(check_whole(model, options, file, known));
    tokenizer->vocab_size = model->ranks.size;
    tokenizer->eod = -1;
    if (!known)
        return 0;
    for (size_t i = 0; i < known->special_count; i++) {
        TRY(add_special(model, known->specials[i].name, known->specials[i].id, path));
        if (strcmp(known->specials[i].name, known->end) == 0)
            tokenizer->eod = known->specials[i].id;
    }
    add_reserved(model, known);
    tokenizer->vocab_size = known->vocab_size > model->ranks.size ? known->vocab_size : model->ranks.size;
    return 0;
}

// Special tokens come first: named ones, then fillers; </s> ends a document.
static int open_megatron(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                         const struct file_map *file) {
    static const char *const names[] = {"<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"};
    struct tiktoken_model *model = tokenizer->model;
    int64_t named = options->as_today ? 7 : 3, specials = options->tiktoken_specials;
    tokenizer->vocab_size = options->vocab_size ? options->vocab_size : MEGATRON_VOCAB_SIZE;
    if (specials < named || specials >= tokenizer->vocab_size)
        return error_set_code(EXIT_CODE_USAGE,
                              "--tiktoken-num-special-tokens %" PRId64 " is not in [%" PRId64 ", --vocab-size %" PRId64
                              ")",
                              specials, named, tokenizer->vocab_size);
    TRY(tiktoken_parse_json(&model->ranks, (const char *)file->data, file->size, options->model_file,
                            tokenizer->vocab_size - specials));
    TRY(choose_pattern(model,
                       options->tiktoken_pattern ? options->tiktoken_pattern
                       : options->as_today       ? "v2"
                                                 : NULL,
                       options->model_file));
    model->shift = (int32_t)specials;
    for (int32_t id = 0; id < specials; id++) {
        char *name = id < named ? memory_string(names[id]) : memory_printf("<SPECIAL_%" PRId32 ">", id);
        int status = add_special(model, name, id, options->model_file);
        free(name);
        TRY(status);
    }
    tokenizer->eod = 2;
    return 0;
}

static void build_special_trie(struct tiktoken_model *model) {
    struct trie_key *keys = memory_alloc((size_t)(model->specials.count + 1) * sizeof *keys);
    for (int64_t i = 0; i < model->specials.count; i++) {
        const struct byte_string *string = &model->specials.strings[i];
        keys[i] = (struct trie_key){model->specials.bytes.data + string->begin, string->length, string->id};
        model->begins_special[(unsigned char)keys[i].text[0]] = true;
    }
    trie_build(&model->special_trie, keys, model->specials.count);
    free(keys);
}

static void model_free(struct tiktoken_model *model) {
    free(model->bpe.pairs);
    free(model->bpe.begin);
    free(model->bpe.bytes);
    byte_table_free(&model->ranks.tokens);
    byte_table_free(&model->specials);
    trie_free(&model->special_trie);
    free(model->table);
    free(model);
}

static bool is_json(const struct file_map *file) {
    for (size_t i = 0; i < file->size; i++)
        if (file->data[i] != ' ' && file->data[i] != '\n' && file->data[i] != '\r' && file->data[i] != '\t')
            return file->data[i] == '[';
    return false;
}

static int tiktoken_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (!options->model_file)
        return error_set_code(EXIT_CODE_USAGE, "TikTokenizer needs --tokenizer-model FILE, a rank file of tiktoken or "
                                               "Megatron's JSON list");
    struct file_map file;
    TRY(file_map_open(&file, options->model_file));
    struct tiktoken_model *model = tokenizer->model = memory_alloc(sizeof *model);
    int status = is_json(&file) ? open_megatron(tokenizer, options, &file) : open_ranks(tokenizer, options, &file);
    file_map_close(&file);
    if (status == 0)
        status = tiktoken_build(&model->bpe, &model->ranks, model->shift, options->model_file);
    if (status < 0) {
        model_free(model);
        tokenizer->model = NULL;
        return -1;
    }
    model->table = split_table_create();
    if (options->as_today)
        build_special_trie(model);
    return 0;
}

static void tiktoken_close(struct tokenizer *tokenizer) {
    model_free(tokenizer->model);
}

// ---- encoding ----

static int state_create(const struct tokenizer *tokenizer, void **opaque) {
    (void)tokenizer;
    struct tiktoken_state *state = memory_alloc(sizeof *state);
    piece_cache_create(&state->cache);
    *opaque = state;
    return 0;
}

static void state_free(void *opaque) {
    struct tiktoken_state *state = opaque;
    piece_cache_free(&state->cache);
    merge_scratch_free(&state->scratch);
    free(state);
}

static int encode_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                        struct token_list *out) {
    const struct tiktoken_model *model = opaque;
    struct tiktoken_state *state = opaque_state;
    int32_t rank = byte_table_find(&model->ranks.tokens, piece, length);
    if (rank >= 0) {
        token_list_append(out, rank + model->shift);
        return 0;
    }
    return merge_bytes(&model->bpe, &state->scratch, piece, length, out);
}

static int encode_ordinary(const struct tiktoken_model *model, struct tiktoken_state *state, const char *begin,
                           const char *end, struct token_list *out) {
    struct piece_model pieces = {.rules = &model->rules, .table = model->table, .encode = encode_piece, .model = model};
    return piece_encode(&pieces, &state->cache, state, begin, (size_t)(end - begin), out);
}

static int encode(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                  struct token_list *out) {
    const struct tiktoken_model *model = tokenizer->model;
    const char *begin = text, *end = text + length;
    for (const char *at = text; model->special_trie.size && at < end; at++) {
        if (!model->begins_special[(unsigned char)*at])
            continue;
        struct trie_match match = trie_longest(&model->special_trie, at, (size_t)(end - at));
        if (match.length == 0)
            continue;
        TRY(encode_ordinary(model, state, begin, at, out));
        token_list_append(out, match.value);
        begin = at + match.length;
        at = begin - 1;
    }
    return encode_ordinary(model, state, begin, end, out);
}

// ---- decoding ----

static const struct byte_string *find_special(const struct tiktoken_model *model, int32_t id) {
    for (int64_t i = 0; i < model->specials.count; i++)
        if (model->specials.strings[i].id == id)
            return &model->specials.strings[i];
    return NULL;
}

static int decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    const struct tiktoken_model *model = tokenizer->model;
    for (int64_t i = 0; i < count; i++) {
        bool ordinary = ids[i] < model->bpe.vocab_size;
        size_t begin = ordinary ? model->bpe.begin[ids[i]] : 0, end = ordinary ? model->bpe.begin[ids[i] + 1] : 0;
        const struct byte_string *special = begin == end ? find_special(model, ids[i]) : NULL;
        if (special)
            buffer_append(out, model->specials.bytes.data + special->begin, special->length);
        else if (begin < end)
            buffer_append(out, model->bpe.bytes + begin, end - begin);
        else
            return error_set_code(EXIT_CODE_BAD_DATA,
                                  "no token has id %" PRId32 " (number %" PRId64
                                  "); decode with the tokenizer that made the ids",
                                  ids[i], i);
    }
    return 0;
}

// Of special tokens the name, of others the bytes.
static const char *token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct tiktoken_model *model = tokenizer->model;
    if (id < model->bpe.vocab_size && model->bpe.begin[id] < model->bpe.begin[id + 1]) {
        *length = model->bpe.begin[id + 1] - model->bpe.begin[id];
        return (const char *)model->bpe.bytes + model->bpe.begin[id];
    }
    const struct byte_string *special = find_special(model, id);
    *length = special ? special->length : 0;
    return special ? model->specials.bytes.data + special->begin : NULL;
}

static int describe(const struct tokenizer *tokenizer, struct hf_parts *parts) {
    const struct tiktoken_model *model = tokenizer->model;
    for (int64_t i = 0; i < model->specials.count; i++) {
        const struct byte_string *special = &model->specials.strings[i];
        const char *name = model->specials.bytes.data + special->begin;
        hf_parts_add(parts, name, special->length, special->id);
        if (special->length == 5 && memcmp(name, "<unk>", 5) == 0)
            parts->unknown = special->id;
    }
    hf_write_byte_model(parts, &(struct hf_byte_model){.bpe = &model->bpe, .ignore_merges = true});
    struct buffer pattern = {0};
    buffer_append_string(&pattern, model->pattern_text);
    struct json_writer json = hf_part(&parts->pre_tokenizer);
    hf_begin_sequence(&json, "pretokenizers");
    hf_step_split(&json, &pattern, "Isolated");
    hf_step_byte_level(&json, false, false);
    hf_end_sequence(&json);
    buffer_free(&pattern);
    return 0;
}

const struct tokenizer_kind tokenizer_kind_tiktoken = {
    .name = "TikTokenizer",
    .open = tiktoken_open,
    .close = tiktoken_close,
    .state_create = state_create,
    .state_free = state_free,
    .encode = encode,
    .decode = decode,
    .token = token,
    .describe = describe,
};
