// GPT-2 BPE: ids against Hugging Face's tokenizers (tests/golden/make_bpe.py), decoding of every byte string, both
// merge algorithms against a naive one, time for long inputs, and inconsistent files.
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/byte_map.h"
#include "base/log.h"
#include "fixture.h"
#include "text_fixture.h"

struct coder {
    struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    struct token_list ids;
    struct buffer text;
};

static void coder_open(struct coder *coder) {
    *coder = (struct coder){.tokenizer = open_golden()};
    EXPECT_OK(tokenizer_encoder_create(&coder->encoder, coder->tokenizer));
}

static void coder_close(struct coder *coder) {
    token_list_free(&coder->ids);
    buffer_free(&coder->text);
    tokenizer_encoder_free(coder->encoder);
    tokenizer_free(coder->tokenizer);
}

// Encodes into coder->ids and checks that decoding returns the text.
static void round_trip(struct coder *coder, const char *text, size_t length) {
    coder->ids.count = 0;
    buffer_clear(&coder->text);
    EXPECT_OK(tokenizer_encode(coder->encoder, text, length, &coder->ids));
    EXPECT_OK(tokenizer_decode(coder->tokenizer, coder->ids.ids, coder->ids.count, &coder->text));
    EXPECT_INT(coder->text.length, length);
    EXPECT(length == 0 || memcmp(coder->text.data, text, length) == 0);
}

static void check_ids(const struct json *line, void *context) {
    struct coder *coder = context;
    const struct json *text = json_member(line, "text"), *ids = json_member(line, "ids");
    round_trip(coder, text->string, text->length);
    EXPECT_INT(coder->ids.count, ids->count);
    for (size_t i = 0; i < ids->count; i++)
        if (coder->ids.ids[i] != (int32_t)ids->items[i].number)
            test_fail("id %zu of \"%s\" is %d, expected %.0f", i, text->string, coder->ids.ids[i],
                      ids->items[i].number);
}

// Twice, so that the second round comes from the cache.
TEST(ids_equal_hugging_face) {
    struct coder coder;
    coder_open(&coder);
    for (int round = 0; round < 2; round++)
        EXPECT(for_each_case(GOLDEN "ids.jsonl", check_ids, &coder) > 190);
    coder_close(&coder);
}

TEST(byte_map_is_gpt2s) {
    struct byte_map map;
    byte_map_init(&map);
    EXPECT_INT(map.character[' '], 0x120);
    EXPECT_INT(map.character['\n'], 0x10A);
    EXPECT_INT(map.character['!'], '!');
    EXPECT_INT(map.character[173], 0x143);
    EXPECT_INT(map.in_order[0], '!');
    EXPECT_INT(map.in_order[220], ' ');
    EXPECT_INT(map.in_order[198], '\n');
    bool seen[256] = {false};
    for (int i = 0; i < 256; i++)
        seen[map.in_order[i]] = true;
    for (int i = 0; i < 256; i++)
        EXPECT(seen[i]);
}

TEST(every_byte_string_comes_back) {
    struct coder coder;
    coder_open(&coder);
    struct buffer text = {0};
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b += 5) {
            const char pair[2] = {(char)(unsigned char)a, (char)(unsigned char)b};
            round_trip(&coder, pair, 2);
        }
    uint64_t state = 7;
    for (int round = 0; round < 3000; round++) {
        random_bytes(&state, &text, next_random(&state) % 300);
        round_trip(&coder, buffer_string(&text), text.length);
    }
    buffer_free(&text);
    coder_close(&coder);
}

// By definition: merges all occurrences of the pair of lowest rank, repeatedly.
static int64_t merge_naively(const struct bpe *bpe, const unsigned char *piece, size_t length, int32_t *ids) {
    int64_t count = (int64_t)length;
    for (size_t i = 0; i < length; i++)
        ids[i] = bpe->byte_id[piece[i]];
    for (;;) {
        const struct bpe_pair *best = NULL;
        for (int64_t i = 0; i + 1 < count; i++) {
            const struct bpe_pair *pair = bpe_pair_find(bpe, ids[i], ids[i + 1]);
            if (pair && (!best || pair->rank < best->rank))
                best = pair;
        }
        if (!best)
            return count;
        int64_t kept = 0;
        for (int64_t i = 0; i < count; kept++) {
            bool merges = i + 1 < count && ids[i] == best->left && ids[i + 1] == best->right;
            ids[kept] = merges ? best->id : ids[i];
            i += merges ? 2 : 1;
        }
        count = kept;
    }
}

