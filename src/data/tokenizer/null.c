// NullTokenizer: the text consists of ids, decimal numbers separated by spaces, for data that was tokenized elsewhere.
// --vocab-size N gives ids 0…N-1 and one more, N, that ends a document, as in Megatron up to core 0.14. With
// --null-tokenizer-eod-id E there are N ids in total, and E ends a document, as in later versions.
#include "data/tokenizer/kind.h"
#include "base/error.h"
#include <inttypes.h>

static int null_open(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    if (options->vocab_size < 1 || options->vocab_size >= INT32_MAX)
        return error_set_code(EXIT_CODE_USAGE, "NullTokenizer needs --vocab-size N, 1 <= N < %d", INT32_MAX);
    tokenizer->vocab_size = options->vocab_size + 1;
    tokenizer->eod = (int32_t)options->vocab_size;
    if (options->null_eod_given) {
        if (options->null_eod_id < 0 || options->null_eod_id >= options->vocab_size)
            return error_set_code(EXIT_CODE_USAGE,
                                  "--null-tokenizer-eod-id %" PRId64 " is not in [0, --vocab-size %" PRId64 ")",
                                  options->null_eod_id, options->vocab_size);
        tokenizer->vocab_size = options->vocab_size;
        tokenizer->eod = (int32_t)options->null_eod_id;
    }
    return 0;
}

static int null_encode(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                       struct token_list *out) {
    (void)state;
    size_t at = 0;
    while (at < length) {
        char byte = text[at];
        if (byte == ' ' || (byte >= '\t' && byte <= '\r')) {
            at++;
            continue;
        }
        int64_t id = 0;
        size_t begin = at;
        while (at < length && text[at] >= '0' && text[at] <= '9' && id < tokenizer->vocab_size)
            id = id * 10 + (text[at++] - '0');
        if (at == begin || (at < length && text[at] != ' ' && (text[at] < '\t' || text[at] > '\r')) ||
            id >= tokenizer->vocab_size)
            return error_set_code(EXIT_CODE_BAD_DATA,
                                  "byte %zu of the text is not part of a token id in [0, %" PRId64
                                  "); NullTokenizer takes decimal ids separated by spaces",
                                  begin, tokenizer->vocab_size);
        token_list_append(out, (int32_t)id);
    }
    return 0;
}

static int null_decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out) {
    (void)tokenizer;
    for (int64_t i = 0; i < count; i++)
        buffer_printf(out, "%s%" PRId32, i ? " " : "", ids[i]);
    return 0;
}

const struct tokenizer_kind tokenizer_kind_null = {
    .name = "NullTokenizer",
    .open = null_open,
    .encode = null_encode,
    .decode = null_decode,
};
