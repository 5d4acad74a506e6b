// Rank files of tiktoken against golden ids of the package (tests/golden/make_tiktoken.py); every hand-written splitter
// against the general matcher; merging against its definition; damaged files.
#include "data/tokenizer/base64.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/tiktoken.h"
#include "json_ids.h"

#define TIKTOKEN "tests/golden/tiktoken/"

static const char *const pattern_names[] = {"gpt2", "cl100k", "llama3", "qwen", "o200k", "v1", "v2"};
enum { PATTERN_COUNT = sizeof pattern_names / sizeof pattern_names[0] };

TEST(golden_ids_with_every_pattern) {
    for (int i = 0; i < PATTERN_COUNT; i++) {
        struct tokenizer_options options = {
            .type = "TikTokenizer", .model_file = TIKTOKEN "small.tiktoken", .tiktoken_pattern = pattern_names[i]};
        EXPECT(json_ids_check_file(&options, pattern_names[i], TIKTOKEN "ids.jsonl") > 40);
    }
}

TEST(golden_ids_of_megatrons_form) {
    struct tokenizer_options options = {.type = "TikTokenizer",
                                        .model_file = TIKTOKEN "megatron.json",
                                        .tiktoken_pattern = "v1",
                                        .tiktoken_specials = 20,
                                        .vocab_size = 400};
    EXPECT(json_ids_check_file(&options, "v1", TIKTOKEN "megatron.jsonl") > 40);
    options.tiktoken_pattern = NULL;
    struct tokenizer *tokenizer;
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--tiktoken-pattern");
    options.as_today = true;
    EXPECT(json_ids_check_file(&options, "v2", TIKTOKEN "megatron.jsonl") > 40);
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 400);
    EXPECT_INT(tokenizer_eod(tokenizer), 2);
    expect_decoded(tokenizer, (const int32_t[]){2, 20 + 'A', 19, 6}, 4, "</s>A<SPECIAL_19><sep>");
    tokenizer_free(tokenizer);
    options.vocab_size = 421;
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "has 400 tokens");
    options.tiktoken_specials = 6;
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--tiktoken-num-special-tokens 6");
}

TEST(bytes_decode_to_themselves) {
    struct tokenizer_options options = {
        .type = "TikTokenizer", .model_file = TIKTOKEN "small.tiktoken", .tiktoken_pattern = "o200k"};
    struct json_ids open = json_ids_open(&options, "");
    EXPECT_INT(tokenizer_eod(open.tokenizer), -1);
    struct buffer text = {0}, decoded = {0};
    struct token_list ids = {0};
    uint64_t state = 7;
    for (int i = 0; i < 50; i++) {
        random_bytes(&state, &text, 3000);
        ids.count = 0;
        buffer_clear(&decoded);
        EXPECT_OK(tokenizer_encode(open.encoder, text.data, text.length, &ids));
        EXPECT_OK(tokenizer_decode(open.tokenizer, ids.ids, ids.count, &decoded));
        EXPECT(decoded.length == text.length && memcmp(decoded.data, text.data, text.length) == 0);
    }
    EXPECT_ERROR(tokenizer_decode(open.tokenizer, (const int32_t[]){500}, 1, &decoded), "no token has id 500");
    buffer_free(&text);
    buffer_free(&decoded);
    token_list_free(&ids);
    json_ids_close(&open);
}

// ---- splitters ----

// Text of the characters that the patterns distinguish, in any order.
static void random_text(uint64_t *state, struct buffer *out, size_t parts) {
    static const char *const pieces[] = {
        "a",      "b", "A",        "Z",      "1",      "22",         " ",    "  ",       "\n", "\r",     "\r\n",
        "\t",     "'", "'s",       "'S",     "'t",     "'r",         "'re",  "'LL",      "'l", "/",      ".",
        "!",      "_", "é",        "É",      "ǅ",      "ʰ",          "一",   "́",         "्",   "\u00BD", "\u00A0",
        "\u3000", "😀", "\xC2\x85", "\u200B", "\u017F", "\U000E0001", "\xC3", "\xFF\xFE", "س"};
    buffer_clear(out);
    for (size_t i = 0; i < parts; i++)
        buffer_append_string(out, pieces[next_random(state) % (sizeof pieces / sizeof pieces[0])]);
}

