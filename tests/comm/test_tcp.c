// Ranks that find each other over TCP: processes of this machine around one port. Those who do not belong are turned
// away with a reason, and nobody waits longer than the deadline.
#include "../base/capture.h"
#include "base/clock.h"
#include "comm/backend.h"
#include "comm/pulse.h"
#include "comm/star.h"
#include "ops/device.h"
#include "test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int port;

// For everybody to be there, on a machine that is busy with other things too. Nobody waits as long if all is well.
static const double LONG_SECONDS = 300;

// A port that nobody has now, below those that the kernel gives to whoever asks for any.
static void find_port(void) {
    struct sockaddr_storage address;
    int listener = -1;
    for (int i = 0; i < 1000 && listener < 0; i++) {
        port = 10000 + (int)(getpid() + 7919 * (port + i)) % 20000;
        EXPECT_OK(star_resolve("127.0.0.1", port, false, &address));
        if (star_listen(&address, &listener, &port) < 0)
            error_clear();
    }
    EXPECT(listener >= 0);
    close(listener);
}

static int open_rank(struct world **world, int rank, int size, const char *token, double deadline) {
    struct device *device;
    if (device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) < 0)
        return -1;
    struct world_meeting meeting = {
        .place = {.rank = rank, .size = size, .local_size = 1}, .address = "127.0.0.1", .port = port, .token = token};
    struct world_options options = {.backend = "tcp", .meeting = &meeting, .deadline_seconds = deadline};
    if (tcp_world_open(world, device, &options) < 0) {
        device_close(device);
        return -1;
    }
    (*world)->deadline_seconds = deadline;
    return 0;
}

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition);                                     \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

// What every rank of a world does: all ranks, and two groups of odd and even ranks, several exchanges each.
static void work(int rank, int size) {
    struct world *world;
    REQUIRE(open_rank(&world, rank, size, "job 7", LONG_SECONDS) == 0);
    int ranks[64], half[64], members = 0;
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    for (int i = rank % 2; i < size; i += 2)
        half[members++] = i;
    struct group *all, *mine;
    REQUIRE(world_group(world, &all, ranks, size, "all") == 0);
    REQUIRE(world_group(world, &mine, half, members, "half") == 0);
    for (int round = 0; round < 50; round++) {
        int64_t values[300];
        for (int i = 0; i < 300; i++)
            values[i] = (rank * 7 + i * 13 + round) % 11 - 5;
        comm_max_i64(all, values, 300, "max");
        for (int i = 0; i < 300; i++) {
            int64_t most = INT64_MIN;
            for (int r = 0; r < size; r++) {
                int64_t value = (r * 7 + i * 13 + round) % 11 - 5;
                most = value > most ? value : most;
            }
            REQUIRE(values[i] == most);
        }
        int64_t word = 1000 * round + rank;
        comm_broadcast_i64(mine, &word, 1, round % members, "word");
        REQUIRE(word == 1000 * round + half[round % members]);
    }
    comm_barrier(all, "end");
    world_close(world);
    _exit(0);
}

static int end_of(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

TEST(ranks_meet) {
    for (int size = 2; size <= 6; size += 2) {
        find_port();
        pid_t children[6];
        // The hub is the last to come.
        for (int rank = size - 1; rank >= 0; rank--) {
            fflush(NULL);
            if ((children[rank] = fork()) == 0)
                work(rank, size);
        }
        for (int rank = 0; rank < size; rank++)
            EXPECT_INT(end_of(children[rank]), 0);
    }
}

// A visitor of the hub in another process; exits 0 if it was turned away with this reason.
static pid_t visit(int rank, int size, const char *token, const char *reason) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct world *world;
        _exit(open_rank(&world, rank, size, token, LONG_SECONDS) < 0 && strstr(error_message(), reason) ? 0 : 1);
    }
    return child;
}

