// Regular expressions: what they match, which are refused, and how long they may take.
#include "base/buffer.h"
#include "data/tokenizer/pattern.h"
#include "test.h"
#include <stdint.h>
#include <string.h>

static void expect_match_by(enum pattern_syntax syntax, const char *text, const char *subject, size_t begin,
                            size_t end) {
    struct pattern *pattern;
    struct pattern_scratch scratch = {0};
    struct pattern_match match = {SIZE_MAX, SIZE_MAX};
    EXPECT_OK(pattern_compile(&pattern, syntax, text, strlen(text), "pattern"));
    int found = pattern_find(pattern, &scratch, (const unsigned char *)subject, strlen(subject), 0, &match);
    if (begin == SIZE_MAX ? found != 0 : found != 1 || match.begin != begin || match.end != end)
        test_fail("%s in \"%s\": %d, %zu to %zu", text, subject, found, match.begin, match.end);
    pattern_scratch_free(&scratch);
    pattern_free(pattern);
}

static void expect_match(const char *text, const char *subject, size_t begin, size_t end) {
    expect_match_by(PATTERN_ONIGURUMA, text, subject, begin, end);
}

TEST(patterns_match) {
    expect_match("b", "abc", 1, 2);
    expect_match("x", "abc", SIZE_MAX, 0);
    expect_match("a|ab", "ab", 0, 1);
    expect_match("(?:a|ab)c", "abc", 0, 3);
    expect_match("a*", "baa", 0, 0);
    expect_match("a+?b", "aaab", 0, 4);
    expect_match("a+?", "aaa", 0, 1);
    expect_match("a{2}", "aaa", 0, 2);
    expect_match("a{2,}", "baaaa", 1, 5);
    expect_match("a{,2}b", "aaab", 1, 4);
    expect_match("a{1,2}?b", "aaab", 1, 4);
    expect_match("a{1,2}+b", "aaaab", 0, 5);  // not possessive in this syntax
    expect_match("a++a", "aaa", SIZE_MAX, 0);
    expect_match("(?>ab|a)b", "ab", SIZE_MAX, 0);
    expect_match("(?:ab)*+a", "ababa", 0, 5);
    expect_match("(?:ab)++ab", "abab", SIZE_MAX, 0);
    expect_match("(?:ab){2,3}", "abababab", 0, 6);
    expect_match("(ab|cd)+?e", "abcde", 0, 5);
    expect_match("a(?=b)", "acab", 2, 3);
    expect_match("a(?!b)", "abac", 2, 3);
    expect_match("(?<=b)a", "aba", 2, 3);
    expect_match("(?<![a-b])c", "bc c", 3, 4);
    expect_match("[^a-c\\d]+", "ab1éx2", 3, 6);
    expect_match("[\\]\\-x]+", "a]-xb", 1, 4);
    expect_match("[a-]+", "b-a", 1, 3);
    expect_match("[^(\\s|[.,])]+", "( ab|", 2, 4);
    expect_match("(?i:sk)", "x\u017F\u212A", 1, 6);
    expect_match("(?i:a)b", "Ab", 0, 2);
    expect_match("(?i:a)b", "AB", SIZE_MAX, 0);
    expect_match("^b", "a\nb", 2, 3);
    expect_match("a$", "ba\nc", 1, 2);
    expect_match("\\Aa\\z", "a", 0, 1);
    expect_match("\\bb", "ab b", 3, 4);
    expect_match("a\\Bb", "ab", 0, 2);
    expect_match(".+", "\nab\n", 1, 3);
    expect_match("\\W+", "ab, c", 2, 4);
    expect_match("\\x41\\x{1F600}\\u0042", "A😀B", 0, 6);
    expect_match("\\P{L}\\p{^N}\\p{Lu}", "1aA", 0, 3);
}

