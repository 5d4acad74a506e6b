// Documents packed in one row cost what their tokens cost: attention that documents confine gives what it gives for
// each document alone, forward and backward, and touches no token of the others.
// cost: 6
#include "ops/device.h"
#include "ops/ops.h"
#include "test.h"

#include "base/memory.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 2048, HEADS = 4, GROUPS = 2, SIZE = 32, PACKED = (HEADS + 2 * GROUPS) * SIZE };

// Both passes of causal attention over a row of packed queries, keys and values.
struct attention_run {
    struct device *device;
    int64_t T;
    float *qkv, *dqkv;  // (T, PACKED)
    float *out, *dout;  // (T, HEADS SIZE)
    float *lse, *scratch;
    int32_t *starts;  // (T), or NULL for one document
};

static struct tensor heads_of(float *packed, int64_t T, int64_t columns, int64_t first, int64_t heads) {
    return (struct tensor){.data = packed + first * SIZE,
                           .dtype = DTYPE_F32,
                           .rank = 4,
                           .shape = {1, T, heads, SIZE},
                           .stride = {T * columns, columns, SIZE, 1}};
}

static void attend_both(const struct attention_run *run) {
    int64_t T = run->T;
    struct attention_mask mask = {0};
    if (run->starts)
        mask.first_keys = tensor_1d(run->starts, DTYPE_I32, T);
    struct tensor q = heads_of(run->qkv, T, PACKED, 0, HEADS), k = heads_of(run->qkv, T, PACKED, HEADS, GROUPS);
    struct tensor v = heads_of(run->qkv, T, PACKED, HEADS + GROUPS, GROUPS);
    struct tensor out = heads_of(run->out, T, HEADS * SIZE, 0, HEADS),
                  lse = tensor_3d(run->lse, DTYPE_F32, 1, HEADS, T);
    op_attention_forward(
        run->device,
        &(struct op_attention_forward){
            .out = out, .lse = lse, .q = q, .k = k, .v = v, .scale = 0.2f, .is_causal = true, .mask = mask});
    op_attention_backward(run->device,
                          &(struct op_attention_backward){.dq = heads_of(run->dqkv, T, PACKED, 0, HEADS),
                                                          .dk = heads_of(run->dqkv, T, PACKED, HEADS, GROUPS),
                                                          .dv = heads_of(run->dqkv, T, PACKED, HEADS + GROUPS, GROUPS),
                                                          .dout = heads_of(run->dout, T, HEADS * SIZE, 0, HEADS),
                                                          .out = out,
                                                          .lse = lse,
                                                          .scratch = tensor_3d(run->scratch, DTYPE_F32, 1, HEADS, T),
                                                          .q = q,
                                                          .k = k,
                                                          .v = v,
                                                          .scale = 0.2f,
                                                          .is_causal = true,
                                                          .mask = mask});
    device_synchronize(run->device);
}

static float *take(int64_t count, uint32_t key) {
    float *x = memory_alloc(sizeof *x * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)philox4x32(key, (uint32_t)i, 0, 0, 0).word[0] / 4294967296.0f - 0.5f;
    return x;
}

static struct attention_run open_run(struct device *device, int64_t T) {
    return (struct attention_run){.device = device,
                                  .T = T,
                                  .qkv = take(T * PACKED, 1),
                                  .dqkv = take(T * PACKED, 2),
                                  .out = take(T * HEADS * SIZE, 3),
                                  .dout = take(T * HEADS * SIZE, 4),
                                  .lse = take(T * HEADS, 5),
                                  .scratch = take(T * HEADS, 6),
                                  .starts = memory_alloc(sizeof(int32_t) * (size_t)T)};
}

static void close_run(struct attention_run *run) {
    float *const all[] = {run->qkv, run->dqkv, run->out, run->dout, run->lse, run->scratch};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    free(run->starts);
}

// Documents of these lengths follow each other, the last to the end of the row; returns how many begin before it ends.
static int cut(struct attention_run *run, const int64_t *lengths, int count, int64_t *firsts) {
    int found = 0;
    for (int64_t t = 0, next = 0; t < run->T; t++) {
        if (t == next) {
            firsts[found] = t;
            next += lengths[found % count];
            found++;
        }
        run->starts[t] = (int32_t)firsts[found - 1];
    }
    firsts[found] = run->T;
    return found;
}

static double largest_difference(const float *a, const float *b, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

TEST(packed_documents_equal_separate_sequences) {
    static const int64_t lengths[][5] = {{128, 128, 128, 128, 128}, {1, 300, 17, 65, 129}, {1000, 3, 40, 64, 700}};
    struct device *device;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 2}));
    struct attention_run run = open_run(device, TOKENS);
    int64_t firsts[TOKENS + 1];
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        int documents = cut(&run, lengths[n], 5, firsts);
        attend_both(&run);
        for (int i = 0; i < documents; i++) {
            int64_t first = firsts[i], T = firsts[i + 1] - first;
            struct attention_run alone = open_run(device, T);
            free(alone.starts);
            alone.starts = NULL;
            memcpy(alone.qkv, run.qkv + first * PACKED, sizeof(float) * (size_t)(T * PACKED));
            memcpy(alone.dout, run.dout + first * HEADS * SIZE, sizeof(float) * (size_t)(T * HEADS * SIZE));
            attend_both(&alone);
            EXPECT(largest_difference(alone.out, run.out + first * HEADS * SIZE, T * HEADS * SIZE) < 2e-6);
            EXPECT(largest_difference(alone.dqkv, run.dqkv + first * PACKED, T * PACKED) < 2e-6);
            close_run(&alone);
        }
    }
    close_run(&run);
    device_close(device);
}

// Whoever computed with tokens of other documents and dropped the results would have made these NaN. Tiles at the ends
// of a document hold some of the next one, which are therefore numbers: two documents of three are spoiled.
TEST(other_documents_are_not_touched) {
    struct device *device;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 2}));
    struct attention_run run = open_run(device, 2 * TOKENS), whole = open_run(device, 2 * TOKENS);
    int64_t firsts[2 * TOKENS + 1], length = 256;
    int documents = cut(&run, &length, 1, firsts);
    EXPECT_INT(cut(&whole, &length, 1, firsts), documents);
    attend_both(&whole);
    for (int kept = 1; kept + 1 < documents; kept++) {
        memcpy(run.qkv, whole.qkv, sizeof(float) * (size_t)(run.T * PACKED));
        memcpy(run.dout, whole.dout, sizeof(float) * (size_t)(run.T * HEADS * SIZE));
        for (int i = 0; i < documents; i++) {
            if (abs(i - kept) <= 1)
                continue;
            for (int64_t k = firsts[i] * PACKED; k < firsts[i + 1] * PACKED; k++)
                run.qkv[k] = NAN;
            for (int64_t k = firsts[i] * HEADS * SIZE; k < firsts[i + 1] * HEADS * SIZE; k++)
                run.dout[k] = NAN;
        }
        attend_both(&run);
        int64_t first = firsts[kept];
        EXPECT(memcmp(run.out + first * HEADS * SIZE, whole.out + first * HEADS * SIZE,
                      sizeof(float) * (size_t)(length * HEADS * SIZE)) == 0);
        EXPECT(memcmp(run.dqkv + first * PACKED, whole.dqkv + first * PACKED,
                      sizeof(float) * (size_t)(length * PACKED)) == 0);
    }
    close_run(&run);
    close_run(&whole);
    device_close(device);
}

TEST_MAIN(TEST_CASE(packed_documents_equal_separate_sequences), TEST_CASE(other_documents_are_not_touched))
