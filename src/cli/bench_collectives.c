// bevatron bench collectives: time and bandwidth of each collective over the ranks, in nccl-tests' terms. algbw is
// bytes by time; busbw is the load of the slowest link, comparable with the hardware for any number of ranks. Every
// result is checked: wrong elements are counted.
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "config/flag_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct collectives_options {
    struct flag_given given;
    char *operation, *device, *distributed_backend;
    int64_t min_bytes, max_bytes, factor, step, iterations, warmup, checks, nproc;
    bool json;
};

#define FLAG_STRUCT struct collectives_options

static const char *const operation_names[] = {"all",        "all_reduce", "all_gather", "reduce_scatter",
                                              "all_to_all", "broadcast",  "sendrecv",   NULL};
enum operation { ALL, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST, SENDRECV, OPERATIONS };

static const struct flag own_flags[] = {
    GROUP("Collectives"),
    CHOICE("--operation", operation, "all", operation_names, "collective to measure"),
    TEXT("--device", device, "auto", NULL, "device: cpu, cuda or auto"),
    TEXT("--distributed-backend", distributed_backend, NULL, NULL,
         "transport between GPUs, as in train: nccl, mpi or gloo"),
    SIZE("--min-bytes", min_bytes, "1K", 4, 0x1p40, "smallest message; sizes may end with K, M, G or T", .letter = 'b'),
    SIZE("--max-bytes", max_bytes, "64M", 4, 0x1p40, "largest message", .letter = 'e'),
    INT("--step-factor", factor, "4", 2, 1024, "factor between sizes", .letter = 'f'),
    SIZE("--step-bytes", step, NULL, 4, 0x1p40, "bytes between sizes, instead of a factor", .letter = 'i'),
    INT("--iters", iterations, "20", 1, 1e6, "timed repetitions", .letter = 'n'),
    INT("--warmup-iters", warmup, "5", 0, 1e6, "untimed repetitions", .letter = 'w'),
    INT("--check", checks, "1", 0, 1e6, "repetitions whose results are verified; 0 for none", .letter = 'c'),
    INT("--nproc", nproc, "1", 1, 1024, "start this many ranks on this machine, one for each GPU", .letter = 'g'),
    SWITCH("--json", json, "print one JSON object per line instead of a table"),
};

// nccl-tests' long names.
static const struct flag_alias aliases[] = {{"--minbytes", "--min-bytes", NULL, NULL},
                                            {"--maxbytes", "--max-bytes", NULL, NULL},
                                            {"--stepfactor", "--step-factor", NULL, NULL},
                                            {"--stepbytes", "--step-bytes", NULL, NULL},
                                            {"--ngpus", "--nproc", NULL, NULL},
                                            {0}};
const struct command bench_collectives_flags = {
    .flags = {.name = "bench collectives",
              .summary = "Measures the collectives between ranks; start it with --nproc, mpirun or srun. The options "
                         "with one letter "
                         "are those of nccl-tests.",
              .epilogue = "Example:\n  bevatron bench collectives -g 2 --operation all_reduce -b 8 -e 1G -f 2\n"},
    .tables = {{FLAG_TABLE(own_flags), .aliases = aliases}},
    .options_bytes = sizeof(struct collectives_options),
};

struct collective_trial {
    enum operation operation;
    struct device *device;
    struct group *group;
    struct tensor whole, part;  // (n * ranks) fp32; (n) fp32, a slice of its own
    int64_t count;              // elements of the larger side
    int64_t *rows;              // (ranks): elements that all_to_all sends to each rank
    int hosts;
};

// Equally many ranks on each machine.
static int hosts_of(const struct world_place *place) {
    int local = place->local_size > 0 ? place->local_size : 1;
    return (place->size + local - 1) / local;
}

// Input of rank r at element i: small whole numbers, whose sums are exact.
static float given(int rank, int64_t i) {
    return (float)((i + rank) % 13);
}

