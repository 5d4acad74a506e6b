// BERT's WordPiece against golden ids of Google's algorithm (tests/golden/make_wordpiece.py), its vocabulary file, and
// damaged ones.
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/wordpiece.h"
#include "json_ids.h"

#define WORDPIECE "tests/golden/wordpiece/"

static void need_normal_forms(void) {
    if (normal_form_require() < 0)
        test_skip("this build has no normal forms");
}

TEST(golden_ids) {
    need_normal_forms();
    struct tokenizer_options options = {.type = "BertWordPieceLowerCase", .vocab_file = WORDPIECE "vocab.txt"};
    EXPECT(json_ids_check_file(&options, "lower", WORDPIECE "ids.jsonl") > 45);
    options.type = "BertWordPieceCase";
    EXPECT(json_ids_check_file(&options, "case", WORDPIECE "ids.jsonl") > 45);
}

TEST(megatron_tokens_are_appended) {
    struct tokenizer_options options = {.type = "BertWordPieceCase", .vocab_file = WORDPIECE "vocab.txt"};
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 422);
    EXPECT_INT(tokenizer_eod(tokenizer), 421);
    expect_decoded(tokenizer, (const int32_t[]){420, 421}, 2, "[BOS] [EOS]");
    tokenizer_free(tokenizer);
    options.extra_ids = 3;
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 425);
    EXPECT_INT(tokenizer_eod(tokenizer), 421);
    expect_decoded(tokenizer, (const int32_t[]){424}, 1, "<extra_id_2>");
    tokenizer_free(tokenizer);
}

TEST(decoding_joins_pieces_and_tidies) {
    need_normal_forms();
    struct tokenizer_options options = {.type = "BertWordPieceLowerCase", .vocab_file = WORDPIECE "vocab.txt"};
    struct json_ids open = json_ids_open(&options, "");
    struct token_list ids = {0};
    static const char text[] = "The miller's  daughter , and\tthe bridge !";
    EXPECT_OK(tokenizer_encode(open.encoder, text, sizeof text - 1, &ids));
    expect_decoded(open.tokenizer, ids.ids, ids.count, "the miller's daughter, and the bridge!");
    token_list_free(&ids);
    json_ids_close(&open);
}

// Ill-formed bytes become U+FFFD, which is dropped.
TEST(ill_formed_text) {
    need_normal_forms();
    struct tokenizer_options options = {.type = "BertWordPieceLowerCase", .vocab_file = WORDPIECE "vocab.txt"};
    struct json_ids open = json_ids_open(&options, "");
    struct token_list ids = {0}, clean = {0};
    static const char text[] = "the\xFFri\xC3ver \xF0\x9F";
    EXPECT_OK(tokenizer_encode(open.encoder, text, sizeof text - 1, &ids));
    EXPECT_OK(tokenizer_encode(open.encoder, "theriver", 8, &clean));
    expect_ids(&ids, clean.ids, clean.count);
    token_list_free(&ids);
    token_list_free(&clean);
    json_ids_close(&open);
}

static void expect_token(const struct wordpiece_vocab *vocab, int32_t id, const char *expected) {
    size_t length;
    const char *string = vocabulary_string(&vocab->lines, id, &length);
    if (length != strlen(expected) || memcmp(string, expected, length) != 0)
        test_fail("token %d is \"%.*s\", expected \"%s\"", id, (int)length, string, expected);
}

TEST(lines_are_read_as_python_reads_them) {
    static const char text[] = "a\n b \t\r\n\nc\rd\xE3\x80\x80\na\nlast";
    struct wordpiece_vocab vocab;
    EXPECT_OK(wordpiece_vocab_parse(&vocab, text, sizeof text - 1, "vocab"));
    EXPECT_INT(vocab.lines.size, 7);
    EXPECT_INT(vocab.distinct, 6);
    static const char *const expected[] = {"a", "b", "", "c", "d", "a", "last"};
    for (int32_t id = 0; id < 7; id++)
        expect_token(&vocab, id, expected[id]);
    EXPECT_INT(trie_find(&vocab.trie, "a", 1), 5);
    EXPECT_INT(trie_find(&vocab.trie, "last", 4), 6);
    EXPECT_INT(trie_find(&vocab.trie, "las", 3), -1);
    EXPECT_INT(wordpiece_vocab_append(&vocab, "b"), 1);
    EXPECT_INT(wordpiece_vocab_append(&vocab, "[BOS]"), 6);  // Megatron counts distinct lines
    EXPECT_INT(wordpiece_vocab_append(&vocab, "[EOS]"), 7);
    EXPECT_INT(vocab.lines.size, 8);
    expect_token(&vocab, 7, "[EOS]");
    wordpiece_vocab_free(&vocab);
}

