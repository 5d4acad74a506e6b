// Groups of parameters on several ranks: the usual one, and one that is split along the tensor and the context axis and
// has its replicas only along the data axis; with one rank along the tensor axis and, on 4 ranks, with two. Whatever is
// split, rounded or sent early, gradients are summed over each group's own replicas, every parameter counts once in the
// norm, and all ranks get the weights of a loop in double, with Adam in one group and SGD in the other. Run under
// mpirun.
// tier: all
#include "base/hash.h"
#include "optim/updates.h"
#include "parallel/reducer.h"
#include "parallel/replicas.h"
#include "ranks_step.h"

#include <math.h>
#include <string.h>

static struct ranks ranks;
static struct mesh mesh;

enum { PARAMS = 5, GROUPS = 2 };
static const struct param_group spread = {.name = "spread",
                                          .replicas = AXES(AXIS_DATA),
                                          .slices = AXES(AXIS_TENSOR) | AXES(AXIS_CONTEXT),
                                          .lr_multiplier = 0.25};
static const struct pace PACE = {.lr = 1e-2, .weight_decay = 0.1, .decoupled_lr = 1e-2};
static const double MAX_NORM = 0.1;

struct groups_lab {
    struct config config;
    struct param_list params;
    struct reducer reducer;
    struct updates updates;
    struct update update;
};

struct groups_choice {
    enum dtype dtype;
    bool is_divided, overlaps;
    int64_t bucket;
};

static struct param_list make_params(void) {
    struct param_list params = {0};
    (void)param_add(&params, "dense", shard_whole(2, 20, 30), INIT_ZERO, 0);
    (void)param_add(&params, "bias", shard_whole(1, 70, 1), INIT_ZERO, 0);
    int parts = mesh_count(&mesh, spread.slices), part = mesh_index(&mesh, mesh.place, spread.slices);
    (void)param_add(&params, "experts", shard_split(shard_whole(2, 31, 16), 0, parts, part), INIT_ZERO, 0);
    (void)param_add(&params, "router", shard_whole(2, 4, 33), INIT_ZERO, 0);
    (void)param_add(&params, "gain", shard_whole(1, 9, 1), INIT_ZERO, 0);
    for (int i = 2; i < PARAMS; i++)
        params.items[i]->group = param_list_group(&params, &spread);
    return params;
}

// The weight of an element before the update, and one replica's contribution to its gradient.
static float weight_of(int param, int64_t n) {
    return (float)sin((double)(1000 * param + n));
}

static float gradient_of(int param, int64_t n, int replica) {
    return (float)(0.01 * cos((double)(500 * param + 3 * n + 77 * replica)));
}

static void open_lab(struct groups_lab *lab, struct arena *arena, const struct groups_choice *choice) {
    *lab = (struct groups_lab){.params = make_params()};
    config_defaults(&lab->config);
    lab->config.run.clip_grad = MAX_NORM;
    lab->config.run.adam_eps = 1e-3;  // the sign of gradients near zero is arbitrary
    struct division divisions[GROUPS];
    struct pieces pieces[GROUPS];
    struct optimizer_options options[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
        struct group *replicas = mesh_group(&mesh, lab->params.groups[i].replicas);
        divisions[i] = (struct division){.parts = choice->is_divided ? group_size(replicas) : 1,
                                         .part = choice->is_divided ? group_rank(replicas) : 0,
                                         .bucket = choice->bucket};
    }
    pieces_divide(&lab->params, divisions, pieces);
    for (int i = 0; i < GROUPS; i++)
        options[i] = (struct optimizer_options){.rule = i == 0 ? &optimizer_adam : &optimizer_sgd,
                                                .config = &lab->config,
                                                .group = i,
                                                .lr_multiplier = lab->params.groups[i].lr_multiplier,
                                                .pieces = pieces[i],
                                                .dtype = choice->dtype};
    reducer_open(&lab->reducer, &lab->params,
                 &(struct reducer_options){.mesh = &mesh,
                                           .pieces = pieces,
                                           .overlaps_reduction = choice->overlaps,
                                           .overlaps_gather = choice->overlaps});
    lab->update = (struct update){.device = ranks.device,
                                  .mesh = &mesh,
                                  .params = &lab->params,
                                  .values = arena_1d(arena, choice->dtype, lab->params.total),
                                  .grads = arena_1d(arena, DTYPE_F32, lab->params.total)};
    param_list_bind(&lab->params, lab->update.values, lab->update.grads);
    updates_build(&lab->updates, arena, options, GROUPS);
    reducer_bind(&lab->reducer,
                 &(struct reducer_buffers){
                     .device = ranks.device, .arena = arena, .values = lab->update.values, .grads = lab->update.grads});
    updates_reset(&lab->updates, ranks.device);
    device_zero(ranks.device, lab->update.values);
    device_zero(ranks.device, lab->update.grads);
}

static void close_lab(struct groups_lab *lab) {
    reducer_close(&lab->reducer);
    param_list_free(&lab->params);
    config_free(&lab->config);
}