// One that talks something else; exits 0 once it gets an answer.
static pid_t visit_by_mistake(void) {
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    static const char words[] = "GET / HTTP/1.1\r\nHost: bevatron.example.org\r\n\r\n";
    struct sockaddr_storage address;
    star_resolve("127.0.0.1", port, false, &address);
    for (double until = clock_seconds() + LONG_SECONDS; clock_seconds() < until; clock_sleep(0.01)) {
        char answer[256];
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)) == 0 &&
            send(fd, words, sizeof words - 1, MSG_NOSIGNAL) > 0 && recv(fd, answer, sizeof answer, 0) > 0)
            _exit(0);
        close(fd);
    }
    _exit(1);
}

// Rank 0 of two, whose other rank never comes, again and again until the last one who holds the other end of the pipe
// has let it go; exits 0 if it said so each time.
static pid_t wait_in_vain(int pipe_end) {
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    char byte;
    do {
        struct world *world;
        if (open_rank(&world, 0, 2, "job 7", 1) == 0 || !strstr(error_message(), "1 of 2 ranks did not come"))
            _exit(1);
    } while (read(pipe_end, &byte, 1) != 0);
    _exit(0);
}

TEST(strangers_are_turned_away) {
    find_port();
    int ends[2];
    EXPECT(pipe(ends) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    pid_t children[3] = {visit(1, 2, "another job", "token"), visit(1, 3, "job 7", "3 ranks, rank 0 counts 2"),
                         visit_by_mistake()};
    close(ends[1]);
    pid_t hub = wait_in_vain(ends[0]);
    close(ends[0]);
    for (int i = 0; i < 3; i++)
        EXPECT_INT(end_of(children[i]), 0);
    EXPECT_INT(end_of(hub), 0);
}

TEST(nobody_there) {
    find_port();
    struct world *world;
    double start = clock_seconds();
    EXPECT_ERROR(open_rank(&world, 1, 2, "job 7", 0.5), "nobody answers");
    EXPECT(clock_seconds() - start < LONG_SECONDS);
    EXPECT_INT(error_exit_code(), EXIT_CODE_PEER_LOST);
}

// A hub that may have two connections and is visited by four. It exits 0 if it says at once what is in its way, instead
// of waiting for ranks that stand at its door.
static pid_t lack_files(void) {
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    int lowest = dup(0);
    close(lowest);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        _exit(2);
    limit.rlim_cur = (rlim_t)lowest + 3;
    char expected[64];
    snprintf(expected, sizeof expected, "may have %d files open", lowest + 3);
    struct world *world;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || open_rank(&world, 0, 5, "job 7", LONG_SECONDS) == 0)
        _exit(3);
    fprintf(stderr, "%s\n", error_message());
    _exit(strstr(error_message(), expected) && error_exit_code() == EXIT_CODE_ERROR ? 0 : 1);
}

TEST(too_few_files) {
    find_port();
    pid_t visitors[4];
    double start = clock_seconds();
    for (int i = 0; i < 4; i++)
        visitors[i] = visit(i + 1, 5, "job 7", "");
    EXPECT_INT(end_of(lack_files()), 0);
    EXPECT(clock_seconds() - start < LONG_SECONDS);
    for (int i = 0; i < 4; i++) {
        kill(visitors[i], SIGKILL);
        (void)end_of(visitors[i]);
    }
}

static void wait_as_first(void) {
    struct world *world;
    (void)open_rank(&world, 0, 3, "job 7", 2.5);
}

static void wait_as_second(void) {
    struct world *world;
    (void)open_rank(&world, 1, 2, "job 7", 0.5);
}

// Who waits says for whom.
TEST(waiting_is_no_secret) {
    static struct capture capture;
    find_port();
    capture_run(&capture, wait_as_first);
    EXPECT(strstr(capture.text, "waiting for 2 of 3 ranks: 1 2; giving up after") != NULL);
    capture_run(&capture, wait_as_second);
    EXPECT(strstr(capture.text, "nobody answers at 127.0.0.1 port") != NULL);
}

static int64_t card;  // the GPU that this process pretends to have

