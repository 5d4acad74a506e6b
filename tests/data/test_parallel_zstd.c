// The parallel zstd reader against the plain one: many frames, empty and skippable ones between them, one whose text
// does not fit in a place, truncations, flipped bits.
#include "base/error.h"
#include "data/extract/codec.h"
#include "data/extract/reader.h"
#include "fixture.h"
#include "reading.h"

enum { FRAMES = 40, LARGE_BYTES = 40 << 20 };

static void add_frame(struct buffer *file, struct buffer *text, const struct buffer *part) {
    if (pack_zstd(file, part->data, part->length) < 0)
        test_skip("%s", error_message());
    if (part->length)
        buffer_append(text, part->data, part->length);
}

// Frames of different lengths; every eighth is empty, and after every fifth comes a skippable one of seven bytes.
static void make_frames(struct buffer *file, struct buffer *text) {
    struct buffer part = {0};
    for (int frame = 0; frame < FRAMES; frame++) {
        buffer_clear(&part);
        for (int i = 0; i < frame % 8 * 60; i++)
            buffer_printf(&part, "frame %d, line %d of %d\n", frame, i, i * i % 977);
        add_frame(file, text, &part);
        if (frame % 5 == 0)
            buffer_append(file, "\x50\x2a\x4d\x18\x07\0\0\0skipped", 15);
    }
    buffer_free(&part);
}

static void expect_text(const char *path, int threads, size_t step, const struct buffer *text) {
    struct buffer out = {0};
    EXPECT_OK(read_whole(path, threads, step, &out));
    EXPECT_INT(out.length, text->length);
    EXPECT(memcmp(out.data, text->data, text->length) == 0);
    buffer_free(&out);
}

TEST(same_bytes_for_every_number_of_threads) {
    struct buffer file = {0}, text = {0};
    make_frames(&file, &text);
    scratch_open();
    write_quickly(scratch_path("frames"), &file, file.length);
    static const size_t steps[] = {4096, 1 << 20, 1001};
    for (int threads = 1; threads <= 5; threads++)
        expect_text(scratch_path("frames"), threads, steps[threads % 3], &text);
    scratch_close();
    buffer_free(&file);
    buffer_free(&text);
}

TEST(a_large_frame_among_small_ones) {
    struct buffer file = {0}, text = {0}, large = {0};
    make_frames(&file, &text);
    buffer_reserve(&large, LARGE_BYTES);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        large.data[i] = (char)(i / 1000 % 251);
    large.length = LARGE_BYTES;
    add_frame(&file, &text, &large);
    make_frames(&file, &text);
    scratch_open();
    write_quickly(scratch_path("frames"), &file, file.length);
    for (int threads = 1; threads <= 3; threads++)
        expect_text(scratch_path("frames"), threads, 1 << 18, &text);
    scratch_close();
    buffer_free(&file);
    buffer_free(&text);
    buffer_free(&large);
}

TEST(truncated_files_are_errors_or_end_between_frames) {
    struct buffer file = {0}, text = {0}, one = {0}, many = {0};
    make_frames(&file, &text);
    scratch_open();
    for (size_t length = 9; length < file.length; length += 61) {
        write_quickly(scratch_path("cut"), &file, length);
        int alone = read_whole(scratch_path("cut"), 1, 4096, &one);
        int together = read_whole(scratch_path("cut"), 3, 4096, &many);
        if ((alone < 0) != (together < 0))
            test_fail("%zu bytes: one thread says %d, three say %d", length, alone, together);
        if (alone == 0)
            EXPECT(one.length == many.length && memcmp(one.data, text.data, one.length) == 0);
    }
    scratch_close();
    buffer_free(&file);
    buffer_free(&text);
    buffer_free(&one);
    buffer_free(&many);
}

// The length of text before an error may differ, but not its bytes: frames have a checksum.
TEST(flipped_bits_are_errors) {
    struct buffer file = {0}, text = {0}, out = {0};
    make_frames(&file, &text);
    scratch_open();
    for (size_t bit = 80; bit < 8 * file.length; bit += 1009) {
        file.data[bit / 8] ^= (char)(1 << bit % 8);
        write_quickly(scratch_path("flip"), &file, file.length);
        int alone = read_whole(scratch_path("flip"), 1, 1 << 16, &out);
        int together = read_whole(scratch_path("flip"), 3, 1 << 16, &out);
        if ((alone < 0) != (together < 0))
            test_fail("bit %zu: one thread says %d, three say %d", bit, alone, together);
        file.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    scratch_close();
    buffer_free(&file);
    buffer_free(&text);
    buffer_free(&out);
}

TEST_MAIN(TEST_CASE(same_bytes_for_every_number_of_threads), TEST_CASE(a_large_frame_among_small_ones),
          TEST_CASE(truncated_files_are_errors_or_end_between_frames), TEST_CASE(flipped_bits_are_errors))
