// What two runs train on, compared: datasets by name, files by size and hash, tokenizers; and what is not comparable.
#include "test.h"

#include "base/buffer.h"
#include "train/identity.h"

static int compare(const char *now, const char *then) {
    struct buffer a = {0}, b = {0};
    buffer_append_string(&a, now);
    buffer_append_string(&b, then);
    int status = identity_compare(&a, &b, "iter_0000007");
    buffer_free(&a);
    buffer_free(&b);
    return status;
}

#define DATASET(name_, bytes_, hash_)                                                                                  \
    "{\"name\": \"" name_ "\", \"files\": [{\"ending\": \".bin\", \"bytes\": " bytes_ ", \"hash\": \"" hash_ "\"}]}"
#define WHOLE(datasets_, tokenizer_) "{\"format\": 1, \"datasets\": [" datasets_ "], \"tokenizer\": \"" tokenizer_ "\"}"

TEST(the_same_passes) {
    EXPECT_OK(compare(WHOLE(DATASET("a", "5", "ff"), "t"), WHOLE(DATASET("a", "5", "ff"), "t")));
    EXPECT_OK(compare(WHOLE("", "t"), WHOLE("", "t")));
}

TEST(what_differs_is_named) {
    const char *now = WHOLE(DATASET("a", "5", "ff") "," DATASET("b", "6", "00"), "t");
    EXPECT_ERROR(compare(now, WHOLE(DATASET("b", "7", "00"), "t")),
                 "the dataset b has changed since iter_0000007 was saved: .bin has 6 bytes and had 7");
    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    EXPECT_ERROR(compare(now, WHOLE(DATASET("a", "5", "fe"), "t")), "the same size and other content");
    EXPECT_ERROR(compare(now, WHOLE(DATASET("a", "5", "ff"), "s")), "the tokenizer has changed");
}

TEST(other_flags_are_not_judged) {
    EXPECT_OK(compare(WHOLE(DATASET("a", "5", "ff"), "t"), WHOLE(DATASET("c", "9", "11"), "t")));
    EXPECT_OK(compare("{\"format\": 1, \"datasets\": []}", WHOLE(DATASET("c", "9", "11"), "t")));
    EXPECT_OK(compare(WHOLE(DATASET("a", "5", "ff"), "t"), "{\"format\": 2}"));
    EXPECT_OK(compare(WHOLE(DATASET("a", "5", "ff"), "t"), "{\"format\": 1, \"datasets\": 3}"));
}

TEST(nonsense_is_an_error) {
    EXPECT_ERROR(compare(WHOLE("", "t"), "{"), "iter_0000007");
    EXPECT_ERROR(compare(WHOLE("", "t"), "[]"), "format");
    EXPECT_ERROR(compare(WHOLE("", "t"), WHOLE("{}", "t")), "name");
    EXPECT_ERROR(compare(WHOLE(DATASET("a", "5", "ff"), "t"), WHOLE(DATASET("a", "\"5\"", "ff"), "t")), "bytes");
}

TEST_MAIN(TEST_CASE(the_same_passes), TEST_CASE(what_differs_is_named), TEST_CASE(other_flags_are_not_judged),
          TEST_CASE(nonsense_is_an_error))
