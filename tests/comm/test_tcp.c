// Ranks that find each other over TCP: processes of this machine around one port. Those who do not belong are turned
// away with a reason, and no rank waits longer than the deadline.
// tier: all
#include "../base/capture.h"
#include "tcp_ranks.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/backend.h"
#include "comm/star.h"
#include "ops/device.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
        if (open_rank(&world, 0, 2, "job 7", 1) == 0 || !strstr(error_message(), "1 of 2 ranks did not join"))
            _exit(1);
    } while (read(pipe_end, &byte, 1) != 0);
    _exit(0);
}

// Message of rank 1 of 3 to the hub for an exchange; the hub answers with its table, which the rank then has.
static ssize_t bytes_sent(struct star *star, int peer, struct star_exchange *x, const int64_t *table, int count) {
    unsigned char frame[1024];
    bool is_early = star_test(x);
    ssize_t sent = recv(peer, frame, sizeof frame, MSG_DONTWAIT);
    size_t head = 4 * sizeof(uint32_t), bytes = sizeof *table * (size_t)count;
    memcpy(frame + head, table, bytes);
    EXPECT(send(peer, frame, head + bytes, MSG_NOSIGNAL) == (ssize_t)(head + bytes));
    EXPECT(!is_early && star_test(x) && star->rank == 1);
    return sent - (ssize_t)head;
}

// Ranks send no more than they contribute, so that the hub of many can hold it.
TEST(ranks_send_their_own_numbers) {
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    struct star_link link = {.socket = pair[0]};
    struct star star = {.name = (char *)"test", .rank = 1, .size = 3, .links = &link};
    int64_t values[6] = {0, 0, 3, 4, 5, 0}, table[6] = {1, 2, 3, 4, 5, 6};
    const int firsts[] = {0, 2, 5, 6};
    EXPECT_INT(bytes_sent(&star, pair[1], star_start_rows(&star, values, firsts), table, 6), 3 * sizeof *values);
    EXPECT(memcmp(values, table, sizeof table) == 0);
    EXPECT_INT(bytes_sent(&star, pair[1], star_start(&star, STAR_MAX, 0, values, 6), table, 6), sizeof values);
    EXPECT_INT(bytes_sent(&star, pair[1], star_start(&star, STAR_FROM, 1, values, 6), table, 6), sizeof values);
    EXPECT_INT(bytes_sent(&star, pair[1], star_start(&star, STAR_FROM, 2, values, 6), table, 6), 0);
    close(pair[0]);
    close(pair[1]);
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

static void wait_with_a_wrong_count(void) {
    struct world *world;
    pid_t child = visit(1, 3, "job 7", "3 ranks, rank 0 counts 2");
    for (int i = 0; i < 100; i++) {
        bool is_open = open_rank(&world, 0, 2, "job 7", 1) == 0;
        if (is_open || strstr(error_message(), "it counts 3 ranks, rank 0 counts 2"))
            break;
    }
    fprintf(stderr, "%s\n", error_message());
    kill(child, SIGKILL);
    (void)end_of(child);
}

// Rank 0 names the rank that was started for another number of ranks when it gives up.
TEST(a_wrong_count_is_named) {
    static struct capture capture;
    find_port();
    capture_run(&capture, wait_with_a_wrong_count);
    EXPECT(strstr(capture.text, "1 of 2 ranks did not join") != NULL);
    EXPECT(strstr(capture.text, "; last rejected: 127.0.0.1 port ") != NULL);
    EXPECT(strstr(capture.text, ": it counts 3 ranks, rank 0 counts 2") != NULL);
}

TEST(nobody_there) {
    find_port();
    struct world *world;
    double start = clock_seconds();
    EXPECT_ERROR(open_rank(&world, 1, 2, "job 7", 0.5), "no answer from");
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
    char expected[64];
    snprintf(expected, sizeof expected, "may have %d files open", limit_files(3));
    struct world *world;
    if (open_rank(&world, 0, 5, "job 7", LONG_SECONDS) == 0)
        _exit(3);
    fprintf(stderr, "%s\n", error_message());
    _exit(strstr(error_message(), expected) && error_exit_code() == EXIT_CODE_ERROR ? 0 : 1);
}

// A rank that comes again whenever it is turned away, as one is that has not said who it is by the time the hub wants
// its place for another; ends when it is killed.
static pid_t visit_for_ever(int rank, int size) {
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    for (;; clock_sleep(0.01)) {
        struct world *world;
        if (open_rank(&world, rank, size, "job 7", LONG_SECONDS) == 0)
            _exit(1);
    }
}

TEST(too_few_files) {
    find_port();
    pid_t visitors[4];
    double start = clock_seconds();
    for (int i = 0; i < 4; i++)
        visitors[i] = visit_for_ever(i + 1, 5);
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

// A waiting rank reports the ranks it waits for.
TEST(waiting_is_no_secret) {
    static struct capture capture;
    find_port();
    capture_run(&capture, wait_as_first);
    EXPECT(strstr(capture.text, "waiting for 2 of 3 ranks: 1 2; giving up after") != NULL);
    capture_run(&capture, wait_as_second);
    EXPECT(strstr(capture.text, "no answer from 127.0.0.1 port") != NULL);
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
            hosts_gather(world);
            REQUIRE(devices_find(world, &out) == expected);
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
            REQUIRE(strstr(error_message(), "others do not: rank 1 on ") != NULL);
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

// Ranks that cannot load NCCL are known to all.
TEST(some_lack_nccl) {
    find_port();
    pid_t children[3];
    for (int rank = 0; rank < 3; rank++) {
        fflush(NULL);
        if ((children[rank] = fork()) == 0) {
            struct world *world;
            struct buffer out = {0};
            REQUIRE(open_rank(&world, rank, 3, "job 7", LONG_SECONDS) == 0);
            world->lacks_nccl = rank > 0;
            hosts_gather(world);
            REQUIRE(hosts_lack_nccl(world, &out));
            REQUIRE(strncmp(buffer_string(&out), "rank 1 on ", 10) == 0);
            REQUIRE(strstr(buffer_string(&out), ", rank 2 on ") && !strstr(buffer_string(&out), "rank 0"));
            for (int i = 0; i < 3; i++)
                world->hosts[i].lacks_nccl = 0;
            buffer_clear(&out);
            REQUIRE(!hosts_lack_nccl(world, &out) && out.length == 0);
            _exit(0);
        }
    }
    for (int rank = 0; rank < 3; rank++)
        EXPECT_INT(end_of(children[rank]), 0);
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

// A suspended rank is one, though the others only wait for files.
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

TEST_MAIN(TEST_CASE(ranks_meet), TEST_CASE(ranks_send_their_own_numbers), TEST_CASE(strangers_are_turned_away),
          TEST_CASE(too_few_files), TEST_CASE(a_wrong_count_is_named), TEST_CASE(nobody_there),
          TEST_CASE(waiting_is_no_secret), TEST_CASE(what_ranks_compute_on), TEST_CASE(some_have_no_gpu),
          TEST_CASE(some_lack_nccl), TEST_CASE(a_lost_rank), TEST_CASE(slow_ranks_are_waited_for),
          TEST_CASE(a_stopped_rank))
