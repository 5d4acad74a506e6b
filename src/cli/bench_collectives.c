// bevatron bench collectives: time and bandwidth of each collective over the ranks, in nccl-tests' terms. algbw is
// bytes by time; busbw is what that asks of the slowest link, so that it can be held against the hardware whatever the
// number of ranks. Every result is checked: elements that are wrong are counted.
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct collectives_options {
    struct flag_given given;
    char *operation, *device, *distributed_backend;
    int64_t min_bytes, max_bytes, factor, iterations, warmup, nproc;
    bool json;
};

#define OFFSET(member) offsetof(struct collectives_options, member)
#define COUNT(flag, member, start, least, most, text)                                                                  \
    {                                                                                                                  \
        .name = flag, .type = FLAG_INT, .offset = OFFSET(member), .initial = start, .minimum = least, .maximum = most, \
        .help = text                                                                                                   \
    }

static const char *const operation_names[] = {"all",       "all_reduce", "all_gather", "reduce_scatter",
                                              "broadcast", "sendrecv",   NULL};
enum operation { ALL, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SENDRECV, OPERATIONS };

static const struct flag own_flags[] = {
    {.name = "Collectives", .type = FLAG_GROUP},
    {.name = "--operation",
     .type = FLAG_CHOICE,
     .offset = OFFSET(operation),
     .choices = operation_names,
     .initial = "all",
     .help = "which one"},
    {.name = "--device", .type = FLAG_STRING, .offset = OFFSET(device), .initial = "auto", .help = "cpu, cuda or auto"},
    {.name = "--distributed-backend",
     .type = FLAG_STRING,
     .offset = OFFSET(distributed_backend),
     .help = "as train has it: nccl, mpi or gloo"},
    COUNT("--min-bytes", min_bytes, "1024", 4, 0x1p40, "smallest size"),
    COUNT("--max-bytes", max_bytes, "67108864", 4, 0x1p40, "largest size"),
    COUNT("--step-factor", factor, "4", 2, 1024, "from one size to the next"),
    COUNT("--iters", iterations, "20", 1, 1e6, "timed repetitions"),
    COUNT("--warmup-iters", warmup, "5", 0, 1e6, "repetitions before that"),
    COUNT("--nproc", nproc, "1", 1, 1024, "starts this many ranks on this machine"),
    {.name = "--json",
     .type = FLAG_BOOL,
     .offset = OFFSET(json),
     .help = "one JSON object per line instead of a table"},
};

static const struct flag_table own_table = {.flags = own_flags,
                                            .count = sizeof own_flags / sizeof own_flags[0],
                                            .given = offsetof(struct collectives_options, given)};

static const struct flag_command collectives_command = {
    .name = "bench collectives",
    .summary = "Measures the collectives between ranks; start it with --nproc, mpirun or srun.",
    .tables = &own_table,
    .table_count = 1,
    .epilogue = "Example:\n  bevatron bench collectives --nproc 2 --operation all_reduce --max-bytes 1073741824\n"};

struct trial {
    enum operation operation;
    struct device *device;
    struct group *group;
    struct tensor whole, part;  // (n * ranks) fp32; (n) fp32, a slice of its own
    int64_t count;              // elements of the larger side
};

// What rank r gives at element i: small whole numbers, whose sums are exact.
static float given(int rank, int64_t i) {
    return (float)((i + rank) % 13);
}

static void run_once(const struct trial *trial) {
    struct group *group = trial->group;
    int rank = group_rank(group), size = group_size(group);
    struct tensor whole = tensor_rows(trial->whole, 0, trial->count);
    struct tensor part = tensor_rows(trial->part, 0, trial->count / size);
    struct comm_request request;
    switch (trial->operation) {
    case ALL_REDUCE:
        request = comm_all_reduce_start(group, whole, REDUCE_SUM, "bench");
        break;
    case ALL_GATHER:
        request = comm_all_gather_start(group, whole, part, "bench");
        break;
    case REDUCE_SCATTER:
        request = comm_reduce_scatter_start(group, part, whole, "bench");
        break;
    case BROADCAST:
        request = comm_broadcast_start(group, whole, 0, "bench");
        break;
    default: {
        // Round the ring: to the right, from the left. NCCL does what a group is given one after the other, and a large
        // message only ends with its receipt, so not all may send first.
        struct tensor received = tensor_rows(trial->part, 0, trial->count);
        struct comm_request receive = {0};
        if (rank % 2) {
            receive = comm_receive_start(group, received, rank - 1, "bench");
            comm_wait(&receive);
        }
        request = comm_send_start(group, whole, (rank + 1) % size, "bench");
        if (rank % 2 == 0) {
            receive = comm_receive_start(group, received, (rank + size - 1) % size, "bench");
            comm_wait(&receive);
        }
    }
    }
    comm_wait(&request);
}

