// TikTokenizer: rank files of tiktoken, Megatron's JSON form of them, and Mistral's tekken.json. As in Megatron up to
// core 0.14, text that reads like a special token is ordinary text (tiktoken's encode_ordinary); with
// --no-legacy-tokenizer it is that token. Bytes that are not UTF-8 are encoded as they are, so every byte string
// decodes to itself.
#include "data/tokenizer/tiktoken.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/piece_encode.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// ---- encoding ----

static void tiktoken_close(struct tokenizer *tokenizer) {
    tiktoken_model_free(tokenizer->model);
}

static int encode_piece(const void *opaque, void *opaque_state, const unsigned char *piece, size_t length,
                        struct token_list *out) {
    const struct tiktoken_model *model = opaque;
    struct piece_state *state = opaque_state;
    int32_t rank = byte_table_find(&model->ranks.tokens, piece, length);
    if (rank >= 0) {
        token_list_append(out, rank + model->shift);
        return 0;
    }
    return merge_bytes(&model->bpe, &state->merge, piece, length, out);
}

// Pieces are the matches of the pattern; as in tiktoken, text between matches is dropped.
static int encode_matches(const struct tiktoken_model *model, struct piece_state *state, const char *text,
                          size_t length, struct token_list *out) {
    const unsigned char *bytes = (const unsigned char *)text;
    struct pattern_match match;
    uint32_t character;
    for (size_t from = 0; from < length;) {
        int found = pattern_find(model->pattern, &state->pattern, bytes, length, from, &match);
        if (found != 1)
            return found;
        if (match.begin < match.end)
            TRY(encode_piece(model, state, bytes + match.begin, match.end - match.begin, out));
        from = match.end;
        if (match.begin == match.end && from < length)
            from += utf8_decode(bytes + from, length - from, &character, NULL);
    }
    return 0;
}

static int encode_ordinary(const struct tiktoken_model *model, struct piece_state *state, const char *begin,
                           const char *end, struct token_list *out) {
    if (!model->splitter)
        return encode_matches(model, state, begin, (size_t)(end - begin), out);
    struct piece_model pieces = {.splitter = model->splitter, .encode = encode_piece, .model = model};
    return piece_encode(&pieces, &state->cache, state, begin, (size_t)(end - begin), out);
}

static int encode(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                  struct token_list *out) {
    const struct tiktoken_model *model = tokenizer->model;
    const char *begin = text, *end = text + length;
    for (const char *at = text; model->special_trie.size && at < end; at++) {
        if (!model->begins_special[(unsigned char)*at])
            continue;
        struct trie_match match = trie_longest(&model->special_trie, at, (size_t)(end - at), INT_MAX);
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
        if (model->specials.strings[i].value == id)
            return &model->specials.strings[i];
    return NULL;
}

// The name of a special token, the bytes of any other.
static const char *token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct tiktoken_model *model = tokenizer->model;
    const char *bytes = id < model->bpe.vocab_size ? bpe_token(&model->bpe, id, length) : NULL;
    if (bytes)
        return bytes;
    const struct byte_string *special = find_special(model, id);
    *length = special ? special->length : 0;
    return special ? byte_table_text(&model->specials, special) : NULL;
}

static int decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    const struct tiktoken_model *model = tokenizer->model;
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *text = token(tokenizer, ids[i], &length);
        if (text)
            buffer_append(out, text, length);
        else if (model->ranks.empty < 0 || ids[i] != model->ranks.empty + model->shift)
            return tokenizer_no_token(ids[i], i);
    }
    return 0;
}

static int describe(const struct tokenizer *tokenizer, struct hf_parts *parts) {
    const struct tiktoken_model *model = tokenizer->model;
    for (int64_t i = 0; i < model->specials.count; i++) {
        const struct byte_string *special = &model->specials.strings[i];
        const char *name = model->specials.bytes.data + special->begin;
        hf_parts_add(parts, name, special->length, (int32_t)special->value);
        if (special->length == 5 && memcmp(name, "<unk>", 5) == 0)
            parts->unknown = (int32_t)special->value;
    }
    hf_write_byte_model(parts, &(struct hf_byte_model){.bpe = &model->bpe, .ignore_merges = true});
    struct buffer pattern = {0};
    buffer_append_string(&pattern, model->pattern_text);
    struct json_writer json = hf_part(&parts->pre_tokenizer);
    hf_begin_sequence(&json, "pretokenizers");
    if (!model->splitter)  // text that a custom pattern does not match is dropped
        hf_step_split(&json, &pattern, "Removed", true);
    else
        hf_step_split(&json, &pattern, "Isolated", false);
    hf_step_byte_level(&json, false, false);
    hf_end_sequence(&json);
    buffer_free(&pattern);
    return 0;
}

