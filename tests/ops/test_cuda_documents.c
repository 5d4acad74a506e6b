// Documents packed in one row on a GPU: attention that documents confine gives what it gives for each document alone,
// forward and backward, and takes a fraction of the time of one long document. Skipped without a GPU.
// tier: all
#include "base/clock.h"
#include "base/memory.h"
#include "tensor/half.h"
#include "twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// How much further from the CPU's fp32 a packed row may be than separate sequences are. Gradients of tokens that see
// few keys follow from the rounding of their results, so a bound of its own would say little.
static const double MORE_ERROR = 1.1;

enum { HEADS = 8, GROUPS = 4, MOST_DOCUMENTS = 64 };

// Both passes over one row, whose tensors may also be read as those of several rows of equal length.
struct row_run {
    struct device *device;
    struct arena arena;
    void *memory;
    int64_t T, size;          // tokens of the row, channels of a head
    struct tensor qkv, dqkv;  // (T, (HEADS + 2 GROUPS) size)
    struct tensor out, dout;  // (T, HEADS size)
    struct tensor lse, scratch, workspace;
    struct tensor starts;  // (T) i32
};

static int64_t packed_width(const struct row_run *run) {
    return (HEADS + 2 * GROUPS) * run->size;
}

// Heads of tokens `first` to `first + rows * length`, in rows of `length` tokens.
static struct tensor heads_of(struct tensor packed, int64_t size, const int64_t part[3], int64_t head, int64_t heads) {
    int64_t columns = packed.shape[1], first = part[0], rows = part[1], length = part[2];
    size_t place = (size_t)(first * columns + head * size) * dtype_bytes(packed.dtype);
    return (struct tensor){.data = (unsigned char *)packed.data + place,
                           .dtype = packed.dtype,
                           .rank = 4,
                           .shape = {rows, length, heads, size},
                           .stride = {length * columns, columns, size, 1}};
}

// part: the first token, rows, tokens of a row.
static void attend_both(const struct row_run *run, const int64_t part[3], bool has_documents) {
    struct attention_mask mask = {.first_keys = has_documents ? run->starts : (struct tensor){0}};
    int64_t size = run->size, rows = part[1], length = part[2];
    struct tensor q = heads_of(run->qkv, size, part, 0, HEADS), k = heads_of(run->qkv, size, part, HEADS, GROUPS);
    struct tensor v = heads_of(run->qkv, size, part, HEADS + GROUPS, GROUPS);
    struct tensor out = heads_of(run->out, size, part, 0, HEADS);
    struct tensor lse = tensor_3d((float *)run->lse.data + part[0] * HEADS, DTYPE_F32, rows, HEADS, length);
    struct tensor scratch = tensor_3d((float *)run->scratch.data + part[0] * HEADS, DTYPE_F32, rows, HEADS, length);
    float scale = 1 / sqrtf((float)size);
    op_attention_forward(
        run->device,
        &(struct op_attention_forward){
            .out = out, .lse = lse, .q = q, .k = k, .v = v, .scale = scale, .is_causal = true, .mask = mask});
    op_attention_backward(run->device,
                          &(struct op_attention_backward){.dq = heads_of(run->dqkv, size, part, 0, HEADS),
                                                          .dk = heads_of(run->dqkv, size, part, HEADS, GROUPS),
                                                          .dv = heads_of(run->dqkv, size, part, HEADS + GROUPS, GROUPS),
                                                          .dout = heads_of(run->dout, size, part, 0, HEADS),
                                                          .out = out,
                                                          .lse = lse,
                                                          .scratch = scratch,
                                                          .workspace = run->workspace,
                                                          .q = q,
                                                          .k = k,
                                                          .v = v,
                                                          .scale = scale,
                                                          .is_causal = true,
                                                          .mask = mask});
}

static struct tensor random_rows(struct row_run *run, int64_t columns, uint32_t key) {
    uint16_t *host = memory_alloc(sizeof *host * (size_t)(run->T * columns));
    for (int64_t i = 0; i < run->T * columns; i++)
        host[i] = half_to_bf16((float)philox4x32(key, (uint32_t)i, 0, 0, 0).word[0] / 2147483648.0f - 1);
    struct tensor x = arena_2d(&run->arena, DTYPE_BF16, run->T, columns);
    device_copy_in(run->device, x, host);
    device_synchronize(run->device);
    free(host);
    return x;
}

