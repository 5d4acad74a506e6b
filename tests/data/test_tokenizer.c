// The common interface: types by name, NullTokenizer, encoders that share a tokenizer, and the real GPT-2 vocabulary if
// $BEVATRON_SHARED/data has it.
#include "data/tokenizer/tokenizer.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/pool.h"
#include "text_fixture.h"

TEST(types_are_found_by_name) {
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "SFTTokenizer"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "not supported by this version; supported: GPT2BPETokenizer");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    options.type = "GPT3";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "is not a tokenizer type");
    options.type = "GPT2BPETokenizer";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--vocab-file");
    options.type = NULL;
    options.vocab_file = GOLDEN "vocab.json";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--merge-file");
    EXPECT(tokenizer == NULL);
    tokenizer_free(NULL);
    tokenizer_encoder_free(NULL);
}

// The error about a file of another kind says what it is.
TEST(wrong_files) {
    static const struct {
        struct tokenizer_options options;
        const char *said;
    } rows[] = {
        {{.vocab_file = GOLDEN "merges.txt", .merge_file = GOLDEN "vocab.json"}, "use --merge-file"},
        {{.vocab_file = GOLDEN "vocab.json", .merge_file = GOLDEN "vocab.json"}, "looks like GPT-2's vocab.json"},
        {{.type = "HuggingFaceTokenizer", .model_file = "tests/golden/spm/bpe.model"}, "a SentencePiece model"},
        {{.type = "HuggingFaceTokenizer", .model_file = "gpt2"}, "models are not downloaded"},
        {{.type = "Llama2Tokenizer", .model_file = "tests/golden/hf/gpt2.json"}, "type HuggingFaceTokenizer"},
        {{.type = "Llama2Tokenizer", .model_file = "tests/golden/tiktoken/small.tiktoken"}, "a tiktoken rank file"},
        {{.type = "TikTokenizer", .model_file = "tests/golden/wordpiece/vocab.txt"}, "looks like BERT's vocab.txt"},
        {{.type = "TikTokenizer", .model_file = "tests/golden/fairseq/words.txt"}, "a fairseq dictionary"},
        {{.type = "BertWordPieceCase", .vocab_file = GOLDEN "vocab.json"}, "type GPT2BPETokenizer --vocab-file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tokenizer *tokenizer;
        EXPECT_ERROR(tokenizer_open(&tokenizer, &rows[i].options), rows[i].said);
    }
    struct tokenizer *tokenizer;
    EXPECT_ERROR(tokenizer_open(&tokenizer, &(struct tokenizer_options){.vocab_file = "tests/golden/bpe/ids.jsonl",
                                                                        .merge_file = GOLDEN "merges.txt"}),
                 "ids.jsonl");
}

TEST(golden_tokenizer_describes_itself) {
    struct tokenizer *tokenizer = open_golden();
    EXPECT_STRING(tokenizer_type(tokenizer), "GPT2BPETokenizer");
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 600);
    EXPECT_INT(tokenizer_eod(tokenizer), 599);
    tokenizer_free(tokenizer);
}

// All that training needs.
TEST(opening_and_decoding) {
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.vocab_file = GOLDEN "vocab.json", .merge_file = GOLDEN "merges.txt"};
    struct buffer text = {0};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 600);
    EXPECT_OK(tokenizer_decode(tokenizer, (const int32_t[]){39, 220, 599}, 3, &text));
    EXPECT_STRING(text.data, "H <|endoftext|>");
    buffer_free(&text);
    tokenizer_free(tokenizer);
}

TEST(null_tokenizer_reads_ids) {
    struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    struct token_list ids = {0};
    struct buffer text = {0};
    struct tokenizer_options options = {.type = "NullTokenizer", .vocab_size = 1000};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 1001);
    EXPECT_INT(tokenizer_eod(tokenizer), 1000);
    EXPECT_OK(tokenizer_encoder_create(&encoder, tokenizer));
    EXPECT_OK(tokenizer_encode(encoder, " 5 0 999\n1000 ", 14, &ids));
    expect_ids(&ids, (const int32_t[]){5, 0, 999, 1000}, 4);
    EXPECT_OK(tokenizer_decode(tokenizer, ids.ids, ids.count, &text));
    EXPECT_STRING(text.data, "5 0 999 1000");
    static const char *const bad[] = {"1001", "7 x", "7x", "-1", "99999999999999999999", "1.5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_ERROR(tokenizer_encode(encoder, bad[i], strlen(bad[i]), &ids), "not part of a token id");
        EXPECT_INT(ids.count, 4);
    }
    tokenizer_encoder_free(encoder);
    tokenizer_free(tokenizer);
    token_list_free(&ids);
    buffer_free(&text);
}

