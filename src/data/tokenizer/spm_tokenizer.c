// The three kinds of tokenizer that read a SentencePiece model. GPTSentencePieceTokenizer gives the ids of the model.
// Llama2Tokenizer puts the model's beginning-of-text id before them. SentencePieceTokenizer has additional tokens, see
// spm_model.h. This is Megatron up to core 0.14; since 0.15 (as_today) all three are like the first.
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/spm_model.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- special tokens ----

// Adds a token unless it was added before; returns its id.
static int32_t add(struct spm_specials *specials, const struct byte_table *pieces, const char *text, size_t length) {
    int64_t before = specials->tokens.count;
    struct byte_string *special = byte_table_get(&specials->tokens, text, length);
    if (specials->tokens.count > before) {
        int32_t piece = byte_table_find(pieces, text, length);
        special->value = piece >= 0 ? piece : specials->vocab_size++;
    }
    return (int32_t)special->value;
}

static void add_control(struct spm_specials *specials, const struct byte_table *pieces, const struct spm_model *model,
                        int32_t id, const char *instead) {
    if (id >= 0)
        add(specials, pieces, model->file.pieces[id].text.data, model->file.pieces[id].text.length);
    else
        add(specials, pieces, instead, strlen(instead));
}

static void add_all(struct spm_specials *specials, const struct byte_table *pieces, const struct spm_model *model,
                    int64_t extra_ids) {
    add(specials, pieces, "<CLS>", 5);
    add(specials, pieces, "<SEP>", 5);
    specials->end_of_document = add(specials, pieces, "<EOD>", 5);
    add(specials, pieces, "<MASK>", 6);
    add_control(specials, pieces, model, model->pad_id, "<PAD>");
    add_control(specials, pieces, model, model->bos_id, "<BOS>");
    add_control(specials, pieces, model, model->eos_id, "<EOS>");
    struct buffer name = {0};
    for (int64_t i = 0; i < extra_ids; i++) {
        buffer_clear(&name);
        buffer_printf(&name, "<extra_id_%" PRId64 ">", i);
        add(specials, pieces, name.data, name.length);
    }
    buffer_free(&name);
}

static void index_specials(struct spm_specials *specials) {
    const struct byte_table *tokens = &specials->tokens;
    struct trie_key *keys = memory_alloc((size_t)tokens->count * sizeof *keys);
    specials->by_id = memory_alloc((size_t)specials->vocab_size * sizeof *specials->by_id);
    memset(specials->by_id, 0xFF, (size_t)specials->vocab_size * sizeof *specials->by_id);
    specials->first_byte = (unsigned char)tokens->bytes.data[0];
    for (int64_t i = 0; i < tokens->count; i++) {
        const struct byte_string *special = &tokens->strings[i];
        keys[i] = (struct trie_key){byte_table_text(tokens, special), special->length, (int32_t)i};
        specials->by_id[special->value] = (int32_t)i;
        if ((unsigned char)keys[i].text[0] != specials->first_byte)
            specials->first_byte = -1;
    }
    trie_build(&specials->trie, keys, tokens->count);
    free(keys);
}

int spm_specials_create(struct spm_specials *specials, const struct spm_model *model, int64_t extra_ids,
                        const char *name) {
    int64_t piece_count = model->file.piece_count;
    *specials = (struct spm_specials){.vocab_size = (int32_t)piece_count};
    struct byte_table pieces = {0};
    bool is_unique = true;
    for (int64_t i = 0; is_unique && i < piece_count; i++)
        is_unique = byte_table_add(&pieces, model->file.pieces[i].text.data, model->file.pieces[i].text.length,
                                   (int32_t)i) == 0;
    if (is_unique) {
        add_all(specials, &pieces, model, extra_ids);
        index_specials(specials);
    }
    byte_table_free(&pieces);
    return is_unique ? 0
                     : error_set("%s: two of its pieces have the same text, so SentencePieceTokenizer would give two "
                                 "tokens one id; use GPTSentencePieceTokenizer",
                                 name);
}

void spm_specials_free(struct spm_specials *specials) {
    byte_table_free(&specials->tokens);
    free(specials->by_id);
    trie_free(&specials->trie);
    *specials = (struct spm_specials){0};
}

// The special token at the beginning of text; of several, the one added first; -1 if there is none.
static int32_t match(const struct trie *trie, const char *text, size_t length) {
    int32_t first = -1, node = TRIE_ROOT;
    for (size_t i = 0; i < length; i++) {
        node = trie_step(trie, node, (unsigned char)text[i]);
        if (node < 0)
            break;
        if (trie->values[node] >= 0 && (first < 0 || trie->values[node] < first))
            first = trie->values[node];
    }
    return first;
}

size_t spm_specials_find(const struct spm_specials *specials, const char *text, size_t length, int32_t *index) {
    for (size_t at = 0; at < length; at++) {
        if (specials->first_byte >= 0) {
            const char *found = memchr(text + at, specials->first_byte, length - at);
            if (!found)
                break;
            at = (size_t)(found - text);
        }
        *index = match(&specials->trie, text + at, length - at);
        if (*index >= 0)
            return at;
    }
    *index = -1;
    return length;
}

// ---- the kinds ----

struct spm_tokenizer {
    struct spm_model *model;
    bool begins;        // texts begin with the model's bos_id
    bool has_specials;  // and specials is filled
    struct spm_specials specials;
};