// Sets weights or gradients of this rank's slices.
static void fill(struct groups_lab *lab, struct tensor flat, bool is_gradient) {
    for (int i = 0; i < PARAMS; i++) {
        const struct param *param = lab->params.items[i];
        int replica = mesh_index(&mesh, mesh.place, lab->params.groups[param->group].replicas);
        float *to = (float *)flat.data + param->offset;
        for (int64_t k = 0; k < shard_run_count(&param->shard); k++) {
            struct shard_run run = shard_run(&param->shard, k);
            for (int64_t n = 0; n < run.count; n++)
                to[run.local_offset + n] =
                    is_gradient ? gradient_of(i, run.global_offset + n, replica) : weight_of(i, run.global_offset + n);
        }
    }
}

static double summed_gradient(const struct groups_lab *lab, int param, int64_t n) {
    double sum = 0;
    int group = lab->params.items[param]->group;
    for (int r = 0; r < mesh_count(&mesh, lab->params.groups[group].replicas); r++)
        sum += (double)gradient_of(param, n, r);
    return sum;
}

static double expected_norm(const struct groups_lab *lab) {
    double squares = 0;
    for (int i = 0; i < PARAMS; i++)
        for (int64_t n = 0; n < shard_global_count(&lab->params.items[i]->shard); n++)
            squares += pow(summed_gradient(lab, i, n), 2);
    return sqrt(squares);
}

// The first update: with Adam m / sqrt(v) is g / |g|, except for epsilon; with SGD m is g with weight decay.
static double expected_weight(const struct groups_lab *lab, int param, int64_t n, double scale) {
    const struct param *own = lab->params.items[param];
    double g = summed_gradient(lab, param, n) * scale, value = (double)weight_of(param, n);
    double lr = PACE.lr * lab->params.groups[own->group].lr_multiplier;
    double decay = own->has_decay ? PACE.weight_decay * value : 0;
    return value - lr * decay - lr * (own->group == 0 ? g / (fabs(g) + lab->config.run.adam_eps) : g);
}

static void set_weights(struct groups_lab *lab) {
    bool has_masters = updates_have_masters(&lab->updates);
    fill(lab, has_masters ? lab->update.grads : lab->update.values, false);
    if (has_masters)
        updates_take_weights(&lab->updates, &lab->update);
}

static void make_update(struct groups_lab *lab) {
    float rates[UPDATES_MOST_RATES * RATE_LENGTH * GROUPS];
    updates_make_rates(&lab->updates, &PACE, 1, rates);
    device_copy_in(ranks.device, lab->updates.rates, rates);
    fill(lab, lab->update.grads, true);
    for (int i = PARAMS - 1; i >= 0; i--)  // as in a backward pass, the last parameter of each group first
        reducer_final_from(&lab->reducer, lab->params.items[i]);
    reducer_sum(&lab->reducer);
    reducer_wait(&lab->reducer);
    updates_begin(&lab->updates, &lab->update);
    for (int64_t n = 0; n < reducer_bucket_count(&lab->reducer); n++) {
        struct piece bucket = reducer_needed(&lab->reducer, n);
        updates_apply(&lab->updates, &lab->update, bucket.flat_offset, bucket.flat_offset + bucket.count);
        reducer_gather(&lab->reducer, n);
    }
    for (int i = 0; i < PARAMS; i++)
        reducer_await(&lab->reducer, lab->params.items[i]);
    reducer_settle(&lab->reducer);
    updates_count(&lab->updates);
}

static double sum_over_params(const struct groups_lab *lab, double scale) {
    double squares = 0;
    for (int i = 0; i < PARAMS; i++)
        for (int64_t n = 0; n < shard_global_count(&lab->params.items[i]->shard); n++)
            squares += pow(expected_weight(lab, i, n, scale), 2);
    return squares;
}

static void check(const struct groups_choice *choice) {
    static _Alignas(256) unsigned char memory[1 << 19];
    struct arena arena;
    struct groups_lab lab;
    arena_init(&arena, "groups", memory, sizeof memory);
    open_lab(&lab, &arena, choice);
    set_weights(&lab);
    make_update(&lab);
    double norm = expected_norm(&lab), scale = norm > MAX_NORM ? MAX_NORM / (norm + 1e-6) : 1;
    EXPECT(norm > MAX_NORM);
    EXPECT(fabs((double)*(float *)clip_norm(&lab.updates.clip).data - norm) < 1e-5 * norm);
    struct tensor wide = tensor_1d(memory_alloc(sizeof(float) * (size_t)lab.params.total), DTYPE_F32, lab.params.total);
    op_copy(ranks.device, &(struct op_copy){.dst = wide, .src = lab.update.values});
    double bound = choice->dtype == DTYPE_BF16 ? 0x1p-8 : 1e-6;
    for (int i = 0; i < PARAMS; i++) {
        const struct param *param = lab.params.items[i];
        for (int64_t k = 0; k < shard_run_count(&param->shard); k++) {
            struct shard_run run = shard_run(&param->shard, k);
            for (int64_t n = 0; n < run.count; n++) {
                double got = (double)((float *)wide.data)[param->offset + run.local_offset + n];
                EXPECT(fabs(got - expected_weight(&lab, i, run.global_offset + n, scale)) < bound);
            }
        }
    }
    double whole = sqrt(sum_over_params(&lab, scale));
    EXPECT(fabs(clip_params_norm(&lab.updates.clip, &lab.update, lab.updates.optimizers) - whole) < 1e-5 * whole);
    free(wide.data);
    close_lab(&lab);
}

