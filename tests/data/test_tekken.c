// Mistral's tekken.json against golden ids of mistral-common (tests/golden/make_tekken.py), and Whisper's rank files.
#include "data/tokenizer/tiktoken.h"
#include "fixture.h"
#include "json_ids.h"

#define TIKTOKEN "tests/golden/tiktoken/"

#define OWN_PATTERN                                                                                                    \
    "\\p{Han}+|(?i:'s|'ll)|[\\w&&[^\\d\\p{Han}]]++|\\d{1,3}(?=(?:\\d{3})*(?:\\D|$))|\\s+$|\\s+(?!\\S)| "               \
    "?[^\\s\\w]+|\\s"

TEST(golden_ids_of_tekken) {
    struct tokenizer_options options = {.type = "TikTokenizer", .model_file = TIKTOKEN "tekken.json"};
    EXPECT(json_ids_check_file(&options, "tekken", TIKTOKEN "tekken.jsonl") > 40);
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 410);
    EXPECT_INT(tokenizer_eod(tokenizer), 2);
    expect_decoded(tokenizer, (const int32_t[]){3, 30 + 'A', 19, 29}, 4, "[INST]A[TOOL_CONTENT]<SPECIAL_29>");
    tokenizer_free(tokenizer);
    options.model_file = TIKTOKEN "tekken_own.json";
    EXPECT(json_ids_check_file(&options, "tekken_own", TIKTOKEN "tekken.jsonl") > 40);
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    expect_decoded(tokenizer, (const int32_t[]){3, 30 + 'A', 4, 29}, 4, "[THINK]A<SPECIAL_4><SPECIAL_29>");
    tokenizer_free(tokenizer);
    // A rank file can be used with any pattern.
    options = (struct tokenizer_options){
        .type = "TikTokenizer", .model_file = TIKTOKEN "small.tiktoken", .tiktoken_pattern = OWN_PATTERN};
    EXPECT(json_ids_check_file(&options, "ranks", TIKTOKEN "tekken.jsonl") > 40);
    options.tiktoken_pattern = "a|\\X";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--tiktoken-pattern has the escape \\X at byte 2");
    options = (struct tokenizer_options){.type = "HuggingFaceTokenizer", .model_file = TIKTOKEN "tekken.json"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "Mistral's tekken.json; use --tokenizer-type TikTok");
}

static void expect_bad_tekken(const char *text, const char *message) {
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "TikTokenizer", .model_file = scratch_path("tekken.json")};
    EXPECT_OK(file_write_all(options.model_file, text, strlen(text)));
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), message);
}

#define CONFIG(specials) "\"pattern\": \"a|.\", \"default_vocab_size\": 3, \"default_num_special_tokens\": " specials

TEST(bad_tekken_files) {
    scratch_open();
    struct tokenizer *tokenizer;
    struct buffer file = read_bytes(TIKTOKEN "tekken.json");
    struct tokenizer_options options = {.type = "HuggingFaceTokenizer", .model_file = scratch};
    write_bytes(scratch_path("tekken.json"), file.data, file.length);
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "/tekken.json looks like Mistral's tekken.json");
    buffer_free(&file);
    expect_bad_tekken("{}", "is not a tekken.json");
    expect_bad_tekken("{\"config\": {\"pattern\": 1}, \"vocab\": []}", "is not a tekken.json");
    expect_bad_tekken("{\"config\": {\"pattern\": \"a\"}, \"vocab\": []}", "default_vocab_size");
    expect_bad_tekken("{\"config\": {" CONFIG("2") "}, \"vocab\": []}", "needs more");
    expect_bad_tekken("{\"config\": {" CONFIG("3") "}, \"vocab\": [{}]}", "needs more");
    expect_bad_tekken("{\"config\": {" CONFIG("2") "}, \"vocab\": [{}]}", "entry 0 has no string \"token_bytes\"");
    expect_bad_tekken("{\"config\": {" CONFIG("2") "}, \"vocab\": [{\"token_bytes\": \"YQ==\", \"rank\": 0}]}",
                      "byte 0 is not a token");
    scratch_close();
}

// Names and ids of openai-whisper 20250625.
TEST(whisper_has_its_own_special_tokens) {
    static const struct {
        int64_t ranks, size, given;
        struct {
            int32_t number;
            const char *name;
        } tokens[6];
    } rows[] = {
        {50257,
         51865,
         0,
         {{0, "<|startoftranscript|>"},
          {1, "<|en|>"},
          {99, "<|su|>"},
          {100, "<|translate|>"},
          {106, "<|0.00|>"},
          {1606, "<|30.00|>"}}},
        {50257,
         51866,
         51866,
         {{99, "<|su|>"},
          {100, "<|yue|>"},
          {101, "<|translate|>"},
          {106, "<|notimestamps|>"},
          {108, "<|0.02|>"},
          {1607, "<|30.00|>"}}},
        {50256,
         51864,
         51864,
         {{0, "<|startoftranscript|>"},
          {2, "<|zh|>"},
          {94, "<|haw|>"},
          {105, "<|notimestamps|>"},
          {156, "<|1.00|>"},
          {1606, "<|30.00|>"}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct tiktoken_known *known = tiktoken_find_known(rows[i].ranks, rows[i].given);
        EXPECT_INT(known->vocab_size, rows[i].size);
        EXPECT_INT(known->first_reserved + tiktoken_whisper_count(known), rows[i].size);
        for (int k = 0; k < 6; k++) {
            char *name = tiktoken_whisper_name(known, rows[i].tokens[k].number);
            EXPECT_STRING(name, rows[i].tokens[k].name);
            free(name);
        }
    }
    EXPECT_INT(tiktoken_find_known(50256, 0)->vocab_size, 50257);
}

// An empty token, written as "=": no text contains it, and it decodes to nothing.
TEST(a_token_may_be_empty) {
    struct buffer lines = {0};
    scratch_open();
    struct tokenizer_options options = {
        .type = "TikTokenizer", .model_file = scratch_path("empty"), .tiktoken_pattern = "gpt2", .vocab_size = 600};
    EXPECT_OK(file_read_all(TIKTOKEN "small.tiktoken", 1 << 20, &lines));
    buffer_append_string(&lines, "= 600\n");
    EXPECT_OK(file_write_all(options.model_file, lines.data, lines.length));
    EXPECT(json_ids_check_file(&options, "gpt2", TIKTOKEN "ids.jsonl") > 40);
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 601);
    expect_decoded(tokenizer, (const int32_t[]){'A', 600, 'B'}, 3, "AB");
    tokenizer_free(tokenizer);
    buffer_append_string(&lines, "= 601\n");
    EXPECT_OK(file_write_all(options.model_file, lines.data, lines.length));
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), ":601: the same token");
    buffer_free(&lines);
    scratch_close();
}

TEST_MAIN(TEST_CASE(golden_ids_of_tekken), TEST_CASE(bad_tekken_files), TEST_CASE(whisper_has_its_own_special_tokens),
          TEST_CASE(a_token_may_be_empty))
