// The character classes for splitting against Python's tables (tests/golden/make_bpe.py), and the complete set of
// spaces.
#include "data/tokenizer/splitter.h"
#include "text_fixture.h"
#include <stdlib.h>

static char class_of(const struct unicode_table *table, uint32_t character) {
    return unicode_in_set(table, character, UNICODE_SET_L)   ? 'L'
           : unicode_in_set(table, character, UNICODE_SET_N) ? 'N'
           : unicode_in_set(table, character, UNICODE_SET_Z) ? 'S'
                                                             : 'O';
}

TEST(classes_of_golden_characters) {
    struct unicode_table *table = split_table_create();
    struct buffer file = {0};
    EXPECT_OK(file_read_all(GOLDEN "classes.txt", (size_t)1 << 20, &file));
    int64_t count = 0;
    for (char *line = file.data, *end; (end = strchr(line, '\n')); line = end + 1, count++) {
        char *letter;
        uint32_t character = (uint32_t)strtoul(line, &letter, 16);
        if (class_of(table, character) != letter[1])
            test_fail("U+%04X has class %c, expected %c", (unsigned)character, class_of(table, character), letter[1]);
    }
    buffer_free(&file);
    EXPECT(count > 1500);
    free(table);
}

TEST(blanks_are_the_25_of_white_space) {
    struct unicode_table *table = split_table_create();
    static const uint32_t blanks[] = {9,      10,     11,     12,     13,     32,     0x85,   0xA0,   0x1680,
                                      0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                      0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
    size_t next = 0;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        if (class_of(table, c) != 'S')
            continue;
        EXPECT(next < sizeof blanks / sizeof blanks[0]);
        EXPECT_INT(c, blanks[next++]);
    }
    EXPECT_INT(next, 25);
    free(table);
}

TEST(beyond_unicode_is_other) {
    struct unicode_table *table = split_table_create();
    EXPECT_INT(class_of(table, 0x110000), 'O');
    EXPECT_INT(class_of(table, UINT32_MAX), 'O');
    EXPECT_INT(class_of(table, 0xD800), 'O');
    free(table);
}

TEST_MAIN(TEST_CASE(classes_of_golden_characters), TEST_CASE(blanks_are_the_25_of_white_space),
          TEST_CASE(beyond_unicode_is_other))
