// Character classes against Python's tables (tests/golden/make_bpe.py), and the set of blanks in full.
#include "data/tokenizer/unicode.h"
#include "text_fixture.h"

TEST(classes_of_golden_characters) {
    need_unicode();
    struct buffer file = {0};
    EXPECT_OK(file_read_all(GOLDEN "classes.txt", (size_t)1 << 20, &file));
    int64_t count = 0;
    for (char *line = file.data, *end; (end = strchr(line, '\n')); line = end + 1, count++) {
        char *letter;
        uint32_t character = (uint32_t)strtoul(line, &letter, 16);
        enum unicode_class expected = letter[1] == 'L'   ? UNICODE_LETTER
                                      : letter[1] == 'N' ? UNICODE_NUMBER
                                      : letter[1] == 'S' ? UNICODE_SPACE
                                                         : UNICODE_OTHER;
        if (unicode_class(character) != expected)
            test_fail("U+%04X has class %d, expected %d", (unsigned)character, (int)unicode_class(character),
                      (int)expected);
    }
    buffer_free(&file);
    EXPECT(count > 1500);
}

TEST(blanks_are_the_25_of_white_space) {
    need_unicode();
    static const uint32_t blanks[] = {9,      10,     11,     12,     13,     32,     0x85,   0xA0,   0x1680,
                                      0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                      0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
    size_t next = 0;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        if (unicode_class(c) != UNICODE_SPACE)
            continue;
        EXPECT(next < sizeof blanks / sizeof blanks[0]);
        EXPECT_INT(c, blanks[next++]);
    }
    EXPECT_INT(next, 25);
}

TEST(beyond_unicode_is_other) {
    need_unicode();
    EXPECT_INT(unicode_class(0x110000), UNICODE_OTHER);
    EXPECT_INT(unicode_class(UINT32_MAX), UNICODE_OTHER);
    EXPECT_INT(unicode_class(0xD800), UNICODE_OTHER);
}

TEST_MAIN(TEST_CASE(classes_of_golden_characters), TEST_CASE(blanks_are_the_25_of_white_space),
          TEST_CASE(beyond_unicode_is_other))
