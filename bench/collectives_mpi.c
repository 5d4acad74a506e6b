// Our collectives beside the same ones written by hand over MPI, in turn within the same processes: what disturbs one
// (a scheduler with more ranks than cores, a neighbour) disturbs the other, and the medians of many short rounds are
// compared. "ours" is what `bevatron bench collectives` calls; "loop" is MPI_Iallreduce and MPI_Wait (and so on), what
// it takes to compute in between; "blocking" is MPI_Allreduce and its kin. All run at the thread level ours needs,
// MPI_THREAD_SERIALIZED. A ratio is our time by theirs: 1.05 is five per cent more.
//   bash tests/parallel/mpirun.sh 2 build/release/bench/collectives_mpi [MIN_BYTES [MAX_BYTES [FACTOR [SECONDS]]]]
// SECONDS is the time one row may take.
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "ops/device.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mpi_operation { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SENDRECV, OPERATIONS };
enum mpi_way { OURS, LOOP, BLOCKING, WAYS };
enum { MOST_ROUNDS = 2001, FEWEST_ROUNDS = 15 };

static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"};
// A batch is long beside the clock and short beside what the scheduler gives a process.
static const double BATCH_SECONDS = 200e-6;

struct mpi_trial {
    enum mpi_operation operation;
    struct group *group;
    int rank, size;
    int64_t count;        // elements of the larger side
    float *whole, *part;  // (count) each
};

static void run_ours(const struct mpi_trial *t) {
    struct tensor whole = tensor_1d(t->whole, DTYPE_F32, t->count);
    struct tensor part = tensor_1d(t->part, DTYPE_F32, t->count / t->size);
    struct comm_request request;
    switch (t->operation) {
    case ALL_REDUCE:
        request = comm_all_reduce_start(t->group, whole, REDUCE_SUM, "bench");
        break;
    case ALL_GATHER:
        request = comm_all_gather_start(t->group, whole, part, "bench");
        break;
    case REDUCE_SCATTER:
        request = comm_reduce_scatter_start(t->group, part, whole, "bench");
        break;
    case BROADCAST:
        request = comm_broadcast_start(t->group, whole, 0, "bench");
        break;
    default: {
        struct tensor received = tensor_1d(t->part, DTYPE_F32, t->count);
        request = comm_send_start(t->group, whole, (t->rank + 1) % t->size, "bench");
        struct comm_request receive =
            comm_receive_start(t->group, received, (t->rank + t->size - 1) % t->size, "bench");
        comm_wait(&receive);
    }
    }
    comm_wait(&request);
}

static void run_loop(const struct mpi_trial *t) {
    int count = (int)t->count, piece = count / t->size, started = 1;
    MPI_Request requests[2];
    switch (t->operation) {
    case ALL_REDUCE:
        MPI_Iallreduce(MPI_IN_PLACE, t->whole, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, requests);
        break;
    case ALL_GATHER:
        MPI_Iallgather(t->part, piece, MPI_FLOAT, t->whole, piece, MPI_FLOAT, MPI_COMM_WORLD, requests);
        break;
    case REDUCE_SCATTER:
        MPI_Ireduce_scatter_block(t->whole, t->part, piece, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, requests);
        break;
    case BROADCAST:
        MPI_Ibcast(t->whole, count, MPI_FLOAT, 0, MPI_COMM_WORLD, requests);
        break;
    default:
        MPI_Isend(t->whole, count, MPI_FLOAT, (t->rank + 1) % t->size, 0, MPI_COMM_WORLD, requests);
        MPI_Irecv(t->part, count, MPI_FLOAT, (t->rank + t->size - 1) % t->size, 0, MPI_COMM_WORLD, requests + 1);
        started = 2;
    }
    MPI_Waitall(started, requests, MPI_STATUSES_IGNORE);
}