static void connect_mesh(int tensor) {
    const int length[AXIS_COUNT] = {[AXIS_TENSOR] = tensor, [AXIS_CONTEXT] = 2};
    EXPECT_OK(mesh_place(&mesh, ranks.place.rank, ranks.place.size, length));
    mesh_declare(&mesh, spread.slices, "spread");
    EXPECT_OK(mesh_connect(&mesh, ranks.world));
    EXPECT_INT(group_size(mesh_group(&mesh, spread.slices)), 2 * tensor);
    EXPECT_INT(group_size(mesh_group(&mesh, spread.replicas)), ranks.place.size / (2 * tensor));
    EXPECT_INT(group_rank(mesh_group(&mesh, spread.slices)), ranks.place.rank % (2 * tensor));
}

static void on_every_mesh(void (*test)(void)) {
    for (int tensor = 1; 2 * tensor <= ranks.place.size; tensor++) {
        connect_mesh(tensor);
        test();
    }
}

static void make_every_update(void) {
    static const int64_t buckets[] = {64, 448, 1 << 20};
    for (size_t i = 0; i < sizeof buckets / sizeof buckets[0]; i++)
        for (int bits = 0; bits < 8; bits++)
            check(&(struct groups_choice){.dtype = bits & 1 ? DTYPE_BF16 : DTYPE_F32,
                                          .is_divided = (bits & 2) != 0,
                                          .overlaps = (bits & 4) != 0,
                                          .bucket = buckets[i]});
}

TEST(every_group_has_its_own_replicas) {
    on_every_mesh(make_every_update);
}

static struct replicas_fault compare(const struct groups_lab *lab) {
    int64_t digests[PARAMS];
    for (int i = 0; i < PARAMS; i++)
        digests[i] =
            (int64_t)hash_bytes(lab->params.items[i]->value.data, tensor_bytes(lab->params.items[i]->value), 0);
    int64_t sum = 0;
    const struct replicas_lab here = {ranks.device, tensor_1d(&sum, DTYPE_I64, 1)};
    return replicas_compare(&here, &mesh, &lab->params, digests);
}

// Flips a bit of a parameter on one rank; the ranks that should hold the same notice, and no others. If there are three
// of them or more, they know which rank it is.
static void check_flip(struct groups_lab *lab, int param, int rank) {
    const struct param *own = lab->params.items[param];
    const struct param_group *group = &lab->params.groups[own->group];
    int64_t element = tensor_count(own->value) * 2 / 3;
    unsigned char *flipped = (unsigned char *)own->value.data + element * (int64_t)dtype_bytes(own->value.dtype);
    if (mesh.rank == rank)
        *flipped ^= 1;
    struct replicas_fault fault = compare(lab);
    int place[AXIS_COUNT];
    mesh_move(&mesh, place, MESH_ALL, rank);
    bool is_whole = own->shard.parts == 1;
    unsigned along = is_whole ? group->replicas | group->slices : group->replicas, rest = MESH_ALL & ~along;
    int holders = mesh_count(&mesh, along);
    bool is_seen = holders > 1 && mesh_index(&mesh, place, rest) == mesh_index(&mesh, mesh.place, rest);
    bool has_slices = is_whole && mesh_count(&mesh, group->slices) > 1;
    EXPECT((fault.param == own) == is_seen && (is_seen || !fault.param));
    if (is_seen) {
        EXPECT_STRING(fault.holders, has_slices ? "ranks that share layers" : "data-parallel ranks");
        EXPECT_INT(fault.count, holders > 2 ? 1 : 2);
        EXPECT(fault.has_majority == (holders > 2));
        EXPECT_INT(fault.element, element);
        EXPECT(fault.ranks[0] == rank || (holders == 2 && fault.ranks[1] == rank));
    }
    if (mesh.rank == rank)
        *flipped ^= 1;
}

static void flip_every_parameter(void) {
    static _Alignas(256) unsigned char memory[1 << 19];
    struct arena arena;
    struct groups_lab lab;
    arena_init(&arena, "groups", memory, sizeof memory);
    open_lab(&lab, &arena, &(struct groups_choice){.bucket = 64});
    set_weights(&lab);
    EXPECT(!compare(&lab).param);
    for (int param = 0; param < PARAMS; param++)
        for (int rank = 0; rank < mesh.size; rank++)
            check_flip(&lab, param, rank);
    close_lab(&lab);
}

TEST(replicas_are_compared_by_group) {
    on_every_mesh(flip_every_parameter);
}

int main(void) {
    static const struct test_case cases[] = {TEST_CASE(every_group_has_its_own_replicas),
                                             TEST_CASE(replicas_are_compared_by_group)};
    return ranks_test_main(&ranks, cases, sizeof cases / sizeof cases[0]);
}
