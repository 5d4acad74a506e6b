// Counts beyond MPI's limit end the run with a remedy, not with a wrapped count.
#include "../base/capture.h"
#include "comm/backend.h"
#include "test.h"

#include <string.h>

static int64_t count;

static void check(void) {
    struct group group = {.name = "context", .rank = 0, .size = 2};
    mpi_check_count(&group, count, "all_gather");
}

TEST(messages_of_two_to_the_31_elements) {
    static struct capture capture;
    count = INT64_C(2147483647);
    capture_run(&capture, check);
    EXPECT_INT(capture.status, 0);
    EXPECT_STRING(capture.text, "");
    // Keys and values of 262,144 tokens, half of a sequence, with 32 heads of 128 channels.
    count = INT64_C(262144) * 2 * 32 * 128;
    capture_run(&capture, check);
    EXPECT_INT(capture.status, EXIT_CODE_USAGE);
    EXPECT(strstr(capture.text, "all_gather in group \"context\": 2147483648 elements of a rank"));
    EXPECT(strstr(capture.text, "a larger --context-parallel-size for keys and values"));
}

TEST_MAIN(TEST_CASE(messages_of_two_to_the_31_elements))