// Results of Oniguruma in the package tokenizers 0.23.
TEST(patterns_match_as_oniguruma) {
    expect_match("\\w", "²", 0, 2);  // superscripts and fractions of Latin-1 belong to \w, but not in brackets
    expect_match("[\\w]", "²¼", SIZE_MAX, 0);
    expect_match("a\\b", "a² a", 4, 5);
    expect_match("[[:punct:]]+", "a$+.", 1, 4);
    expect_match("\\p{Punct}+", "a$+.", 3, 4);
    expect_match("[[:^alpha:]]", "a1", 1, 2);
    expect_match("[[:alpha]]", ":", 0, 1);
    expect_match("\\p{Han}+", "a一丁あ", 1, 7);
    expect_match("\\p{ hira-gana }", "aあ", 1, 4);
    expect_match("[\\p{L}&&[^\\p{Han}]]+", "一ab一", 3, 5);
    expect_match("[^a-z&&aeiou]", "ab", 1, 2);
    expect_match("[a[^b]]", "bac", 1, 2);
    expect_match("[^a[b]]", "abc", 2, 3);
    expect_match("[]a]+", "x]a", 1, 3);
    expect_match("\\h+", "gf0", 1, 3);
    expect_match("\\R", "a\r\nb", 1, 3);
    expect_match("\\R\\n", "\r\n", SIZE_MAX, 0);
    expect_match("\\N\\O", "\na\n", 1, 3);
    expect_match("a(?i)b|c", "C", SIZE_MAX, 0);  // it encloses the alternatives after it
    expect_match("a(?i)b|c", "aC", 0, 2);
    expect_match("(?i)a(?-i)b", "AbAB", 0, 2);
    expect_match("(?i:É)", "é", 0, 2);
    expect_match("(?i:σ)+", "ςΣσ", 0, 6);
    expect_match("(?i:[^\\p{Lu}])", "aA1", 2, 3);
    expect_match("(?i:[a-z])+", "\u017F\u212AZ", 0, 6);
    expect_match("(?i:\\p{Lu})", "aA", 1, 2);
    expect_match("(?m:a.b)", "a\nb", 0, 3);
    expect_match("(?x: a # one\n b )", "ab", 0, 2);
    expect_match("(?<n>a)(?'m'b)(?#c)", "ab", 0, 2);
    expect_match("(?<=ab|c)d", "dabd", 3, 4);
    expect_match("(?<=a+)d", "daad", 3, 4);
    expect_match("(?<!ab)d", "abdcd", 4, 5);
    expect_match("a\\Kb", "ab", 1, 2);
    expect_match("(?>a\\Kb)?ac|ab", "ab", 0, 2);
    expect_match("a\\Z", "aa\n", 1, 2);
    expect_match("(?:a|)*b", "aab", 0, 3);
    expect_match("(?:a*)+", "aab", 0, 2);
    expect_match("(|a)+", "aa", 0, 0);
    expect_match("a{2}?b", "b", 0, 1);  // all of it is optional
    expect_match("a{3}+", "aaaaaaaa", 0, 6);
    expect_match("a{x}{", "a{x}{", 0, 5);
    expect_match("\\q\\_\\0", "q_\0", SIZE_MAX, 0);  // strlen ends the subject
    expect_match("\\q\\_\\060", "q_0", 0, 3);
    expect_match("\\pL", "pL", 0, 2);
    expect_match("(?:(?:(?:(?:){1000}){1000}){1000}){1000}a", "a", 0, 1);
}

TEST(patterns_match_as_in_rust) {
    expect_match_by(PATTERN_RUST, "\\w+", "²\u200D", 2, 5);
    expect_match_by(PATTERN_RUST, "a$", "a\na", 2, 3);
    expect_match_by(PATTERN_RUST, "(?m)a$", "a\na", 0, 1);
    expect_match_by(PATTERN_RUST, "(?s).+", "a\na", 0, 3);
    expect_match_by(PATTERN_RUST, "a{1,2}+a", "aa", SIZE_MAX, 0);
    expect_match_by(PATTERN_RUST, "\\pL\\u{42}", "aB", 0, 2);
    expect_match_by(PATTERN_RUST, "a(?i)b|c", "C", 0, 1);
}

static void expect_refused(const char *text, const char *message) {
    struct pattern *pattern;
    EXPECT_ERROR(pattern_compile(&pattern, PATTERN_ONIGURUMA, text, strlen(text), "the pattern"), message);
    EXPECT(pattern == NULL);
}