static void check_split(const struct splitter *splitter, const struct pattern *pattern, const struct buffer *text) {
    struct pattern_scratch scratch = {0};
    const unsigned char *bytes = (const unsigned char *)text->data;
    for (size_t at = 0; at < text->length;) {
        size_t piece = split_text(splitter, bytes + at, text->length - at);
        struct pattern_match match = {0};
        EXPECT_INT(pattern_find(pattern, &scratch, bytes, text->length, at, &match), 1);
        if (match.begin != at || match.end != at + piece)
            test_fail("\"%s\": piece at %zu has %zu bytes, the pattern matches %zu to %zu", text->data, at, piece,
                      match.begin, match.end);
        at += piece;
    }
    pattern_scratch_free(&scratch);
}

TEST(splitters_match_their_patterns) {
    for (int i = 0; i < PATTERN_COUNT; i++) {
        const struct split_pattern *known = split_pattern_by_name(pattern_names[i]);
        EXPECT(known);
        struct splitter *splitter = splitter_create(known);
        for (const char *const *text = known->texts; *text; text++) {
            EXPECT(split_pattern_by_text(*text, strlen(*text)) == known);
            struct pattern *pattern;
            EXPECT_OK(pattern_compile(&pattern, PATTERN_ONIGURUMA, *text, strlen(*text), known->name));
            struct buffer sample = {0};
            uint64_t state = 99;
            for (int round = 0; round < 3000; round++) {
                random_text(&state, &sample, next_random(&state) % 14);
                if (sample.length)
                    check_split(splitter, pattern, &sample);
            }
            buffer_free(&sample);
            pattern_free(pattern);
        }
        splitter_free(splitter);
    }
    EXPECT(!split_pattern_by_name("v3"));
    EXPECT(!split_pattern_by_text("x", 1));
}

// ---- merging ----

// By definition: the leftmost pair of lowest rank, one at a time.
static int64_t merge_slowly(const struct bpe *bpe, int32_t *ids, int64_t count) {
    for (;;) {
        const struct bpe_pair *best = NULL;
        int64_t at = -1;
        for (int64_t i = 0; i + 1 < count; i++) {
            const struct bpe_pair *pair = bpe_pair_find(bpe, ids[i], ids[i + 1]);
            if (pair && (!best || pair->rank < best->rank)) {
                best = pair;
                at = i;
            }
        }
        if (!best)
            return count;
        ids[at] = best->id;
        memmove(ids + at + 1, ids + at + 2, (size_t)(count - at - 2) * sizeof *ids);
        count--;
    }
}

// Random tables of merges, including unusual ones in which a merge ranks before those it depends on.
TEST(merging_follows_its_definition) {
    uint64_t state = 3;
    struct merge_scratch scratch = {0};
    for (int round = 0; round < 300; round++) {
        struct bpe bpe = {0};
        bpe_pairs_create(&bpe, 60);
        for (int i = 0; i < 60; i++) {
            struct bpe_pair pair = {(int32_t)(next_random(&state) % 12), (int32_t)(next_random(&state) % 12),
                                    (int32_t)(next_random(&state) % 30), (int32_t)(next_random(&state) % 12)};
            bpe_pairs_add(&bpe, pair);
        }
        int32_t ids[200], slow[200];
        int64_t count = (int64_t)(next_random(&state) % 200);
        for (int64_t i = 0; i < count; i++)
            ids[i] = slow[i] = (int32_t)(next_random(&state) % 12);
        int64_t merged = merge_ids(&bpe, &scratch, ids, count);
        EXPECT_INT(merged, merge_slowly(&bpe, slow, count));
        EXPECT(memcmp(ids, slow, (size_t)merged * sizeof *ids) == 0);
        free(bpe.pairs);
    }
    merge_scratch_free(&scratch);
}

// ---- files ----

static void expect_bad_ranks(const char *text, const char *message) {
    struct tiktoken_ranks ranks;
    EXPECT_ERROR(tiktoken_parse_ranks(&ranks, text, strlen(text), "r"), message);
}