TEST(bad_vocabularies) {
    struct wordpiece_vocab vocab;
    EXPECT_ERROR(wordpiece_vocab_parse(&vocab, "", 0, "v.txt"), "v.txt: has 0 bytes");
    EXPECT_ERROR(wordpiece_vocab_parse(&vocab, "ab\n\xC3(", 5, "v.txt"), "v.txt: byte 3 is not UTF-8");
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "BertWordPieceCase"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "BertWordPieceCase needs --vocab-file");
    options.vocab_file = "tests/golden/bpe/corpus.txt";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "has no line [UNK]");
    options.vocab_file = "tests/golden/nowhere";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "tests/golden/nowhere");
}

// ---- the tables ----

TEST(categories_by_edition) {
    struct unicode_table *now = unicode_table_create(UNICODE_EDITION_16),
                         *old = unicode_table_create(UNICODE_EDITION_8);
    EXPECT_INT(unicode_category(now, 'a'), UNICODE_LL);
    EXPECT_INT(unicode_category(now, 0x4E00), UNICODE_LO);
    EXPECT_INT(unicode_category(now, 0x1F600), UNICODE_SO);
    EXPECT_INT(unicode_category(now, 0x10FFFD), UNICODE_CO);
    EXPECT_INT(unicode_category(now, 0x10FFFF), UNICODE_CN);
    EXPECT_INT(unicode_category(now, 0x110000), UNICODE_CN);
    EXPECT_INT(unicode_category(now, 0x1E900), UNICODE_LU);  // Adlam came with 9.0
    EXPECT_INT(unicode_category(old, 0x1E900), UNICODE_CN);
    EXPECT_INT(unicode_category(now, 0x166D), UNICODE_SO);  // was punctuation
    EXPECT_INT(unicode_category(old, 0x166D), UNICODE_PO);
    EXPECT_INT(unicode_lower('Q'), 'q');
    EXPECT_INT(unicode_lower(0xD7), 0xD7);
    EXPECT_INT(unicode_lower(0x178), 0xFF);
    EXPECT_INT(unicode_lower(0x101), 0x101);
    EXPECT_INT(unicode_lower(0x100), 0x101);
    EXPECT_INT(unicode_lower(0x10FFFF), 0x10FFFF);
    free(now);
    free(old);
}

static void expect_form(const struct normal_form_rules *rules, const uint32_t *in, size_t in_count, const uint32_t *out,
                        size_t out_count) {
    struct character_list result = {0};
    normal_form_apply(rules, in, in_count, &result);
    EXPECT_INT(result.count, out_count);
    for (size_t i = 0; i < out_count; i++)
        EXPECT_INT(result.items[i], out[i]);
    character_list_free(&result);
}

#define EXPECT_FORM(form_, in, out)                                                                                    \
    expect_form(&(struct normal_form_rules){.form = form_, .known = known, .pairs = pairs}, in,                        \
                sizeof in / sizeof in[0], out, sizeof out / sizeof out[0])