static void identify(struct device *device, int64_t words[2]) {
    (void)device;
    words[0] = card;
    words[1] = -card;
}

static void pretend(struct device *device, struct ops *table) {
    *table = *device->ops;
    table->identity = identify;
    device->ops = table;
}

// Ranks with these GPUs, 0 for none, all see how they fit, and name those who do not; @ stands for this machine.
static void compute_on(const int64_t cards[3], enum devices_fit expected, const char *text) {
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    struct buffer said = {0};
    for (; *text; text++) {
        if (*text == '@')
            buffer_append_string(&said, host);
        else
            buffer_append_byte(&said, *text);
    }
    find_port();
    pid_t children[3];
    for (int rank = 0; rank < 3; rank++) {
        fflush(NULL);
        if ((children[rank] = fork()) == 0) {
            struct world *world;
            struct ops table;
            struct buffer out = {0};
            REQUIRE(open_rank(&world, rank, 3, "job 7", LONG_SECONDS) == 0);
            card = cards[rank];
            if (card != 0)
                pretend(world->device, &table);
            REQUIRE(devices_find(world, world->device, &out) == expected);
            REQUIRE(strcmp(buffer_string(&out), buffer_string(&said)) == 0);
            _exit(0);
        }
    }
    for (int rank = 0; rank < 3; rank++)
        EXPECT_INT(end_of(children[rank]), 0);
    buffer_free(&said);
}

TEST(what_ranks_compute_on) {
    compute_on((const int64_t[]){0, 0, 0}, DEVICES_HOST, "");
    compute_on((const int64_t[]){3, 1, 2}, DEVICES_OWN, "");
    compute_on((const int64_t[]){3, 1, 3}, DEVICES_SHARED, "rank 0 on @ and rank 2 on @ share a GPU (3 ranks use 2)");
    compute_on((const int64_t[]){0, 1, 0}, DEVICES_MIXED, "rank 0 on @, rank 2 on @");
    compute_on((const int64_t[]){1, 0, 1}, DEVICES_MIXED, "rank 1 on @");
}

// A rank whose GPU is gone does not go on beside those that have one.
TEST(some_have_no_gpu) {
    find_port();
    pid_t children[2];
    for (int rank = 0; rank < 2; rank++) {
        fflush(NULL);
        if ((children[rank] = fork()) == 0) {
            struct world *world;
            struct device *device;
            struct ops table;
            REQUIRE(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) == 0);
            card = 7;
            if (rank == 0)
                pretend(device, &table);
            struct world_meeting meeting = {.place = {.rank = rank, .size = 2, .local_size = 1},
                                            .address = "127.0.0.1",
                                            .port = port,
                                            .token = "job 7"};
            struct world_options options = {
                .backend = "tcp", .meeting = &meeting, .deadline_seconds = LONG_SECONDS, .carrier = "nccl"};
            REQUIRE(world_open(&world, &options, device) < 0 && !world && error_is_shared());
            REQUIRE(strstr(error_message(), "others have none that works: rank 1 on ") != NULL);
            _exit(0);
        }
    }
    for (int rank = 0; rank < 2; rank++)
        EXPECT_INT(end_of(children[rank]), 0);
}

// A rank that ends in the middle ends the others, with the code for it.
TEST(a_lost_rank) {
    find_port();
    pid_t children[3];
    for (int rank = 0; rank < 3; rank++) {
        fflush(NULL);
        if ((children[rank] = fork()) == 0) {
            struct world *world;
            struct group *all;
            REQUIRE(open_rank(&world, rank, 3, "job 7", LONG_SECONDS) == 0);
            REQUIRE(world_group(world, &all, (int[]){0, 1, 2}, 3, "all") == 0);
            if (rank == 1)
                _exit(0);
            comm_barrier(all, "barrier");
            _exit(0);
        }
    }
    EXPECT_INT(end_of(children[0]), EXIT_CODE_PEER_LOST);
    EXPECT_INT(end_of(children[1]), 0);
    EXPECT_INT(end_of(children[2]), EXIT_CODE_PEER_LOST);
}

