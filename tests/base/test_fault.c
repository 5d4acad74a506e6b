// Injected faults: when they fire, that they fire once, also across restarts, and what each kind does to a process.
// tier: all
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "capture.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fault fault_of(enum fault_kind kind, enum fault_phase phase, int64_t first, int64_t last) {
    struct fault fault = {.kind = kind, .phase = phase, .first = first, .last = last, .call = 1, .times = 1};
    snprintf(fault.text, sizeof fault.text, "%s:%s", fault_kind_name(kind), fault_phase_name(phase));
    return fault;
}

static bool fails(enum fault_phase phase) {
    return fault_at(phase).error != 0;
}

TEST(off) {
    EXPECT(!fault_is_on());
    EXPECT(!fails(FAULT_AT_STEP) && !fails(FAULT_AT_WRITE));
    struct fault other = fault_of(FAULT_EIO, FAULT_AT_STEP, 1, 1);
    other.rank = 3;
    EXPECT_OK(fault_open(&other, 1, 2, NULL));
    EXPECT(!fault_is_on());
    fault_close(false);
}

TEST(place) {
    log_set_level(LOG_ERROR);
    struct fault fault = fault_of(FAULT_EIO, FAULT_AT_FORWARD, 3, 4);
    fault.call = 2;
    fault.times = 2;
    EXPECT_OK(fault_open(&fault, 1, 0, NULL));
    for (int64_t iteration = 1; iteration <= 5; iteration++) {
        bool is_in = iteration == 3 || iteration == 4;
        fault_set_iteration(iteration);
        EXPECT(!fails(FAULT_AT_BACKWARD));
        EXPECT(!fails(FAULT_AT_FORWARD));
        EXPECT_INT(fails(FAULT_AT_FORWARD), is_in);
        EXPECT_INT(fails(FAULT_AT_FORWARD), is_in);
        EXPECT(!fails(FAULT_AT_FORWARD));
    }
    fault_close(false);
    // Files of a checkpoint belong to its iteration, and others are left alone.
    fault = fault_of(FAULT_ENOSPC, FAULT_AT_WRITE, 4, 4);
    fault.times = FAULT_ENDLESS;
    EXPECT_OK(fault_open(&fault, 1, 0, NULL));
    fault_set_iteration(4);
    EXPECT(!fails(FAULT_AT_WRITE));
    fault_set_save(4);
    fault_set_iteration(9);
    for (int i = 0; i < 5; i++)
        EXPECT_INT(fault_at(FAULT_AT_WRITE).error, ENOSPC);
    EXPECT(!fails(FAULT_AT_FSYNC));
    fault_set_save(8);
    EXPECT(!fails(FAULT_AT_WRITE));
    fault_close(false);
}

// A plan's work on paper does not count for faults.
TEST(suspended) {
    struct fault fault = fault_of(FAULT_EIO, FAULT_AT_FORWARD, 0, 0);
    fault_set_iteration(0);
    EXPECT_OK(fault_open(&fault, 1, 0, NULL));
    fault_suspend(true);
    EXPECT(!fails(FAULT_AT_FORWARD));
    fault_suspend(false);
    EXPECT(fails(FAULT_AT_FORWARD));
    fault_close(true);
    fault_suspend(false);
    EXPECT(!fault_is_on());
}

TEST(anywhere) {
    log_set_level(LOG_ERROR);
    struct fault fault = fault_of(FAULT_FLIP, FAULT_AT_WEIGHTS, 1, INT64_MAX);
    fault.is_anywhere = true;
    EXPECT_OK(fault_open(&fault, 1, 0, NULL));
    EXPECT(!fault_at(FAULT_AT_WEIGHTS).flips_bit);
    fault_set_iteration(7);
    EXPECT(fault_at(FAULT_AT_WEIGHTS).flips_bit);
    EXPECT(!fault_at(FAULT_AT_WEIGHTS).flips_bit);
    fault_set_iteration(8);
    EXPECT(!fault_at(FAULT_AT_WEIGHTS).flips_bit);
    fault_close(false);
}