// Expected values are examples of UAX #15.
TEST(normal_forms) {
    need_normal_forms();
    struct unicode_table *known = unicode_table_create(UNICODE_EDITION_9);
    struct normal_form_pairs *pairs = normal_form_pairs_create(known);
    static const uint32_t angstrom[] = {0x212B}, a_ring[] = {0xC5}, a_and_ring[] = {'A', 0x30A};
    EXPECT_FORM(NORMAL_FORM_D, angstrom, a_and_ring);
    EXPECT_FORM(NORMAL_FORM_C, angstrom, a_ring);
    EXPECT_FORM(NORMAL_FORM_C, a_and_ring, a_ring);
    static const uint32_t long_s[] = {0x1E9B, 0x323}, long_s_d[] = {0x17F, 0x323, 0x307}, long_s_kc[] = {0x1E69},
                          long_s_kd[] = {'s', 0x323, 0x307};
    EXPECT_FORM(NORMAL_FORM_D, long_s, long_s_d);
    EXPECT_FORM(NORMAL_FORM_C, long_s, long_s);
    EXPECT_FORM(NORMAL_FORM_KC, long_s, long_s_kc);
    EXPECT_FORM(NORMAL_FORM_KD, long_s, long_s_kd);
    static const uint32_t hangul[] = {0xD4DB}, jamo[] = {0x1111, 0x1171, 0x11B6};
    EXPECT_FORM(NORMAL_FORM_D, hangul, jamo);
    EXPECT_FORM(NORMAL_FORM_C, jamo, hangul);
    static const uint32_t four[] = {0x1F82}, four_d[] = {0x3B1, 0x313, 0x300, 0x345};
    EXPECT_FORM(NORMAL_FORM_D, four, four_d);
    EXPECT_FORM(NORMAL_FORM_C, four_d, four);
    static const uint32_t excluded[] = {0x958}, excluded_d[] = {0x915, 0x93C};
    EXPECT_FORM(NORMAL_FORM_C, excluded, excluded_d);
    static const uint32_t later[] = {0x11935, 0x11930};  // composes since Unicode 13
    EXPECT_FORM(NORMAL_FORM_C, later, later);
    static const uint32_t ligature[] = {0xFB01}, letters[] = {'f', 'i'};
    EXPECT_FORM(NORMAL_FORM_C, ligature, ligature);
    EXPECT_FORM(NORMAL_FORM_KC, ligature, letters);
    normal_form_pairs_free(pairs);
    free(known);
}

// A long run of marks must not take quadratic time.
TEST(many_marks_are_ordered) {
    need_normal_forms();
    enum { MARKS = 400000 };
    struct unicode_table *known = unicode_table_create(UNICODE_EDITION_16);
    struct character_list in = {0}, out = {0};
    for (int i = 0; i < MARKS; i++)
        character_list_append(&in, i % 2 ? 0x323 : 0x301);
    normal_form_apply(&(struct normal_form_rules){.form = NORMAL_FORM_D, .known = known}, in.items, in.count, &out);
    EXPECT_INT(out.count, MARKS);
    for (int i = 0; i < MARKS; i++)
        EXPECT_INT(out.items[i], i < MARKS / 2 ? 0x323 : 0x301);
    character_list_free(&in);
    character_list_free(&out);
    free(known);
}

// ---- the real vocabulary ----

TEST(bert_base_uncased) {
    need_normal_forms();
    char *path = shared_file("bert/bert-base-uncased-vocab.txt");
    struct tokenizer_options options = {.type = "BertWordPieceLowerCase", .vocab_file = path};
    struct json_ids open = json_ids_open(&options, "");
    EXPECT_INT(tokenizer_vocab_size(open.tokenizer), 30524);
    struct token_list ids = {0};
    static const char text[] = "Hello, unaffable WORLD!";
    EXPECT_OK(tokenizer_encode(open.encoder, text, sizeof text - 1, &ids));
    expect_ids(&ids, (const int32_t[]){7592, 1010, 14477, 20961, 3468, 2088, 999}, 7);
    expect_decoded(open.tokenizer, ids.ids, ids.count, "hello, unaffable world!");
    token_list_free(&ids);
    json_ids_close(&open);
    free(path);
}

TEST_MAIN(TEST_CASE(golden_ids), TEST_CASE(megatron_tokens_are_appended), TEST_CASE(decoding_joins_pieces_and_tidies),
          TEST_CASE(ill_formed_text), TEST_CASE(lines_are_read_as_python_reads_them), TEST_CASE(bad_vocabularies),
          TEST_CASE(categories_by_edition), TEST_CASE(normal_forms), TEST_CASE(many_marks_are_ordered),
          TEST_CASE(bert_base_uncased))
