// Rank files of tiktoken against golden ids of the package (tests/golden/make_tiktoken.py); every hand-written splitter
// against the general matcher; merging against its definition; damaged files.
#include "data/tokenizer/base64.h"
#include "data/tokenizer/merge_ids.h"
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

// Text of the characters that the patterns tell apart, in any order.
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

static void check_split(const struct split_rules *rules, const struct pattern *pattern,
                        const struct unicode_table *table, const struct buffer *text) {
    struct pattern_scratch scratch = {0};
    const unsigned char *bytes = (const unsigned char *)text->data;
    for (size_t at = 0; at < text->length;) {
        size_t piece = split_text(rules, table, bytes + at, text->length - at);
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
    struct unicode_table *table = split_table_create();
    for (int i = 0; i < PATTERN_COUNT; i++) {
        const struct split_pattern *known = split_pattern_by_name(pattern_names[i]);
        EXPECT(known);
        for (const char *const *text = known->texts; *text; text++) {
            EXPECT(split_pattern_by_text(*text, strlen(*text)) == known);
            struct pattern *pattern;
            EXPECT_OK(pattern_compile(&pattern, PATTERN_ONIGURUMA, *text, strlen(*text), known->name));
            struct buffer sample = {0};
            uint64_t state = 99;
            for (int round = 0; round < 3000; round++) {
                random_text(&state, &sample, next_random(&state) % 14);
                if (sample.length)
                    check_split(&known->rules, pattern, table, &sample);
            }
            buffer_free(&sample);
            pattern_free(pattern);
        }
    }
    EXPECT(!split_pattern_by_name("v3"));
    EXPECT(!split_pattern_by_text("x", 1));
    free(table);
}

// ---- patterns ----

static void expect_match_by(enum pattern_syntax syntax, const char *text, const char *subject, size_t begin,
                            size_t end) {
    struct pattern *pattern;
    struct pattern_scratch scratch = {0};
    struct pattern_match match = {SIZE_MAX, SIZE_MAX};
    EXPECT_OK(pattern_compile(&pattern, syntax, text, strlen(text), "pattern"));
    int found = pattern_find(pattern, &scratch, (const unsigned char *)subject, strlen(subject), 0, &match);
    if (begin == SIZE_MAX ? found != 0 : found != 1 || match.begin != begin || match.end != end)
        test_fail("%s in \"%s\": %d, %zu to %zu", text, subject, found, match.begin, match.end);
    pattern_scratch_free(&scratch);
    pattern_free(pattern);
}

static void expect_match(const char *text, const char *subject, size_t begin, size_t end) {
    expect_match_by(PATTERN_ONIGURUMA, text, subject, begin, end);
}

TEST(patterns_match) {
    expect_match("b", "abc", 1, 2);
    expect_match("x", "abc", SIZE_MAX, 0);
    expect_match("a|ab", "ab", 0, 1);
    expect_match("(?:a|ab)c", "abc", 0, 3);
    expect_match("a*", "baa", 0, 0);
    expect_match("a+?b", "aaab", 0, 4);
    expect_match("a+?", "aaa", 0, 1);
    expect_match("a{2}", "aaa", 0, 2);
    expect_match("a{2,}", "baaaa", 1, 5);
    expect_match("a{,2}b", "aaab", 1, 4);
    expect_match("a{1,2}?b", "aaab", 1, 4);
    expect_match("a{1,2}+b", "aaaab", 0, 5);  // not possessive in this syntax
    expect_match("a++a", "aaa", SIZE_MAX, 0);
    expect_match("(?>ab|a)b", "ab", SIZE_MAX, 0);
    expect_match("(?:ab)*+a", "ababa", 0, 5);
    expect_match("(?:ab)++ab", "abab", SIZE_MAX, 0);
    expect_match("(?:ab){2,3}", "abababab", 0, 6);
    expect_match("(ab|cd)+?e", "abcde", 0, 5);
    expect_match("a(?=b)", "acab", 2, 3);
    expect_match("a(?!b)", "abac", 2, 3);
    expect_match("(?<=b)a", "aba", 2, 3);
    expect_match("(?<![a-b])c", "bc c", 3, 4);
    expect_match("[^a-c\\d]+", "ab1éx2", 3, 6);
    expect_match("[\\]\\-x]+", "a]-xb", 1, 4);
    expect_match("[a-]+", "b-a", 1, 3);
    expect_match("[^(\\s|[.,])]+", "( ab|", 2, 4);
    expect_match("(?i:sk)", "x\u017F\u212A", 1, 6);
    expect_match("(?i:a)b", "Ab", 0, 2);
    expect_match("(?i:a)b", "AB", SIZE_MAX, 0);
    expect_match("^b", "a\nb", 2, 3);
    expect_match("a$", "ba\nc", 1, 2);
    expect_match("\\Aa\\z", "a", 0, 1);
    expect_match("\\bb", "ab b", 3, 4);
    expect_match("a\\Bb", "ab", 0, 2);
    expect_match(".+", "\nab\n", 1, 3);
    expect_match("\\W+", "ab, c", 2, 4);
    expect_match("\\x41\\x{1F600}\\u0042", "A😀B", 0, 6);
    expect_match("\\P{L}\\p{^N}\\p{Lu}", "1aA", 0, 3);
}

// What Oniguruma answers through the package tokenizers 0.23.
TEST(patterns_match_as_oniguruma) {
    expect_match("\\w", "²", 0, 2);  // superscripts and fractions of Latin-1 are of \w, but not in brackets
    expect_match("[\\w]", "²¼", SIZE_MAX, 0);
    expect_match("a\\b", "a² a", 4, 5);
    expect_match("[[:punct:]]+", "a$+.", 1, 4);
    expect_match("\\p{Punct}+", "a$+.", 3, 4);
    expect_match("[[:^alpha:]]", "a1", 1, 2);
    expect_match("[[:alpha]]", ":", 0, 1);
    expect_match("\\p{Han}+", "a一丁あ", 1, 7);
    expect_match("\\p{ hira-gana }", "aあ", 1, 4);
    expect_match("[\\p{L}&&[^\\p{Han}]]+", "一ab一", 3, 5);
    expect_match("[^a-z&&aeiou]", "ab", 1, 2);
    expect_match("[a[^b]]", "bac", 1, 2);
    expect_match("[^a[b]]", "abc", 2, 3);
    expect_match("[]a]+", "x]a", 1, 3);
    expect_match("\\h+", "gf0", 1, 3);
    expect_match("\\R", "a\r\nb", 1, 3);
    expect_match("\\R\\n", "\r\n", SIZE_MAX, 0);
    expect_match("\\N\\O", "\na\n", 1, 3);
    expect_match("a(?i)b|c", "C", SIZE_MAX, 0);  // it takes the alternatives behind it for its inside
    expect_match("a(?i)b|c", "aC", 0, 2);
    expect_match("(?i)a(?-i)b", "AbAB", 0, 2);
    expect_match("(?i:É)", "é", 0, 2);
    expect_match("(?i:σ)+", "ςΣσ", 0, 6);
    expect_match("(?i:[^\\p{Lu}])", "aA1", 2, 3);
    expect_match("(?i:\\p{Lu})", "aA", 1, 2);
    expect_match("(?m:a.b)", "a\nb", 0, 3);
    expect_match("(?x: a # one\n b )", "ab", 0, 2);
    expect_match("(?<n>a)(?'m'b)(?#c)", "ab", 0, 2);
    expect_match("(?<=ab|c)d", "dabd", 3, 4);
    expect_match("(?<=a+)d", "daad", 3, 4);
    expect_match("(?<!ab)d", "abdcd", 4, 5);
    expect_match("a\\Kb", "ab", 1, 2);
    expect_match("(?>a\\Kb)?ac|ab", "ab", 0, 2);
    expect_match("a\\Z", "aa\n", 1, 2);
    expect_match("(?:a|)*b", "aab", 0, 3);
    expect_match("(?:a*)+", "aab", 0, 2);
    expect_match("(|a)+", "aa", 0, 0);
    expect_match("a{2}?b", "b", 0, 1);  // all of it is optional
    expect_match("a{3}+", "aaaaaaaa", 0, 6);
    expect_match("a{x}{", "a{x}{", 0, 5);
    expect_match("\\q\\_\\0", "q_\0", SIZE_MAX, 0);  // strlen ends the subject
    expect_match("\\q\\_\\060", "q_0", 0, 3);
    expect_match("\\pL", "pL", 0, 2);
    expect_match("(?:(?:(?:(?:){1000}){1000}){1000}){1000}a", "a", 0, 1);
}

TEST(patterns_match_as_in_rust) {
    expect_match_by(PATTERN_RUST, "\\w+", "²\u200D", 2, 5);
    expect_match_by(PATTERN_RUST, "a$", "a\na", 2, 3);
    expect_match_by(PATTERN_RUST, "(?m)a$", "a\na", 0, 1);
    expect_match_by(PATTERN_RUST, "(?s).+", "a\na", 0, 3);
    expect_match_by(PATTERN_RUST, "a{1,2}+a", "aa", SIZE_MAX, 0);
    expect_match_by(PATTERN_RUST, "\\pL\\u{42}", "aB", 0, 2);
    expect_match_by(PATTERN_RUST, "a(?i)b|c", "C", 0, 1);
}

static void expect_refused(const char *text, const char *message) {
    struct pattern *pattern;
    EXPECT_ERROR(pattern_compile(&pattern, PATTERN_ONIGURUMA, text, strlen(text), "the pattern"), message);
    EXPECT(pattern == NULL);
}

TEST(patterns_that_are_refused) {
    expect_refused("a(b", "( without )");
    expect_refused("a)b", ") without (");
    expect_refused("[ab", "[ without ]");
    expect_refused("[]", "empty brackets");
    expect_refused("[a[b]", "[ without ]");
    expect_refused("[a[b", "[ without ]");
    expect_refused("[b-a]", "higher to a lower");
    expect_refused("[a-\\d]", "a range that does not end with a character");
    expect_refused("[\\d-a]", "a range that begins with a class at byte 3");
    expect_refused("[[:foo:]]", "the class [:foo:] at byte 1");
    expect_refused("*a", "a repetition of nothing");
    expect_refused("(?=a)*", "a repetition of an assertion");
    expect_refused("a{3,2}", "braces");
    expect_refused("a{1001}", "1000");
    expect_refused("x(?~a)", "the group (?~ at byte 1");
    expect_refused("(?P<n>a)", "the group (?P at byte 0");
    expect_refused("(?i", "the group (? at byte 0");
    expect_refused("(?#x", "(?# without )");
    expect_refused("(?<name", "a group without its name");
    expect_refused("(?<=a{300})c", "more than 255 characters to look back at");
    expect_refused("(a)\\1", "the escape \\1 at byte 3");
    expect_refused("\\X", "the escape \\X at byte 0");
    expect_refused("\\p{Klingon}", "the property \\p{Klingon} at byte 0");
    expect_refused("\\p{L", "\\p{ without }");
    expect_refused("\\", "\\ at the end");
    expect_refused("\\xE4", "the byte \\xE4");
    expect_refused("\\u{41}", "a character by a number");
    expect_refused("(?i:ss)", "U+00DF, which is several characters");
    expect_refused("(?i:[ß])", "U+00DF, which is several characters, in a set");
    expect_refused("\xFF", "not UTF-8");
    expect_refused("(?:(?:(?:a{1000}b){1000}){1000}){1000}", "too long");
}

TEST(patterns_that_go_back_forever_are_stopped) {
    struct pattern *pattern;
    struct pattern_scratch scratch = {0};
    struct pattern_match match;
    static const char text[] = "(?:a|aa|a[a])+b";
    EXPECT_OK(pattern_compile(&pattern, PATTERN_ONIGURUMA, text, sizeof text - 1, "the pattern"));
    static const unsigned char subject[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    EXPECT_ERROR(pattern_find(pattern, &scratch, subject, sizeof subject - 1, 0, &match), "too many steps");
    pattern_scratch_free(&scratch);
    pattern_free(pattern);
}

// ---- merging ----

// The definition: the leftmost pair of lowest rank, one at a time.
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

// Random tables of merges, strange ones too, in which a merge ranks before those it is made of.
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
    expect_bad_ranks("", "byte 0 is no token");
    expect_bad_ranks("YQ== 0\nYg==1\n", "r:2: not a token");
    expect_bad_ranks("YQ= 0\n", "r:1: not a token");
    expect_bad_ranks("Y*== 0\n", "r:1: not a token");
    expect_bad_ranks("YQ== x\n", "r:1: the rank is no number");
    expect_bad_ranks("YQ== 0 \n", "r:1: the rank is no number");
    expect_bad_ranks("YQ== 99999999999\n", "r:1: the rank is no number");
    expect_bad_ranks("YQ== 0\nYQ== 1\n", "r:2: the same token");
    expect_bad_ranks("YQ== 0\r\n\r\nYg== 0\r\n", "two tokens have the rank 0");
    expect_bad_ranks("YQ== 2000000000\n", "the file is damaged");
    expect_bad_ranks(" 0\n", "a token of 0 bytes");
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "TikTokenizer"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--tokenizer-model");
    options.model_file = TIKTOKEN "small.tiktoken";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "none of the known rank files");
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
    expect_bad_json("[1]", "entry 0: has no string \"token_bytes\"");
    expect_bad_json("[{\"token_bytes\": \"YQ==\"}]", "entry 0");
    expect_bad_json("[{\"token_bytes\": \"YQ==\", \"rank\": 1}]", "order of ranks");
    expect_bad_json("[{\"token_bytes\": \"YQ\", \"rank\": 0}]", "not base64");
    expect_bad_json("[{\"token_bytes\": \"YQ==\", \"rank\": 0}]", "byte 0 is no token");
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
    EXPECT_INT(tiktoken_find_known(100256)->vocab_size, 100277);
    EXPECT(!tiktoken_find_known(100));
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
          TEST_CASE(bytes_decode_to_themselves), TEST_CASE(splitters_match_their_patterns), TEST_CASE(patterns_match),
          TEST_CASE(patterns_match_as_oniguruma), TEST_CASE(patterns_match_as_in_rust),
          TEST_CASE(patterns_that_are_refused), TEST_CASE(patterns_that_go_back_forever_are_stopped),
          TEST_CASE(merging_follows_its_definition), TEST_CASE(bad_rank_files), TEST_CASE(bad_megatron_files),
          TEST_CASE(base64), TEST_CASE(known_files))
