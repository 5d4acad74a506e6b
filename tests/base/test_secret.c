// Random texts: the right form, and never the same twice.
#include "test.h"

#include "base/secret.h"

TEST(texts_are_hexadecimal_and_differ) {
    char texts[100][SECRET_CHARACTERS + 1];
    for (int i = 0; i < 100; i++) {
        EXPECT_OK(secret_make(texts[i]));
        EXPECT_INT(strlen(texts[i]), SECRET_CHARACTERS);
        EXPECT_INT(strspn(texts[i], "0123456789abcdef"), SECRET_CHARACTERS);
        for (int k = 0; k < i; k++)
            EXPECT(strcmp(texts[i], texts[k]) != 0);
    }
}

TEST_MAIN(TEST_CASE(texts_are_hexadecimal_and_differ))
