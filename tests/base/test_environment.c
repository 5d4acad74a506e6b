// Variables: looked up in the environment, overridden, and remembered after the first lookup.
#include "test.h"
#include "base/environment.h"
#include <stdlib.h>

static int asked;

static const char *outside(const char *name) {
    asked++;
    return strcmp(name, "HOME") == 0 ? "/home/me" : strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

static void expect_found(size_t i, const char *pair) {
    char *found = environment_found(i);
    EXPECT((found == NULL) == (pair == NULL));
    if (found && pair)
        EXPECT_STRING(found, pair);
    free(found);
}

TEST(look_up) {
    EXPECT(environment_find("HOME") == NULL);
    environment_use(outside);
    environment_set("RUN", "1");
    environment_set("HOME", "/other");
    expect_found(0, NULL);
    EXPECT_STRING(environment_find("HOME"), "/other");
    EXPECT_INT(asked, 0);
    EXPECT_STRING(environment_find("EMPTY"), "");
    EXPECT_STRING(environment_find("EMPTY"), "");
    EXPECT_INT(asked, 1);
    EXPECT(environment_find("NONE") == NULL);
    expect_found(0, "HOME=/other");
    expect_found(1, "EMPTY=");
    expect_found(2, NULL);
    environment_set("HOME", "/third");
    EXPECT_STRING(environment_find("HOME"), "/third");
    environment_clear();
    EXPECT_STRING(environment_find("HOME"), "/home/me");
    environment_clear();
    environment_use(NULL);
    EXPECT(environment_find("HOME") == NULL);
}

TEST_MAIN(TEST_CASE(look_up))
