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

TEST_MAIN(TEST_CASE(flags_page_is_fresh))
