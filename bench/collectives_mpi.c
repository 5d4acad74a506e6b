// The collectives of `bevatron bench collectives` as one would write them by hand: MPI calls in a loop, the same sizes,
// repetitions and buffers, one JSON object per line with the time of the slowest rank. "blocking" makes MPI_Allreduce
// and its kin in a program without threads; "started" makes MPI_Iallreduce and MPI_Wait in one whose threads may call
// MPI in turn (MPI_THREAD_SERIALIZED, which Open MPI pays for with locks): what it takes to compute in between.
//   mpirun -n 2 collectives_mpi blocking|started MIN_BYTES MAX_BYTES FACTOR ITERATIONS WARMUP
#include <mpi.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum operation { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SENDRECV, OPERATIONS };

static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"};

struct loop {
    enum operation operation;
    bool is_started;
    int rank, size, count;  // elements of the larger side
    float *whole, *part;    // (count) each
};

static void run_blocking(const struct loop *l) {
    int piece = l->count / l->size;
    switch (l->operation) {
    case ALL_REDUCE:
        MPI_Allreduce(MPI_IN_PLACE, l->whole, l->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_GATHER:
        MPI_Allgather(l->part, piece, MPI_FLOAT, l->whole, piece, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(l->whole, l->part, piece, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case BROADCAST:
        MPI_Bcast(l->whole, l->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
    default:
        MPI_Sendrecv(l->whole, l->count, MPI_FLOAT, (l->rank + 1) % l->size, 0, l->part, l->count, MPI_FLOAT,
                     (l->rank + l->size - 1) % l->size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void run_started(const struct loop *l) {
    int piece = l->count / l->size, started = 1;
    MPI_Request requests[2];
    switch (l->operation) {
    case ALL_REDUCE:
        MPI_Iallreduce(MPI_IN_PLACE, l->whole, l->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, requests);
        break;
    case ALL_GATHER:
        MPI_Iallgather(l->part, piece, MPI_FLOAT, l->whole, piece, MPI_FLOAT, MPI_COMM_WORLD, requests);
        break;
    case REDUCE_SCATTER:
        MPI_Ireduce_scatter_block(l->whole, l->part, piece, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, requests);
        break;
    case BROADCAST:
        MPI_Ibcast(l->whole, l->count, MPI_FLOAT, 0, MPI_COMM_WORLD, requests);
        break;
    default:
        MPI_Isend(l->whole, l->count, MPI_FLOAT, (l->rank + 1) % l->size, 0, MPI_COMM_WORLD, requests);
        MPI_Irecv(l->part, l->count, MPI_FLOAT, (l->rank + l->size - 1) % l->size, 0, MPI_COMM_WORLD, requests + 1);
        started = 2;
    }
    MPI_Waitall(started, requests, MPI_STATUSES_IGNORE);
}

static void run_once(const struct loop *l) {
    if (l->is_started)
        run_started(l);
    else
        run_blocking(l);
}

static double measure(const struct loop *l, int iterations, int warmup) {
    memset(l->whole, 0, sizeof(float) * (size_t)l->count);
    memset(l->part, 0, sizeof(float) * (size_t)l->count);
    for (int i = 0; i < warmup; i++)
        run_once(l);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < iterations; i++)
        run_once(l);
    double seconds = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds / iterations;
}

int main(int argc, char **argv) {
    int level;
    bool is_started = argc > 1 && strcmp(argv[1], "started") == 0;
    MPI_Init_thread(&argc, &argv, is_started ? MPI_THREAD_SERIALIZED : MPI_THREAD_SINGLE, &level);
    if (argc != 7) {
        fprintf(stderr, "usage: %s blocking|started MIN_BYTES MAX_BYTES FACTOR ITERATIONS WARMUP\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    long least = strtol(argv[2], NULL, 10), most = strtol(argv[3], NULL, 10), factor = strtol(argv[4], NULL, 10);
    int iterations = (int)strtol(argv[5], NULL, 10), warmup = (int)strtol(argv[6], NULL, 10);
    struct loop l = {.is_started = is_started};
    MPI_Comm_rank(MPI_COMM_WORLD, &l.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &l.size);
    size_t room = (size_t)most + sizeof(float) * (size_t)l.size;
    l.whole = malloc(room);
    l.part = malloc(room);
    if (!l.whole || !l.part || least < 4 || factor < 2 || iterations < 1)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int operation = ALL_REDUCE; operation < OPERATIONS; operation++)
        for (long bytes = least; bytes <= most; bytes *= factor) {
            l.operation = (enum operation)operation;
            l.count = (int)((bytes / (long)sizeof(float) + l.size - 1) / l.size * l.size);
            double seconds = measure(&l, iterations, warmup);
            if (l.rank == 0)
                printf("{\"operation\": \"%s\", \"ranks\": %d, \"bytes\": %ld, \"us\": %.2f}\n", names[operation],
                       l.size, (long)l.count * (long)sizeof(float), seconds * 1e6);
        }
    free(l.whole);
    free(l.part);
    MPI_Finalize();
    return 0;
}
