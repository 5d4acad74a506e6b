// Fill-in-the-middle samples. See source.h.
#include "data/sample/source.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

struct fim {
    struct sample_source source;
    const struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    uint64_t seed;
    uint32_t split;
    double rate, spm_rate, fragment_rate;
    char *no_prefix;
    int32_t prefix, middle, suffix, pad, eod;
    int32_t cut;       // --fim-split-sample; -1 for none
    bool *is_special;  // (vocab_size) tokens that are not part of a text
    // Scratch, for one sample.
    int32_t *tokens;               // (seq_length + 1)
    struct token_list kept, made;  // ordinary tokens of a text; the new sample
    struct buffer raw, text;
};

// The draws of one sample.
struct draws {
    uint64_t seed, sample;
    uint32_t split, count;
};

static uint32_t draw(struct draws *draws) {
    // The last word tells these draws from those of weights and dropout.
    const uint32_t purpose = 0xF111 << 8;
    struct philox random = philox4x32(draws->seed, (uint32_t)draws->sample, (uint32_t)(draws->sample >> 32),
                                      draws->count / 4, purpose | draws->split);
    return random.word[draws->count++ % 4];
}

static bool draw_chance(struct draws *draws, double rate) {
    return (double)draw(draws) * 0x1p-32 < rate;
}

// Uniform in [0, most].
static uint64_t draw_place(struct draws *draws, uint64_t most) {
    return ((uint64_t)draw(draws) * (most + 1)) >> 32;
}

static void append_ids(struct token_list *list, const int32_t *ids, int64_t count) {
    token_list_reserve(list, count);
    for (int64_t i = 0; i < count; i++)
        list->ids[list->count++] = ids[i];
}

// Decodes the ids without special tokens to fim->text, well-formed; *characters is their number.
static int read_text(struct fim *fim, const int32_t *ids, int64_t count, uint64_t *characters) {
    fim->kept.count = 0;
    for (int64_t i = 0; i < count; i++)
        if (ids[i] >= 0 && ids[i] < tokenizer_vocab_size(fim->tokenizer) && !fim->is_special[ids[i]])
            token_list_append(&fim->kept, ids[i]);
    buffer_clear(&fim->raw);
    buffer_clear(&fim->text);
    TRY(tokenizer_decode(fim->tokenizer, fim->kept.ids, fim->kept.count, &fim->raw));
    buffer_append_repaired(&fim->text, buffer_string(&fim->raw), fim->raw.length);
    *characters = 0;
    for (size_t at = 0; at < fim->text.length; at++)
        *characters += ((unsigned char)fim->text.data[at] & 0xC0) != 0x80;
    return 0;
}

// The byte where character number `place` begins, the end of the text if there is none.
static size_t byte_of(const struct buffer *text, uint64_t place) {
    size_t at = 0;
    for (; at < text->length; at++)
        if (((unsigned char)text->data[at] & 0xC0) != 0x80 && place-- == 0)
            break;
    return at;
}

static int encode_part(struct fim *fim, size_t from, size_t to) {
    return tokenizer_encode(fim->encoder, buffer_string(&fim->text) + from, to - from, &fim->made);
}

// Appends a text, permuted or unchanged, to fim->made.
static int permute(struct fim *fim, struct draws *draws, const int32_t *ids, int64_t count, double rate) {
    uint64_t characters;
    bool is_chosen = draw_chance(draws, rate);
    if (is_chosen)
        TRY(read_text(fim, ids, count, &characters));
    size_t known = fim->no_prefix ? strlen(fim->no_prefix) : 0;
    if (!is_chosen || (fim->no_prefix && known <= fim->text.length &&
                       memcmp(buffer_string(&fim->text), fim->no_prefix, known) == 0)) {
        append_ids(&fim->made, ids, count);
        return 0;
    }
    uint64_t first = draw_place(draws, characters), second = draw_place(draws, characters);
    size_t low = byte_of(&fim->text, first < second ? first : second),
           high = byte_of(&fim->text, first < second ? second : first);
    bool has_suffix_first = draw_chance(draws, fim->spm_rate);
    token_list_append(&fim->made, fim->prefix);
    if (!has_suffix_first)
        TRY(encode_part(fim, 0, low));
    token_list_append(&fim->made, fim->suffix);
    TRY(encode_part(fim, high, fim->text.length));
    token_list_append(&fim->made, fim->middle);
    if (has_suffix_first)
        TRY(encode_part(fim, 0, low));
    return encode_part(fim, low, high);
}

static int64_t find_id(const int32_t *ids, int64_t from, int64_t count, int32_t id) {
    while (from < count && ids[from] != id)
        from++;
    return from;
}