TEST(patterns_that_are_refused) {
    expect_refused("a(b", "( without )");
    expect_refused("(?<=a\\Kb)c", "\\K in a part that looks ahead or behind");
    expect_refused("a(?=b(?:\\K))", "\\K in a part that looks ahead or behind");
    expect_refused("a)b", ") without (");
    expect_refused("[ab", "[ without ]");
    expect_refused("[]", "empty brackets");
    expect_refused("[a[b]", "[ without ]");
    expect_refused("[a[b", "[ without ]");
    expect_refused("[b-a]", "higher to a lower");
    expect_refused("[a-\\d]", "a range that does not end with a character");
    expect_refused("[\\d-a]", "a range that starts with a class at byte 3");
    expect_refused("[[:foo:]]", "the class [:foo:] at byte 1");
    expect_refused("*a", "a repetition of nothing");
    expect_refused("(?=a)*", "a repetition of an assertion");
    expect_refused("a{3,2}", "braces");
    expect_refused("a{1001}", "1000");
    expect_refused("x(?~a)", "the group (?~ at byte 1");
    expect_refused("(?P<n>a)", "the group (?P at byte 0");
    expect_refused("(?i", "the group (? at byte 0");
    expect_refused("(?#x", "(?# without )");
    expect_refused("(?<name", "a group without its name");
    expect_refused("(?<=a{300})c", "more than 255 characters to look back at");
    expect_refused("(?<=\\R)a", "\\R, (?>…) or a++ to look back at");
    expect_refused("(?<!b|a++)c", "to look back at");
    expect_refused("(a)\\1", "the escape \\1 at byte 3");
    expect_refused("\\X", "the escape \\X at byte 0");
    expect_refused("\\p{Klingon}", "the property \\p{Klingon} at byte 0");
    expect_refused("\\p{L", "\\p{ without }");
    expect_refused("\\", "\\ at the end");
    expect_refused("\\xE4", "the byte \\xE4");
    expect_refused("\\u{41}", "a number that is not a character");
    expect_refused("(?i:ss)", "U+00DF, which equals several characters");
    expect_refused("(?:a?){2}", "a counted repetition of a part that may be empty");
    expect_refused("(?i:[ß])", "U+00DF, which equals several characters when case is ignored, in a set");
    expect_refused("\xFF", "not UTF-8");
    expect_refused("(?:(?:(?:a{1000}b){1000}){1000}){1000}", "too long");
}

// Inside of a look-ahead nothing is remembered.
TEST(patterns_that_go_back_forever_are_stopped) {
    struct pattern *pattern;
    struct pattern_scratch scratch = {0};
    struct pattern_match match;
    static const char text[] = "(?=(?:a|aa|a[a])+b)";
    EXPECT_OK(pattern_compile(&pattern, PATTERN_ONIGURUMA, text, sizeof text - 1, "the pattern"));
    static const unsigned char subject[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    EXPECT_ERROR(pattern_find(pattern, &scratch, subject, sizeof subject - 1, 0, &match), "too many steps");
    pattern_scratch_free(&scratch);
    pattern_free(pattern);
}

// All matches of a text: their number, and the steps that they took together.
static int64_t count_matches(const char *text, const unsigned char *subject, size_t length, int64_t *steps) {
    struct pattern *pattern;
    struct pattern_scratch scratch = {0};
    struct pattern_match match;
    int64_t count = 0;
    int found = 1;
    EXPECT_OK(pattern_compile(&pattern, PATTERN_ONIGURUMA, text, strlen(text), "pattern"));
    for (size_t from = 0; from <= length; from = match.end > match.begin ? match.end : match.end + 1) {
        found = pattern_find(pattern, &scratch, subject, length, from, &match);
        if (found != 1)
            break;
        count++;
    }
    if (found < 0)
        test_fail("%s: %s", text, error_message());
    *steps = scratch.steps;
    pattern_scratch_free(&scratch);
    pattern_free(pattern);
    return count;
}

// Each of these goes back over all letters from each of them: 50,000 letters took 16 seconds, within a limit for each
// start. Now the steps are those that a number per byte allows.
TEST(steps_are_proportional_to_the_text) {
    enum { LETTERS = 50000, MOST_PER_LETTER = 120 };
    static const struct {
        const char *pattern;
        int64_t matches;
    } rows[] = {
        {"[\\p{L}\\p{N}]+(?!\\S)|[^\\p{L}]", 1},           // none of the letters
        {"[\\p{L}\\p{N}]+(?!\\S)|\\p{L}|.", LETTERS + 1},  // one at a time
        {"(?:[a-z]|[0-9])+(?!\\S)|!", 1},
        {"(?:a|aa|a[a])+b|!", 1},
        {"[a-z]++X|!", 1},
        {"[a-z]{3,}X|!", 1},
        {"(?:[a-z]+-?)+X|!", 1},
        {"\\p{L}+\\p{N}+(?=X)|!", 1},
    };
    static unsigned char subject[LETTERS + 1];
    memset(subject, 'a', LETTERS);
    subject[LETTERS] = '!';
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t steps = 0, matches = count_matches(rows[i].pattern, subject, sizeof subject, &steps);
        if (matches != rows[i].matches || steps > MOST_PER_LETTER * (int64_t)sizeof subject)
            test_fail("%s: %lld matches, %lld steps", rows[i].pattern, (long long)matches, (long long)steps);
    }
}

