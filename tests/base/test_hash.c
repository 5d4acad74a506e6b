// SHA-256 on FIPS 180-4 vectors and its two implementations against each other, CRC-32C on RFC 3720 vectors, MD5 on RFC
// 1321 vectors, and the distribution of the table hash.
#include "test.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/hash.h"
#include <unistd.h>

static void hex_of(const void *bytes, size_t count, char text[65]) {
    struct sha256 hash;
    unsigned char digest[32];
    sha256_init(&hash);
    sha256_update(&hash, bytes, count);
    sha256_final(&hash, digest);
    sha256_hex(digest, text);
}

TEST(sha256_vectors) {
    char text[65];
    hex_of("", 0, text);
    EXPECT_STRING(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hex_of("abc", 3, text);
    EXPECT_STRING(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    hex_of(two, strlen(two), text);
    EXPECT_STRING(text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = memory_alloc(1000000);
    memset(million, 'a', 1000000);
    hex_of(million, 1000000, text);
    free(million);
    EXPECT_STRING(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(sha256_split_anywhere) {
    unsigned char bytes[300];
    char whole[65], parts[65];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    for (size_t length = 0; length <= sizeof bytes; length++) {
        hex_of(bytes, length, whole);
        struct sha256 hash;
        unsigned char digest[32];
        sha256_init(&hash);
        for (size_t at = 0, step = 1; at < length; at += step, step = step % 71 + 1)
            sha256_update(&hash, bytes + at, step < length - at ? step : length - at);
        sha256_final(&hash, digest);
        sha256_hex(digest, parts);
        EXPECT_STRING(parts, whole);
    }
}

TEST(sha256_hardware_equals_plain) {
    enum { MOST = 40 };
    unsigned char blocks[64 * MOST + 1];
    uint32_t plain[8], hardware[8];
    struct mt19937 mt;
    mt19937_seed(&mt, 1);
    for (size_t i = 0; i < sizeof blocks; i++)
        blocks[i] = (unsigned char)mt19937_next(&mt);
    for (size_t count = 1; count <= MOST; count++) {
        for (int i = 0; i < 8; i++)
            plain[i] = hardware[i] = mt19937_next(&mt);
        // Offset by one byte, because blocks may be unaligned.
        sha256_blocks_plain(plain, blocks + 1, count);
        if (!sha256_blocks_hardware(hardware, blocks + 1, count))
            test_skip("this processor has no SHA-256 instructions");
        EXPECT(memcmp(plain, hardware, sizeof plain) == 0);
    }
}

TEST(sha256_of_a_file) {
    char name[] = "/tmp/bevatron-test-XXXXXX", text[65], expected[65];
    int descriptor = mkstemp(name);
    EXPECT(descriptor >= 0);
    size_t size = 3 * 1000 * 1000 + 17;
    unsigned char *bytes = memory_alloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i >> 3);
    close(descriptor);
    EXPECT_OK(file_write_all(name, bytes, size));
    hex_of(bytes, size, expected);
    free(bytes);
    EXPECT_OK(sha256_file(name, text));
    unlink(name);
    EXPECT_STRING(text, expected);
    EXPECT_ERROR(sha256_file(name, text), name);
    EXPECT_ERROR(sha256_file("/tmp", text), "/tmp");
}

TEST(crc32c_vectors) {
    unsigned char bytes[32];
    EXPECT_INT(crc32c("", 0), 0);
    EXPECT_INT(crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    EXPECT_INT(crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xFF, sizeof bytes);
    EXPECT_INT(crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    EXPECT_INT(crc32c(bytes, 32), 0x46dd794e);
    uint32_t crc = crc32c("123456789", 9);
    EXPECT_INT(crc32c_masked("123456789", 9), (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u));
    // The header of an empty record: the CRC of eight zero bytes.
    memset(bytes, 0, 8);
    EXPECT_INT(crc32c(bytes, 8), 0x8c28b28a);
}

TEST(crc32_vectors) {
    EXPECT_INT(crc32_ieee("", 0), 0);
    EXPECT_INT(crc32_ieee("123456789", 9), 0xcbf43926);
    EXPECT_INT(crc32_ieee("The quick brown fox jumps over the lazy dog", 43), 0x414fa339);
}

TEST(md5_vectors) {
    char text[33];
    md5_hex("", 0, text);
    EXPECT_STRING(text, "d41d8cd98f00b204e9800998ecf8427e");
    md5_hex("abc", 3, text);
    EXPECT_STRING(text, "900150983cd24fb0d6963f7d28e17f72");
    md5_hex("message digest", 14, text);
    EXPECT_STRING(text, "f96b697d7cb7938d525a2f31aaf161d0");
    const char *alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    md5_hex(alphabet, 62, text);
    EXPECT_STRING(text, "d174ab98d277d9f5a5611c2c9f419d9f");
    const char *digits = "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
    md5_hex(digits, 80, text);
    EXPECT_STRING(text, "57edf4a22be3c955ac49da2e2107b67a");
    // The lengths around one block decide where the padding goes.
    md5_hex(digits, 55, text);
    EXPECT_STRING(text, "c9ccf168914a1bcfc3229f1948e67da0");
    md5_hex(digits, 56, text);
    EXPECT_STRING(text, "49f193adce178490e34d1b3a4ec0064c");
    md5_hex(digits, 64, text);
    EXPECT_STRING(text, "eb6c4179c0a7c82cc2828c1e6338e165");
}

TEST(table_hash_spreads) {
    // 2^16 short keys in 2^16 slots: with random hashes 36.8 % of the slots stay empty; and no two of a million are
    // equal.
    enum { SLOTS = 1 << 16 };
    unsigned char *used = memory_alloc(SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        char key[16];
        int length = snprintf(key, sizeof key, "%u", i);
        used[hash_bytes(key, (size_t)length, 0) % SLOTS] = 1;
    }
    int empty = 0;
    for (int i = 0; i < SLOTS; i++)
        empty += !used[i];
    free(used);
    EXPECT_NEAR((double)empty / SLOTS, 0.3679, 0.006);
    char bytes[64] = {0};
    for (size_t length = 0; length < sizeof bytes; length++) {
        uint64_t hash = hash_bytes(bytes, length, 1);
        EXPECT(hash != hash_bytes(bytes, length + 1, 1));  // zeros count
        EXPECT(hash != hash_bytes(bytes, length, 2));
        for (size_t i = 0; i < length; i++) {
            bytes[i] = 1;
            EXPECT(hash != hash_bytes(bytes, length, 1));
            bytes[i] = 0;
        }
    }
}

TEST_MAIN(TEST_CASE(sha256_vectors), TEST_CASE(sha256_split_anywhere), TEST_CASE(sha256_hardware_equals_plain),
          TEST_CASE(sha256_of_a_file), TEST_CASE(crc32c_vectors), TEST_CASE(crc32_vectors), TEST_CASE(md5_vectors),
          TEST_CASE(table_hash_spreads))