// A fault that fired on this rank in an earlier start does not fire again.
TEST(restarts) {
    log_set_level(LOG_ERROR);
    char path[] = "/tmp/bevatron_faults_XXXXXX";
    close(mkstemp(path));
    struct fault faults[2] = {fault_of(FAULT_EIO, FAULT_AT_STEP, 2, 3), fault_of(FAULT_NAN, FAULT_AT_GRADIENTS, 2, 2)};
    faults[0].rank = -1;
    for (int start = 0; start < 2; start++)
        for (int rank = 0; rank < 2; rank++) {
            EXPECT_OK(fault_open(faults, 2, rank, path));
            fault_set_iteration(2);
            EXPECT_INT(fails(FAULT_AT_STEP), start == 0);
            EXPECT_INT(fault_at(FAULT_AT_GRADIENTS).makes_nan, start == 0 && rank == 0);
            fault_close(true);
        }
    EXPECT_OK(fault_open(faults, 2, 1, path));
    fault_set_iteration(3);
    EXPECT(fails(FAULT_AT_STEP));
    fault_close(true);
    faults[0].every_start = true;
    EXPECT_OK(fault_open(faults, 2, 1, path));
    fault_set_iteration(2);
    EXPECT(fails(FAULT_AT_STEP));
    fault_close(true);
    struct buffer text = {0};
    EXPECT_OK(file_read_all(path, 1 << 16, &text));
    EXPECT(strstr(buffer_string(&text), " rank 1 iteration 3 fault eio:step\n"));
    buffer_free(&text);
    // Anything else in the file is passed over.
    static const char *const lines[] = {"",
                                        "\n\n",
                                        "1.0 rank 0 iteration",
                                        "1.0 rank 0 iteration 2 fault eio:stepp\n",
                                        "1.0 rank 0 iteration 99999999999999999999999 fault eio:step\n",
                                        " rank 0\n"};
    faults[0].every_start = false;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        EXPECT_OK(file_write_all(path, lines[i], strlen(lines[i])));
        EXPECT_OK(fault_open(faults, 1, 0, path));
        fault_set_iteration(2);
        EXPECT(fails(FAULT_AT_STEP));
        fault_close(true);
    }
    unlink(path);
}

static void *reach_fsync(void *unused) {
    (void)fault_at(FAULT_AT_FSYNC);
    return unused;
}

// A thread that was held up does not set back the phase of the one that computes.
TEST(the_phase_of_another_thread_stays) {
    log_set_level(LOG_ERROR);
    struct fault fault = fault_of(FAULT_SLOW, FAULT_AT_FSYNC, 1, INT64_MAX);
    bool has_met = false;
    for (fault.seconds = 0.1; !has_met; fault.seconds *= 2) {
        pthread_t thread;
        EXPECT_OK(fault_open(&fault, 1, 0, NULL));
        fault_set_save(1);
        run_position_set_phase("backward");
        EXPECT_INT(pthread_create(&thread, NULL, reach_fsync, NULL), 0);
        double end = clock_seconds() + fault.seconds / 2;
        while (strcmp(run_position_phase(), "fsync") != 0 && clock_seconds() < end)
            clock_sleep(0.001);
        has_met = strcmp(run_position_phase(), "fsync") == 0 && clock_seconds() < end;
        run_position_set_phase("forward");
        pthread_join(thread, NULL);
        EXPECT(!has_met || strcmp(run_position_phase(), "forward") == 0);
        fault_close(true);
    }
    run_position_set_phase(NULL);
}

