// The reducer by itself: for any buckets and with or without the distributed optimizer, every rank finds the sums of
// its pieces in place of the gradients; in bf16 they are sums of rounded gradients. Run under mpirun.
// tier: all
#include "parallel/reducer.h"
#include "ranks_step.h"
#include "tensor/half.h"

#include <math.h>
#include <string.h>

static struct ranks ranks;
static struct mesh mesh;

enum { ELEMENTS = 64 * 64, STEPS = 3 };

// The gradient of element n on a rank: of all magnitudes, so that rounding shows.
static float gradient(int rank, int64_t n, int step) {
    struct philox random = philox4x32(7, (uint32_t)n, (uint32_t)rank, (uint32_t)step, 0);
    double unit = (double)random.word[0] / 4294967296.0 - 0.5;
    return (float)ldexp(unit, (int)(random.word[1] % 24) - 12);
}

struct choice {
    bool is_rounded, is_divided, overlaps;
    int64_t bucket;
};

// One parameter with all elements, in the given memory: gradients before values.
static void open_reducer(struct reducer *reducer, struct arena *arena, const struct choice *choice) {
    struct param_list params = {0};
    (void)param_add(&params, "weight", shard_whole(2, ELEMENTS / 64, 64), INIT_NORMAL, 1);
    struct pieces pieces;
    pieces_divide(&params,
                  &(struct division){.parts = choice->is_divided ? ranks.place.size : 1,
                                     .part = choice->is_divided ? ranks.place.rank : 0,
                                     .bucket = choice->bucket},
                  &pieces);
    struct reducer_options options = {
        .mesh = &mesh, .pieces = &pieces, .overlaps_reduction = choice->overlaps, .is_rounded = choice->is_rounded};
    reducer_open(reducer, &params, &options);
    struct tensor values = arena_1d(arena, DTYPE_BF16, params.total), grads = arena_1d(arena, DTYPE_F32, params.total);
    reducer_bind(reducer,
                 &(struct reducer_buffers){.device = ranks.device, .arena = arena, .values = values, .grads = grads});
    param_list_free(&params);
}

// Sums in rank order, exact in double before they are rounded at most once per rank.
static void expect_sum(float got, int64_t n, int step, bool is_rounded) {
    double sum = 0, size = 0;
    for (int rank = 0; rank < ranks.place.size; rank++) {
        float term = gradient(rank, n, step);
        double part = (double)(is_rounded ? half_from_bf16(half_to_bf16(term)) : term);
        sum += part;
        size += fabs(part);
    }
    double bound = is_rounded ? 0x1p-8 * (ranks.place.size - 1) * size : 1e-6 * size;
    bool is_representable = !is_rounded || half_from_bf16(half_to_bf16(got)) == got;
    if (!is_representable || fabs((double)got - sum) > bound)
        test_fail("element %d of step %d is %.9g, expected %.9g", (int)n, step, (double)got, sum);
    if (is_rounded && ranks.place.size == 2)
        EXPECT((double)got == (double)half_from_bf16(half_to_bf16((float)sum)));
}

static void check(const struct choice *choice) {
    static _Alignas(256) unsigned char memory[1 << 18];
    struct arena arena;
    struct reducer reducer;
    arena_init(&arena, "reducer", memory, sizeof memory);
    open_reducer(&reducer, &arena, choice);
    float *grads = reducer.grads.data;
    const struct pieces *pieces = &reducer.groups[0].pieces;
    for (int step = 0; step < STEPS; step++) {
        for (int64_t n = 0; n < pieces->total; n++)
            grads[n] = n < ELEMENTS ? gradient(ranks.place.rank, n, step) : 0;
        for (int64_t offset = ELEMENTS; offset >= 0; offset -= 640)
            reducer_final_from(&reducer, &(struct param){.offset = offset});
        reducer_sum(&reducer);
        reducer_wait(&reducer);
        struct piece run;
        for (int64_t at = 0; pieces_next(pieces, &at, ELEMENTS, &run);)
            for (int64_t n = run.flat_offset; n < run.flat_offset + run.count; n++)
                expect_sum(grads[n], n, step, choice->is_rounded);
    }
    reducer_close(&reducer);
}

TEST(sums_of_every_bucket) {
    EXPECT_OK(mesh_place(&mesh, ranks.place.rank, ranks.place.size, NULL));
    EXPECT_OK(mesh_connect(&mesh, ranks.world));
    static const int64_t buckets[] = {64, 448, 1000, ELEMENTS, 1 << 20};
    for (size_t i = 0; i < sizeof buckets / sizeof buckets[0]; i++)
        for (int bits = 0; bits < 8; bits++)
            check(&(struct choice){.is_rounded = (bits & 1) != 0,
                                   .is_divided = (bits & 2) != 0,
                                   .overlaps = (bits & 4) != 0,
                                   .bucket = buckets[i]});
}

int main(void) {
    static const struct test_case cases[] = {TEST_CASE(sums_of_every_bucket)};
    return ranks_test_main(&ranks, cases, sizeof cases / sizeof cases[0]);
}
