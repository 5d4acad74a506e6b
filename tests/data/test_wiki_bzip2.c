// The parallel bzip2 reader against the plain one: many blocks, several streams, a false mark, every truncation,
// flipped bits (tests/golden/make_wiki.py).
// cost: 10
#include "data/extract/bzip2_scan.h"
#include "data/extract/reader.h"
#include "fixture.h"
#include "reading.h"

static const char blocks[] = "tests/golden/wiki/blocks.bz2", false_mark[] = "tests/golden/wiki/false_mark.bz2";

static void skip_without_bzip2(void) {
    struct reader *reader;
    if (reader_open(&reader, blocks) < 0)
        test_skip("%s", error_message());
    reader_close(reader);
}

TEST(same_bytes_for_every_number_of_threads) {
    skip_without_bzip2();
    struct buffer expected = {0}, out = {0};
    for (int i = 0; i < 300000; i++)
        buffer_printf(&expected, "line %d\n", i / 64);
    static const size_t steps[] = {4096, 1 << 20, 100001};
    for (int threads = 1; threads <= 5; threads++) {
        EXPECT_OK(read_whole(blocks, threads, steps[threads % 3], &out));
        EXPECT_INT(out.length, expected.length);
        EXPECT(memcmp(out.data, expected.data, out.length) == 0);
    }
    buffer_free(&expected);
    buffer_free(&out);
}

TEST(a_mark_inside_a_block_is_passed_over) {
    skip_without_bzip2();
    struct buffer expected = {0}, out = {0};
    for (int64_t i = 0; i < 2000; i++)
        buffer_printf(&expected, "%" PRId64 "\n", i * i * 7919 % 1000003);
    EXPECT_OK(read_whole(false_mark, 3, 4096, &out));
    EXPECT_STRING(out.data, expected.data);
    buffer_free(&expected);
    buffer_free(&out);
}

// Every length of the first part of the file, and some of the rest.
TEST(truncated_files_are_errors) {
    skip_without_bzip2();
    struct buffer file = read_bytes(false_mark), out = {0};
    scratch_open();
    for (size_t length = 20; length < file.length; length += length < 200 ? 1 : 97) {
        write_quickly(scratch_path("cut"), &file, length);
        if (read_whole(scratch_path("cut"), 2, 4096, &out) >= 0 || !strstr(error_message(), "bzip2 data is "))
            test_fail("%zu bytes were read as a whole file, or: %s", length, error_message());
    }
    scratch_close();
    buffer_free(&file);
    buffer_free(&out);
}

TEST(flipped_bits_are_errors) {
    skip_without_bzip2();
    struct buffer file = read_bytes(blocks), plain = {0}, out = {0};
    EXPECT_OK(read_whole(blocks, 1, 1 << 16, &plain));
    scratch_open();
    for (size_t bit = 80; bit < 8 * file.length; bit += 1009) {
        file.data[bit / 8] ^= (char)(1 << bit % 8);
        write_quickly(scratch_path("flip"), &file, file.length);
        int one = read_whole(scratch_path("flip"), 1, 1 << 16, &out);
        int two = read_whole(scratch_path("flip"), 2, 1 << 16, &out);
        // A few bits are padding and mean nothing.
        bool is_same = out.length == plain.length && memcmp(out.data, plain.data, plain.length) == 0;
        if ((one < 0) != (two < 0) && !(two >= 0 && is_same))
            test_fail("bit %zu: one thread says %d, two say %d", bit, one, two);
        file.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    scratch_close();
    buffer_free(&file);
    buffer_free(&plain);
    buffer_free(&out);
}

// After the end of a stream comes something that almost begins one, and then that end again: neither may be skipped.
TEST(nothing_is_lost_between_two_ends) {
    skip_without_bzip2();
    enum { END_BYTES = 16 };
    static const char *const files[] = {"tests/golden/wiki/blocks.bz2", "tests/golden/wiki/false_mark.bz2"};
    struct buffer out = {0};
    scratch_open();
    for (int i = 0; i < 2; i++) {
        struct buffer file = read_bytes(files[i]), longer = {0};
        buffer_append(&longer, file.data, file.length);
        buffer_append_string(&longer, "BZhJ");
        buffer_append(&longer, file.data + file.length - END_BYTES, END_BYTES);
        write_quickly(scratch_path("longer"), &longer, longer.length);
        for (int threads = 1; threads <= 3; threads++)
            EXPECT_ERROR(read_whole(scratch_path("longer"), threads, 4096, &out), "bzip2 data is damaged");
        buffer_free(&file);
        buffer_free(&longer);
    }
    scratch_close();
    buffer_free(&out);
}

TEST(pieces_join_at_any_bit) {
    unsigned char source[32];
    for (int i = 0; i < 32; i++)
        source[i] = (unsigned char)(i * 37 + 11);
    for (size_t cut = 1; cut < 200; cut++) {
        struct bzip2_piece a = {0}, b = {0};
        // b holds the bits from `cut` on, moved to the front one by one.
        b.bytes = memory_alloc(33);
        b.capacity = 33;
        b.bits = 200 - cut;
        for (size_t i = 0; i < b.bits; i++)
            b.bytes[i / 8] |= (unsigned char)((source[(cut + i) / 8] >> (7 - (cut + i) % 8) & 1) << (7 - i % 8));
        struct bzip2_piece first = {.bytes = source, .bits = cut};
        bzip2_piece_join(&a, &first);
        bzip2_piece_join(&a, &b);
        bool is_same = a.bits == 200 && memcmp(a.bytes, source, 25) == 0;
        free(a.bytes);
        free(b.bytes);
        EXPECT(is_same);
    }
}

TEST_MAIN(TEST_CASE(same_bytes_for_every_number_of_threads), TEST_CASE(a_mark_inside_a_block_is_passed_over),
          TEST_CASE(nothing_is_lost_between_two_ends), TEST_CASE(truncated_files_are_errors),
          TEST_CASE(flipped_bits_are_errors), TEST_CASE(pieces_join_at_any_bit))