// Permutes a text as a whole or, if it has the token that separates fragments and is chosen, fragment by fragment. The
// part after the last separator is a fragment even if it is empty; other empty ones are dropped with their separator.
static int permute_text(struct fim *fim, struct draws *draws, const int32_t *ids, int64_t count) {
    int64_t begin = 0, end;
    if (fim->cut < 0 || find_id(ids, 0, count, fim->cut) == count)
        return permute(fim, draws, ids, count, fim->rate);
    if (!draw_chance(draws, fim->rate)) {
        append_ids(&fim->made, ids, count);
        return 0;
    }
    while ((end = find_id(ids, begin, count, fim->cut)) < count) {
        if (end > begin) {
            TRY(permute(fim, draws, ids + begin, end - begin, fim->fragment_rate));
            token_list_append(&fim->made, fim->cut);
        }
        begin = end + 1;
    }
    return permute(fim, draws, ids + begin, count - begin, fim->fragment_rate);
}

static int read_fim(void *context, int64_t sample, int32_t *tokens) {
    struct fim *fim = context;
    struct draws draws = {.seed = fim->seed, .sample = (uint64_t)sample, .split = fim->split};
    int64_t count = fim->source.seq_length + 1, begin = 0, end;
    TRY(fim->source.read(fim->source.context, sample, fim->tokens));
    // A negative id ends a sample that is shorter than others.
    int64_t length = find_id(fim->tokens, 0, count, -1);
    fim->made.count = 0;
    while ((end = find_id(fim->tokens, begin, length, fim->eod)) < length) {
        if (end > begin) {
            TRY(permute_text(fim, &draws, fim->tokens + begin, end - begin));
            token_list_append(&fim->made, fim->eod);
        }
        begin = end + 1;
    }
    TRY(permute_text(fim, &draws, fim->tokens + begin, length - begin));
    for (int64_t i = 0; i < count; i++)
        tokens[i] = i >= length ? fim->tokens[i] : i < fim->made.count ? fim->made.ids[i] : fim->pad;
    return 0;
}

static int find_token(const struct tokenizer *tokenizer, const char *flag, const char *text, int32_t *id) {
    size_t length, wanted = strlen(text);
    for (*id = 0; *id < tokenizer_vocab_size(tokenizer); ++*id) {
        const char *name = tokenizer_token(tokenizer, *id, &length);
        if (name && length == wanted && memcmp(name, text, length) == 0)
            return 0;
    }
    return error_set_code(EXIT_CODE_USAGE,
                          "%s %s is not a token of this tokenizer; give one that is (`bevatron tokenizer inspect "
                          "--tokens` lists them), or add it to the tokenizer",
                          flag, text);
}

static int find_tokens(struct fim *fim, const struct fim_options *options) {
    TRY(find_token(fim->tokenizer, "--fim-prefix-token", options->prefix_token, &fim->prefix));
    TRY(find_token(fim->tokenizer, "--fim-middle-token", options->middle_token, &fim->middle));
    TRY(find_token(fim->tokenizer, "--fim-suffix-token", options->suffix_token, &fim->suffix));
    TRY(find_token(fim->tokenizer, "--fim-pad-token", options->pad_token, &fim->pad));
    TRY(find_token(fim->tokenizer, "--fim-eod-token", options->eod_token, &fim->eod));
    if (options->split_token)
        TRY(find_token(fim->tokenizer, "--fim-split-sample", options->split_token, &fim->cut));
    TRY(tokenizer_list_special(fim->tokenizer, fim->is_special));
    return tokenizer_encoder_create(&fim->encoder, fim->tokenizer);
}

int fim_open(struct fim **fim, const struct fim_options *options) {
    *fim = memory_alloc(sizeof **fim);
    **fim = (struct fim){.source = options->source,
                         .tokenizer = options->tokenizer,
                         .seed = options->seed,
                         .split = (uint32_t)options->split,
                         .rate = options->rate,
                         .spm_rate = options->spm_rate,
                         .fragment_rate = options->fragment_rate,
                         .no_prefix = options->no_prefix ? memory_string(options->no_prefix) : NULL,
                         .cut = -1};
    (*fim)->is_special = memory_alloc((size_t)tokenizer_vocab_size(options->tokenizer) * sizeof(bool));
    (*fim)->tokens = memory_alloc((size_t)(options->source.seq_length + 1) * sizeof(int32_t));
    if (find_tokens(*fim, options) == 0)
        return 0;
    fim_close(*fim);
    *fim = NULL;
    return -1;
}

void fim_close(struct fim *fim) {
    if (!fim)
        return;
    tokenizer_encoder_free(fim->encoder);
    token_list_free(&fim->kept);
    token_list_free(&fim->made);
    buffer_free(&fim->raw);
    buffer_free(&fim->text);
    free(fim->no_prefix);
    free(fim->is_special);
    free(fim->tokens);
    free(fim);
}

struct sample_source fim_source(struct fim *fim) {
    struct sample_source source = fim->source;
    source.context = fim;
    source.read = read_fim;
    return source;
}