static void run_blocking(const struct mpi_trial *t) {
    int count = (int)t->count, piece = count / t->size;
    switch (t->operation) {
    case ALL_REDUCE:
        MPI_Allreduce(MPI_IN_PLACE, t->whole, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_GATHER:
        MPI_Allgather(t->part, piece, MPI_FLOAT, t->whole, piece, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(t->whole, t->part, piece, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case BROADCAST:
        MPI_Bcast(t->whole, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
    default:
        MPI_Sendrecv(t->whole, count, MPI_FLOAT, (t->rank + 1) % t->size, 0, t->part, count, MPI_FLOAT,
                     (t->rank + t->size - 1) % t->size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

// Seconds of one call, the mean of a batch of this rank.
static double time_batch(const struct mpi_trial *t, enum mpi_way way, int calls) {
    static void (*const run[WAYS])(const struct mpi_trial *) = {run_ours, run_loop, run_blocking};
    MPI_Barrier(MPI_COMM_WORLD);
    double start = clock_seconds();
    for (int i = 0; i < calls; i++)
        run[way](t);
    return (clock_seconds() - start) / calls;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

// Calls of a batch and rounds within the time of a row, the same on all ranks.
static void choose(const struct mpi_trial *t, double seconds, int *calls, int *rounds) {
    double each = 0;
    for (int way = OURS; way < WAYS; way++)
        each += time_batch(t, (enum mpi_way)way, 5) / WAYS;
    MPI_Allreduce(MPI_IN_PLACE, &each, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    *calls = each < BATCH_SECONDS ? (int)(BATCH_SECONDS / each) : 1;
    double wanted = seconds / (WAYS * each * *calls);
    *rounds = wanted > MOST_ROUNDS ? MOST_ROUNDS : wanted < FEWEST_ROUNDS ? FEWEST_ROUNDS : (int)wanted;
}

// A row: each round times the three ways by the slowest rank, in each of their six orders in turn.
static void measure(const struct mpi_trial *t, double seconds, double *times[WAYS], double medians[WAYS]) {
    int calls, rounds;
    memset(t->whole, 0, sizeof(float) * (size_t)t->count);
    memset(t->part, 0, sizeof(float) * (size_t)t->count);
    choose(t, seconds, &calls, &rounds);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < WAYS; i++) {
            int turn = round % 2 ? WAYS - i : i, way = (round / 2 + turn) % WAYS;
            times[way][round] = time_batch(t, (enum mpi_way)way, calls);
        }
    for (int way = OURS; way < WAYS; way++) {
        MPI_Allreduce(MPI_IN_PLACE, times[way], rounds, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        medians[way] = median(times[way], rounds);
    }
}

static double argument(int argc, char **argv, int i, double otherwise) {
    return argc > i ? strtod(argv[i], NULL) : otherwise;
}

int main(int argc, char **argv) {
    double least = argument(argc, argv, 1, 1024), most = argument(argc, argv, 2, 1 << 24);
    double factor = argument(argc, argv, 3, 16), seconds = argument(argc, argv, 4, 1), worst = 0;
    struct device *device;
    struct world *world;
    if (device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) < 0 ||
        world_open(&world, &(struct world_options){.backend = "mpi"}, device) < 0)
        die("%s", error_message());
    struct group *all = world_group_all(world);
    struct mpi_trial t = {.group = all, .rank = group_rank(all), .size = group_size(all)};
    if (least < 4 || most > 1 << 30 || factor < 2 || t.size < 2)
        die("sizes are 4 bytes to 1 GiB, the factor is at least 2, and there are at least two ranks");
    size_t room = (size_t)most + sizeof(float) * (size_t)t.size;
    t.whole = memory_alloc(room);
    t.part = memory_alloc(room);
    double *times[WAYS], medians[WAYS];
    for (int way = OURS; way < WAYS; way++)
        times[way] = memory_alloc(sizeof(double) * MOST_ROUNDS);
    if (t.rank == 0)
        printf("# %d ranks, medians in microseconds\n%-15s %10s %10s %10s %7s %10s %7s\n", t.size, "operation", "bytes",
               "ours", "loop", "ratio", "blocking", "ratio");
    for (int operation = ALL_REDUCE; operation < OPERATIONS; operation++)
        for (double bytes = least; bytes <= most; bytes *= factor) {
            t.operation = (enum mpi_operation)operation;
            t.count = ((int64_t)bytes / (int64_t)sizeof(float) + t.size - 1) / t.size * t.size;
            measure(&t, seconds, times, medians);
            double ratio = medians[OURS] / medians[LOOP];
            worst = ratio > worst ? ratio : worst;
            if (t.rank == 0)
                printf("%-15s %10" PRId64 " %10.2f %10.2f %7.3f %10.2f %7.3f\n", names[operation],
                       t.count * (int64_t)sizeof(float), medians[OURS] * 1e6, medians[LOOP] * 1e6, ratio,
                       medians[BLOCKING] * 1e6, medians[OURS] / medians[BLOCKING]);
            fflush(stdout);
        }
    if (t.rank == 0)
        printf("# largest ratio to the loop: %.3f\n", worst);
    for (int way = OURS; way < WAYS; way++)
        free(times[way]);
    free(t.whole);
    free(t.part);
    world_close(world);
    device_close(device);
    return 0;
}
