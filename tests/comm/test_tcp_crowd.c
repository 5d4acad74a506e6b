// Ranks meet in a crowd of strangers that say nothing.
// tier: all
#include "tcp_ranks.h"
#include "base/memory.h"
#include "comm/star.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>

// Says what number `i` of the crowd says: nothing, half a word, as much as a rank says but nonsense, or more than that;
// some leave at once.
static void speak(int *own_socket, int i) {
    char nonsense[1024];
    memset(nonsense, 'x', sizeof nonsense);
    size_t length = i % 5 == 1 ? 4 : i % 5 == 2 ? sizeof(struct hello) : i % 5 == 3 ? sizeof nonsense : 0;
    if (length > 0)
        (void)!send(*own_socket, nonsense, length, MSG_NOSIGNAL);
    if (i % 5 == 4) {
        close(*own_socket);
        *own_socket = 0;
    }
}

// A process that connects to the hub many times, until it is ended. Connections that are closed are opened again. It
// writes a byte to the pipe once it has made them all.
static pid_t stand_around(int count, int pipe_end) {
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    struct sockaddr_storage address;
    star_resolve("127.0.0.1", port, false, &address);
    int *sockets = memory_alloc(sizeof *sockets * (size_t)count);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    // Fewer where a process may not have so many.
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)count + 64)
        count = (int)limit.rlim_cur - 64;
    for (int i = 0, open = 0;; i = (i + 1) % count) {
        char byte;
        ssize_t heard = sockets[i] > 0 ? recv(sockets[i], &byte, 1, MSG_DONTWAIT) : 0;
        if (i == 0)
            clock_sleep(0.001);
        if (heard > 0 || (heard < 0 && errno == EAGAIN))
            continue;
        if (sockets[i] > 0)
            close(sockets[i]);
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        bool is_in = connect(sockets[i], (struct sockaddr *)&address, sizeof(struct sockaddr_in)) == 0;
        if (is_in)
            speak(&sockets[i], i);
        if (is_in && ++open == count)
            (void)!write(pipe_end, "x", 1);
    }
}

// Rank 0 in a process of its own, which may open `files` more files than it has; 0: as many as it likes.
static pid_t start_hub(int size, int files) {
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    if (files > 0)
        (void)limit_files(files);
    work(0, size);
    _exit(4);
}

// The ranks come when the crowd is there.
static void meet_in_a_crowd(int size, int visitors, int files) {
    find_port();
    int ends[2];
    char byte;
    EXPECT(pipe(ends) == 0);
    double start = clock_seconds();
    pid_t hub = start_hub(size, files), crowd = stand_around(visitors, ends[1]), children[8];
    EXPECT_INT(read(ends[0], &byte, 1), 1);
    for (int rank = 1; rank < size; rank++) {
        fflush(NULL);
        if ((children[rank] = fork()) == 0)
            work(rank, size);
    }
    EXPECT_INT(end_of(hub), 0);
    for (int rank = 1; rank < size; rank++)
        EXPECT_INT(end_of(children[rank]), 0);
    EXPECT(clock_seconds() - start < LONG_SECONDS);
    kill(crowd, SIGKILL);
    (void)end_of(crowd);
    close(ends[0]);
    close(ends[1]);
}

// Heard one after the other, for five seconds each, they would take an hour.
TEST(silent_visitors_hold_up_nobody) {
    meet_in_a_crowd(4, 700, 0);
}

// More visitors than the hub may have files: the oldest make room.
TEST(silent_visitors_make_room) {
    meet_in_a_crowd(3, 60, 16);
}

// As many connections as an attacker has ports, while the hub may open the usual number of files, or hardly any.
TEST(ten_thousand_strangers) {
    meet_in_a_crowd(4, 10000, 0);
    meet_in_a_crowd(4, 10000, 32);
}

TEST_MAIN(TEST_CASE(silent_visitors_hold_up_nobody), TEST_CASE(silent_visitors_make_room),
          TEST_CASE(ten_thousand_strangers))
