// layer: data
// The files of a tokenizer from hostile bytes, opened as in the program, by any of its types: KIND CHOICE, two bytes
// with the length of the first file, the first file and the second. A tokenizer that opens encodes texts into ids of
// its vocabulary, decodes them, and names every token.
#include "fuzz.h"

#include "base/memory.h"
#include "data/sample/vocabulary.h"
#include "data/tokenizer/tokenizer.h"
#include <stdio.h>

static const char *const types[] = {"GPT2BPETokenizer",       "BertWordPieceLowerCase",    "BertWordPieceCase",
                                    "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "Llama2Tokenizer",
                                    "TikTokenizer",           "HuggingFaceTokenizer",      "FairseqTokenizer"};
enum { TYPES = sizeof types / sizeof types[0], FAIRSEQ = TYPES - 1, HEAD_BYTES = 4, MOST_NAMED = 5000 };

static const char *const texts[] = {"", " ", "Hello, world! 123", "na\xC3\xAFve \xE4\xBD\xA0\xE5\xA5\xBD",
                                    "\xFF\xC3(\n\t<s> [MASK] <|endoftext|>"};

static char *write_file(const char *name, const uint8_t *data, size_t size) {
    char *path = file_join(fuzz_folder(), name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    return path;
}

static void check_texts(const struct tokenizer *tokenizer) {
    struct tokenizer_encoder *encoder;
    if (tokenizer_encoder_create(&encoder, tokenizer) < 0)
        return;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct token_list ids = {0};
        struct buffer out = {0};
        if (tokenizer_encode(encoder, texts[i], strlen(texts[i]), &ids) == 0) {
            for (int64_t k = 0; k < ids.count; k++)
                CHECK(ids.ids[k] >= 0 && ids.ids[k] < tokenizer_vocab_size(tokenizer));
            (void)tokenizer_decode(tokenizer, ids.ids, ids.count, &out);
        }
        buffer_free(&out);
        token_list_free(&ids);
    }
    tokenizer_encoder_free(encoder);
}

static void check_tokens(const struct tokenizer *tokenizer) {
    int64_t size = tokenizer_vocab_size(tokenizer);
    unsigned char sum = 0;
    for (int64_t id = 0; id < size && id < MOST_NAMED; id++) {
        size_t length = 0;
        const char *token = tokenizer_token(tokenizer, (int32_t)id, &length);
        for (size_t i = 0; token && i < length; i++)
            sum = (unsigned char)(sum + token[i]);
        struct buffer out = {0};
        (void)tokenizer_decode(tokenizer, &(int32_t){(int32_t)id}, 1, &out);
        buffer_free(&out);
    }
    volatile unsigned char sink = sum;
    (void)sink;
    if (size > MOST_NAMED)
        return;
    struct sample_vocabulary vocabulary = {0};
    sample_vocabulary_make(&vocabulary, tokenizer);
    CHECK(vocabulary.cls < size && vocabulary.sep < size && vocabulary.mask < size && vocabulary.pad < size);
    sample_vocabulary_free(&vocabulary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < HEAD_BYTES)
        return 0;
    size_t kind = data[0] % TYPES, first = data[2] | (size_t)data[3] << 8;
    uint8_t choice = data[1];
    data += HEAD_BYTES;
    size -= HEAD_BYTES;
    first = first < size ? first : size;
    char *one = write_file("first", data, first), *two = write_file("second", data + first, size - first);
    struct tokenizer_options options = {.type = types[kind],
                                        .vocab_file = kind == FAIRSEQ ? NULL : one,
                                        .merge_file = kind == FAIRSEQ ? NULL : two,
                                        .model_file = one,
                                        .extra_ids = choice % 4 ? 0 : 7,
                                        .as_today = choice & 4,
                                        .tiktoken_pattern = choice & 8 ? "v2" : NULL,
                                        .tiktoken_specials = choice & 16 ? 10 : 0,
                                        .hf_without_specials = choice & 32};
    struct tokenizer *tokenizer;
    if (tokenizer_open(&tokenizer, &options) == 0) {
        check_texts(tokenizer);
        check_tokens(tokenizer);
        tokenizer_free(tokenizer);
    }
    free(one);
    free(two);
    return 0;
}
