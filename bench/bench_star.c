// layer: comm
// What the hub of a star pays for each rank, with real processes on this machine: how long ranks take to join, and to
// exchange tables with a row of each. The hub's own CPU time is what counts at scale: it is the one that works for all.
// src/plan/control.c has the constants. usage: bench_star RANKS…    (256 by default)
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/star.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20 };
static const int row_words[] = {1, 12, 120};
enum { TABLES = sizeof row_words / sizeof row_words[0] };

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void exchange(struct star *star, int64_t *table, int words) {
    int *firsts = memory_alloc(sizeof *firsts * ((size_t)star->size + 1));
    for (int i = 0; i < star->size; i++)
        firsts[i + 1] = firsts[i] + words;
    struct star_exchange *x = star_start_rows(star, table, firsts);
    while (!star_test(x))
        clock_sleep(1e-3);
    free(firsts);
}

static void exchange_all(struct star *star, bool prints) {
    int most = row_words[TABLES - 1];
    int64_t *table = memory_alloc(sizeof *table * (size_t)star->size * (size_t)most);
    for (int t = 0; t < TABLES; t++) {
        exchange(star, table, row_words[t]);
        double wall = clock_seconds(), cpu = cpu_seconds();
        for (int i = 0; i < ROUNDS; i++)
            exchange(star, table, row_words[t]);
        if (prints)
            printf("%5d ranks, rows of %3d numbers: %8.2f ms, of the hub's CPU %8.2f ms, %6.2f us a rank\n", star->size,
                   row_words[t], (clock_seconds() - wall) / ROUNDS * 1e3, (cpu_seconds() - cpu) / ROUNDS * 1e3,
                   (cpu_seconds() - cpu) / ROUNDS / star->size * 1e6);
    }
    free(table);
}

static int run_rank(int rank, int size, const struct sockaddr_storage *hub) {
    struct star star;
    struct star_options options = {.name = "bench", .rank = rank, .size = size, .deadline_seconds = 300};
    TRY(star_join(&star, &options, hub));
    exchange_all(&star, false);
    star_close(&star);
    return 0;
}

static int measure(int size) {
    struct sockaddr_storage address;
    struct star star;
    int listener, port;
    struct star_options options = {.name = "bench", .size = size, .deadline_seconds = 300};
    TRY(star_resolve("127.0.0.1", 0, false, &address));
    TRY(star_listen(&address, &listener, &port));
    address = star_with_port(&address, port);
    fflush(NULL);
    for (int rank = 1; rank < size; rank++)
        if (fork() == 0)
            _exit(run_rank(rank, size, &address) < 0);
    double wall = clock_seconds(), cpu = cpu_seconds();
    TRY(star_gather(&star, &options, listener));
    printf("%5d ranks join:                    %8.2f ms, of the hub's CPU %8.2f ms, %6.2f us a rank\n", size,
           (clock_seconds() - wall) * 1e3, (cpu_seconds() - cpu) * 1e3, (cpu_seconds() - cpu) / size * 1e6);
    exchange_all(&star, true);
    star_close(&star);
    close(listener);
    int status = 0, failed = 0;
    while (wait(&status) > 0)
        failed += status != 0;
    return failed > 0 ? error_set("%d ranks failed", failed) : 0;
}

int main(int argc, char **argv) {
    for (int i = 1; i < (argc > 1 ? argc : 2); i++)
        if (measure(argc > 1 ? (int)strtol(argv[i], NULL, 10) : 256) < 0) {
            fprintf(stderr, "error: %s\n", error_message());
            return 1;
        }
    return 0;
}