static void row_open(struct row_run *run, struct device *device, int64_t T, int64_t size) {
    *run = (struct row_run){.device = device, .T = T, .size = size};
    size_t bytes = (size_t)2 << 30;
    run->memory = device_alloc(device, bytes);
    EXPECT(run->memory != NULL);
    arena_init(&run->arena, "row", run->memory, bytes);
    run->qkv = random_rows(run, packed_width(run), 1);
    run->dqkv = random_rows(run, packed_width(run), 2);
    run->out = random_rows(run, HEADS * size, 3);
    run->dout = random_rows(run, HEADS * size, 4);
    run->lse = arena_1d(&run->arena, DTYPE_F32, T * HEADS);
    run->scratch = arena_1d(&run->arena, DTYPE_F32, T * HEADS);
    run->starts = arena_1d(&run->arena, DTYPE_I32, T);
    int64_t whole[3] = {0, 1, T};
    run->workspace = arena_1d(&run->arena, DTYPE_U8,
                              attention_workspace_bytes(heads_of(run->qkv, size, whole, 0, HEADS),
                                                        heads_of(run->qkv, size, whole, HEADS, GROUPS),
                                                        heads_of(run->qkv, size, whole, HEADS + GROUPS, GROUPS),
                                                        &(struct attention_mask){.first_keys = run->starts}));
}

static void row_close(struct row_run *run) {
    device_free(run->device, run->memory);
}

// Documents of these lengths follow each other, again and again; returns how many begin before the row ends.
static int row_cut(struct row_run *run, const int64_t *lengths, int count, int64_t *firsts) {
    int32_t *starts = memory_alloc(sizeof *starts * (size_t)run->T);
    int found = 0;
    for (int64_t t = 0, next = 0; t < run->T; t++) {
        if (t == next) {
            CHECK(found < MOST_DOCUMENTS);
            firsts[found] = t;
            next += lengths[found % count];
            found++;
        }
        starts[t] = (int32_t)firsts[found - 1];
    }
    firsts[found] = run->T;
    device_copy_in(run->device, run->starts, starts);
    device_synchronize(run->device);
    free(starts);
    return found;
}

static float *row_read(const struct row_run *run, struct tensor t) {
    int64_t count = tensor_count(t);
    uint16_t *host = memory_alloc(sizeof *host * (size_t)count);
    float *values = memory_alloc(sizeof *values * (size_t)count);
    device_copy_out(run->device, host, t);
    device_synchronize(run->device);
    for (int64_t i = 0; i < count; i++)
        values[i] = half_from_bf16(host[i]);
    free(host);
    return values;
}

// The CPU's results for the row in fp32, with these documents. The caller frees both.
struct row_exact {
    float *out, *dqkv;
};

static struct row_exact compute_exactly(const struct row_run *run) {
    struct device *cpu;
    EXPECT_OK(cpu_open(&cpu, &(struct device_options){.threads = 8}));
    int64_t T = run->T, width = packed_width(run), narrow = HEADS * run->size, size = run->size;
    float *qkv = row_read(run, run->qkv), *dout = row_read(run, run->dout);
    float *lse = memory_alloc(sizeof *lse * (size_t)(2 * T * HEADS));
    struct row_exact exact = {memory_alloc(sizeof(float) * (size_t)(T * narrow)),
                              memory_alloc(sizeof(float) * (size_t)(T * width))};
    int32_t *starts = memory_alloc(sizeof *starts * (size_t)T);
    device_copy_out(run->device, starts, run->starts);
    device_synchronize(run->device);
    struct row_run host = {.device = cpu,
                           .T = T,
                           .size = size,
                           .qkv = tensor_2d(qkv, DTYPE_F32, T, width),
                           .dqkv = tensor_2d(exact.dqkv, DTYPE_F32, T, width),
                           .out = tensor_2d(exact.out, DTYPE_F32, T, narrow),
                           .dout = tensor_2d(dout, DTYPE_F32, T, narrow),
                           .lse = tensor_1d(lse, DTYPE_F32, T * HEADS),
                           .scratch = tensor_1d(lse + T * HEADS, DTYPE_F32, T * HEADS),
                           .starts = tensor_1d(starts, DTYPE_I32, T)};
    attend_both(&host, (const int64_t[3]){0, 1, T}, true);
    device_synchronize(cpu);
    device_close(cpu);
    free(qkv);
    free(dout);
    free(lse);
    free(starts);
    return exact;
}

// The root mean square of errors, and the largest.
struct row_error {
    double mean, most;
};