// The result's element i, from what was given.
static float expected(const struct trial *trial, int64_t i) {
    int rank = group_rank(trial->group), size = group_size(trial->group);
    int64_t part = trial->count / size;
    float sum = 0;
    switch (trial->operation) {
    case ALL_GATHER:
        return given((int)(i / part), i % part);
    case BROADCAST:
        return given(0, i);
    case SENDRECV:
        return given((rank + size - 1) % size, i);
    default:
        for (int r = 0; r < size; r++)
            sum += given(r, trial->operation == REDUCE_SCATTER ? i + rank * part : i);
        return sum;
    }
}

static int64_t count_wrong(const struct trial *trial, float *host) {
    int size = group_size(trial->group);
    for (int64_t i = 0; i < trial->count; i++)
        host[i] = given(group_rank(trial->group), i);
    device_copy_in(trial->device, tensor_rows(trial->whole, 0, trial->count), host);
    device_copy_in(trial->device, tensor_rows(trial->part, 0, trial->count), host);
    run_once(trial);
    bool is_part = trial->operation == REDUCE_SCATTER || trial->operation == SENDRECV;
    int64_t results = trial->operation == REDUCE_SCATTER ? trial->count / size : trial->count, wrong = 0;
    device_copy_out(trial->device, host, tensor_rows(is_part ? trial->part : trial->whole, 0, results));
    for (int64_t i = 0; i < results; i++)
        wrong += host[i] != expected(trial, i);
    comm_max_i64(trial->group, &wrong, 1, "wrong elements");
    return wrong;
}

// Seconds of one repetition, those of the slowest rank. The buffers are zero, so that sums stay finite.
static double measure(const struct trial *trial, int64_t warmup, int64_t iterations) {
    device_zero(trial->device, trial->whole);
    device_zero(trial->device, trial->part);
    for (int64_t i = 0; i < warmup; i++)
        run_once(trial);
    device_synchronize(trial->device);
    comm_barrier(trial->group, "start");
    double start = clock_seconds();
    for (int64_t i = 0; i < iterations; i++)
        run_once(trial);
    device_synchronize(trial->device);
    int64_t nanoseconds = (int64_t)((clock_seconds() - start) * 1e9);
    comm_max_i64(trial->group, &nanoseconds, 1, "slowest rank");
    return (double)nanoseconds * 1e-9 / (double)iterations;
}

int bench_all_reduce(struct session *session, int64_t bytes, double *seconds) {
    enum { WARMUP = 3, ITERATIONS = 10 };
    int64_t count = bytes / (int64_t)sizeof(float);
    void *memory = device_alloc(session->device, sizeof(float) * (size_t)count);
    if (!memory)
        return -1;
    struct trial trial = {.operation = ALL_REDUCE,
                          .device = session->device,
                          .group = world_group_all(session->world),
                          .whole = tensor_1d(memory, DTYPE_F32, count),
                          .count = count};
    trial.part = trial.whole;
    *seconds = measure(&trial, WARMUP, ITERATIONS);
    device_free(session->device, memory);
    return 0;
}

static double bus_factor(enum operation operation, int size) {
    double others = (double)(size - 1) / (double)size;
    return operation == ALL_REDUCE ? 2 * others : operation == ALL_GATHER || operation == REDUCE_SCATTER ? others : 1;
}

