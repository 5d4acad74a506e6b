// tier: all
// label: slow
// Deduplication and shuffling of more than 2^32 bytes and 2^31 tokens. It writes 9 GB, so it runs only if
// BEVATRON_LARGE_TESTS is set: BEVATRON_LARGE_TESTS=1 build/release/tests/test_data_rearrange_large
#include "data/index/rearrange.h"

#include "fixture.h"
#include <fcntl.h>

enum { LONG_TOKENS = 1100000000, DOCUMENTS = 5 };

// Document 0 is two sequences of LONG_TOKENS zeros, with a mark at the end of each; the others are one token.
static void make_large(const char *prefix) {
    static const int32_t lengths[] = {LONG_TOKENS, LONG_TOKENS, 1, 1, 1, 1};
    static const int64_t boundaries[] = {0, 2, 3, 4, 5, 6};
    uint64_t header[] = {1, 6, DOCUMENTS + 1}, total = 0;
    struct buffer index = {0};
    buffer_append(&index, "MMIDIDX\0", 9);
    buffer_append(&index, &header[0], 8);
    buffer_append_byte(&index, INDEX_U16);
    buffer_append(&index, &header[1], 16);
    buffer_append(&index, lengths, sizeof lengths);
    for (int i = 0; i < 6; i++) {
        buffer_append(&index, &total, 8);
        total += 2 * (uint64_t)lengths[i];
    }
    buffer_append(&index, boundaries, sizeof boundaries);
    char *index_path = memory_printf("%s.idx", prefix), *tokens_path = memory_printf("%s.bin", prefix);
    write_bytes(index_path, index.data, index.length);
    int tokens = open(tokens_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    EXPECT(tokens >= 0 && ftruncate(tokens, (off_t)total) == 0);
    static const uint16_t marks[] = {11, 22, 1, 2, 1, 3};  // documents 1 and 3 are equal
    uint64_t end = 0;
    for (int i = 0; i < 6; i++) {
        end += 2 * (uint64_t)lengths[i];
        EXPECT_INT(pwrite(tokens, &marks[i], 2, (off_t)(end - 2)), 2);
    }
    close(tokens);
    buffer_free(&index);
    free(index_path);
    free(tokens_path);
}

// The only long document is at the given place; the small ones are in order.
static void check_large(const char *prefix, const int32_t *expected, int64_t documents) {
    struct index_reader *r;
    EXPECT_OK(index_open(&r, prefix));
    EXPECT_OK(index_verify_tokens(r, 23));
    EXPECT_INT(r->document_count, documents);
    EXPECT_INT(r->token_count, 2 * (int64_t)LONG_TOKENS + documents - 1);
    for (int64_t i = 0; i < documents; i++) {
        int64_t sequence = index_document_begin(r, i);
        int32_t token;
        EXPECT_OK(index_read(r, sequence, index_length(r, sequence) - 1, 1, &token));
        EXPECT_INT(token, expected[i]);
        if (token == 11) {
            EXPECT_OK(index_read(r, sequence + 1, LONG_TOKENS - 1, 1, &token));
            EXPECT_INT(token, 22);
        }
    }
    index_close(r);
}

TEST(beyond_32_bits) {
    uint64_t space;
    if (!getenv("BEVATRON_LARGE_TESTS"))
        test_skip("writes 9 GB; set BEVATRON_LARGE_TESTS to run it");
    scratch_open();
    EXPECT_OK(file_free_bytes(scratch, &space));
    if (space < (uint64_t)12 << 30) {
        scratch_close();
        test_skip("needs 12 GiB of free space");
    }
    make_large(scratch_path("in"));
    char *in = memory_string(scratch_path("in")), *out = memory_string(scratch_path("out"));
    struct index_rearrange_options options = {.inputs = &in, .outputs = &out, .count = 1, .dedup = true};
    struct index_rearrange_summary summary;
    EXPECT_OK(index_rearrange(&options, &summary));
    EXPECT_INT(summary.duplicates, 1);
    EXPECT_INT(summary.tokens_read, 2 * (int64_t)LONG_TOKENS + 4);
    check_large(out, (const int32_t[]){11, 1, 2, 3}, 4);
    options.shuffle = true;
    options.seed = 11;  // the order 1 0 3 2: small documents on both sides of the long one
    EXPECT_OK(index_rearrange(&options, &summary));
    check_large(out, (const int32_t[]){1, 11, 3, 2}, 4);
    free(in);
    free(out);
    scratch_close();
}

TEST_MAIN(TEST_CASE(beyond_32_bits))
