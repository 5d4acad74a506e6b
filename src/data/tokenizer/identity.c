// The identity of a tokenizer, as lines of text. See tokenizer.h.
#include "data/tokenizer/tokenizer.h"
#include "config/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// An unreadable file is not the tokenizer's: that is already open.
static void describe_file(struct buffer *out, const char *flag, const char *path) {
    char hex[65];
    if (!path)
        return;
    char *inner = file_is_folder(path) ? file_join(path, "tokenizer.json") : memory_string(path);
    if (sha256_file(inner, hex) == 0) {
        buffer_printf(out, "%s with SHA-256 %s\n", flag, hex);
    } else {
        error_clear();
        buffer_printf(out, "%s %s\n", flag, path);
    }
    free(inner);
}

void tokenizer_describe(struct buffer *out, const struct tokenizer_options *options) {
    const char *type = options->type ? options->type : "GPT2BPETokenizer";
    // The others have their own size.
    bool reads_size = strcmp(type, "NullTokenizer") == 0 || strcmp(type, "TikTokenizer") == 0;
    buffer_printf(out, "--tokenizer-type %s\n", type);
    describe_file(out, "--vocab-file", options->vocab_file);
    describe_file(out, "--merge-file", options->merge_file);
    describe_file(out, "--tokenizer-model", options->model_file);
    buffer_printf(out, "--vocab-size %" PRId64 "\n--null-tokenizer-eod-id %" PRId64 "\n--vocab-extra-ids %" PRId64 "\n",
                  reads_size ? options->vocab_size : 0, options->null_eod_id, options->extra_ids);
    buffer_printf(out, "--no-legacy-tokenizer %d\n--tokenizer-hf-no-include-special-tokens %d\n", options->as_today,
                  options->hf_without_specials);
    buffer_printf(out, "--tiktoken-pattern %s\n--tiktoken-num-special-tokens %" PRId64 "\n",
                  options->tiktoken_pattern ? options->tiktoken_pattern : "", options->tiktoken_specials);
    if (options->eod_token)
        buffer_printf(out, "--eod-token %s\n", options->eod_token);
}

void tokenizer_digest(const struct tokenizer *tokenizer, int64_t count, char hex[65]) {
    struct sha256 hash;
    unsigned char digest[32];
    struct buffer text = {0};
    sha256_init(&hash);
    for (int64_t i = 0; i < count; i++) {
        int32_t id = (int32_t)i;
        buffer_clear(&text);
        // An id may have no token.
        if (tokenizer_decode(tokenizer, &id, 1, &text) < 0)
            error_clear();
        uint64_t bytes = text.length;
        sha256_update(&hash, &bytes, sizeof bytes);
        sha256_update(&hash, buffer_string(&text), bytes);
    }
    sha256_final(&hash, digest);
    sha256_hex(digest, hex);
    buffer_free(&text);
}

static bool has_texts(const struct tokenizer *tokenizer) {
    return strcmp(tokenizer_type(tokenizer), "NullTokenizer") != 0;
}

void tokenizer_record(const struct tokenizer *tokenizer, char record[TOKENIZER_RECORD]) {
    char hex[65];
    *record = '\0';
    if (!has_texts(tokenizer))
        return;
    tokenizer_digest(tokenizer, tokenizer_vocab_size(tokenizer), hex);
    (void)snprintf(record, TOKENIZER_RECORD, "%" PRId64 " %s", tokenizer_vocab_size(tokenizer), hex);
}

bool tokenizer_fits(const struct tokenizer *tokenizer, const char *record) {
    char hex[65], *end;
    long long count = strtoll(record, &end, 10);
    if (!has_texts(tokenizer) || end == record || *end != ' ')
        return true;
    if (count > tokenizer_vocab_size(tokenizer))
        return false;
    tokenizer_digest(tokenizer, count, hex);
    return strcmp(end + 1, hex) == 0;
}

// The one place that takes a tokenizer from a configuration, so that training, generating and exporting open the same
// one.

struct tokenizer_options tokenizer_options_of(const struct config *config) {
    return (struct tokenizer_options){.type = config->data.tokenizer_type,
                                      .vocab_file = config->data.vocab_file,
                                      .merge_file = config->data.merge_file,
                                      .model_file = config->data.tokenizer_model,
                                      .vocab_size = config->data.vocab_size,
                                      .extra_ids = config->data.vocab_extra_ids,
                                      .as_today = config->data.no_legacy_tokenizer,
                                      .hf_without_specials = config->data.tokenizer_hf_no_include_special_tokens,
                                      .tiktoken_pattern = config->data.tiktoken_pattern,
                                      .tiktoken_specials = config->data.tiktoken_num_special_tokens,
                                      .null_eod_given = config->data.null_tokenizer_eod_id >= 0,
                                      .null_eod_id = config->data.null_tokenizer_eod_id,
                                      .needs_mask = config->model.form == CONFIG_BERT,
                                      .eod_token = config->data.eod_token};
}
