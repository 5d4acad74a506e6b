// GPT2BPETokenizer and BertWordPiece* with --no-legacy-tokenizer: the tokenizer.json that Hugging Face's library
// makes of their files, written in memory and opened.
#include "data/tokenizer/hf.h"
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/hf_save.h"
#include "data/tokenizer/hf_tokenizer.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/whole.h"
#include "data/tokenizer/wordpiece_describe.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// Megatron adds these to the cased vocabulary, whatever --vocab-extra-ids says.
enum { EXTRA_IDS = 100, LARGEST_FILE = 1 << 28 };

int hf_tokenizer_open_gpt2(struct tokenizer *tokenizer, const struct tokenizer_options *options) {
    struct buffer text = {0};
    int status = hf_write_gpt2(options->vocab_file, options->merge_file, &text);
    if (status == 0)
        status = hf_tokenizer_open_text(tokenizer, options, &text, options->vocab_file);
    if (status == 0)
        hf_tokenizer_keep(tokenizer, &text);
    buffer_free(&text);
    return status;
}

// ---- BERT ----

static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

// A line is a token, but for its line end; of equal lines the last one counts, which is entered alone.
static int read_vocab(const struct buffer *lines, struct byte_table *tokens, const char *name) {
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
    return 0;
}

static void write_normalizer(struct hf_parts *parts, bool lower) {
    struct json_writer json = hf_part(&parts->normalizer);
    hf_step(&json, "BertNormalizer");
    hf_member_bool(&json, "clean_text", true);
    hf_member_bool(&json, "handle_chinese_chars", true);
    hf_member_null(&json, "strip_accents");
    hf_member_bool(&json, "lowercase", lower);
    json_end_object(&json);
    json = hf_part(&parts->pre_tokenizer);
    hf_step(&json, "BertPreTokenizer");
    json_end_object(&json);
}

static void describe_bert(const struct byte_table *tokens, bool lower, struct hf_parts *parts) {
    enum { MOST_CHARS = 100 };
    struct json_writer json = hf_part(&parts->model);
    wordpiece_begin_model(&json, MOST_CHARS);
    json_key(&json, "vocab");
    json_begin_object(&json);
    for (int64_t i = 0; i < tokens->count; i++)
        hf_vocab_entry(&json, tokens->bytes.data + tokens->strings[i].begin, tokens->strings[i].length,
                       tokens->strings[i].id);
    json_end_object(&json);
    json_end_object(&json);
    write_normalizer(parts, lower);
    wordpiece_write_decoder(parts, true);
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
        hf_parts_add(parts, specials[i], strlen(specials[i]),
                     byte_table_find(tokens, specials[i], strlen(specials[i])));
    int32_t next = (int32_t)tokens->count;
    for (int i = 0; !lower && i < EXTRA_IDS; i++) {
        char *extra = memory_printf("<extra_id_%d>", i);
        int32_t id = byte_table_find(tokens, extra, strlen(extra));
        hf_parts_add(parts, extra, strlen(extra), id >= 0 ? id : next++);
        free(extra);
    }
    parts->is_bert = true;
}

static int write_bert(struct buffer *out, const struct buffer *lines, bool lower, const char *name) {
    struct byte_table tokens = {0};
    struct hf_parts parts = {.unknown = -1, .bos = -1, .pad = -1};
    int status = read_vocab(lines, &tokens, name);
    if (status == 0) {
        describe_bert(&tokens, lower, &parts);
        hf_write_parts(&parts, byte_table_find(&tokens, "[SEP]", 5), out);
    }
    hf_parts_free(&parts);
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
    if (status == 0)
        hf_tokenizer_keep(tokenizer, &text);
    if (status == 0) {  // Megatron takes [SEP] for the end where a tokenizer names none
        const struct hf *hf = hf_tokenizer_hf(tokenizer);
        tokenizer->eod = byte_table_find(&hf->vocab, "[SEP]", 5);
    }
    buffer_free(&lines);
    buffer_free(&text);
    return status;
}
