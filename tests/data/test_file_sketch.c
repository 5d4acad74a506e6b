// Hashes of files: all bytes of small ones, pieces of larger ones, and all bytes of any that is asked for.
#include "base/hash.h"
#include "data/file_print.h"
#include "fixture.h"

#include <fcntl.h>

enum { PIECES = 64, LARGE = 40 << 20, PAGE = 4096 };
static const uint64_t SEED = 20261116;

static struct file_sketch pieces_of(const char *path) {
    return file_sketch_take(path, PIECES, SEED);
}

// A file of zeros, without blocks on the disk.
static void make_large(const char *path) {
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    EXPECT(file >= 0);
    EXPECT_INT(ftruncate(file, LARGE), 0);
    close(file);
}

static void put_byte(const char *path, int64_t at, unsigned char byte) {
    int file = open(path, O_WRONLY);
    EXPECT(file >= 0);
    EXPECT_INT(pwrite(file, &byte, 1, at), 1);
    close(file);
}

TEST(a_small_file_is_hashed_whole) {
    scratch_open();
    const char *path = scratch_path("small");
    write_bytes(path, "0123456789", 10);
    EXPECT_INT(pieces_of(path).bytes, 10);
    EXPECT(pieces_of(path).hash == (int64_t)hash_bytes("0123456789", 10, 0));
    EXPECT(file_sketch_take_whole(path).hash == pieces_of(path).hash);
    EXPECT_INT(file_sketch_take_whole(scratch_path("missing")).bytes, -1);
    EXPECT_INT(pieces_of(scratch_path("missing")).bytes, -1);
    scratch_close();
}

TEST(sizes_above_32_mib_are_partial) {
    EXPECT(!file_sketch_is_partial((int64_t)32 << 20));
    EXPECT(file_sketch_is_partial(((int64_t)32 << 20) + 1));
}

// A byte between the pieces changes only the hash of all bytes; a byte of the first or the last piece changes both.
TEST(a_changed_byte_of_a_large_file) {
    scratch_open();
    const char *path = scratch_path("large");
    make_large(path);
    struct file_sketch pieces = pieces_of(path), whole = file_sketch_take_whole(path);
    EXPECT_INT(pieces.bytes, LARGE);
    EXPECT_INT(whole.bytes, LARGE);
    int64_t unseen = 0;
    for (int64_t at = PAGE; at < LARGE; at += (1 << 20) + 7 * PAGE) {
        put_byte(path, at, 1);
        EXPECT(file_sketch_take_whole(path).hash != whole.hash);
        unseen += pieces_of(path).hash == pieces.hash;
        put_byte(path, at, 0);
    }
    EXPECT(unseen > 30);
    EXPECT(file_sketch_take_whole(path).hash == whole.hash);
    const int64_t seen[] = {0, PAGE - 1, LARGE - PAGE, LARGE - 1};
    for (int i = 0; i < 4; i++) {
        put_byte(path, seen[i], 1);
        EXPECT(pieces_of(path).hash != pieces.hash);
        EXPECT(file_sketch_take_whole(path).hash != whole.hash);
        put_byte(path, seen[i], 0);
    }
    scratch_close();
}

TEST_MAIN(TEST_CASE(a_small_file_is_hashed_whole), TEST_CASE(sizes_above_32_mib_are_partial),
          TEST_CASE(a_changed_byte_of_a_large_file))