TEST(null_tokenizer_with_its_own_end) {
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {
        .type = "NullTokenizer", .vocab_size = 10, .null_eod_given = true, .null_eod_id = 9};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 10);
    EXPECT_INT(tokenizer_eod(tokenizer), 9);
    tokenizer_free(tokenizer);
    options.null_eod_id = 10;
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--null-tokenizer-eod-id 10");
    options = (struct tokenizer_options){.type = "NullTokenizer"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--vocab-size");
}

// --eod-token: by the name in the vocabulary, else by what the token decodes to.
TEST(the_end_of_a_document_can_be_named) {
    struct tokenizer *tokenizer;
    struct tokenizer_options gpt2 = {.vocab_file = GOLDEN "vocab.json", .merge_file = GOLDEN "merges.txt"};
    struct tokenizer_options ranks = {
        .type = "TikTokenizer", .model_file = "tests/golden/tiktoken/small.tiktoken", .tiktoken_pattern = "gpt2"};
    struct tokenizer_options llama = {.type = "HuggingFaceTokenizer", .model_file = "tests/golden/hf/llama2.json"};
    const struct {
        struct tokenizer_options options;
        const char *text;
        const char *decoded;  // of the token found
        const char *error;
    } rows[] = {
        {gpt2, "<|endoftext|>", "<|endoftext|>", NULL},
        {gpt2, "H", "H", NULL},
        {gpt2, "\n", "\n", NULL},
        {gpt2, "</s>", NULL, "--eod-token \"</s>\" is not a token of this tokenizer"},
        {gpt2, "", NULL, "--eod-token is empty"},
        {ranks, "\n", "\n", NULL},
        {ranks, "not one token", NULL, "is not a token"},
        {llama, "<unk>", "<unk>", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tokenizer_options options = rows[i].options;
        options.eod_token = rows[i].text;
        if (rows[i].error) {
            EXPECT_ERROR(tokenizer_open(&tokenizer, &options), rows[i].error);
            EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
            continue;
        }
        EXPECT_OK(tokenizer_open(&tokenizer, &options));
        int32_t end = tokenizer_eod(tokenizer);
        struct buffer text = {0};
        EXPECT_OK(tokenizer_decode(tokenizer, &end, 1, &text));
        EXPECT_STRING(text.data, rows[i].decoded);
        buffer_free(&text);
        tokenizer_free(tokenizer);
    }
    EXPECT_OK(tokenizer_open(&tokenizer, &ranks));
    EXPECT_INT(tokenizer_eod(tokenizer), -1);
    tokenizer_free(tokenizer);
}

// ---- threads ----

struct shared_work {
    const struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoders[4];
    struct token_list ids[32];
};

static void make_text(int64_t index, struct buffer *text) {
    uint64_t state = (uint64_t)index + 100;
    random_bytes(&state, text, 5000);
}

static void encode_one(void *context, int64_t index, int thread) {
    struct shared_work *work = context;
    struct buffer text = {0};
    make_text(index, &text);
    tokenizer_encode(work->encoders[thread], text.data, text.length, &work->ids[index]);
    buffer_free(&text);
}

// The ids do not depend on the encoder, nor on what it has encoded before.
TEST(ids_do_not_depend_on_the_encoder) {
    struct shared_work work = {.tokenizer = open_golden()};
    struct pool *pool;
    EXPECT_OK(pool_create(&pool, 4));
    for (int i = 0; i < 4; i++)
        EXPECT_OK(tokenizer_encoder_create(&work.encoders[i], work.tokenizer));
    pool_run(pool, 32, encode_one, &work);
    for (int64_t i = 0; i < 32; i++) {
        struct tokenizer_encoder *fresh;
        struct token_list ids = {0};
        struct buffer text = {0};
        make_text(i, &text);
        EXPECT_OK(tokenizer_encoder_create(&fresh, work.tokenizer));
        EXPECT_OK(tokenizer_encode(fresh, text.data, text.length, &ids));
        expect_ids(&work.ids[i], ids.ids, ids.count);
        tokenizer_encoder_free(fresh);
        token_list_free(&ids);
        token_list_free(&work.ids[i]);
        buffer_free(&text);
    }
    for (int i = 0; i < 4; i++)
        tokenizer_encoder_free(work.encoders[i]);
    pool_free(pool);
    tokenizer_free((struct tokenizer *)work.tokenizer);
}

// ---- the real vocabulary ----

static char *shared_path(const char *name) {
    const char *shared = getenv("BEVATRON_SHARED");
    char *path = memory_printf("%s/data/%s", shared ? shared : "../shared", name);
    if (!file_exists(path)) {
        free(path);
        test_skip("$BEVATRON_SHARED/data/%s is not there", name);
    }
    return path;
}

static struct tokenizer *open_gpt2(void) {
    char *vocab_file = shared_path("gpt2/vocab.json"), *merge_file = shared_path("gpt2/merges.txt");
    struct tokenizer_options options = {.vocab_file = vocab_file, .merge_file = merge_file};
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    free(vocab_file);
    free(merge_file);
    return tokenizer;
}

TEST(gpt2_known_ids) {
    struct tokenizer *tokenizer = open_gpt2();
    struct tokenizer_encoder *encoder;
    struct token_list ids = {0};
    EXPECT_OK(tokenizer_encoder_create(&encoder, tokenizer));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 50257);
    EXPECT_INT(tokenizer_eod(tokenizer), 50256);
    EXPECT_OK(tokenizer_encode(encoder, "Hello world", 11, &ids));
    EXPECT_OK(tokenizer_encode(encoder, "!", 1, &ids));
    EXPECT_OK(tokenizer_encode(encoder, " ", 1, &ids));
    EXPECT_OK(tokenizer_encode(encoder, "\n", 1, &ids));
    expect_ids(&ids, (const int32_t[]){15496, 995, 0, 220, 198}, 5);
    ids.count = 0;
    EXPECT_OK(tokenizer_encode(encoder, "<|endoftext|>", 13, &ids));
    expect_ids(&ids, (const int32_t[]){27, 91, 437, 1659, 5239, 91, 29}, 7);
    tokenizer_encoder_free(encoder);
    tokenizer_free(tokenizer);
    token_list_free(&ids);
}

