// Comments and spaces at the end of a line go; those in quotes stay.
#include "base/words.h"
#include "test.h"

TEST(comments_are_cut) {
    static const char *const lines[][2] = {
        {"", ""},
        {"   ", ""},
        {"# all", ""},
        {"\r", ""},
        {"key: value \r", "key: value"},
        {"key: value # note\r", "key: value"},
        {"key: value", "key: value"},
        {"key: value  # note", "key: value"},
        {"key: a#b", "key: a#b"},
        {"key: don't # it's a word", "key: don't"},
        {"key: 'a # b' # c", "key: 'a # b'"},
        {"key: \"a \\\" # b\" # c", "key: \"a \\\" # b\""},
        {"key: \"open # and so on  ", "key: \"open # and so on"},
        {"key: \"a\\", "key: \"a\\"},
        {"key: \"a\\ ", "key: \"a\\ "},
        {"key: ['a # b','c # d'] # e", "key: ['a # b','c # d']"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s", lines[i][0]);
        yaml_line_trim(line, " [,");
        EXPECT_STRING(line, lines[i][1]);
    }
}

TEST(quotes_open_where_values_begin) {
    char pod[] = "{'a # b': 1} # c", flags[] = "{'a # b': 1} # c";
    yaml_line_trim(pod, " [,{");
    EXPECT_STRING(pod, "{'a # b': 1}");
    yaml_line_trim(flags, " [,");
    EXPECT_STRING(flags, "{'a");
}

TEST_MAIN(TEST_CASE(comments_are_cut), TEST_CASE(quotes_open_where_values_begin))