static struct bpe *open_bpe(const char *vocab_file, const char *merge_file) {
    struct vocabulary vocabulary;
    struct bpe *bpe;
    EXPECT_OK(vocabulary_read_json(&vocabulary, vocab_file));
    EXPECT_OK(bpe_open(&bpe, &vocabulary, vocab_file, merge_file));
    vocabulary_free(&vocabulary);
    return bpe;
}

// Lengths on both sides of 64, where the algorithm changes.
static void compare_with_naive(const struct bpe *bpe, const char *alphabet, uint64_t seed) {
    struct merge_scratch memory = {0};
    struct token_list ids = {0};
    unsigned char piece[200];
    int32_t expected[200];
    size_t letters = strlen(alphabet);
    for (int round = 0; round < 3000; round++) {
        size_t length = 1 + next_random(&seed) % sizeof piece;
        for (size_t i = 0; i < length; i++)
            piece[i] = (unsigned char)alphabet[next_random(&seed) % letters];
        ids.count = 0;
        EXPECT_OK(bpe_encode(bpe, &memory, piece, length, &ids));
        expect_ids(&ids, expected, merge_naively(bpe, piece, length, expected));
    }
    token_list_free(&ids);
    merge_scratch_free(&memory);
}

TEST(both_ways_of_merging_equal_the_naive_one) {
    struct bpe *bpe = open_bpe(GOLDEN "vocab.json", GOLDEN "merges.txt");
    compare_with_naive(bpe, "ab", 1);
    compare_with_naive(bpe, "there wasn", 2);
    compare_with_naive(bpe, "a", 3);
    bpe_free(bpe);
}

// ---- small tokenizers made here ----

// Writes a vocabulary of the 256 bytes, the given tokens from id 256 on and <|endoftext|>, and a merge file.
static void write_files(const char *further, const char *merges) {
    struct byte_map map;
    struct buffer vocabulary = {0};
    byte_map_init(&map);
    buffer_append_byte(&vocabulary, '{');
    for (int id = 0; id < 256; id++) {
        struct buffer symbol = {0};
        byte_map_write(&map, &map.in_order[id], 1, &symbol);
        bool escaped = map.in_order[id] == '"' || map.in_order[id] == '\\';
        buffer_printf(&vocabulary, "\"%s%s\": %d, ", escaped ? "\\" : "", symbol.data, id);
        buffer_free(&symbol);
    }
    buffer_printf(&vocabulary, "%s \"<|endoftext|>\": 400}", further);
    write_bytes(scratch_path("vocab.json"), vocabulary.data, vocabulary.length);
    write_bytes(scratch_path("merges.txt"), merges, strlen(merges));
    buffer_free(&vocabulary);
}

static int open_scratch(struct tokenizer **tokenizer) {
    struct tokenizer_options options = {.vocab_file = scratch_path("vocab.json"),
                                        .merge_file = scratch_path("merges.txt")};
    return tokenizer_open(tokenizer, &options);
}

static void expect_encoding(const char *text, const int32_t *expected, int64_t count) {
    struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    struct token_list ids = {0};
    EXPECT_OK(open_scratch(&tokenizer));
    EXPECT_OK(tokenizer_encoder_create(&encoder, tokenizer));
    EXPECT_OK(tokenizer_encode(encoder, text, strlen(text), &ids));
    expect_ids(&ids, expected, count);
    token_list_free(&ids);
    tokenizer_encoder_free(encoder);
    tokenizer_free(tokenizer);
}

// A merge that begins with #, no version line, \r\n, no final line end, ids with gaps and out of order.
TEST(merge_files_as_they_are_found) {
    scratch_open();
    write_files("\"##\": 300, \"ab\": 256,", "# #\na b");
    expect_encoding("##ab", (const int32_t[]){300, 256}, 2);
    write_files("\"##\": 300, \"ab\": 256,", "#version: 0.2\r\na b\r\n# #\r\n");
    expect_encoding("##ab", (const int32_t[]){300, 256}, 2);
    write_files("\"\\u0120a\": 256,", "#version: 0.2\n\u0120 a\n\n");
    expect_encoding("x a", (const int32_t[]){'x' - 33, 256}, 2);
    write_files("", "");
    expect_encoding("ab", (const int32_t[]){'a' - 33, 'b' - 33}, 2);
    scratch_close();
}

