// Every preset against transformers' count of the same model's parameters (tests/golden/make_presets.py).
#include "base/file.h"
#include "base/memory.h"
#include "model/census.h"
#include "test.h"

static void check_preset(const char *name, int64_t vocabulary, int64_t expected) {
    char vocabulary_text[32];
    snprintf(vocabulary_text, sizeof vocabulary_text, "%" PRId64, vocabulary);
    char *argv[] = {"train",
                    "--preset",
                    (char *)(uintptr_t)name,
                    "--micro-batch-size",
                    "1",
                    "--train-iters",
                    "1",
                    "--lr",
                    "1",
                    "--mock-data",
                    "--vocab-size",
                    vocabulary_text,
                    "--padded-vocab-size",
                    vocabulary_text};
    struct config config;
    EXPECT_OK(config_parse(&config, sizeof argv / sizeof argv[0], argv));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_OK(config_pad_vocab(&config, vocabulary));
    if (census_parameters(&config) != expected)
        test_fail("%s declares %" PRId64 " parameters, and transformers counts %" PRId64, name,
                  census_parameters(&config), expected);
    config_free(&config);
}

TEST(counts) {
    struct buffer text = {0};
    EXPECT_OK(file_read_all("tests/golden/presets.txt", 1 << 20, &text));
    size_t rows = 0;
    char *rest = text.data;
    for (const char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n"), rows++) {
        char name[64];
        int64_t vocabulary = 0, count = 0;
        EXPECT_INT(sscanf(line, "%63s %" SCNd64 " %" SCNd64, name, &vocabulary, &count), 3);
        check_preset(name, vocabulary, count);
        EXPECT_INT(config_preset_vocabulary(name), vocabulary);
    }
    buffer_free(&text);
    // No preset is missing.
    size_t presets = 0;
    while (config_preset_name(presets))
        presets++;
    EXPECT_INT(rows, presets);
}

// The vocabulary in training differs only slightly.
TEST(published_vocabularies) {
    static const struct {
        const char *preset, *tokens;
        int64_t padded;
    } rows[] = {{"gpt2-124m", "50257", 50304}, {"megatron-1.7b", "50257", 51200}, {"opt-1.3b", "50265", 50272},
                {"llama2-7b", "32000", 32000}, {"llama3-8b", "128256", 128256},   {"t5-base", "32100", 32128},
                {"bert-base", "30522", 30522}, {"roberta-large", "50265", 50265}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *argv[] = {"train",
                        "--preset",
                        (char *)(uintptr_t)rows[i].preset,
                        "--micro-batch-size",
                        "1",
                        "--train-iters",
                        "1",
                        "--lr",
                        "1",
                        "--mock-data",
                        "--vocab-size",
                        (char *)(uintptr_t)rows[i].tokens};
        struct config config;
        EXPECT_OK(config_parse(&config, sizeof argv / sizeof argv[0], argv));
        EXPECT_OK(config_validate(&config, 1));
        EXPECT_OK(config_pad_vocab(&config, config.data.vocab_size));
        EXPECT_INT(config.model.padded_vocab_size, rows[i].padded);
        config_free(&config);
    }
}

// "1.23B" of the paper or model card; *digit is the worth of its last digit.
static double published(const char *text, double *digit) {
    char *end;
    double number = strtod(text, &end), unit = *end == 'B' ? 1e9 : *end == 'M' ? 1e6 : 0;
    const char *point = strchr(text, '.');
    *digit = unit;
    for (const char *c = point ? point + 1 : end; c < end; c++)
        *digit /= 10;
    return number * unit;
}

// A plan without a tokenizer: the preset alone gives the published model's number of parameters.
TEST(published_sizes) {
    // These are printed too large or too small by their own papers: a round name, or another way of counting.
    static const char *const loose[] = {"opt-350m", "t5-large", "megatron-345m", "megatron-bert-345m"};
    for (size_t i = 0; config_preset_name(i); i++) {
        const char *name = config_preset_name(i);
        char *argv[] = {"train",
                        "--preset",
                        (char *)(uintptr_t)name,

                        "--micro-batch-size",
                        "1",
                        "--train-iters",
                        "1",
                        "--lr",
                        "1",
                        "--mock-data",
                        "--vocab-size",
                        "1"};
        double digit, expected = published(config_preset_parameters(i), &digit), tolerance = 0.02;
        EXPECT(expected > 0);
        for (size_t k = 0; k < sizeof loose / sizeof loose[0]; k++)
            tolerance = strcmp(name, loose[k]) == 0 ? 0.06 : tolerance;
        struct config config;
        EXPECT_OK(config_parse(&config, sizeof argv / sizeof argv[0], argv));
        EXPECT_OK(config_validate(&config, 1));
        EXPECT_OK(config_pad_vocab(&config, config_preset_vocabulary(name)));
        double count = (double)census_parameters(&config);
        if (fabs(count - expected) > fmax(0.51 * digit, tolerance * expected))
            test_fail("%s has %.0f parameters, published are %s", name, count, config_preset_parameters(i));
        config_free(&config);
    }
    EXPECT_INT(config_preset_vocabulary("none"), 0);
}

TEST_MAIN(TEST_CASE(counts), TEST_CASE(published_vocabularies), TEST_CASE(published_sizes))