// Wait status of a process that reaches the phase.
static int status_after(enum fault_kind kind) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        log_set_level(LOG_ERROR);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        struct fault fault = fault_of(kind, FAULT_AT_STEP, 0, 0);
        (void)fault_open(&fault, 1, 0, NULL);
        (void)fault_at(FAULT_AT_STEP);
        _exit(7);
    }
    int status = -1;
    EXPECT_INT(waitpid(child, &status, WUNTRACED), child);
    if (WIFSTOPPED(status)) {
        int stopped = status;
        EXPECT_INT(kill(child, SIGKILL), 0);
        EXPECT_INT(waitpid(child, &status, 0), child);
        return stopped;
    }
    return status;
}

TEST(signals) {
    EXPECT_INT(WTERMSIG(status_after(FAULT_KILL)), SIGKILL);
    EXPECT_INT(WTERMSIG(status_after(FAULT_SEGV)), SIGSEGV);
    EXPECT_INT(WTERMSIG(status_after(FAULT_ABORT)), SIGABRT);
    EXPECT_INT(WTERMSIG(status_after(FAULT_TERM)), SIGTERM);
    EXPECT_INT(WTERMSIG(status_after(FAULT_USR1)), SIGUSR1);
    EXPECT(WIFSTOPPED(status_after(FAULT_STOP)));
}

TEST(time_passes) {
    log_set_level(LOG_ERROR);
    struct fault faults[2] = {fault_of(FAULT_SLOW, FAULT_AT_STEP, 0, 0), fault_of(FAULT_CLOCK, FAULT_AT_STEP, 0, 0)};
    faults[0].seconds = 0.05;
    faults[1].seconds = -7200;
    double wall = clock_wall_seconds(), now = clock_seconds();
    EXPECT_OK(fault_open(faults, 2, 0, NULL));
    (void)fault_at(FAULT_AT_STEP);
    fault_close(false);
    EXPECT(clock_seconds() - now >= 0.05);
    EXPECT(clock_wall_seconds() < wall - 3600);
    clock_shift_wall(7200);
    EXPECT(clock_wall_seconds() >= wall);
}

// The other side of a connection is told at once; a listener stays.
TEST(connections) {
    log_set_level(LOG_ERROR);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_INT(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    EXPECT_INT(listen(listener, 1), 0);
    EXPECT_INT(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        int client = socket(AF_INET, SOCK_STREAM, 0);
        bool is_connected = connect(client, (struct sockaddr *)&address, sizeof address) == 0;
        bool is_known = is_connected && send(client, "c", 1, 0) == 1;
        ssize_t got = is_known ? recv(client, &byte, 1, 0) : 1;
        _exit(got < 0 && errno == ECONNRESET ? 0 : 1);
    }
    int server = accept(listener, NULL, NULL);
    EXPECT(server >= 0);
    // accept() may return before the client's connect() does; a reset in between would fail the connect().
    char byte;
    EXPECT_INT(recv(server, &byte, 1, 0), 1);
    struct fault fault = fault_of(FAULT_RESET, FAULT_AT_STEP, 0, 0);
    EXPECT_OK(fault_open(&fault, 1, 0, NULL));
    (void)fault_at(FAULT_AT_STEP);
    fault_close(false);
    int status;
    EXPECT_INT(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(server);
    close(listener);
}

static void reach_nothing(void) {
    struct fault fault = fault_of(FAULT_KILL, FAULT_AT_SEND, 3, 3);
    log_set_level(LOG_WARN);
    if (fault_open(&fault, 1, 0, NULL) == 0)
        fault_close(false);
}

TEST(never_reached) {
    struct capture capture;
    capture_run(&capture, reach_nothing);
    EXPECT_INT(capture.status, 0);
    EXPECT(strstr(capture.text, "the injected fault kill:send did not fire"));
}

TEST_MAIN(TEST_CASE(off), TEST_CASE(place), TEST_CASE(suspended), TEST_CASE(anywhere), TEST_CASE(restarts),
          TEST_CASE(the_phase_of_another_thread_stays), TEST_CASE(signals), TEST_CASE(time_passes),
          TEST_CASE(connections), TEST_CASE(never_reached))