// "0-3 5-6 ": all matches of a text; false if it takes too many steps.
static bool list_matches(const char *text, const char *subject, struct buffer *list) {
    struct pattern *pattern;
    struct pattern_scratch scratch = {0};
    struct pattern_match match;
    size_t length = strlen(subject);
    int found = 1;
    EXPECT_OK(pattern_compile(&pattern, PATTERN_ONIGURUMA, text, strlen(text), "pattern"));
    for (size_t from = 0; from <= length; from = match.end > match.begin ? match.end : match.end + 1) {
        found = pattern_find(pattern, &scratch, (const unsigned char *)subject, length, from, &match);
        if (found != 1)
            break;
        buffer_printf(list, "%zu-%zu ", match.begin, match.end);
    }
    pattern_scratch_free(&scratch);
    pattern_free(pattern);
    return found >= 0;
}

// A stretch over which patterns go back often, behind it some random letters; all of it twice.
static struct buffer make_text(int stretch, bool has_other, uint32_t *random) {
    static const char *const letters[] = {"a", "b", "c", " ", "é"};
    struct buffer text = {0};
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < stretch; i++)
            buffer_append_byte(&text, has_other && i % 7 == 0 ? 'b' : 'a');
        for (int i = 0; i < 12; i++) {
            *random = *random * 1664525 + 1013904223;
            buffer_append_string(&text, letters[(*random >> 16) % 5]);
        }
    }
    return text;
}

// What is remembered changes no match: nothing is where a pattern has \\G, here in an alternative that never matches.
TEST(memory_changes_no_match) {
    static const struct {
        const char *pattern;
        int stretch;  // short for those that take time exponential in it
    } rows[] = {{"[a-c]+(?![^ ])|[a-c]", 500},   {"(?:a|b)+c|a|b|c", 500},
                {"(?:ab|a)+(?=c)|.", 500},       {"a*b*(?=c)|b", 500},
                {"(?:é|a)+(?=b)|é|b", 500},      {"[aé]+b+(?=c)|[^a]", 500},
                {"a+?(?=b)|b+|c", 500},          {"[ab]{2,}(?=c)|(?:ab)*c?| ", 500},
                {"(?:[ab]+c?)+(?! )|[abc ]", 9}, {"(?:[ab]+é?)+(?=c)|[abc ]|é+", 9},
                {"(?:a|ab?|b)+(?=c)|.", 9}};
    enum { TEXTS = 16 };
    uint32_t random = 7;
    for (size_t p = 0; p < sizeof rows / sizeof rows[0]; p++) {
        int compared = 0;
        for (int t = 0; t < TEXTS; t++) {
            struct buffer text = make_text(rows[p].stretch, t % 2, &random), other = {0}, own = {0}, wanted = {0};
            buffer_printf(&other, "(?:%s)|\\G\x01", rows[p].pattern);
            EXPECT(list_matches(rows[p].pattern, buffer_string(&text), &own));
            if (list_matches(buffer_string(&other), buffer_string(&text), &wanted)) {
                compared++;
                if (strcmp(buffer_string(&own), buffer_string(&wanted)) != 0)
                    test_fail("%s in %s: %s, not %s", rows[p].pattern, text.data, buffer_string(&own),
                              buffer_string(&wanted));
            }
            buffer_free(&own);
            buffer_free(&wanted);
            buffer_free(&text);
            buffer_free(&other);
        }
        if (compared < TEXTS / 2)
            test_fail("%s: only %d texts could be compared", rows[p].pattern, compared);
    }
}

// The compiled form grows by and by: a part may end exactly where it moves.
TEST(patterns_of_every_length) {
    enum { MOST = 300 };
    static char pattern[MOST + 16], subject[MOST + 2];
    for (size_t n = 1; n < MOST; n++) {
        memset(pattern, 'a', n);
        memset(subject, 'a', n);
        memcpy(pattern + n, "(?=b)", 6);
        memcpy(subject + n, "b", 2);
        expect_match(pattern, subject, 0, n);
        memcpy(pattern + n, "(?:bc|b)++", 11);
        expect_match(pattern, subject, 0, n + 1);
    }
}

TEST_MAIN(TEST_CASE(patterns_match), TEST_CASE(patterns_match_as_oniguruma), TEST_CASE(patterns_match_as_in_rust),
          TEST_CASE(patterns_that_are_refused), TEST_CASE(patterns_that_go_back_forever_are_stopped),
          TEST_CASE(steps_are_proportional_to_the_text), TEST_CASE(memory_changes_no_match),
          TEST_CASE(patterns_of_every_length))
