// Fill-in-the-middle samples: every token against tests/golden/fim, made in Python with Hugging Face's tokenizers; the
// same sample read twice, in another order and by another reader; tokens that the tokenizer does not have.
#include "data/sample/source.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 95 };

static struct tokenizer *tokenizer;
static int32_t given[T + 1];

static int read_given(void *context, int64_t sample, int32_t *tokens) {
    (void)context;
    (void)sample;
    memcpy(tokens, given, sizeof given);
    return 0;
}

// Under the name that Megatron-DeepSpeed has for it.
static void open_tokenizer(void) {
    EXPECT_OK(tokenizer_open(&tokenizer, &(struct tokenizer_options){.type = "PretrainedFromHF",
                                                                     .model_file = "tests/golden/fim/tokenizer.json"}));
    EXPECT(strcmp(tokenizer_type(tokenizer), "HuggingFaceTokenizer") == 0);
}

static struct fim_options usual(void) {
    return (struct fim_options){.source = {.name = "given", .count = INT64_MAX, .seq_length = T, .read = read_given},
                                .tokenizer = tokenizer,
                                .prefix_token = "<fim_prefix>",
                                .middle_token = "<fim_middle>",
                                .suffix_token = "<fim_suffix>",
                                .pad_token = "<fim_pad>",
                                .eod_token = "<|endoftext|>"};
}

static void take_numbers(char *text, int32_t *numbers) {
    for (int i = 0; i <= T; i++)
        numbers[i] = (int32_t)strtol(text, &text, 10);
}

static void expect_sample(const struct fim_options *options, int64_t sample, const int32_t *expected) {
    struct fim *fim;
    int32_t tokens[T + 1];
    EXPECT_OK(fim_open(&fim, options));
    struct sample_source source = fim_source(fim);
    // Another sample before it changes nothing.
    EXPECT_OK(source.read(source.context, sample + 1, tokens));
    EXPECT_OK(source.read(source.context, sample, tokens));
    for (int i = 0; i <= T; i++)
        if (tokens[i] != expected[i])
            test_fail("token %d of sample %lld is %d, expected %d", i, (long long)sample, tokens[i], expected[i]);
    fim_close(fim);
}

TEST(beside_hugging_face) {
    FILE *file = fopen("tests/golden/fim/samples.txt", "re");
    static char line[1 << 14];
    char token[32], prefix[32];
    open_tokenizer();
    struct fim_options options = usual();
    long long sample = 0;
    int32_t expected[T + 1];
    int count = 0;
    EXPECT(file != NULL);
    while (fgets(line, sizeof line, file)) {
        int at = 0;
        unsigned long long seed;
        if (sscanf(line, "case %lf %lf %31s %lf %31s", &options.rate, &options.spm_rate, token, &options.fragment_rate,
                   prefix) == 5) {
            options.split_token = strcmp(token, "-") == 0 ? NULL : token;
            options.no_prefix = strcmp(prefix, "-") == 0 ? NULL : prefix;
        } else if (sscanf(line, "in %llu %lld %d %n", &seed, &sample, &options.split, &at) == 3) {
            options.seed = seed;
            take_numbers(line + at, given);
        } else {
            EXPECT_INT(strncmp(line, "out ", 4), 0);
            take_numbers(line + 4, expected);
            expect_sample(&options, sample, expected);
            count++;
        }
    }
    EXPECT_INT(count, 7 * 12);
    fclose(file);
    tokenizer_free(tokenizer);
}

TEST(tokens_that_are_missing) {
    struct fim *fim;
    open_tokenizer();
    struct fim_options options = usual();
    options.middle_token = "<middle>";
    EXPECT_ERROR(fim_open(&fim, &options), "--fim-middle-token <middle> is not a token of this tokenizer");
    options = usual();
    options.split_token = "<repo>";
    EXPECT_ERROR(fim_open(&fim, &options), "--fim-split-sample <repo> is not a token");
    tokenizer_free(tokenizer);
}

// The end of a sample that is shorter than the others stays where it is.
TEST(shorter_samples) {
    struct fim *fim;
    open_tokenizer();
    struct fim_options options = usual();
    int32_t tokens[T + 1];
    for (int i = 0; i <= T; i++)
        given[i] = i < 40 ? 20 + i : -1;
    EXPECT_OK(fim_open(&fim, &options));
    struct sample_source source = fim_source(fim);
    EXPECT_OK(source.read(source.context, 3, tokens));
    EXPECT(memcmp(tokens, given, sizeof given) == 0);
    fim_close(fim);
    options.rate = 1;
    EXPECT_OK(fim_open(&fim, &options));
    source = fim_source(fim);
    EXPECT_OK(source.read(source.context, 3, tokens));
    EXPECT(tokens[0] == 1 && tokens[39] >= 0 && tokens[40] == -1 && tokens[T] == -1);
    fim_close(fim);
    tokenizer_free(tokenizer);
}

TEST_MAIN(TEST_CASE(beside_hugging_face), TEST_CASE(tokens_that_are_missing), TEST_CASE(shorter_samples))
