// Text that grows token by token equals the text of all tokens at once, for every kind of tokenizer and every start.
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/tokenizer.h"
#include "test.h"
#include <string.h>

static const struct tokenizer_options kinds[] = {
    {.type = "GPT2BPETokenizer",
     .vocab_file = "tests/golden/bpe/vocab.json",
     .merge_file = "tests/golden/bpe/merges.txt"},
    {.type = "BertWordPieceLowerCase", .vocab_file = "tests/golden/wordpiece/vocab.txt"},
    {.type = "SentencePieceTokenizer", .model_file = "tests/golden/spm/unigram.model"},
    {.type = "GPTSentencePieceTokenizer", .model_file = "tests/golden/spm/bpe.model"},
    {.type = "Llama2Tokenizer", .model_file = "tests/golden/spm/bpe.model"},
    {.type = "HuggingFaceTokenizer", .model_file = "tests/golden/hf/llama2.json"},
    {.type = "HuggingFaceTokenizer", .model_file = "tests/golden/hf/t5.json"},
    {.type = "HuggingFaceTokenizer", .model_file = "tests/golden/hf/bert.json"},
    {.type = "HuggingFaceTokenizer", .model_file = "tests/golden/hf/llama3.json"},
    {.type = "NullTokenizer", .vocab_size = 1000},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const char *const texts[] = {
    "The world is good, and the house near the tree is mine.",
    "Zwölf Größen  über  drei Lücken … „ja“",
    "日本語のテキスト and 😀👍🏽 emoji",
    " begins with a blank\nand has\tothers ",
};

static bool begins_with(const struct buffer *text, const struct buffer *part) {
    return text->length >= part->length && memcmp(buffer_string(text), buffer_string(part), part->length) == 0;
}

// The ids from `first` on, one by one, after those before it.
static void check_from(const struct tokenizer *tokenizer, const struct token_list *ids, int64_t first,
                       const struct buffer *whole) {
    struct buffer text = {0};
    struct token_stream stream = {.tokenizer = tokenizer};
    EXPECT_OK(tokenizer_decode(tokenizer, ids->ids, first, &text));
    // Text that ends inside a character cannot be continued.
    if (begins_with(whole, &text)) {
        token_stream_begin(&stream, ids->ids, first);
        for (int64_t i = first; i < ids->count; i++)
            EXPECT_OK(token_stream_add(&stream, ids->ids[i], &text));
        EXPECT_OK(token_stream_end(&stream, &text));
        EXPECT_STRING(buffer_string(&text), buffer_string(whole));
    }
    token_stream_free(&stream);
    buffer_free(&text);
}

static void check_kind(const struct tokenizer_options *options, const char *text) {
    struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    struct token_list ids = {0};
    struct buffer whole = {0};
    EXPECT_OK(tokenizer_open(&tokenizer, options));
    EXPECT_OK(tokenizer_encoder_create(&encoder, tokenizer));
    EXPECT_OK(tokenizer_encode(encoder, text, strlen(text), &ids));
    EXPECT_OK(tokenizer_decode(tokenizer, ids.ids, ids.count, &whole));
    EXPECT(ids.count > 3 && whole.length > 3);
    for (int64_t first = 0; first < ids.count; first++)
        check_from(tokenizer, &ids, first, &whole);
    buffer_free(&whole);
    token_list_free(&ids);
    tokenizer_encoder_free(encoder);
    tokenizer_free(tokenizer);
}

TEST(pieces_make_the_whole) {
    if (normal_form_require() < 0)
        test_skip("this build has no normal forms");
    for (size_t kind = 0; kind < KINDS; kind++) {
        bool is_ids = strcmp(kinds[kind].type, "NullTokenizer") == 0;
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            check_kind(&kinds[kind], is_ids ? "10 11 12 13 999" : texts[i]);
    }
}

// Text is not held back until the end: every word appears with its last token.
TEST(text_comes_at_once) {
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer, &kinds[KINDS - 1]));
    struct token_stream stream = {.tokenizer = tokenizer};
    struct buffer text = {0};
    static const int32_t prompt[] = {10, 11};
    token_stream_begin(&stream, prompt, 2);
    EXPECT_OK(token_stream_add(&stream, 12, &text));
    EXPECT_STRING(buffer_string(&text), " 12");
    EXPECT_OK(token_stream_add(&stream, 13, &text));
    EXPECT_STRING(buffer_string(&text), " 12 13");
    EXPECT_OK(token_stream_end(&stream, &text));
    EXPECT_STRING(buffer_string(&text), " 12 13");
    EXPECT_ERROR(token_stream_add(&stream, 5000, &text), "5000");
    token_stream_free(&stream);
    buffer_free(&text);
    tokenizer_free(tokenizer);
}

// The bytes of 😀 are four tokens, which give no text until the last of them.
TEST(characters_are_whole) {
    struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    struct token_list ids = {0};
    EXPECT_OK(tokenizer_open(&tokenizer, &kinds[5]));
    EXPECT_OK(tokenizer_encoder_create(&encoder, tokenizer));
    EXPECT_OK(tokenizer_encode(encoder, "a😀", strlen("a😀"), &ids));
    struct token_stream stream = {.tokenizer = tokenizer};
    struct buffer text = {0};
    int64_t said = 0;
    for (int64_t i = 0; i < ids.count; i++) {
        size_t before = text.length;
        EXPECT_OK(token_stream_add(&stream, ids.ids[i], &text));
        said += text.length > before;
        EXPECT(!strstr(buffer_string(&text), "\xEF\xBF\xBD"));
    }
    EXPECT(ids.count >= 5);
    EXPECT(said <= 3);
    token_stream_free(&stream);
    buffer_free(&text);
    token_list_free(&ids);
    tokenizer_encoder_free(encoder);
    tokenizer_free(tokenizer);
}

TEST_MAIN(TEST_CASE(pieces_make_the_whole), TEST_CASE(text_comes_at_once), TEST_CASE(characters_are_whole))
