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
        EXPECT_OK(config_pad_vocab(&config, config.vocab_size));
        EXPECT_INT(config.padded_vocab_size, rows[i].padded);
        config_free(&config);
    }
}

TEST_MAIN(TEST_CASE(counts), TEST_CASE(published_vocabularies))
