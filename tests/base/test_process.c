// Other programs: their output, how they end, and arguments that are passed unchanged.
// tier: all
#include "base/process.h"
#include "test.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

// More than a pipe holds, in both directions at once.
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
    // A program that does not read its input still ends.
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

static void hear_nothing(int number) {
    (void)number;
}

// A shell starts a shell that starts two sleeps, and one sleep is not below it: the two get the signal.
TEST(signals_below) {
    struct process_result which;
    EXPECT_OK(RUN(&which, NULL, "sh", "-c", "printf %s \"$(readlink -f \"$(command -v sleep)\")\""));
    const char *program = buffer_string(&which.output);
    pid_t child = fork(), other = child > 0 ? fork() : 0;
    if (child == 0)
        execlp("sh", "sh", "-c", "sh -c 'sleep 300 & sleep 300 & wait'; exit 9", (char *)NULL);
    if (other == 0)
        execlp("sleep", "sleep", "300", (char *)NULL);
    int reached = 0, status = 0;
    for (int i = 0; i < 3000 && process_signal_below(child, program, 0) < 2; i++)
        usleep(20000);
    EXPECT_INT(process_signal_below(child, "/no/such/program", SIGTERM), 0);
    EXPECT_INT(process_catching_below(child, program, SIGTERM), 0);
    EXPECT(!process_catches(getpid(), SIGUSR2));
    signal(SIGUSR2, hear_nothing);
    EXPECT(process_catches(getpid(), SIGUSR2));
    EXPECT(!process_catches(getpid(), SIGUSR1));
    reached = process_signal_below(child, program, SIGTERM);
    EXPECT_INT(reached, 2);
    EXPECT_INT(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    EXPECT_INT(kill(other, 0), 0);
    kill(other, SIGKILL);
    EXPECT_INT(waitpid(other, &status, 0), other);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    process_result_free(&which);
}

// The parent ends before or after the child asks to die with it. A child that lives on would write a byte or keep the
// pipe open.
static void end_with_parent(bool is_late) {
    int said[2], ready[2];
    char byte;
    EXPECT(pipe(said) == 0 && pipe(ready) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        pid_t own = getpid();
        if (fork() == 0) {
            close(ready[0]);
            while (is_late && getppid() == own)
                usleep(1000);
            signal(SIGTERM, SIG_DFL);
            process_end_with(own);
            close(ready[1]);
            while (!is_late)
                pause();
            _exit(write(said[1], "x", 1) != 1);
        }
        // Ends after the child has asked, or at once.
        close(ready[1]);
        _exit(is_late || read(ready[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(said[1]), close(ready[0]), close(ready[1]);
    int status = 0;
    EXPECT_INT(waitpid(parent, &status, 0), parent);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct pollfd wait = {.fd = said[0], .events = POLLIN};
    EXPECT_INT(poll(&wait, 1, 200000), 1);
    EXPECT_INT(read(said[0], &byte, 1), 0);
    close(said[0]);
}

TEST(a_child_ends_with_its_parent) {
    end_with_parent(false);
    end_with_parent(true);
}

TEST_MAIN(TEST_CASE(signals_below), TEST_CASE(a_child_ends_with_its_parent), TEST_CASE(output_errors_and_code),
          TEST_CASE(arguments_stay_arguments), TEST_CASE(long_conversations), TEST_CASE(no_such_program))
