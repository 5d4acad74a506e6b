// GPT2BPETokenizer and BertWordPiece* with --no-legacy-tokenizer: the tokenizer.json that Hugging Face's library
// makes of their files, written in memory and opened.
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/hf.h"
#include "data/tokenizer/hf_save.h"
#include "data/tokenizer/hf_tokenizer.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/whole.h"
#include "base/error.h"
#include "base/file.h"
#include <string.h>

// Megatron adds these to the cased vocabulary, whatever --vocab-extra-ids says.
enum { EXTRA_IDS = 100, LARGEST_FILE = 1 << 28 };

// The library takes any two files; here they must belong together and be whole.
static int check_gpt2(const struct tokenizer_options *options) {
    struct vocabulary vocabulary;
    struct bpe *bpe = NULL;
    TRY(vocabulary_read_json(&vocabulary, options->vocab_file));
    int status = bpe_open(&bpe, &vocabulary, options->vocab_file, options->merge_file);
    vocabulary_free(&vocabulary);
    bpe_free(bpe);
    return status;
}

int hf_tokenizer_open_gpt2(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    struct buffer text = {0};
    TRY(check_gpt2(options));
    int status = hf_write_bpe(options->vocab_file, options->merge_file, &text);
    if (status == 0)
        status = hf_tokenizer_open_text(tokenizer, options, &text, options->vocab_file);
    buffer_free(&text);
    return status;
}

// ---- BERT ----

static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

static void write_added(struct json_writer *json, const char *name) {
    json_begin_object(json);
    json_key(json, "content");
    json_cstring(json, name);
    json_key(json, "normalized");
    json_bool(json, false);
    json_key(json, "special");
    json_bool(json, true);
    json_end_object(json);
}

// A line is a token, but for its line end; of equal lines the last one counts, which is entered alone.
static int write_vocab(struct json_writer *json, const struct buffer *lines, struct byte_table *tokens,
                       const char *name) {
    const char *at = buffer_string(lines), *end = at + lines->length;
    for (int32_t id = 0; at < end; id++) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((next ? next : end) - at);
        byte_table_set(tokens, at, length > 0 && at[length - 1] == '\r' ? length - 1 : length, id);
        at = next ? next + 1 : end;
    }
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
        if (byte_table_find(tokens, specials[i], strlen(specials[i])) < 0)
            return error_set("%s: has no line %s, which BERT needs; use the vocab.txt of a BERT model", name,
                             specials[i]);
    json_key(json, "vocab");
    json_begin_object(json);
    struct buffer key = {0};
    for (int64_t i = 0; i < tokens->count; i++) {
        const struct byte_string *token = &tokens->strings[i];
        buffer_clear(&key);
        buffer_append(&key, tokens->bytes.data + token->begin, token->length);
        json_key(json, buffer_string(&key));
        json_int(json, token->id);
    }
    buffer_free(&key);
    json_end_object(json);
    return 0;
}

static void write_pair(struct json_writer *json, const char *key, const char *name, const struct byte_table *tokens) {
    json_key(json, key);
    json_begin_array(json);
    json_cstring(json, name);
    json_int(json, byte_table_find(tokens, name, strlen(name)));
    json_end_array(json);
}

static void write_type(struct json_writer *json, const char *key, const char *type) {
    json_key(json, key);
    json_begin_object(json);
    json_key(json, "type");
    json_cstring(json, type);
}

static int write_bert(struct buffer *out, const struct buffer *lines, bool lower, const char *name) {
    struct json_writer json = {.out = out};
    struct byte_table tokens = {0};
    json_begin_object(&json);
    write_type(&json, "model", "WordPiece");
    json_key(&json, "unk_token");
    json_cstring(&json, "[UNK]");
    int status = write_vocab(&json, lines, &tokens, name);
    json_end_object(&json);
    write_type(&json, "normalizer", "BertNormalizer");
    json_key(&json, "lowercase");
    json_bool(&json, lower);
    json_end_object(&json);
    write_type(&json, "pre_tokenizer", "BertPreTokenizer");
    json_end_object(&json);
    write_type(&json, "post_processor", "BertProcessing");
    write_pair(&json, "sep", "[SEP]", &tokens);
    write_pair(&json, "cls", "[CLS]", &tokens);
    json_end_object(&json);
    write_type(&json, "decoder", "WordPiece");
    json_key(&json, "prefix");
    json_cstring(&json, "##");
    json_end_object(&json);
    json_key(&json, "added_tokens");
    json_begin_array(&json);
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
        write_added(&json, specials[i]);
    for (int i = 0; !lower && i < EXTRA_IDS; i++) {
        struct buffer extra = {0};
        buffer_printf(&extra, "<extra_id_%d>", i);
        write_added(&json, extra.data);
        buffer_free(&extra);
    }
    json_end_array(&json);
    json_end_object(&json);
    byte_table_free(&tokens);
    return status;
}

int hf_tokenizer_open_bert(struct tokenizer *tokenizer, const struct tokenizer_options *options, bool lower) {
    struct buffer lines = {0}, text = {0};
    int status = file_read_all(options->vocab_file, LARGEST_FILE, &lines);
    if (status == 0)
        status = whole_check_end(buffer_string(&lines), lines.length, options->vocab_file);
    if (status == 0)
        status = whole_check_known(buffer_string(&lines), lines.length, options->vocab_file, options->vocab_size);
    if (status == 0)
        status = write_bert(&text, &lines, lower, options->vocab_file);
    if (status == 0)
        status = hf_tokenizer_open_text(tokenizer, options, &text, options->vocab_file);
    if (status == 0) {  // Megatron takes [SEP] for the end where a tokenizer names none
        const struct hf *hf = hf_tokenizer_hf(tokenizer);
        tokenizer->eod = byte_table_find(&hf->vocab, "[SEP]", 5);
    }
    buffer_free(&lines);
    buffer_free(&text);
    return status;
}