// By definition all occurrences of one pair are merged before the next search, even if a later merge has a lower rank.
TEST(rounds_are_kept_with_ranks_out_of_order) {
    scratch_open();
    write_files("\"ab\": 256, \"abc\": 257, \"bab\": 258,", "b ab\nab c\na b\n");
    struct bpe *bpe = open_bpe(scratch_path("vocab.json"), scratch_path("merges.txt"));
    compare_with_naive(bpe, "abc", 4);
    bpe_free(bpe);
    scratch_close();
}

// One token produced by two pairs.
TEST(two_merges_may_have_one_result) {
    scratch_open();
    write_files("\"ab\": 256, \"bc\": 257, \"abc\": 258, \"xa\": 260,", "x a\nb c\na b\nab c\na bc\n");
    expect_encoding("abc", (const int32_t[]){258}, 1);
    expect_encoding("xabc", (const int32_t[]){260, 257}, 2);
    scratch_close();
}

TEST(files_that_disagree_are_errors) {
    scratch_open();
    struct tokenizer *tokenizer;
    static const struct {
        const char *further, *merges, *message;
    } cases[] = {
        {"", "#version: 0.2\na b\n", "merges.txt:2: \"ab\" is not a token of"},
        {"\"ab\": 256,", "#version: 0.2\na b\nab zz\n", "merges.txt:3: \"zz\" is not a token of"},
        {"\"ab\": 256,", "#version: 0.2\nzz b\n", "merges.txt:2: \"zz\" is not a token of"},
        {"\"ab\": 256,", "#version: 0.2\na b\na b\n", "merges.txt:3: the merge \"a b\" occurs twice"},
        {"\"ab\": 256,", "#version: 0.2\nab\n", "merges.txt:2: \"ab\" is not a merge"},
        {"\"ab\": 256,", "a  b\n", "merges.txt:1: \"a  b\" is not a merge"},
        {"\"ab\": 256,", "a b c\n", "merges.txt:1: \"a b c\" is not a merge"},
        {"\"ab\": 256,", " b\n", "is not a merge"},
        {"\"ab\": 256,", "a \n", "is not a merge"},
        {"\"ab\": 256,", "a b\n\na c\n", "merges.txt:2: \"\" is not a merge"},
        {"\"ab\": 3,", "", "have the same id 3"},
        {"\"ab\": 256, \"ab\": 257,", "", "appears twice"},
        {"\"ab\": 256.5,", "", "not an integer"},
        {"\"ab\": -1,", "", "not an integer"},
        {"\"ab\": \"256\",", "", "not an integer"},
        {"\"ab\": 2147483648,", "", "not an integer"},
        {"\"ab\": 1e99,", "", "not an integer"},
        {"\"ab\": 2000000000,", "", "there are only"},
        {"\"\": 256,", "", "empty string"},
        {"\"ab\" 256,", "", "vocab.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_files(cases[i].further, cases[i].merges);
        EXPECT_ERROR(open_scratch(&tokenizer), cases[i].message);
        EXPECT(strstr(error_message(), scratch));
    }
    scratch_close();
}

// Tokens without a merge: special ones and a few others are accepted; many mean the merges of another tokenizer; one
// that consists of two tokens means that its merge is missing.
TEST(tokens_that_no_merge_makes) {
    scratch_open();
    struct tokenizer *tokenizer;
    struct buffer words = {0};
    log_set_level(LOG_ERROR);
    buffer_append_string(&words, "\"ab\": 256, \"<s>\": 257, \"[MASK]\": 258, \"a word\": 259,");
    for (int i = 0; i < 30; i++)
        buffer_printf(&words, "\"<|extra_%d|>\": %d,", i, 260 + i);
    for (int i = 0; i < 4; i++)
        buffer_printf(&words, "\"madeupword%d\": %d,", i, 290 + i);
    write_files(words.data, "a b\n");
    EXPECT_OK(open_scratch(&tokenizer));
    tokenizer_free(tokenizer);
    buffer_append_string(&words, "\"zzz\": 294,");
    write_files(words.data, "a b\n");
    EXPECT_ERROR(open_scratch(&tokenizer),
                 "makes the token \"madeupword0\" (id 290), nor 4 others of the 296 tokens, "
                 "and there are 1 merges; the file is truncated, or belongs to another tokenizer: use the");
    EXPECT(strstr(error_message(), "merges.txt") && strstr(error_message(), "vocab.json"));
    write_files("\"ab\": 256, \"\u0120ab\": 257,", "a b\n");
    EXPECT_ERROR(open_scratch(&tokenizer), "merges.txt: the merge \"\u0120 ab\" is missing, without which no text "
                                           "becomes the token 257 of");
    log_set_level(LOG_INFO);
    buffer_free(&words);
    scratch_close();
}

TEST(vocabularies_that_are_none_are_errors) {
    scratch_open();
    struct tokenizer *tokenizer;
    static const struct {
        const char *vocabulary, *message;
    } cases[] = {
        {"", "vocab.json"},
        {"[]", "not a vocabulary"},
        {"{}", "not a vocabulary"},
        {"{\"a\": 0, \"<|endoftext|>\": 1}", "byte 0 has no token"},
    };
    write_bytes(scratch_path("merges.txt"), "a b\n", 4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_bytes(scratch_path("vocab.json"), cases[i].vocabulary, strlen(cases[i].vocabulary));
        EXPECT_ERROR(open_scratch(&tokenizer), cases[i].message);
    }
    EXPECT_OK(file_remove_tree(scratch_path("vocab.json")));
    EXPECT_ERROR(open_scratch(&tokenizer), "vocab.json");
    write_files("", "");
    EXPECT_OK(file_remove_tree(scratch_path("merges.txt")));
    EXPECT_ERROR(open_scratch(&tokenizer), "merges.txt");
    scratch_close();
}

TEST(missing_end_of_text_is_an_error) {
    scratch_open();
    write_files("", "");
    struct buffer text = read_bytes(scratch_path("vocab.json"));
    memcpy(strstr(text.data, "<|endoftext|>"), "<|endOFtext|>", 13);
    write_bytes(scratch_path("vocab.json"), text.data, text.length);
    buffer_free(&text);
    struct tokenizer *tokenizer;
    EXPECT_ERROR(open_scratch(&tokenizer), "no end-of-document token \"<|endoftext|>\"");
    scratch_close();
}

TEST(ids_without_token_do_not_decode) {
    scratch_open();
    write_files("\"<other> \xE2\x82\xAC\": 390,", "");
    struct tokenizer *tokenizer;
    struct buffer out = {0};
    EXPECT_OK(open_scratch(&tokenizer));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 401);
    EXPECT_INT(tokenizer_eod(tokenizer), 400);
    buffer_append_string(&out, "before");
    EXPECT_ERROR(tokenizer_decode(tokenizer, (const int32_t[]){0, 300}, 2, &out), "no token has id 300");
    EXPECT_ERROR(tokenizer_decode(tokenizer, (const int32_t[]){0, 401}, 2, &out), "outside the vocabulary of 401");
    EXPECT_ERROR(tokenizer_decode(tokenizer, (const int32_t[]){-1}, 1, &out), "token id -1");
    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    EXPECT_STRING(out.data, "before");
    EXPECT_OK(tokenizer_decode(tokenizer, (const int32_t[]){390, 400}, 2, &out));
    EXPECT_STRING(out.data, "before<other> \xE2\x82\xAC<|endoftext|>");
    buffer_free(&out);
    tokenizer_free(tokenizer);
    scratch_close();
}

