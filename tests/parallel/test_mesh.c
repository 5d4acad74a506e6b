// Places of ranks, slices of tensors, and the flat layout of parameters.
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "parallel/shard.h"
#include "test.h"

TEST(places_follow_megatrons_order) {
    // 16 ranks, tensor 2, pipeline 4: the example of Megatron's documentation.
    struct mesh mesh;
    for (int rank = 0; rank < 16; rank++) {
        EXPECT_OK(mesh_place(&mesh, rank, 16, 2, 1, 4));
        EXPECT_INT(mesh.length[AXIS_DATA], 2);
        EXPECT_INT(mesh.place[AXIS_TENSOR], rank % 2);
        EXPECT_INT(mesh.place[AXIS_DATA], rank / 2 % 2);
        EXPECT_INT(mesh.place[AXIS_PIPELINE], rank / 4);
        EXPECT_INT(mesh_rank_at(&mesh, mesh.place), rank);
    }
    EXPECT_ERROR(mesh_place(&mesh, 0, 6, 4, 1, 1), "cannot be divided");
}

// Every element of the whole tensor belongs to exactly one slice, and a slice's own elements are numbered without gaps.
static void check_cover(struct shard whole, int dimension, int parts) {
    int64_t count = shard_global_count(&whole);
    int *owners = calloc((size_t)count, sizeof *owners);
    for (int part = 0; part < parts; part++) {
        struct shard slice = shard_split(whole, dimension, parts, part);
        int64_t local = 0, last_global = -1;
        for (int64_t i = 0; i < shard_run_count(&slice); i++) {
            struct shard_run run = shard_run(&slice, i);
            EXPECT_INT(run.local_offset, local);
            EXPECT(run.global_offset > last_global);
            local += run.count;
            last_global = run.global_offset + run.count - 1;
            for (int64_t n = 0; n < run.count; n++)
                owners[run.global_offset + n]++;
        }
        EXPECT_INT(local, shard_local_count(&slice));
        if (whole.global[dimension] % parts == 0)
            EXPECT_INT(local, count / parts);
    }
    for (int64_t n = 0; n < count; n++)
        EXPECT_INT(owners[n], 1);
    free(owners);
}

TEST(slices_cover_exactly_once) {
    const int parts[] = {1, 2, 3, 4, 6};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        check_cover(shard_whole(1, 24, 1), 0, parts[i]);
        check_cover(shard_whole(1, 23, 1), 0, parts[i]);
        check_cover(shard_whole(2, 50, 3), 0, parts[i]);
        check_cover(shard_whole(2, 3, 1), 0, parts[i]);
        check_cover(shard_whole(2, 5, 17), 1, parts[i]);
        check_cover(shard_whole(2, 24, 5), 0, parts[i]);
        check_cover(shard_whole(2, 5, 24), 1, parts[i]);
        struct shard packed = shard_whole(2, 48, 3);
        packed.segment_count = 3;
        packed.segments[0] = 24;
        packed.segments[1] = packed.segments[2] = 12;
        check_cover(packed, 0, parts[i]);
        struct shard gated = shard_whole(2, 3, 48);
        gated.segment_count = 2;
        gated.segments[0] = gated.segments[1] = 24;
        check_cover(gated, 1, parts[i]);
    }
}

TEST(packed_projections_keep_their_heads) {
    // q rows 0-7, k rows 8-11, v rows 12-15: slice 1 of 2 holds q 4-7, k 10-11, v 14-15.
    struct shard packed = shard_whole(2, 16, 10);
    packed.segment_count = 3;
    packed.segments[0] = 8;
    packed.segments[1] = packed.segments[2] = 4;
    struct shard slice = shard_split(packed, 0, 2, 1);
    const int64_t first_rows[3] = {4, 10, 14}, rows[3] = {4, 2, 2};
    for (int i = 0; i < 3; i++) {
        EXPECT_INT(shard_run(&slice, i).global_offset, first_rows[i] * 10);
        EXPECT_INT(shard_run(&slice, i).count, rows[i] * 10);
    }
}

TEST(parameters_with_decay_come_first) {
    struct param_list list = {0};
    struct param *bias = param_add(&list, "bias", shard_whole(1, 5, 1), INIT_ZERO, 0);
    struct param *weight = param_add(&list, "weight", shard_whole(2, 5, 7), INIT_NORMAL, 0.02);
    struct param *gain = param_add(&list, "gain", shard_whole(1, 64, 1), INIT_ONE, 0);
    param_list_layout(&list);
    EXPECT_INT(weight->offset, 0);
    EXPECT_INT(bias->offset, 64);
    EXPECT_INT(gain->offset, 128);
    EXPECT_INT(list.decayed, 64);
    EXPECT_INT(list.total, 192);
    EXPECT_INT(param_list_elements(&list), 5 + 35 + 64);
    float *memory = calloc(192, sizeof *memory);
    param_list_bind(&list, tensor_1d(memory, DTYPE_F32, 192), (struct tensor){0});
    EXPECT((float *)bias->value.data == memory + 64);
    EXPECT_INT(weight->value.shape[1], 7);
    EXPECT(bias->grad.data == NULL);
    free(memory);
    param_list_free(&list);
}

TEST_MAIN(TEST_CASE(places_follow_megatrons_order), TEST_CASE(slices_cover_exactly_once),
          TEST_CASE(packed_projections_keep_their_heads), TEST_CASE(parameters_with_decay_come_first))
