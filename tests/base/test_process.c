// Other programs: what they say, how they end, and arguments that stay arguments.
#include "base/process.h"
#include "test.h"

#define RUN(result, input, ...) process_run((const char *const[]){__VA_ARGS__, NULL}, input, result)

TEST(output_errors_and_code) {
    struct process_result result;
    EXPECT_OK(RUN(&result, NULL, "sh", "-c", "echo out; echo err >&2; exit 7"));
    EXPECT_INT(result.exit_code, 7);
    EXPECT_STRING(buffer_string(&result.output), "out\n");
    EXPECT_STRING(buffer_string(&result.errors), "err\n");
    process_result_free(&result);
    EXPECT_OK(RUN(&result, NULL, "sh", "-c", "kill -9 $$"));
    EXPECT_INT(result.exit_code, 128 + 9);
    process_result_free(&result);
}

TEST(arguments_stay_arguments) {
    struct process_result result;
    EXPECT_OK(RUN(&result, NULL, "printf", "%s|", "a b", "$(touch /tmp/never)", "'", "x\ny", ""));
    EXPECT_STRING(buffer_string(&result.output), "a b|$(touch /tmp/never)|'|x\ny||");
    process_result_free(&result);
}

// More than a pipe holds, both ways at once.
TEST(long_conversations) {
    enum { SIZE = 300000 };
    char *input = malloc(SIZE + 1);
    memset(input, 'x', SIZE);
    input[SIZE] = 0;
    struct process_result result;
    EXPECT_OK(RUN(&result, input, "tee", "/dev/stderr"));
    EXPECT_INT(result.exit_code, 0);
    EXPECT(result.output.length == SIZE && result.errors.length == SIZE);
    process_result_free(&result);
    // One that does not read its input ends all the same.
    EXPECT_OK(RUN(&result, input, "true"));
    EXPECT_INT(result.exit_code, 0);
    process_result_free(&result);
    free(input);
}

TEST(no_such_program) {
    struct process_result result;
    EXPECT_ERROR(RUN(&result, NULL, "no-such-program-anywhere"), "no program \"no-such-program-anywhere\"");
    process_result_free(&result);
}

TEST_MAIN(TEST_CASE(output_errors_and_code), TEST_CASE(arguments_stay_arguments), TEST_CASE(long_conversations),
          TEST_CASE(no_such_program))