// In quadratic time this would take hours.
TEST(long_runs_take_no_quadratic_time) {
    struct coder coder;
    coder_open(&coder);
    static const char *const units[] = {"a", "ab", " ", "\n", "\xE4\xB8\x96", "\xFF", ".", "7", "'", "' "};
    struct buffer text = {0};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        buffer_clear(&text);
        while (text.length < 1000000)
            buffer_append_string(&text, units[i]);
        round_trip(&coder, text.data, text.length);
        buffer_append_string(&text, "x");
        round_trip(&coder, text.data, text.length);
    }
    buffer_free(&text);
    coder_close(&coder);
}

TEST_MAIN(TEST_CASE(ids_equal_hugging_face), TEST_CASE(byte_map_is_gpt2s), TEST_CASE(every_byte_string_comes_back),
          TEST_CASE(both_ways_of_merging_equal_the_naive_one), TEST_CASE(merge_files_as_they_are_found),
          TEST_CASE(rounds_are_kept_with_ranks_out_of_order), TEST_CASE(two_merges_may_have_one_result),
          TEST_CASE(files_that_disagree_are_errors), TEST_CASE(tokens_that_no_merge_makes),
          TEST_CASE(vocabularies_that_are_none_are_errors), TEST_CASE(missing_end_of_text_is_an_error),
          TEST_CASE(ids_without_token_do_not_decode), TEST_CASE(long_runs_take_no_quadratic_time))
