// SentencePiece models: ids and decoded texts against the package (tests/golden/make_spm.py), Megatron's additional
// tokens, and the real Llama-2 and T5 models if $BEVATRON_SHARED/data has them.
#include "data/tokenizer/tokenizer.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "test.h"

#define GOLDEN "tests/golden/spm/"

struct opened_spm {
    struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
};

static struct opened_spm open_model(struct tokenizer_options options) {
    struct opened_spm opened;
    EXPECT_OK(tokenizer_open(&opened.tokenizer, &options));
    EXPECT_OK(tokenizer_encoder_create(&opened.encoder, opened.tokenizer));
    return opened;
}

static struct opened_spm open_golden(const char *name, const char *type, int64_t extra_ids) {
    char *path = memory_printf(GOLDEN "%s.model", name);
    struct opened_spm opened =
        open_model((struct tokenizer_options){.type = type, .model_file = path, .extra_ids = extra_ids});
    free(path);
    return opened;
}

static void close_model(struct opened_spm *opened) {
    tokenizer_encoder_free(opened->encoder);
    tokenizer_free(opened->tokenizer);
}

static void expect_ids(const struct token_list *actual, const struct json *expected, const char *text) {
    for (int64_t i = 0; i < actual->count && i < (int64_t)expected->count; i++)
        if (actual->ids[i] != (int32_t)expected->items[i].number)
            test_fail("\"%s\": id %" PRId64 " is %" PRId32 ", expected %s", text, i, actual->ids[i],
                      expected->items[i].string);
    if (actual->count != (int64_t)expected->count)
        test_fail("\"%s\": %" PRId64 " ids, expected %zu", text, actual->count, expected->count);
}

// Encodes the text of a golden row and decodes the ids.
static void check_row(const struct opened_spm *opened, const struct json *row) {
    const struct json *text = json_member(row, "text"), *decoded = json_member(row, "decoded");
    struct token_list ids = {0};
    struct buffer back = {0};
    EXPECT_OK(tokenizer_encode(opened->encoder, text->string, text->length, &ids));
    expect_ids(&ids, json_member(row, "ids"), text->string);
    EXPECT_OK(tokenizer_decode(opened->tokenizer, ids.ids, ids.count, &back));
    if (back.length != decoded->length || memcmp(buffer_string(&back), decoded->string, back.length) != 0)
        test_fail("\"%s\" decodes to \"%s\", expected \"%s\"", text->string, buffer_string(&back), decoded->string);
    token_list_free(&ids);
    buffer_free(&back);
}

// Calls check for every line of a golden file; returns how many there were.
static int64_t each_row(const char *path, void (*check)(const struct json *row)) {
    struct buffer lines = {0};
    int64_t count = 0;
    EXPECT_OK(file_read_all(path, 1 << 20, &lines));
    for (char *line = lines.data, *end; (end = strchr(line, '\n')); line = end + 1, count++) {
        struct json *row;
        EXPECT_OK(json_parse(&row, line, (size_t)(end - line), path));
        check(row);
        json_free(row);
    }
    buffer_free(&lines);
    return count;
}

static void check_plain(const struct json *row) {
    const char *name;
    EXPECT_OK(json_get_string(row, "model", &name));
    struct opened_spm opened = open_golden(name, "GPTSentencePieceTokenizer", 0);
    check_row(&opened, row);
    check_row(&opened, row);  // now from the cache
    close_model(&opened);
}

TEST(ids_are_those_of_the_package) {
    EXPECT(each_row(GOLDEN "ids.jsonl", check_plain) > 300);
}

static void check_classic(const struct json *row) {
    const char *name;
    int64_t extra_ids, vocab_size, eod;
    EXPECT_OK(json_get_string(row, "model", &name));
    EXPECT_OK(json_get_int(row, "extra_ids", &extra_ids));
    EXPECT_OK(json_get_int(row, "vocab_size", &vocab_size));
    EXPECT_OK(json_get_int(row, "eod", &eod));
    struct opened_spm opened = open_golden(name, "SentencePieceTokenizer", extra_ids);
    EXPECT_INT(tokenizer_vocab_size(opened.tokenizer), vocab_size);
    EXPECT_INT(tokenizer_eod(opened.tokenizer), eod);
    check_row(&opened, row);
    close_model(&opened);
}

TEST(classic_tokenizer_adds_tokens) {
    EXPECT(each_row(GOLDEN "megatron.jsonl", check_classic) > 50);
}

TEST(llama2_begins_texts) {
    struct token_list ids = {0};
    struct opened_spm classic = open_golden("bpe", "Llama2Tokenizer", 0);
    EXPECT_OK(tokenizer_encode(classic.encoder, "", 0, &ids));
    EXPECT_INT(ids.count, 1);
    EXPECT_INT(ids.ids[0], 1);
    EXPECT_INT(tokenizer_eod(classic.tokenizer), 2);
    EXPECT_OK(tokenizer_encode(classic.encoder, "a", 1, &ids));
    EXPECT_INT(ids.ids[1], 1);
    EXPECT(ids.count > 2);
    close_model(&classic);

    struct opened_spm today = open_model(
        (struct tokenizer_options){.type = "Llama2Tokenizer", .model_file = GOLDEN "bpe.model", .as_today = true});
    ids.count = 0;
    EXPECT_OK(tokenizer_encode(today.encoder, "", 0, &ids));
    EXPECT_INT(ids.count, 0);
    close_model(&today);
    token_list_free(&ids);
}