static int open_model(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (!options->model_file)
        return error_set_code(EXIT_CODE_USAGE, "%s needs --tokenizer-model FILE, a SentencePiece model",
                              tokenizer->kind->name);
    struct spm_model *model;
    TRY(spm_model_open(&model, options->model_file));
    struct spm_tokenizer *own = memory_alloc(sizeof *own);
    own->model = model;
    tokenizer->model = own;
    tokenizer->vocab_size = model->file.piece_count;
    tokenizer->eod = model->eos_id;
    return 0;
}

static void spm_close(struct tokenizer *tokenizer) {
    struct spm_tokenizer *own = tokenizer->model;
    spm_specials_free(&own->specials);
    spm_model_free(own->model);
    free(own);
    tokenizer->model = NULL;
}

// Only the classic SentencePieceTokenizer adds tokens.
static int refuse_extra_ids(const struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (options->extra_ids == 0)
        return 0;
    return error_set_code(
        EXIT_CODE_USAGE, "--vocab-extra-ids %" PRId64 ": %s%s adds no tokens; use SentencePieceTokenizer%s",
        options->extra_ids, tokenizer->kind->name, options->as_today ? " with --no-legacy-tokenizer" : "",
        options->as_today ? " without --no-legacy-tokenizer" : "");
}

static int gpt_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    TRY(refuse_extra_ids(tokenizer, options));
    return open_model(tokenizer, options);
}

static int llama2_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    TRY(refuse_extra_ids(tokenizer, options));
    TRY(open_model(tokenizer, options));
    struct spm_tokenizer *own = tokenizer->model;
    own->begins = !options->as_today;
    if (own->begins && own->model->bos_id < 0) {
        spm_close(tokenizer);
        return error_set(
            "%s has no beginning-of-text token (\"<s>\"), which Llama2Tokenizer adds; use GPTSentencePieceTokenizer",
            options->model_file);
    }
    return 0;
}

static int sentencepiece_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (options->as_today)
        return gpt_open(tokenizer, options);
    TRY(open_model(tokenizer, options));
    struct spm_tokenizer *own = tokenizer->model;
    if (spm_specials_create(&own->specials, own->model, options->extra_ids, options->model_file) < 0) {
        spm_close(tokenizer);
        return -1;
    }
    own->has_specials = true;
    tokenizer->vocab_size = own->specials.vocab_size;
    tokenizer->eod = own->specials.end_of_document;
    return 0;
}

static int spm_state_create(const struct tokenizer *tokenizer, void **state) {
    const struct spm_tokenizer *own = tokenizer->model;
    *state = spm_encoder_create(own->model);
    return 0;
}

static void spm_state_free(void *state) {
    spm_encoder_free(state);
}

static int spm_tokenizer_encode(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                                struct token_list *out) {
    const struct spm_tokenizer *own = tokenizer->model;
    if (own->begins)
        token_list_append(out, own->model->bos_id);
    while (own->has_specials) {
        int32_t index;
        size_t at = spm_specials_find(&own->specials, text, length, &index);
        if (index < 0)
            break;
        TRY(spm_encode(state, text, at, out));
        const struct byte_string *special = &own->specials.tokens.strings[index];
        token_list_append(out, (int32_t)special->value);
        text += at + special->length;
        length -= at + special->length;
    }
    return spm_encode(state, text, length, out);
}

// Megatron writes a special token with a space on each side.
static int spm_tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                struct buffer *out) {
    const struct spm_tokenizer *own = tokenizer->model;
    int64_t begin = 0;
    for (int64_t i = 0; own->has_specials && i < count; i++) {
        int32_t index = own->specials.by_id[ids[i]];
        if (index < 0)
            continue;
        const struct byte_string *special = &own->specials.tokens.strings[index];
        spm_decode(own->model, ids + begin, i - begin, out);
        buffer_append_byte(out, ' ');
        buffer_append(out, byte_table_text(&own->specials.tokens, special), special->length);
        buffer_append_byte(out, ' ');
        begin = i + 1;
    }
    spm_decode(own->model, ids + begin, count - begin, out);
    return 0;
}

static const char *spm_token(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct spm_tokenizer *own = tokenizer->model;
    if (own->has_specials && own->specials.by_id[id] >= 0) {
        const struct byte_string *special = &own->specials.tokens.strings[own->specials.by_id[id]];
        *length = special->length;
        return byte_table_text(&own->specials.tokens, special);
    }
    *length = own->model->file.pieces[id].text.length;
    return (const char *)own->model->file.pieces[id].text.data;
}

static int spm_tokenizer_describe(const struct tokenizer *tokenizer, struct hf_parts *parts) {
    const struct spm_tokenizer *own = tokenizer->model;
    parts->begins = own->begins;
    return spm_describe(own->model, own->has_specials ? &own->specials : NULL, parts);
}

#define SPM_KIND(type, opener)                                                                                         \
    {                                                                                                                  \
        .name = type, .open = opener, .close = spm_close, .state_create = spm_state_create,                            \
        .state_free = spm_state_free, .encode = spm_tokenizer_encode, .decode = spm_tokenizer_decode,                  \
        .token = spm_token, .describe = spm_tokenizer_describe,                                                        \
    }

const struct tokenizer_kind tokenizer_kind_sentencepiece = SPM_KIND("SentencePieceTokenizer", sentencepiece_open);
const struct tokenizer_kind tokenizer_kind_gpt_sentencepiece = SPM_KIND("GPTSentencePieceTokenizer", gpt_open);
const struct tokenizer_kind tokenizer_kind_llama2 = SPM_KIND("Llama2Tokenizer", llama2_open);
