// docs/flags.md matches the tables.
#include "test.h"
#include "base/file.h"
#include "config/config.h"

TEST(flags_page_is_fresh) {
    struct buffer page = {0}, made = {0};
    if (file_read_all("docs/flags.md", 1 << 20, &page) < 0)
        test_skip("docs/flags.md is not in the working folder");
    config_markdown(&made);
    bool same = strcmp(buffer_string(&page), buffer_string(&made)) == 0;
    buffer_free(&page);
    buffer_free(&made);
    if (!same)
        test_fail("docs/flags.md is stale: run `bevatron help flags --markdown > docs/flags.md`");
}

// A bar that is not escaped begins another cell, also between backticks.
TEST(rows_have_at_most_three_cells) {
    struct buffer made = {0};
    config_markdown(&made);
    int rows = 0;
    for (const char *line = buffer_string(&made); *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, "| `--", 5) != 0)
            continue;
        int bars = 0;
        for (const char *at = line; *at && *at != '\n'; at++)
            bars += *at == '|' && (at == line || at[-1] != '\\');
        if (bars > 4)
            test_fail("%.*s has %d cells", (int)strcspn(line, "\n"), line, bars - 1);
        rows++;
    }
    EXPECT(rows > 100);
    buffer_free(&made);
}

TEST_MAIN(TEST_CASE(flags_page_is_fresh), TEST_CASE(rows_have_at_most_three_cells))
