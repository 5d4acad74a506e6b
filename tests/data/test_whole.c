// Truncated tokenizer files: opening them is an error, wherever they end. Rank files, merges, vocab.txt and dict.txt
// are mainly truncated at line ends, SentencePiece models at field ends, where the rest is still well-formed. And rank
// files with a gap in their ranks, which are complete.
// cost: 10
// parts: 2
#include "data/tokenizer/kind.h"
#include "data/tokenizer/tokenizer.h"
#include "base/hash.h"
#include "base/log.h"
#include "fixture.h"
#include "json_ids.h"
#include "test.h"

// ---- every place ----

// Opens a file truncated after `length` bytes.
static int open_cut(const struct tokenizer_options *options, const char **place, const struct buffer *whole,
                    size_t length) {
    struct tokenizer *tokenizer;
    *place = scratch_path("cut");
    write_bytes(*place, whole->data, length);
    int status = tokenizer_open(&tokenizer, options);
    if (status == 0)
        tokenizer_free(tokenizer);
    return status;
}

// `place` is the member of options for the file name. The last `spare` bytes of the file may be missing.
static void expect_errors(struct tokenizer_options *options, const char **place, const char *path, size_t spare) {
    struct buffer whole = read_bytes(path);
    log_set_level(LOG_ERROR);
    EXPECT_OK(open_cut(options, place, &whole, whole.length));
    // A prime, so that all kinds of places occur; all places of a small file, and the end of any.
    size_t step = whole.length < 6000 ? 1 : 997;
    for (size_t length = 0; length + spare < whole.length; length += whole.length - length < 600 ? 1 : step)
        if (open_cut(options, place, &whole, length) == 0)
            test_fail("%s: opened with %zu of %zu bytes", path, length, whole.length);
    for (size_t length = 1; length + spare < whole.length; length++)
        if (whole.data[length - 1] == '\n' && length % 7 == 0 && open_cut(options, place, &whole, length) == 0)
            test_fail("%s: opened with %zu of %zu bytes, the end of a line", path, length, whole.length);
    log_set_level(LOG_INFO);
    buffer_free(&whole);
}

TEST(small_files_cut_anywhere) {
    scratch_open();
    struct tokenizer_options gpt2 = {.vocab_file = "tests/golden/bpe/vocab.json",
                                     .merge_file = "tests/golden/bpe/merges.txt"};
    expect_errors(&gpt2, &gpt2.merge_file, "tests/golden/bpe/merges.txt", 1);
    gpt2.as_today = true;
    gpt2.merge_file = "tests/golden/bpe/merges.txt";
    expect_errors(&gpt2, &gpt2.vocab_file, "tests/golden/bpe/vocab.json", 1);
    struct tokenizer_options model = {.type = "GPTSentencePieceTokenizer"};
    expect_errors(&model, &model.model_file, "tests/golden/spm/bpe.model", 0);
    expect_errors(&model, &model.model_file, "tests/golden/spm/unigram.model", 0);
    scratch_close();
}

// The length of the field that begins at `at`, including its tag, in a valid file.
static size_t field_bytes(const struct buffer *file, size_t at) {
    size_t begin = at, length = 0;
    unsigned shift = 0;
    unsigned char byte;
    EXPECT_INT(file->data[at] & 7, 2);
    at++;
    do {
        byte = (unsigned char)file->data[at++];
        length |= (size_t)(byte & 0x7F) << shift;
        shift += 7;
    } while (byte & 0x80);
    return at + length - begin;
}

// Truncated between two fields, a model is a valid message, only shorter.
TEST(models_cut_between_fields) {
    static const char *const names[] = {"bpe", "unigram"};
    scratch_open();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = memory_printf("tests/golden/spm/%s.model", names[i]);
        struct buffer whole = read_bytes(path);
        struct tokenizer_options options = {.type = "Llama2Tokenizer"};
        int64_t fields = 0;
        for (size_t at = 0; at < whole.length; at += field_bytes(&whole, at), fields++)
            EXPECT(open_cut(&options, &options.model_file, &whole, at) < 0);
        EXPECT(fields > 100 &&
               strstr(error_message(), "without the settings of its normalizer; the file is truncated"));
        buffer_free(&whole);
        free(path);
    }
    scratch_close();
}

// ---- rank files ----

static void add_rank(struct buffer *text, const unsigned char *bytes, size_t length, int rank) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16 | (i + 1 < length ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (i + 2 < length ? bytes[i + 2] : 0);
        size_t left = length - i < 3 ? length - i : 3;
        for (size_t j = 0; j < 4; j++)
            buffer_append_byte(text, j <= left ? digits[bits >> (18 - 6 * j) & 63] : '=');
    }
    buffer_printf(text, " %d\n", rank);
}

// All bytes, in the order of their values, or in that of OpenAI's files: printable ones first.
static void add_bytes(struct buffer *text, bool as_openai) {
    int rank = 0;
    for (int round = as_openai ? 0 : 2; round < 3 && rank < 256; round++)
        for (int byte = 0; byte < 256; byte++) {
            bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
            if (round == 2 || prints == (round == 0))
                add_rank(text, &(unsigned char){(unsigned char)byte}, 1, rank++);
        }
}