const struct tokenizer_kind tokenizer_kind_tiktoken = {
    .name = "TikTokenizer",
    .open = tiktoken_open,
    .close = tiktoken_close,
    .state_create = piece_state_create,
    .state_free = piece_state_free,
    .encode = encode,
    .decode = decode,
    .token = token,
    .describe = describe,
};

// ---- opening ----

// Opens rank files and Megatron's list: how common files split text, the pattern, the special tokens, and whether the
// file is complete.

// ---- known files ----

static const struct tiktoken_special gpt2_specials[] = {{"<|endoftext|>", 50256}};
static const struct tiktoken_special whisper_specials[] = {{"<|endoftext|>", 50257}};
static const struct tiktoken_special cl100k_specials[] = {
    {"<|endoftext|>", 100257},  {"<|fim_prefix|>", 100258},  {"<|fim_middle|>", 100259},
    {"<|fim_suffix|>", 100260}, {"<|endofprompt|>", 100276},
};
static const struct tiktoken_special o200k_specials[] = {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}};
static const struct tiktoken_special llama3_specials[] = {
    {"<|begin_of_text|>", 128000},
    {"<|end_of_text|>", 128001},
    {"<|reserved_special_token_0|>", 128002},
    {"<|reserved_special_token_1|>", 128003},
    {"<|reserved_special_token_2|>", 128004},
    {"<|reserved_special_token_3|>", 128005},
    {"<|start_header_id|>", 128006},
    {"<|end_header_id|>", 128007},
    {"<|reserved_special_token_4|>", 128008},
    {"<|eot_id|>", 128009},
};
static const struct tiktoken_special qwen_specials[] = {
    {"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}};

#define SPECIALS(list) list, sizeof list / sizeof list[0]
static const struct tiktoken_known known_files[] = {
    {"r50k_base", 50256, "gpt2", 50257, "<|endoftext|>", SPECIALS(gpt2_specials), NULL, 0, 0, 0},
    {"Whisper, English", 50256, "gpt2", 51864, "<|endoftext|>", SPECIALS(gpt2_specials), NULL, 50257, 0, 99},
    {"Whisper", 50257, "gpt2", 51865, "<|endoftext|>", SPECIALS(whisper_specials), NULL, 50258, 0, 99},
    {"Whisper, large-v3", 50257, "gpt2", 51866, "<|endoftext|>", SPECIALS(whisper_specials), NULL, 50258, 0, 100},
    {"p50k_base", 50280, "gpt2", 50281, "<|endoftext|>", SPECIALS(gpt2_specials), NULL, 0, 0, 0},
    {"cl100k_base", 100256, "cl100k", 100277, "<|endoftext|>", SPECIALS(cl100k_specials), NULL, 0, 0, 0},
    {"o200k_base", 199998, "o200k", 200019, "<|endoftext|>", SPECIALS(o200k_specials), NULL, 0, 0, 0},
    {"Llama-3", 128000, "llama3", 128256, "<|end_of_text|>", SPECIALS(llama3_specials), "<|reserved_special_token_%d|>",
     128010, 5, 0},
    {"Qwen", 151643, "qwen", 151851, "<|endoftext|>", SPECIALS(qwen_specials), "<|extra_%d|>", 151646, 0, 0},
};

const struct tiktoken_known *tiktoken_find_known(int64_t rank_count, int64_t vocab_size) {
    const struct tiktoken_known *found = NULL;
    for (size_t i = 0; i < sizeof known_files / sizeof known_files[0]; i++)
        if (known_files[i].rank_count == rank_count && (!found || known_files[i].vocab_size == vocab_size))
            found = &known_files[i];
    return found;
}

// ---- Whisper ----

// Its languages in order.
static const char languages[] = "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu "
                                "ta no th ur hr bg lt la mi ml cy "
                                "sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo "
                                "so af oc ka be tg sd gu am yi lo "
                                "uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue";
static const char *const tasks[] = {"translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"};
enum { TASKS = sizeof tasks / sizeof tasks[0], TIMES = 1501 };

int32_t tiktoken_whisper_count(const struct tiktoken_known *whisper) {
    return whisper->languages ? 1 + whisper->languages + TASKS + TIMES : 0;
}

char *tiktoken_whisper_name(const struct tiktoken_known *whisper, int32_t number) {
    if (number == 0)
        return memory_string("<|startoftranscript|>");
    const char *at = languages;
    for (int i = 1; i < number && i <= whisper->languages && at; i++)
        at = strchr(at + 1, ' ');
    if (number <= whisper->languages) {
        at += *at == ' ';
        return memory_printf("<|%.*s|>", (int)strcspn(at, " "), at);
    }
    number -= 1 + whisper->languages;
    if (number < TASKS)
        return memory_printf("<|%s|>", tasks[number]);
    int32_t hundredths = 2 * (number - TASKS);
    return memory_printf("<|%" PRId32 ".%02" PRId32 "|>", hundredths / 100, hundredths % 100);
}

// ---- opening ----

enum { MEGATRON_VOCAB_SIZE = 1 << 17 };

int tiktoken_add_special(struct tiktoken_model *model, const char *name, int32_t id, const char *path) {
    if (byte_table_add(&model->specials, name, strlen(name), id) < 0)
        return error_set("%s: the special token %s occurs twice", path, name);
    return 0;
}

int tiktoken_add_made(struct tiktoken_model *model, char *name, int32_t id, const char *path) {
    int status = tiktoken_add_special(model, name, id, path);
    free(name);
    return status;
}

static void add_reserved(struct tiktoken_model *model, const struct tiktoken_known *known) {
    for (int32_t id = known->first_reserved; known->reserved && id < known->vocab_size; id++) {
        const char *number = strstr(known->reserved, "%d");
        char *name = memory_printf("%.*s%" PRId32 "%s", (int)(number - known->reserved), known->reserved,
                                   known->reserved_number + (id - known->first_reserved), number + 2);
        CHECK(tiktoken_add_made(model, name, id, known->name) == 0);
    }
}

int tiktoken_choose_pattern(struct tiktoken_model *model, const char *text, const char *name) {
    const struct split_pattern *known = split_pattern_by_name(text);
    if (!known)
        known = split_pattern_by_text(text, strlen(text));
    if (known) {
        model->splitter = splitter_create(known);
        model->pattern_text = memory_string(known->texts[0]);
        return 0;
    }
    model->pattern_text = memory_string(text);
    TRY(pattern_compile(&model->pattern, PATTERN_RUST, text, strlen(text), name));
    model->splitter = splitter_create_pattern(model->pattern, NULL);
    if (model->splitter && !splitter_covers(model->splitter)) {
        splitter_free(model->splitter);
        model->splitter = NULL;
    }
    return 0;
}

// --tiktoken-pattern, else that of a known file.
static int choose_pattern(struct tiktoken_model *model, const struct tokenizer_options *options, const char *known) {
    const char *given = options->tiktoken_pattern;
    if (!given && !known)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s: its %" PRId64 " ranks are not those of a known rank file; give --tiktoken-pattern "
                              "gpt2, cl100k, llama3, qwen, o200k, v1, v2 or a regular expression",
                              options->model_file, model->ranks.count);
    if (given && !split_pattern_by_name(given) && !strpbrk(given, "\\[(|"))
        return error_set_code(
            EXIT_CODE_USAGE,
            "unknown --tiktoken-pattern %s; use gpt2, cl100k, llama3, qwen, o200k, v1, v2 or a regular expression",
            given);
    return tiktoken_choose_pattern(model, given ? given : known, given ? "--tiktoken-pattern" : options->model_file);
}

// A rank file truncated between two lines looks like a small one. A file known to be longer is refused; custom files
// are checked against --vocab-size, if given.
static int check_whole(const struct tiktoken_model *model, const struct tokenizer_options *options,
                       const struct file_map *file, const struct tiktoken_known *known) {
    int64_t count = model->ranks.count;
    TRY(whole_check_known((const char *)file->data, file->size, options->model_file, options->vocab_size));
    if (known)
        return 0;
    if (options->vocab_size && options->vocab_size != count)
        return error_set("%s has %" PRId64 " ranks, but --vocab-size says %" PRId64
                         "; give the number of its ranks, or copy it again if it is truncated",
                         options->model_file, count, options->vocab_size);
    if (!options->vocab_size)
        log_info("note: %s has %" PRId64 " ranks and is not a known file; with --vocab-size %" PRId64
                 " a truncated copy would be noticed",
                 options->model_file, count, count);
    return 0;
}

static int open_ranks(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                      const struct file_map *file) {
    struct tiktoken_model *model = tokenizer->model;
    const char *path = options->model_file;
    TRY(tiktoken_parse_ranks(&model->ranks, file->size ? (const char *)file->data : "", file->size, path));
    const struct tiktoken_known *known = tiktoken_find_known(model->ranks.count, options->vocab_size);
    TRY(choose_pattern(model, options, known ? known->pattern : NULL));
    TRY(check_whole(model, options, file, known));
    tokenizer->vocab_size = model->ranks.size;
    tokenizer->eod = -1;
    if (!known)
        return 0;
    for (size_t i = 0; i < known->special_count; i++) {
        TRY(tiktoken_add_special(model, known->specials[i].name, known->specials[i].id, path));
        if (strcmp(known->specials[i].name, known->end) == 0)
            tokenizer->eod = known->specials[i].id;
    }
    add_reserved(model, known);
    for (int32_t i = 0; i < tiktoken_whisper_count(known); i++)
        TRY(tiktoken_add_made(model, tiktoken_whisper_name(known, i), known->first_reserved + i, path));
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
    TRY(choose_pattern(model, options, options->as_today ? "v2" : NULL));
    model->shift = (int32_t)specials;
    for (int32_t id = 0; id < specials; id++) {
        char *name = id < named ? memory_string(names[id]) : memory_printf("<SPECIAL_%" PRId32 ">", id);
        TRY(tiktoken_add_made(model, name, id, options->model_file));
    }
    tokenizer->eod = 2;
    return 0;
}

static void build_special_trie(struct tiktoken_model *model) {
    struct trie_key *keys = memory_alloc((size_t)(model->specials.count + 1) * sizeof *keys);
    for (int64_t i = 0; i < model->specials.count; i++) {
        const struct byte_string *string = &model->specials.strings[i];
        keys[i] = (struct trie_key){model->specials.bytes.data + string->begin, string->length, (int32_t)string->value};
        model->begins_special[(unsigned char)keys[i].text[0]] = true;
    }
    trie_build(&model->special_trie, keys, model->specials.count);
    free(keys);
}

void tiktoken_model_free(struct tiktoken_model *model) {
    free(model->bpe.pairs);
    free(model->bpe.begin);
    free(model->bpe.bytes);
    byte_table_free(&model->ranks.tokens);
    byte_table_free(&model->specials);
    trie_free(&model->special_trie);
    pattern_free(model->pattern);
    free(model->pattern_text);
    splitter_free(model->splitter);
    free(model);
}

// The first character that is not a space, 0 if there is none.
static char first_character(const struct file_map *file) {
    for (size_t i = 0; i < file->size; i++)
        if (file->data[i] != ' ' && file->data[i] != '\n' && file->data[i] != '\r' && file->data[i] != '\t')
            return (char)file->data[i];
    return 0;
}

int tiktoken_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (!options->model_file)
        return error_set_code(EXIT_CODE_USAGE, "TikTokenizer needs --tokenizer-model FILE, a tiktoken rank file, "
                                               "Mistral's tekken.json or Megatron's JSON list");
    struct file_map file;
    TRY(file_map_open(&file, options->model_file));
    struct tiktoken_model *model = tokenizer->model = memory_alloc(sizeof *model);
    model->ranks.empty = -1;
    char first = first_character(&file);
    int status = first == '{'   ? tiktoken_open_tekken(tokenizer, options, &file)
                 : first == '[' ? open_megatron(tokenizer, options, &file)
                                : open_ranks(tokenizer, options, &file);
    file_map_close(&file);
    if (status == 0)
        status = tiktoken_build(&model->bpe, &model->ranks, model->shift, options->model_file);
    if (status < 0) {
        tiktoken_model_free(model);
        tokenizer->model = NULL;
        return -1;
    }
    if (options->as_today)
        build_special_trie(model);
    return 0;
}