static void run_once(const struct collective_trial *trial) {
    struct group *group = trial->group;
    int rank = group_rank(group), size = group_size(group);
    struct tensor whole = tensor_rows(trial->whole, 0, trial->count);
    struct comm_request request;
    switch (trial->operation) {
    case ALL_REDUCE:
        request = comm_all_reduce_start(group, whole, REDUCE_SUM, "bench");
        break;
    case ALL_GATHER:
        request = comm_all_gather_start(group, whole, tensor_rows(trial->part, 0, trial->count / size), "bench");
        break;
    case REDUCE_SCATTER:
        request = comm_reduce_scatter_start(group, tensor_rows(trial->part, 0, trial->count / size), whole, "bench");
        break;
    case ALL_TO_ALL:
        request = comm_all_to_all_start(group,
                                        &(struct comm_exchange){.to = tensor_rows(trial->part, 0, trial->count),
                                                                .from = whole,
                                                                .received = trial->rows,
                                                                .sent = trial->rows},
                                        "bench");
        break;
    case BROADCAST:
        request = comm_broadcast_start(group, whole, 0, "bench");
        break;
    default: {
        // Round the ring: to the right, from the left. NCCL performs the calls of a group one after the other, and a
        // large message ends only with its receipt, so not all may send first.
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

// Element i of the result, from the inputs.
static float expected(const struct collective_trial *trial, int64_t i) {
    int rank = group_rank(trial->group), size = group_size(trial->group);
    int64_t part = trial->count / size;
    float sum = 0;
    switch (trial->operation) {
    case ALL_GATHER:
        return given((int)(i / part), i % part);
    case ALL_TO_ALL:
        return given((int)(i / part), rank * part + i % part);
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

static int64_t count_wrong(const struct collective_trial *trial, float *host) {
    int size = group_size(trial->group);
    for (int64_t i = 0; i < trial->count; i++)
        host[i] = given(group_rank(trial->group), i);
    device_copy_in(trial->device, tensor_rows(trial->whole, 0, trial->count), host);
    device_copy_in(trial->device, tensor_rows(trial->part, 0, trial->count), host);
    run_once(trial);
    enum operation operation = trial->operation;
    bool is_part = operation == REDUCE_SCATTER || operation == ALL_TO_ALL || operation == SENDRECV;
    int64_t results = operation == REDUCE_SCATTER ? trial->count / size : trial->count, wrong = 0;
    device_copy_out(trial->device, host, tensor_rows(is_part ? trial->part : trial->whole, 0, results));
    for (int64_t i = 0; i < results; i++)
        wrong += host[i] != expected(trial, i);
    comm_max_i64(trial->group, &wrong, 1, "wrong elements");
    return wrong;
}

// Seconds of one repetition on the slowest rank. The buffers are zero, so that sums stay finite.
static double measure(const struct collective_trial *trial, int64_t warmup, int64_t iterations) {
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
    struct collective_trial trial = {.operation = ALL_REDUCE,
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
    return operation == ALL_REDUCE ? 2 * others : operation == BROADCAST || operation == SENDRECV ? 1 : others;
}

static void print_row(const struct collective_trial *trial, const struct collectives_options *options, double seconds,
                      int64_t wrong) {
    const char *name = operation_names[trial->operation];
    int64_t bytes = trial->count * (int64_t)sizeof(float);
    double algorithm = (double)bytes / seconds * 1e-9;
    double bus = algorithm * bus_factor(trial->operation, group_size(trial->group));
    if (options->json)
        printf("{\"operation\": \"%s\", \"ranks\": %d, \"hosts\": %d, \"bytes\": %" PRId64
               ", \"us\": %.2f, \"algbw\": %.3f, \"busbw\": %.3f, \"wrong\": %" PRId64 "}\n",
               name, group_size(trial->group), trial->hosts, bytes, seconds * 1e6, algorithm, bus, wrong);
    else
        printf("%-14s %12" PRId64 " %12" PRId64 " %10s %10.1f %9.2f %9.2f %8" PRId64 "\n", name, bytes, trial->count,
               "float", seconds * 1e6, algorithm, bus, wrong);
    fflush(stdout);
}

// Elements of the larger side: gathering and scattering take whole parts for every rank.
static int64_t count_of(enum operation operation, int64_t bytes, int size) {
    int64_t count = bytes / (int64_t)sizeof(float);
    bool has_parts = operation == ALL_GATHER || operation == REDUCE_SCATTER || operation == ALL_TO_ALL;
    return has_parts ? (count + size - 1) / size * size : count;
}

static int check_sizes(const struct collectives_options *options) {
    if (options->max_bytes < options->min_bytes)
        return error_set_code(EXIT_CODE_USAGE, "--max-bytes is below --min-bytes");
    if (options->step > 0 && flag_is_given(&options->given, "--step-factor"))
        return error_set_code(EXIT_CODE_USAGE, "give --step-factor or --step-bytes, not both");
    return 0;
}

// The sizes of one operation; returns the number of wrong elements.
static int64_t run_operation(struct collective_trial *trial, const struct collectives_options *options, float *host) {
    int size = group_size(trial->group);
    int64_t wrong_in_all = 0, last = 0;
    for (int64_t bytes = options->min_bytes; bytes <= options->max_bytes;
         bytes = options->step > 0 ? bytes + options->step : bytes * options->factor) {
        trial->count = count_of(trial->operation, bytes, size);
        // Sizes smaller than one part per rank all become the same.
        if (trial->count == last)
            continue;
        last = trial->count;
        for (int i = 0; i < size; i++)
            trial->rows[i] = trial->count / size;
        double seconds = measure(trial, options->warmup, options->iterations);
        int64_t wrong = 0;
        for (int64_t i = 0; i < options->checks; i++)
            wrong += count_wrong(trial, host);
        wrong_in_all += wrong;
        if (group_rank(trial->group) == 0)
            print_row(trial, options, seconds, wrong);
    }
    return wrong_in_all;
}

static int run_collectives(const struct collectives_options *options, struct session *session) {
    struct group *all = world_group_all(session->world);
    int size = group_size(all);
    if (size < 2)
        return error_set_code(EXIT_CODE_USAGE, "collectives need at least two ranks; use --nproc N, mpirun or srun");
    TRY(check_sizes(options));
    int64_t most = options->max_bytes / (int64_t)sizeof(float) + size;
    struct collective_trial trial = {.device = session->device, .group = all, .hosts = hosts_of(&session->place)};
    void *memory[2] = {device_alloc(session->device, sizeof(float) * (size_t)most),
                       device_alloc(session->device, sizeof(float) * (size_t)most)};
    if (!memory[0] || !memory[1])
        return -1;
    trial.whole = tensor_1d(memory[0], DTYPE_F32, most);
    trial.part = tensor_1d(memory[1], DTYPE_F32, most);
    trial.rows = memory_alloc(sizeof *trial.rows * (size_t)size);
    OWNED float *host = memory_alloc(sizeof(float) * (size_t)most);
    if (group_rank(all) == 0 && !options->json)
        printf("# %d ranks, %s\n%-14s %12s %12s %10s %10s %9s %9s %8s\n", size, world_backend(session->world),
               "operation", "bytes", "count", "type", "time(us)", "algbw", "busbw", "wrong");
    int64_t wrong_in_all = 0;
    for (int operation = ALL_REDUCE; operation < OPERATIONS; operation++) {
        bool is_wanted =
            strcmp(options->operation, "all") == 0 || strcmp(options->operation, operation_names[operation]) == 0;
        trial.operation = (enum operation)operation;
        if (is_wanted)
            wrong_in_all += run_operation(&trial, options, host);
    }
    free(trial.rows);
    device_free(session->device, memory[0]);
    device_free(session->device, memory[1]);
    return wrong_in_all == 0 ? 0 : error_set("%" PRId64 " elements have wrong values", wrong_in_all);
}

int cmd_bench_collectives(int argc, char **argv) {
    struct collectives_options options;
    struct session session;
    struct config config = {0};
    const struct flag_table table = config_flag_table(0);
    const struct flag_command defaults = {.name = "bench", .summary = "", .tables = &table, .table_count = 1};
    struct flag_table tables[2];
    const struct flag_command command = command_flags(&bench_collectives_flags, tables);
    int exit_code = EXIT_CODE_OK;
    int status = session_begin(&session,
                               &(struct session_flags){.before = "bench",
                                                       .command = &command,
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
        status = run_collectives(&options, &session);
    if (status < 0)
        exit_code = session_failed(&session);
    session_close(&session);
    flags_free(&defaults, &config);
    flags_free(&command, &options);
    return exit_code;
}
