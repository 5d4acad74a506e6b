// Words in one string are found by binary search: each of them, and nothing else.
#include "base/word_list.h"
#include "test.h"
#include <string.h>

static bool has(const struct word_list *list, const char *word) {
    return word_list_has(list, word, strlen(word));
}

TEST(every_word_and_nothing_else) {
    static const struct word_list empty = WORD_LIST(' ', ""), one = WORD_LIST(' ', "a"),
                                  some = WORD_LIST('|', "a|a b|aa|ab|b|z|\xC3\xA9|\xC3\xA9t\xC3\xA9");
    EXPECT(!has(&empty, "") && !has(&empty, "a"));
    EXPECT(has(&one, "a") && !has(&one, "") && !has(&one, "aa") && !has(&one, "b"));
    static const char *const words[] = {"a", "a b", "aa", "ab", "b", "z", "\xC3\xA9", "\xC3\xA9t\xC3\xA9"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        EXPECT(has(&some, words[i]));
    static const char *const others[] = {"",  " ",  "a ", "a c",   "aaa",  "ac",      "ba",
                                         "y", "zz", "|",  "a|a b", "\xC3", "\xC3\xAA"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        EXPECT(!has(&some, others[i]));
}

TEST_MAIN(TEST_CASE(every_word_and_nothing_else))