static struct row_error error_of(const struct row_run *run, struct tensor t, const float *exact) {
    struct row_error error = {0};
    float *got = row_read(run, t);
    int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count; i++) {
        double off = isnan(got[i]) ? INFINITY : fabs((double)got[i] - (double)exact[i]);
        error.mean += off * off / (double)count;
        error.most = fmax(error.most, off);
    }
    error.mean = sqrt(error.mean);
    free(got);
    return error;
}

static void expect_no_worse(struct row_error packed, struct row_error apart, const struct row_run *run,
                            const char *what) {
    printf(
        "    %s of %d tokens, heads of %d: errors of packed documents %.2e (largest %.2e), of separate %.2e (%.2e)\n",
        what, (int)run->T, (int)run->size, packed.mean, packed.most, apart.mean, apart.most);
    EXPECT(packed.mean > 0 && packed.mean <= MORE_ERROR * apart.mean);
    EXPECT(packed.most <= 2 * apart.most);
}

static void compare_row(struct row_run *run, const int64_t *lengths) {
    int64_t firsts[MOST_DOCUMENTS + 1];
    int documents = row_cut(run, lengths, 5, firsts);
    struct row_exact exact = compute_exactly(run);
    for (int i = 0; i < documents; i++)
        attend_both(run, (const int64_t[3]){firsts[i], 1, firsts[i + 1] - firsts[i]}, false);
    struct row_error out = error_of(run, run->out, exact.out), dqkv = error_of(run, run->dqkv, exact.dqkv);
    attend_both(run, (const int64_t[3]){0, 1, run->T}, true);
    expect_no_worse(error_of(run, run->out, exact.out), out, run, "results");
    expect_no_worse(error_of(run, run->dqkv, exact.dqkv), dqkv, run, "gradients");
    free(exact.out);
    free(exact.dqkv);
}

TEST(packed_documents_equal_separate_sequences) {
    static const int64_t lengths[][5] = {{512, 512, 512, 512, 512}, {129, 1000, 17, 300, 65}, {2000, 64, 3, 128, 700}};
    struct device *gpu = gpu_open();
    for (int64_t size = 64; size <= 128; size *= 2)
        for (int64_t T = is_small() ? 1024 : 2048; T <= (is_small() ? 1024 : 8192); T *= 4) {
            struct row_run run;
            row_open(&run, gpu, T, size);
            for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++)
                compare_row(&run, lengths[n]);
            row_close(&run);
        }
    device_close(gpu);
}

// The least milliseconds of some runs.
static double least_ms(const struct row_run *run, const int64_t part[3], bool has_documents) {
    enum { RUNS = 5 };
    double least = INFINITY;
    for (int i = 0; i < 4; i++) {
        double begin = clock_seconds();
        for (int n = 0; n < RUNS; n++)
            attend_both(run, part, has_documents);
        device_synchronize(run->device);
        if (i > 0)
            least = fmin(least, 1e3 * (clock_seconds() - begin) / RUNS);
    }
    return least;
}

TEST(documents_take_a_fraction_of_the_time_of_one) {
    struct device *gpu = gpu_open();
    int64_t T = is_small() ? 2048 : 32768, length = T / 16, firsts[MOST_DOCUMENTS + 1];
    for (int64_t size = 64; size <= 128; size *= 2) {
        struct row_run run;
        row_open(&run, gpu, T, size);
        double whole = least_ms(&run, (const int64_t[3]){0, 1, T}, false);
        double apart = least_ms(&run, (const int64_t[3]){0, 16, length}, false);
        EXPECT_INT(row_cut(&run, &T, 1, firsts), 1);
        double one = least_ms(&run, (const int64_t[3]){0, 1, T}, true);
        EXPECT_INT(row_cut(&run, &length, 1, firsts), 16);
        double sixteen = least_ms(&run, (const int64_t[3]){0, 1, T}, true);
        printf("    %d tokens, heads of %d: without a mask %.2f ms, one document %.2f ms, sixteen %.2f ms, sixteen "
               "separate sequences %.2f ms\n",
               (int)T, (int)size, whole, one, sixteen, apart);
        EXPECT(is_small() || sixteen < 0.5 * one);
        row_close(&run);
    }
    device_close(gpu);
}

TEST_MAIN(TEST_CASE(packed_documents_equal_separate_sequences), TEST_CASE(documents_take_a_fraction_of_the_time_of_one))