TEST(gpt2_tinyshakespeare_has_338025_tokens) {
    struct tokenizer *tokenizer = open_gpt2();
    char *path = shared_path("text/tinyshakespeare.txt");
    struct buffer text = {0}, decoded = {0};
    struct token_list ids = {0};
    struct tokenizer_encoder *encoder;
    EXPECT_OK(file_read_all(path, (size_t)1 << 24, &text));
    EXPECT_OK(tokenizer_encoder_create(&encoder, tokenizer));
    EXPECT_OK(tokenizer_encode(encoder, text.data, text.length, &ids));
    EXPECT_INT(ids.count, 338025);
    EXPECT_OK(tokenizer_decode(tokenizer, ids.ids, ids.count, &decoded));
    EXPECT_INT(decoded.length, text.length);
    EXPECT(memcmp(decoded.data, text.data, text.length) == 0);
    tokenizer_encoder_free(encoder);
    tokenizer_free(tokenizer);
    token_list_free(&ids);
    buffer_free(&text);
    buffer_free(&decoded);
    free(path);
}

TEST_MAIN(TEST_CASE(types_are_found_by_name), TEST_CASE(wrong_files), TEST_CASE(golden_tokenizer_describes_itself),
          TEST_CASE(opening_and_decoding), TEST_CASE(null_tokenizer_reads_ids),
          TEST_CASE(null_tokenizer_with_its_own_end), TEST_CASE(ids_do_not_depend_on_the_encoder),
          TEST_CASE(the_end_of_a_document_can_be_named), TEST_CASE(gpt2_known_ids),
          TEST_CASE(gpt2_tinyshakespeare_has_338025_tokens))