TEST(rank_files_that_begin_as_known_ones) {
    struct buffer known = {0}, own = {0};
    struct tokenizer_options options = {.type = "TikTokenizer", .tiktoken_pattern = "cl100k"};
    scratch_open();
    log_set_level(LOG_ERROR);
    add_bytes(&known, true);
    EXPECT(open_cut(&options, &options.model_file, &known, known.length) < 0);
    EXPECT(strstr(error_message(), "is truncated: it starts like r50k_base.tiktoken") &&
           strstr(error_message(), "--vocab-size 256"));
    options.vocab_size = 256;
    EXPECT_OK(open_cut(&options, &options.model_file, &known, known.length));
    // A custom file is accepted, unless its length is given.
    options.vocab_size = 0;
    add_bytes(&own, false);
    add_rank(&own, (const unsigned char *)"ab", 2, 256);
    EXPECT_OK(open_cut(&options, &options.model_file, &own, own.length));
    options.vocab_size = 257;
    EXPECT_OK(open_cut(&options, &options.model_file, &own, own.length));
    options.vocab_size = 258;
    EXPECT(open_cut(&options, &options.model_file, &own, own.length) < 0);
    EXPECT(strstr(error_message(), "has 257 ranks, but --vocab-size says 258"));
    log_set_level(LOG_INFO);
    buffer_free(&known);
    buffer_free(&own);
    scratch_close();
}

// p50k_base has runs of spaces after <|endoftext|>, whose id is missing in the file.
TEST(a_hole_among_ranks) {
    struct buffer file = {0}, text = {0};
    struct token_list ids = {0};
    scratch_open();
    add_bytes(&file, false);
    add_rank(&file, (const unsigned char *)"  ", 2, 257);
    add_rank(&file, (const unsigned char *)"    ", 4, 259);
    write_bytes(scratch_path("holes"), file.data, file.length);
    struct tokenizer_options options = {
        .type = "TikTokenizer", .model_file = scratch_path("holes"), .tiktoken_pattern = "gpt2", .vocab_size = 258};
    struct json_ids open = json_ids_open(&options, "");
    EXPECT_INT(tokenizer_vocab_size(open.tokenizer), 260);
    // The last space before a word belongs to it.
    EXPECT_OK(tokenizer_encode(open.encoder, "a     b       ", 14, &ids));
    expect_ids(&ids, (const int32_t[]){'a', 259, ' ', 'b', 259, 257, ' '}, 7);
    expect_decoded(open.tokenizer, ids.ids, ids.count, "a     b       ");
    EXPECT_ERROR(tokenizer_decode(open.tokenizer, &(int32_t){258}, 1, &text), "258");
    EXPECT_ERROR(tokenizer_decode(open.tokenizer, &(int32_t){260}, 1, &text), "260");
    json_ids_close(&open);
    token_list_free(&ids);
    buffer_free(&file);
    buffer_free(&text);
    scratch_close();
}

// ---- common files ----

TEST(known_files_cut_at_line_ends) {
    static const struct {
        const char *name;
        size_t same;  // where a shorter complete file ends; 0 for none
    } files[] = {
        {"gpt2/r50k_base.tiktoken", 0},
        {"tiktoken/cl100k_base.tiktoken", 0},
        {"tiktoken/llama3_tokenizer.model", 1681126},
        {"bert/bert-base-cased-vocab.txt", 0},
        {"bert/bert-base-uncased-vocab.txt", 0},
        {"roberta/dict.txt", 0},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *path = shared_file(files[i].name);
        struct buffer whole = read_bytes(path);
        EXPECT_OK(whole_check_known(whole.data, whole.length, path, 0));
        EXPECT_OK(whole_check_known(whole.data, whole.length - 1, path, 0));
        // The first lines, then ever fewer of them, and the last.
        size_t length = 1024, next = 0, last = whole.length - 200;
        for (; length < whole.length - 1; length++) {
            if (whole.data[length - 1] != '\n' || length == files[i].same || (length < next && length < last))
                continue;
            EXPECT_ERROR(whole_check_known(whole.data, length, path, 0), "is truncated: it starts like");
            next = length + length / 100;
        }
        buffer_free(&whole);
        free(path);
    }
}

TEST(lines_without_an_end) {
    EXPECT_ERROR(whole_check_end("a\nb", 3, "v.txt"), "v.txt: the last line has no newline");
    EXPECT_OK(whole_check_end("a\nb\n", 4, "v.txt"));
    EXPECT_OK(whole_check_end("a\rb\r", 4, "v.txt"));
    EXPECT_OK(whole_check_end("", 0, "v.txt"));
}

TEST_MAIN(TEST_CASE(small_files_cut_anywhere), TEST_CASE(models_cut_between_fields),
          TEST_CASE(rank_files_that_begin_as_known_ones), TEST_CASE(a_hole_among_ranks),
          TEST_CASE(known_files_cut_at_line_ends), TEST_CASE(lines_without_an_end))
