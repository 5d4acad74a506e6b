// Items of --lr-mult and --wd-mult: what they match, beside POSIX's fnmatch, and what is refused.
#include "config/factors.h"

#include "test.h"

#include <fnmatch.h>
#include <string.h>

static bool matches(const char *pattern, const char *name) {
    char item[128];
    struct factor factor;
    snprintf(item, sizeof item, "%s=2", pattern);
    EXPECT(factor_read(item, &factor));
    return factor_matches(&factor, name);
}

TEST(patterns_beside_fnmatch) {
    static const char *const patterns[] = {"*",     "**",     "a*",     "*a",     "*a*",     "a*b*c", "?",    "??*",
                                           "[ab]*", "*[!a]",  "[a-c]b", "[!a-b]", "[]a]b",   "[a-]*", "*.b",  "a.*.c",
                                           "[!]]*", "a[.]b*", "*?c",    "*ab*ab", "*[a-b]c", "a",     "ab.c", "[-a]?"};
    static const char *const names[] = {"a",      "b",      "ab",    "abc", "]b",   "-b",   "a.b",
                                        "a.b.c",  "ab.c",   "aabab", "cab", "abab", "ba.c", "a.x.c",
                                        "ababab", "abcabc", "aabc",  "]",   "",     "c"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            EXPECT_INT(matches(patterns[i], names[k]), fnmatch(patterns[i], names[k], 0) == 0);
}

// A pattern that would take others forever.
TEST(many_stars) {
    EXPECT(!matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
                    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST(items) {
    struct factor factor;
    EXPECT(factor_read("a=b=1.5e-1", &factor));
    EXPECT(factor.length == 3 && factor.value == 0.15);
    EXPECT(factor_read("x=0", &factor) && factor_read("x=1000000", &factor));
    static const char *const bad[] = {"",  "x",    "x=",    "=1",   "x=-1", "x=nan", "x=inf", "x=1000001",
                                      "=", "x=1 ", "x=0x1", "[a=1", "[=1",  "[]=1",  "a[!]=1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT(!factor_read(bad[i], &factor));
}

TEST(the_last_match_counts) {
    struct string_list items = {0};
    EXPECT(factors_of(&items, "a.bias", 7) == 7);
    string_list_add(&items, "*.bias=2");
    string_list_add(&items, "a.*=3");
    EXPECT(factors_of(&items, "a.bias", 1) == 3 && factors_of(&items, "b.bias", 1) == 2);
    EXPECT(factors_of(&items, "b.weight", 1) == 1);
    string_list_free(&items);
}

TEST_MAIN(TEST_CASE(patterns_beside_fnmatch), TEST_CASE(many_stars), TEST_CASE(items), TEST_CASE(the_last_match_counts))
