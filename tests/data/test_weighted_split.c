// Groups of datasets with parts of them: what is read, the documents of a part as Python's round() gives them, and what
// is refused.
#include "data/sample/split.h"

#include "test.h"
#include <string.h>

TEST(groups_are_read) {
    struct weighted_group group;
    EXPECT_OK(
        weighted_group_parse(&group, " all of it : 0.3 0:0.949 a/b_text_document,\t2e-1  .1:1 c ,1 0.5:0.75 d", "--x"));
    EXPECT_STRING(group.name, "all of it");
    static const char *const words[] = {"0.3", "a/b_text_document", "2e-1", "c", "1", "d"};
    static const char *const ranges[] = {"0:0.949", ".1:1", "0.5:0.75"};
    EXPECT_INT(group.words.count, 6);
    EXPECT_INT(group.ranges.count, 3);
    for (int i = 0; i < 6; i++)
        EXPECT_STRING(group.words.items[i], words[i]);
    for (int i = 0; i < 3; i++)
        EXPECT_STRING(group.ranges.items[i], ranges[i]);
    weighted_group_free(&group);
}

TEST(bad_groups) {
    static const char *const bad[][2] = {
        {"", "no name"},
        {"0.3 0 a", "no name"},
        {": 0.3 0:1 a", "no name"},
        {"a\x1b[31m: 0.3 0:1 a", "no name"},
        {"a name that is longer than any log line should have: 1 0:1 a", "no name"},
        {"train:", "a word is missing"},
        {"train: 0.3 0:1", "a word is missing"},
        {"train: 0.3 0:1 a,", "a word is missing"},
        {"train: 0.3 0:1 a b", "too many words"},
        {"train: books 0:0.9 wiki", "WEIGHT is not a number"},
        {"train: 0.3 1:0 a", "START:END is not a part"},
        {"train: 0.3 0.5:0.5 a", "START:END is not a part"},
        {"train: 0.3 0:1.5 a", "START:END is not a part"},
        {"train: 0.3 -1:1 a", "START:END is not a part"},
        {"train: 0.3 nan:1 a", "START:END is not a part"},
        {"train: 0.3 0:0x1 a", "START:END is not a part"},
        {"train: 0.3 0:1:1 a", "START:END is not a part"},
        {"train: 0.3 0 a", "START:END is not a part"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct weighted_group group;
        EXPECT_ERROR(weighted_group_parse(&group, bad[i][0], "--train-weighted-split-paths"), bad[i][1]);
        EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
        weighted_group_free(&group);
    }
}

static int list(struct string_list *groups, const char *text, size_t length) {
    string_list_free(groups);
    return weighted_groups_list(groups, text, length, "file");
}

TEST(files_have_groups_in_quotes) {
    struct string_list groups = {0};
    const char *two = "\"a: 1 0:1 p\" \"b: 1 0:1 q, 2 0:1 r\"\n";
    EXPECT_OK(list(&groups, two, strlen(two)));
    EXPECT_INT(groups.count, 2);
    EXPECT_STRING(groups.items[0], "a: 1 0:1 p");
    EXPECT_STRING(groups.items[1], "b: 1 0:1 q, 2 0:1 r");
    EXPECT_OK(list(&groups, "\n\"\"", 3));
    EXPECT_INT(groups.count, 1);
    EXPECT_ERROR(list(&groups, "", 0), "file names no data");
    EXPECT_ERROR(list(&groups, " \n", 2), "file names no data");
    EXPECT_ERROR(list(&groups, "a: 1 0:1 p", 10), "byte 0: a group does not begin with a double quote");
    EXPECT_ERROR(list(&groups, "\"a\" \"b", 6), "byte 4: the closing double quote is missing");
    EXPECT_ERROR(list(&groups, "\"a\0b\"", 5), "a zero byte");
    EXPECT_ERROR(list(&groups, "\0", 1), "does not begin");
    char many[2 * (WEIGHTED_MOST_GROUPS + 1)];
    memset(many, '"', sizeof many);
    EXPECT_ERROR(list(&groups, many, sizeof many), "more than 64 groups");
    string_list_free(&groups);
}

TEST(parts_are_rounded_as_by_python) {
    // [round(float(s) * float(count)) for s in range.split(":")]
    static const struct {
        const char *range;
        int64_t count, begin, end;
    } cases[] = {{"0:0.949", 1000, 0, 949},
                 {"0.5:1", 5, 2, 5},
                 {"0.5:1", 7, 4, 7},
                 {"0.949:0.999", 12345, 11715, 12333},
                 {"0:1e-1", 25, 0, 2},
                 {"0.25:0.75", 10, 2, 8},
                 {".95:1.0", 1234567, 1172839, 1234567}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char part[64];
        int64_t begin, end;
        snprintf(part, sizeof part, SPLIT_PART "%s", cases[i].range);
        EXPECT_OK(
            split_choose(&(struct split_choice){"p", part, SPLIT_TEST, "documents", cases[i].count}, &begin, &end));
        EXPECT_INT(begin, cases[i].begin);
        EXPECT_INT(end, cases[i].end);
    }
    int64_t begin, end;
    struct split_choice none = {"p", SPLIT_PART "0:0.01", SPLIT_VALID, "documents", 10};
    EXPECT_ERROR(split_choose(&none, &begin, &end), "p: the part 0:0.01 of its 10 documents is empty");
    // It is no --split that a user could give.
    struct split_bounds bounds;
    EXPECT_ERROR(split_parse(&bounds, SPLIT_PART "0:1"), "unexpected 'p'");
}

TEST_MAIN(TEST_CASE(groups_are_read), TEST_CASE(bad_groups), TEST_CASE(files_have_groups_in_quotes),
          TEST_CASE(parts_are_rounded_as_by_python))
