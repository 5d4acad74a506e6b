// What two runs train on, compared: datasets by name, files by size and hash, tokenizers; and what is not comparable.
#include "../base/capture.h"
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

// Files with the same size and pieces. `rest` is what else is known of them.
#define FILE_OF(bytes_, rest_)                                                                                         \
    WHOLE("{\"name\": \"a\", \"files\": [{\"ending\": \".bin\", \"bytes\": " bytes_ ", \"hash\": \"ff\"" rest_ "}]}",  \
          "t")
#define FULL(hash_) ", \"whole\": \"" hash_ "\""
#define DATE(time_) ", \"modified\": " time_

TEST(all_bytes_are_compared_if_both_have_their_hash) {
    EXPECT_OK(compare(FILE_OF("99999999", FULL("1")), FILE_OF("99999999", FULL("1"))));
    EXPECT_ERROR(compare(FILE_OF("99999999", FULL("1")), FILE_OF("99999999", FULL("2"))),
                 "the dataset a has changed since iter_0000007 was saved: .bin has the same size and other content");
    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    EXPECT_OK(compare(FILE_OF("99999999", FULL("1")), FILE_OF("99999999", "")));
    EXPECT_OK(compare(FILE_OF("99999999", ""), FILE_OF("99999999", FULL("2"))));
}

static const char *own_text, *saved_text;
static void compare_texts(void) {
    if (compare(own_text, saved_text) < 0)
        _exit(1);
}
// Number of warnings printed by a comparison that passes.
static int warnings_of(const char *now, const char *then) {
    static struct capture said;
    int count = 0;
    own_text = now;
    saved_text = then;
    capture_run(&said, compare_texts);
    EXPECT_INT(said.status, 0);
    for (const char *at = said.text; (at = strstr(at, "another date than when iter_0000007 was saved")); at++)
        count++;
    return count;
}

TEST(another_date_is_a_warning_for_large_files) {
    EXPECT_INT(warnings_of(FILE_OF("99999999", DATE("5")), FILE_OF("99999999", DATE("6"))), 1);
    EXPECT_INT(warnings_of(FILE_OF("99999999", DATE("5") FULL("1")), FILE_OF("99999999", DATE("6"))), 1);
    EXPECT_INT(warnings_of(FILE_OF("99999999", DATE("5")), FILE_OF("99999999", DATE("5"))), 0);
    EXPECT_INT(warnings_of(FILE_OF("99999999", DATE("5")), FILE_OF("99999999", "")), 0);
    EXPECT_INT(warnings_of(FILE_OF("99999999", DATE("5") FULL("1")), FILE_OF("99999999", DATE("6") FULL("1"))), 0);
    // All of a small file was hashed.
    EXPECT_INT(warnings_of(FILE_OF("5", DATE("1")), FILE_OF("5", DATE("6"))), 0);
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

TEST_MAIN(TEST_CASE(the_same_passes), TEST_CASE(what_differs_is_named),
          TEST_CASE(all_bytes_are_compared_if_both_have_their_hash),
          TEST_CASE(another_date_is_a_warning_for_large_files), TEST_CASE(other_flags_are_not_judged),
          TEST_CASE(nonsense_is_an_error))