// Three ranks that work with files while each waits for the others, for longer than the deadline.
static void be_patient(int rank, double deadline, bool is_stopped) {
    struct world *world;
    struct group *all;
    REQUIRE(open_rank(&world, rank, 3, "job 7", LONG_SECONDS) == 0);
    REQUIRE(world_group(world, &all, (int[]){0, 1, 2}, 3, "all") == 0);
    hosts_gather(world);
    comm_barrier(all, "all are here");
    world->deadline_seconds = deadline;
    REQUIRE(pulse_open(&world->pulse, world) == 0 && world->pulse);
    for (int round = 0; round < 2; round++) {
        comm_patience_begin(all, "a test");
        comm_patience_begin(all, "more of it");
        if (rank == 1 && is_stopped)
            raise(SIGSTOP);
        clock_sleep(rank == 2 ? 1.5 * deadline : 0);
        int64_t most = rank;
        comm_max_i64(all, &most, 1, "most");
        REQUIRE(most == 2);
        comm_patience_end(all);
        clock_sleep(rank == 0 ? 1.5 * deadline : 0);
        comm_patience_end(all);
        // Outside of it the ranks are where they must be within the deadline.
        comm_barrier(all, "barrier");
    }
    world_close(world);
    _exit(0);
}

static void start_patient(pid_t children[3], double deadline, bool is_stopped) {
    find_port();
    for (int rank = 0; rank < 3; rank++) {
        fflush(NULL);
        if ((children[rank] = fork()) == 0)
            be_patient(rank, deadline, is_stopped);
    }
}

// A rank that a busy machine does not let run for a whole deadline has rightly been given up. Hence deadlines that
// grow: what is to be shown shows with the first, or with one that no machine outlasts.
static const double deadlines[] = {0.5, 3, 20};
enum { DEADLINES = sizeof deadlines / sizeof deadlines[0] };

// Slow files are no hang.
TEST(slow_ranks_are_waited_for) {
    bool is_shown = false;
    for (int i = 0; i < DEADLINES && !is_shown; i++) {
        pid_t children[3];
        start_patient(children, deadlines[i], false);
        is_shown = true;
        for (int rank = 0; rank < 3; rank++)
            is_shown = end_of(children[rank]) == 0 && is_shown;
    }
    EXPECT(is_shown);
}

// A rank that stands still is one, though the others only wait for files.
TEST(a_stopped_rank) {
    bool is_shown = false;
    for (int i = 0; i < DEADLINES && !is_shown; i++) {
        pid_t children[3];
        double start = clock_seconds();
        start_patient(children, deadlines[i], true);
        int first = end_of(children[0]), third = end_of(children[2]);
        double passed = clock_seconds() - start;
        // It may have been given up, or have given up itself, before it came to stand still.
        kill(children[1], SIGKILL);
        if (end_of(children[1]) != 256)
            continue;
        is_shown = true;
        // Who ends first closes its connections: the other may hear of that before its own deadline.
        EXPECT(passed < LONG_SECONDS);
        EXPECT(first == EXIT_CODE_HANG || third == EXIT_CODE_HANG);
        EXPECT(first == EXIT_CODE_HANG || first == EXIT_CODE_PEER_LOST);
        EXPECT(third == EXIT_CODE_HANG || third == EXIT_CODE_PEER_LOST);
    }
    EXPECT(is_shown);
}

TEST_MAIN(TEST_CASE(ranks_meet), TEST_CASE(strangers_are_turned_away), TEST_CASE(too_few_files),
          TEST_CASE(nobody_there), TEST_CASE(waiting_is_no_secret), TEST_CASE(what_ranks_compute_on),
          TEST_CASE(some_have_no_gpu), TEST_CASE(a_lost_rank), TEST_CASE(slow_ranks_are_waited_for),
          TEST_CASE(a_stopped_rank))
