// Ranks that meet over TCP, for tests: processes of this machine around one port.
#ifndef TESTS_COMM_TCP_RANKS_H
#define TESTS_COMM_TCP_RANKS_H

#include "base/clock.h"
#include "comm/backend.h"
#include "comm/star.h"
#include "ops/device.h"
#include "test.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int port;

// Time for all processes to arrive, on a busy machine too. If all is well, the wait is shorter.
static const double LONG_SECONDS = 300;

// A port that no other test takes meanwhile, though nobody listens there yet.
static inline void find_port(void) {
    FILE *command = popen("bash -c '. tests/free_port.sh && free_port'", "r");
    EXPECT(command && fscanf(command, "%d", &port) == 1);
    EXPECT_INT(pclose(command), 0);
}

static inline int open_rank(struct world **world, int rank, int size, const char *token, double deadline) {
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

// Rows of three times their rank's number, every fourth empty; what a rank has in the others' places does not count.
static inline void gather_rows(struct group *all, int rank, int size, int round) {
    int firsts[65] = {0};
    int64_t table[64 * 64 * 3];
    for (int r = 0; r < size; r++)
        firsts[r + 1] = firsts[r] + (r % 4 == 0 ? 0 : 3 * r);
    for (int i = 0; i < firsts[size]; i++)
        table[i] = i >= firsts[rank] && i < firsts[rank + 1] ? (int64_t)i * -round : INT64_MAX;
    comm_all_gather_rows_i64(all, table, firsts, "rows");
    for (int i = 0; i < firsts[size]; i++)
        REQUIRE(table[i] == (int64_t)i * -round);
}

// The work of every rank of a world: several exchanges among all ranks, and in two groups of odd and even ranks.
static inline void work(int rank, int size) {
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
        int64_t table[64][2] = {0};
        for (int i = 0; i < 2; i++)
            table[rank][i] = (int64_t)(rank + round) * (i == 0 ? 1 : -1);
        comm_all_gather_i64(all, table[0], 2, "table");
        for (int r = 0; r < size; r++)
            REQUIRE(table[r][0] == r + round && table[r][1] == -r - round);
        gather_rows(all, rank, size, round);
        int64_t word = 1000 * round + rank;
        comm_broadcast_i64(mine, &word, 1, round % members, "word");
        REQUIRE(word == 1000 * round + half[round % members]);
    }
    comm_barrier(all, "end");
    world_close(world);
    _exit(0);
}

// Lets this process open some more files and no others; returns how many it may have.
static inline int limit_files(int more) {
    int lowest = dup(0);
    close(lowest);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        _exit(2);
    limit.rlim_cur = (rlim_t)(lowest + more);
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        _exit(3);
    return lowest + more;
}

static inline int end_of(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

#endif