TEST(bad_rank_files) {
    expect_bad_ranks("", "byte 0 is not a token");
    expect_bad_ranks("YQ== 0\nYg==1\n", "r:2: not a token");
    expect_bad_ranks("YQ= 0\n", "r:1: not a token");
    expect_bad_ranks("Y*== 0\n", "r:1: not a token");
    expect_bad_ranks("YQ== x\n", "r:1: the rank is not a number");
    expect_bad_ranks("YQ== 0 \n", "r:1: the rank is not a number");
    expect_bad_ranks("YQ== 99999999999\n", "r:1: the rank is not a number");
    expect_bad_ranks("YQ== 0\nYQ== 1\n", "r:2: the same token");
    expect_bad_ranks("YQ== 0\r\n\r\nYg== 0\r\n", "two tokens have the rank 0");
    expect_bad_ranks("YQ== 2000000000\n", "the file is damaged");
    expect_bad_ranks(" 0\n", "a token of 0 bytes");
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "TikTokenizer"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--tokenizer-model");
    options.model_file = TIKTOKEN "small.tiktoken";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "not those of a known rank file");
    options.tiktoken_pattern = "v9";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--tiktoken-pattern v9");
}

static void expect_bad_json(const char *text, const char *message) {
    struct tiktoken_ranks ranks;
    EXPECT_ERROR(tiktoken_parse_json(&ranks, text, strlen(text), "j", 1), message);
}

TEST(bad_megatron_files) {
    expect_bad_json("{}", "j: has 0 tokens");
    expect_bad_json("[]", "j: has 0 tokens");
    expect_bad_json("[1]", "entry 0 has no string \"token_bytes\"");
    expect_bad_json("[{\"token_bytes\": \"YQ==\"}]", "entry 0");
    expect_bad_json("[{\"token_bytes\": \"YQ==\", \"rank\": 1}]", "order of ranks");
    expect_bad_json("[{\"token_bytes\": \"YQ\", \"rank\": 0}]", "not base64");
    expect_bad_json("[{\"token_bytes\": \"YQ==\", \"rank\": 0}]", "byte 0 is not a token");
}

TEST(base64) {
    struct buffer out = {0};
    EXPECT(base64_decode("TWFuTWE=TQ==", 0, &out) && out.length == 0);
    EXPECT(base64_decode("TWFu", 4, &out) && base64_decode("TWE=", 4, &out) && base64_decode("TQ==", 4, &out));
    EXPECT_STRING(out.data, "ManMaM");
    EXPECT(base64_decode("+/8A", 4, &out) && out.length == 9 && memcmp(out.data + 6, "\xFB\xFF", 3) == 0);
    static const char *const bad[] = {"T", "TQ=", "T===", "====", "TQ==TQ==", "T*==", "TWF", "T=Fu"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT(!base64_decode(bad[i], strlen(bad[i]), &out) && out.length == 9);
    buffer_free(&out);
}

TEST(known_files) {
    EXPECT_INT(tiktoken_find_known(100256, 0)->vocab_size, 100277);
    EXPECT(!tiktoken_find_known(100, 0));
    char *path = shared_file("tiktoken/llama3_tokenizer.model");
    struct tokenizer_options options = {.type = "TikTokenizer", .model_file = path, .as_today = true};
    struct json_ids open = json_ids_open(&options, "");
    EXPECT_INT(tokenizer_vocab_size(open.tokenizer), 128256);
    EXPECT_INT(tokenizer_eod(open.tokenizer), 128001);
    struct token_list ids = {0};
    static const char text[] = "<|begin_of_text|>Hello world<|reserved_special_token_250|>";
    EXPECT_OK(tokenizer_encode(open.encoder, text, sizeof text - 1, &ids));
    expect_ids(&ids, (const int32_t[]){128000, 9906, 1917, 128255}, 4);
    expect_decoded(open.tokenizer, ids.ids, ids.count, text);
    token_list_free(&ids);
    json_ids_close(&open);
    free(path);
}

TEST_MAIN(TEST_CASE(golden_ids_with_every_pattern), TEST_CASE(golden_ids_of_megatrons_form),
          TEST_CASE(bytes_decode_to_themselves), TEST_CASE(splitters_match_their_patterns),
          TEST_CASE(merging_follows_its_definition), TEST_CASE(bad_rank_files), TEST_CASE(bad_megatron_files),
          TEST_CASE(base64), TEST_CASE(known_files))