TEST(today_no_tokens_are_added) {
    struct opened_spm today = open_model((struct tokenizer_options){
        .type = "SentencePieceTokenizer", .model_file = GOLDEN "unigram.model", .as_today = true});
    EXPECT_INT(tokenizer_vocab_size(today.tokenizer), 500);
    EXPECT_INT(tokenizer_eod(today.tokenizer), 2);
    close_model(&today);
    struct opened_spm none = open_golden("suffix", "GPTSentencePieceTokenizer", 0);
    EXPECT_INT(tokenizer_eod(none.tokenizer), -1);
    close_model(&none);
}

TEST(wrong_options_are_refused) {
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "Llama2Tokenizer"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "needs --tokenizer-model");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    options.model_file = GOLDEN "suffix.model";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "has no beginning-of-text token");
    options.model_file = GOLDEN "bpe.model";
    options.extra_ids = 1;
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "adds no tokens; use SentencePieceTokenizer");
    options = (struct tokenizer_options){
        .type = "SentencePieceTokenizer", .model_file = GOLDEN "bpe.model", .extra_ids = 1, .as_today = true};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "without --no-legacy-tokenizer");
    options = (struct tokenizer_options){.type = "SentencePieceTokenizer", .model_file = GOLDEN "none.model"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "none.model");
    options.model_file = GOLDEN "ids.jsonl";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "not a SentencePiece model");
    EXPECT(tokenizer == NULL);
}

// ---- long texts ----

// If words are independent, n copies of a unit have the ids of one unit n times: the sum of a unigram model exceeds
// 100,000 on the way, and the text of a BPE model fills many batches.
static void check_repeated(const char *name, const char *unit, int64_t copies) {
    struct opened_spm opened = open_golden(name, "GPTSentencePieceTokenizer", 0);
    struct token_list one = {0}, many = {0};
    struct buffer text = {0};
    EXPECT_OK(tokenizer_encode(opened.encoder, unit + 1, strlen(unit + 1), &one));
    for (int64_t i = 0; i < copies; i++)
        buffer_append_string(&text, unit + (i == 0));
    EXPECT_OK(tokenizer_encode(opened.encoder, text.data, text.length, &many));
    EXPECT_INT(many.count, copies * one.count);
    for (int64_t i = 0; i < many.count; i++)
        if (many.ids[i] != one.ids[i % one.count])
            test_fail("%s: id %" PRId64 " differs", name, i);
    buffer_free(&text);
    token_list_free(&one);
    token_list_free(&many);
    close_model(&opened);
}

TEST(words_do_not_depend_on_each_other) {
    check_repeated("unigram", " daughter", 40000);
    check_repeated("bpe", " daughter", 40000);
    check_repeated("bpe", " aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 300);
}

// One word of a million characters must not take quadratic time (the test has a time limit), and decodes to itself.
TEST(one_long_word) {
    static const char *const names[] = {"bpe", "unused", "unigram"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct opened_spm opened = open_golden(names[i], "GPTSentencePieceTokenizer", 0);
        struct token_list ids = {0};
        struct buffer text = {0}, back = {0};
        for (int k = 0; k < 500000; k++)
            buffer_append_string(&text, k % 7 == 0 ? "the" : "a");
        EXPECT_OK(tokenizer_encode(opened.encoder, text.data, text.length, &ids));
        EXPECT_OK(tokenizer_decode(opened.tokenizer, ids.ids, ids.count, &back));
        EXPECT_INT(back.length, text.length);
        EXPECT(memcmp(back.data, text.data, text.length) == 0);
        token_list_free(&ids);
        buffer_free(&text);
        buffer_free(&back);
        close_model(&opened);
    }
}

// ---- real models ----

static char *shared_path(const char *name) {
    const char *shared = getenv("BEVATRON_SHARED");
    char *path = memory_printf("%s/data/%s", shared ? shared : "../shared", name);
    if (!file_exists(path)) {
        free(path);
        test_skip("$BEVATRON_SHARED/data/%s is not there", name);
    }
    return path;
}

static void expect_known(const char *file, const char *type, const char *text, const int32_t *expected, int64_t count) {
    char *path = shared_path(file);
    struct opened_spm opened = open_model((struct tokenizer_options){.type = type, .model_file = path});
    struct token_list ids = {0};
    EXPECT_OK(tokenizer_encode(opened.encoder, text, strlen(text), &ids));
    EXPECT_INT(ids.count, count);
    for (int64_t i = 0; i < count; i++)
        EXPECT_INT(ids.ids[i], expected[i]);
    token_list_free(&ids);
    close_model(&opened);
    free(path);
}

TEST(llama2_known_ids) {
    expect_known("llama2/tokenizer.model", "Llama2Tokenizer", "Hello world", (const int32_t[]){1, 15043, 3186}, 3);
    expect_known("llama2/tokenizer.model", "GPTSentencePieceTokenizer", " ", (const int32_t[]){259}, 1);
    expect_known("llama2/tokenizer.model", "GPTSentencePieceTokenizer", "\n\xF0\x9F\x98\x80",
                 (const int32_t[]){29871, 13, 243, 162, 155, 131}, 6);
}

TEST(t5_known_ids) {
    expect_known("t5/spiece.model", "GPTSentencePieceTokenizer", "  Hello \t world", (const int32_t[]){8774, 296}, 2);
    expect_known("t5/spiece.model", "SentencePieceTokenizer", "Hello</s>world", (const int32_t[]){8774, 1, 296}, 3);
}

TEST_MAIN(TEST_CASE(ids_are_those_of_the_package), TEST_CASE(classic_tokenizer_adds_tokens),
          TEST_CASE(llama2_begins_texts), TEST_CASE(today_no_tokens_are_added), TEST_CASE(wrong_options_are_refused),
          TEST_CASE(words_do_not_depend_on_each_other), TEST_CASE(one_long_word), TEST_CASE(llama2_known_ids),
          TEST_CASE(t5_known_ids))
