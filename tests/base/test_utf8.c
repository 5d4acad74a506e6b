// UTF-8 against an independent definition: encodes every character, and judges every short byte sequence by whether it
// is the encoding of one.
#include "test.h"

#include "base/rng.h"
#include "base/utf8.h"

static bool is_character(uint32_t c) {
    return c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
}

TEST(every_character) {
    for (uint32_t c = 0; c < 0x110100; c++) {
        char bytes[4];
        uint32_t back;
        bool valid;
        size_t length = utf8_encode(c, bytes);
        EXPECT_INT(length, !is_character(c) ? 3 : c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        EXPECT_INT(utf8_decode((unsigned char *)bytes, length, &back, &valid), length);
        EXPECT(valid);
        EXPECT_INT(back, is_character(c) ? c : 0xFFFD);
        EXPECT_INT(utf8_check(bytes, length), length);
    }
}

// Marks the two-, three- and four-byte sequences that are encodings of characters, by their first three bytes.
enum { PREFIXES = 1 << 24 };
static unsigned char is_prefix[PREFIXES];  // bit n-1: the n-byte prefix (others zero) begins a well-formed sequence

static uint32_t key(const unsigned char *bytes, size_t length) {
    uint32_t k = 0;
    for (size_t i = 0; i < 3; i++)
        k = k << 8 | (i < length ? bytes[i] : 0);
    return k;
}

static void mark_all(void) {
    for (uint32_t c = 0; c < 0x110000; c++) {
        unsigned char bytes[4];
        if (!is_character(c))
            continue;
        size_t length = utf8_encode(c, (char *)bytes);
        for (size_t n = 1; n < length && n <= 3; n++)
            is_prefix[key(bytes, n)] |= (unsigned char)(1u << (n - 1));  // a true prefix
        if (length <= 3)
            is_prefix[key(bytes, length)] |= (unsigned char)(8u << (length - 1));  // whole
    }
}

// The length of the longest prefix of a well-formed sequence: Python's "replace" turns it into one U+FFFD.
static size_t maximal_subpart(const unsigned char *bytes, size_t length) {
    size_t longest = 1;
    for (size_t n = 1; n <= length && n <= 3; n++) {
        if (is_prefix[key(bytes, n)] >> (n - 1) & 1)
            longest = n;
    }
    return longest;
}

// All three-byte texts whose first byte is not ASCII (bytes two and three in steps that include every boundary).
TEST(every_short_sequence) {
    static const unsigned char followers[] = {0x00, 0x41, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x91, 0x9F,
                                              0xA0, 0xA1, 0xAF, 0xBE, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
                                              0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF};
    enum { FOLLOWERS = sizeof followers };
    mark_all();
    for (int first = 0x80; first < 256; first++) {
        for (int i = 0; i < FOLLOWERS * FOLLOWERS; i++) {
            unsigned char text[3] = {(unsigned char)first, followers[i / FOLLOWERS], followers[i % FOLLOWERS]};
            for (size_t length = 1; length <= 3; length++) {
                size_t whole = 0;
                for (size_t n = 1; n <= length; n++) {
                    if (is_prefix[key(text, n)] >> (n + 2) & 1)
                        whole = n;
                }
                uint32_t c;
                bool valid;
                size_t used = utf8_decode(text, length, &c, &valid);
                EXPECT(valid == (whole > 0));
                EXPECT_INT(used, whole ? whole : maximal_subpart(text, length));
                EXPECT(valid || c == 0xFFFD);
                if (!valid)
                    EXPECT_INT(utf8_check((char *)text, length), 0);
            }
        }
    }
}

TEST(four_bytes_that_stop_early) {
    static const struct {
        const char *text;
        size_t length, used;
        bool valid;
    } cases[] = {
        {"\xf0\x9f\x98\x80", 4, 4, true},  {"\xf0\x9f\x98\x41", 4, 3, false}, {"\xf0\x9f\x98", 3, 3, false},
        {"\xf0\x8f\xbf\xbf", 4, 1, false}, {"\xf4\x8f\xbf\xbf", 4, 4, true},  {"\xf4\x90\x80\x80", 4, 1, false},
        {"\xf5\x80\x80\x80", 4, 1, false}, {"\xf1\x80\xe1\x80", 4, 2, false}, {"\xf8\x88\x80\x80", 4, 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t c;
        bool valid;
        EXPECT_INT(utf8_decode((const unsigned char *)cases[i].text, cases[i].length, &c, &valid), cases[i].used);
        EXPECT(valid == cases[i].valid);
        EXPECT_INT(utf8_decode((const unsigned char *)cases[i].text, cases[i].length, &c, NULL), cases[i].used);
        EXPECT_INT(utf8_check(cases[i].text, cases[i].length), valid ? cases[i].length : 0);
    }
}

// A bad byte at every place of texts that have characters of every length at every alignment.
TEST(check_names_the_place) {
    static const char *const pieces[] = {"a", "é", "€", "😀"};
    for (size_t shift = 0; shift < 20; shift++) {
        for (size_t piece = 0; piece < 4; piece++) {
            char text[160];
            size_t length = shift, step = strlen(pieces[piece]);
            memset(text, 'x', shift);
            while (length < 120) {
                memcpy(text + length, pieces[piece], step);
                length += step;
            }
            EXPECT_INT(utf8_check(text, length), length);
            for (size_t at = shift; at < length; at += step) {
                char kept = text[at];
                text[at] = (char)0xFF;
                EXPECT_INT(utf8_check(text, length), at);
                text[at] = kept;
                // A character cut off at the end of the text is ill-formed where it begins.
                if (step > 1) {
                    EXPECT_INT(utf8_check(text, at + step - 1), at);
                    EXPECT_INT(utf8_check(text, at), at);
                }
            }
        }
    }
    EXPECT_INT(utf8_check("", 0), 0);
}

// Long texts of bytes that often form characters, against decoding one character at a time.
TEST(check_equals_decoding) {
    static const unsigned char likely[] = {'a',  0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2, 0xDF,
                                           0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xC1};
    struct mt19937 mt;
    mt19937_seed(&mt, 11);
    for (int round = 0; round < 200000; round++) {
        unsigned char text[100];
        size_t length = mt19937_interval(&mt, 90), at = 0, expected;
        // Mostly good characters, so that the bad byte is often far inside.
        while (at < length) {
            if (mt19937_interval(&mt, 20) == 0)
                text[at++] = likely[mt19937_interval(&mt, sizeof likely - 1)];
            else
                at += utf8_encode((uint32_t)mt19937_interval(&mt, 0x1FFFF), (char *)text + at);
        }
        for (expected = 0; expected < length;) {
            uint32_t c;
            bool valid;
            size_t used = utf8_decode(text + expected, length - expected, &c, &valid);
            if (!valid)
                break;
            expected += used;
        }
        EXPECT_INT(utf8_check((char *)text, length), expected);
    }
}

TEST_MAIN(TEST_CASE(every_character), TEST_CASE(every_short_sequence), TEST_CASE(four_bytes_that_stop_early),
          TEST_CASE(check_names_the_place), TEST_CASE(check_equals_decoding))