static void print_row(const struct trial *trial, const struct collectives_options *options, double seconds,
                      int64_t wrong) {
    const char *name = operation_names[trial->operation];
    int64_t bytes = trial->count * (int64_t)sizeof(float);
    double algorithm = (double)bytes / seconds * 1e-9;
    double bus = algorithm * bus_factor(trial->operation, group_size(trial->group));
    if (options->json)
        printf("{\"operation\": \"%s\", \"ranks\": %d, \"bytes\": %" PRId64
               ", \"us\": %.2f, \"algbw\": %.3f, \"busbw\": %.3f, \"wrong\": %" PRId64 "}\n",
               name, group_size(trial->group), bytes, seconds * 1e6, algorithm, bus, wrong);
    else
        printf("%-14s %12" PRId64 " %12" PRId64 " %10s %10.1f %9.2f %9.2f %8" PRId64 "\n", name, bytes, trial->count,
               "float", seconds * 1e6, algorithm, bus, wrong);
    fflush(stdout);
}

static int run(const struct collectives_options *options, struct session *session) {
    struct group *all = world_group_all(session->world);
    int size = group_size(all);
    if (size < 2)
        return error_set_code(EXIT_CODE_USAGE, "one rank has nobody to talk to; use --nproc N, mpirun or srun");
    if (options->max_bytes < options->min_bytes)
        return error_set_code(EXIT_CODE_USAGE, "--max-bytes is below --min-bytes");
    int64_t most = options->max_bytes / (int64_t)sizeof(float) + size;
    struct trial trial = {.device = session->device, .group = all};
    void *memory[2] = {device_alloc(session->device, sizeof(float) * (size_t)most),
                       device_alloc(session->device, sizeof(float) * (size_t)most)};
    if (!memory[0] || !memory[1])
        return -1;
    trial.whole = tensor_1d(memory[0], DTYPE_F32, most);
    trial.part = tensor_1d(memory[1], DTYPE_F32, most);
    float *host = memory_alloc(sizeof(float) * (size_t)most);
    bool is_speaker = group_rank(all) == 0;
    if (is_speaker && !options->json)
        printf("# %d ranks, %s\n%-14s %12s %12s %10s %10s %9s %9s %8s\n", size, world_backend(session->world),
               "operation", "bytes", "count", "type", "time(us)", "algbw", "busbw", "wrong");
    int64_t wrong_in_all = 0;
    for (int operation = ALL_REDUCE; operation < OPERATIONS; operation++) {
        bool is_wanted =
            strcmp(options->operation, "all") == 0 || strcmp(options->operation, operation_names[operation]) == 0;
        for (int64_t bytes = options->min_bytes; is_wanted && bytes <= options->max_bytes; bytes *= options->factor) {
            trial.operation = (enum operation)operation;
            // Whole parts for every rank.
            trial.count = (bytes / (int64_t)sizeof(float) + size - 1) / size * size;
            double seconds = measure(&trial, options->warmup, options->iterations);
            int64_t wrong = count_wrong(&trial, host);
            wrong_in_all += wrong;
            if (is_speaker)
                print_row(&trial, options, seconds, wrong);
        }
    }
    free(host);
    device_free(session->device, memory[0]);
    device_free(session->device, memory[1]);
    return wrong_in_all == 0 ? 0 : error_set("%" PRId64 " elements arrived wrong", wrong_in_all);
}

int bench_collectives(int argc, char **argv) {
    struct collectives_options options;
    struct session session;
    struct config config = {0};
    const struct flag_table table = config_flag_table(0);
    const struct flag_command defaults = {.name = "bench", .summary = "", .tables = &table, .table_count = 1};
    int exit_code = EXIT_CODE_OK;
    int status = session_begin(&session,
                               &(struct session_flags){.before = "bench",
                                                       .command = &collectives_command,
                                                       .options = &options,
                                                       .nproc = &options.nproc,
                                                       .given = &options.given,
                                                       .argc = argc,
                                                       .argv = argv},
                               &exit_code);
    if (status == SESSION_OVER)
        return exit_code;
    flags_set_defaults(&defaults, &config);
    if (status == 0)
        status = flag_set(&table, &config, "--device", options.device, FLAG_FROM_COMMAND);
    if (status == 0 && options.distributed_backend)
        status = flag_set(&table, &config, "--distributed-backend", options.distributed_backend, FLAG_FROM_COMMAND);
    if (status == 0)
        status = session_open(&session, &config);
    if (status == 0)
        status = run(&options, &session);
    if (status < 0)
        exit_code = session_failed(&session);
    session_close(&session);
    flags_free(&defaults, &config);
    flags_free(&collectives_command, &options);
    return exit_code;
}
