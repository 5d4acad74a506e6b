// .bin/.idx: every kind of damage is detected and named, and reading damaged files is safe.
#include "data/index/index.h"

#include "example.h"
#include "test.h"

TEST(every_truncation_is_found) {
    for (size_t size = 0; size < sizeof example_idx; size++) {
        EXPECT(open_and_verify(example_idx, size, example_bin, sizeof example_bin) < 0);
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
    for (size_t size = 0; size < sizeof example_bin; size++)
        EXPECT_ERROR(open_and_verify(example_idx, sizeof example_idx, example_bin, size), "the file is truncated");
    unsigned char longer[sizeof example_bin + 1] = {0};
    memcpy(longer, example_bin, sizeof example_bin);
    EXPECT_ERROR(open_and_verify(example_idx, sizeof example_idx, longer, sizeof longer), "do not belong together");
    // Two more bytes may be the modes of a multimodal dataset of two sequences; one more byte is an error.
    unsigned char modes[sizeof example_idx + 2] = {0};
    memcpy(modes, example_idx, sizeof example_idx);
    EXPECT_OK(open_and_verify(modes, sizeof modes, example_bin, sizeof example_bin));
    EXPECT_ERROR(open_and_verify(modes, sizeof modes - 1, example_bin, sizeof example_bin), "91 bytes");
}

// Every bit of .idx matters, except in the inner document boundaries: some changes of those give another valid dataset.
TEST(every_flipped_bit_is_found) {
    unsigned char idx[sizeof example_idx];
    int unnoticed = 0;
    for (size_t bit = 0; bit < 8 * sizeof idx; bit++) {
        memcpy(idx, example_idx, sizeof idx);
        idx[bit / 8] = (unsigned char)(idx[bit / 8] ^ 1u << bit % 8);
        if (open_and_verify(idx, sizeof idx, example_bin, sizeof example_bin) < 0) {
            EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
            EXPECT(strstr(error_message(), "example."));
            continue;
        }
        EXPECT(bit / 8 >= 66 && bit / 8 < 82);
        unnoticed++;
    }
    EXPECT_INT(unnoticed, 1);  // boundaries 0 1 1 2 -> 0 0 1 2; the others break the order
}

static void put(unsigned char *idx, size_t byte, int64_t value, size_t bytes) {
    memcpy(idx + byte, &value, bytes);
}

TEST(damage_is_named) {
    static const struct {
        size_t byte;
        int64_t value;
        size_t bytes;
        const char *message;
    } rows[] = {
        {0, 'X', 1, "byte 0: this is not a Megatron index"},
        {9, 2, 8, "byte 9: version 2"},
        {17, 9, 1, "byte 17: dtype code 9"},
        {18, 3, 8, "90 bytes, but 3 sequences"},
        {18, INT64_MAX, 8, "do not fit a file of 90 bytes"},
        {18, -1, 8, "do not fit a file of 90 bytes"},
        {26, 0, 8, "byte 26: no document boundary"},
        {26, INT64_MAX / 2, 8, "do not fit a file of 90 bytes"},
        {34, -4, 4, "byte 34: sequence 0 has length -4"},
        {34, 5, 4, "byte 50: sequence 1 starts at byte 8"},
        {38, -3, 4, "byte 38: sequence 1 has length -3"},
        {38, INT32_MAX, 4, "example.idx describes 4294967302"},
        {42, 2, 8, "byte 42: sequence 0 starts at byte 2"},
        {50, -8, 8, "byte 50: sequence 1 starts at byte -8"},
        {50, INT64_MAX, 8, "byte 50: sequence 1 starts at byte 9223372036854775807"},
        {58, 1, 8, "byte 58: the first document starts at sequence 1"},
        {66, 3, 8, "byte 66: document boundary 1 is sequence 3"},
        {66, -1, 8, "byte 66: document boundary 1 is sequence -1"},
        {66, 2, 8, "byte 74: document boundary 2 is sequence 1, but it must lie between 2 and 2"},
        {82, 1, 8, "byte 82: the documents end at sequence 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char idx[sizeof example_idx];
        memcpy(idx, example_idx, sizeof idx);
        put(idx, rows[i].byte, rows[i].value, rows[i].bytes);
        EXPECT_ERROR(open_and_verify(idx, sizeof idx, example_bin, sizeof example_bin), rows[i].message);
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
}

// A dataset that opens may still be wrong inside; reads must stay in the map.
TEST(reads_of_damaged_files_are_safe) {
    unsigned char idx[sizeof example_idx];
    struct index_reader *r;
    int32_t out[16];
    memcpy(idx, example_idx, sizeof idx);
    put(idx, 34, 8, 4);
    EXPECT_OK(open_bytes(&r, idx, sizeof idx, example_bin, sizeof example_bin));
    EXPECT_ERROR(index_read(r, 0, 0, 8, out), "lies outside example.bin");
    index_close(r);
    put(idx, 34, INT32_MIN, 4);
    EXPECT_OK(open_bytes(&r, idx, sizeof idx, example_bin, sizeof example_bin));
    EXPECT_ERROR(index_read(r, 0, 0, 1, out), "has -2147483648 tokens");
    index_close(r);
}

TEST(floats_and_wide_tokens_are_refused) {
    unsigned char idx[sizeof example_idx], bin[56] = {0};
    struct index_reader *r;
    int32_t out[4];
    memcpy(idx, example_idx, sizeof idx);
    put(idx, 17, INDEX_F64, 1);
    put(idx, 50, 32, 8);
    EXPECT_OK(open_bytes(&r, idx, sizeof idx, bin, sizeof bin));
    EXPECT_ERROR(index_read(r, 0, 0, 1, out), "holds float64");
    EXPECT_ERROR(index_verify_tokens(r, 0), "holds float64");
    index_close(r);
    put(idx, 17, INDEX_I64, 1);
    put(bin, 40, INT64_C(1) << 40, 8);
    EXPECT_OK(open_bytes(&r, idx, sizeof idx, bin, sizeof bin));
    EXPECT_OK(index_read(r, 0, 0, 4, out));
    EXPECT_ERROR(index_read(r, 1, 0, 3, out), "byte 40: token 1 of sequence 1 does not fit 32 bits");
    EXPECT_ERROR(index_verify_tokens(r, 0), "byte 40: token 1 of sequence 1 does not fit 32 bits");
    put(bin, 40, -1, 8);
    EXPECT_ERROR(index_verify_tokens(r, 0), "is -1, but ids are not negative");
    index_close(r);
}

TEST_MAIN(TEST_CASE(every_truncation_is_found), TEST_CASE(every_flipped_bit_is_found), TEST_CASE(damage_is_named),
          TEST_CASE(reads_of_damaged_files_are_safe), TEST_CASE(floats_and_wide_tokens_are_refused))
