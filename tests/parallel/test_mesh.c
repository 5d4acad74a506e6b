// Places of ranks, slices of tensors, and the flat layout of parameters.
#include "ops/device.h"
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "parallel/shard.h"
#include "test.h"

TEST(places_follow_megatrons_order) {
    // 16 ranks, tensor 2, pipeline 4: the example of Megatron's documentation.
    struct mesh mesh;
    for (int rank = 0; rank < 16; rank++) {
        EXPECT_OK(mesh_place(&mesh, rank, 16, (const int[AXIS_COUNT]){[AXIS_TENSOR] = 2, [AXIS_PIPELINE] = 4}));
        EXPECT_INT(mesh.length[AXIS_DATA], 2);
        EXPECT_INT(mesh.place[AXIS_TENSOR], rank % 2);
        EXPECT_INT(mesh.place[AXIS_DATA], rank / 2 % 2);
        EXPECT_INT(mesh.place[AXIS_PIPELINE], rank / 4);
        EXPECT_INT(mesh_rank_at(&mesh, mesh.place), rank);
    }
    EXPECT_ERROR(mesh_place(&mesh, 0, 6, (const int[AXIS_COUNT]){[AXIS_TENSOR] = 4}),
                 "6 ranks cannot be split into tensor 4 × context 1 × pipeline 1; start a multiple of 4 ranks");
}

// Batches are counted by the ranks of one copy of the model, and read by the mesh: both numbers agree.
TEST(flags_and_mesh_count_alike) {
    struct mesh mesh;
    struct config config = {.machine.tensor_model_parallel_size = 2,
                            .machine.context_parallel_size = 3,
                            .machine.pipeline_model_parallel_size = 5};
    EXPECT_INT(config_model_ranks(&config), 30);
    EXPECT_OK(mesh_place_config(&mesh, 59, 120, &config));
    EXPECT_INT(mesh.length[AXIS_DATA], 4);
    EXPECT_ERROR(mesh_place_config(&mesh, 0, 45, &config), "45 ranks cannot be split into tensor 2 × context 3 ×");
}

// Ranks that share out experts and share no layer are some of those that read other samples, next to each other.
TEST(expert_ranks_are_data_parallel_ranks) {
    struct mesh mesh;
    const struct config config = {.machine.tensor_model_parallel_size = 2,
                                  .machine.context_parallel_size = 1,
                                  .machine.expert_model_parallel_size = 3,
                                  .machine.pipeline_model_parallel_size = 2};
    EXPECT_INT(config_model_ranks(&config), 4);
    EXPECT_INT(config_least_ranks(&config), 12);
    for (int rank = 0; rank < 24; rank++) {
        EXPECT_OK(mesh_place_config(&mesh, rank, 24, &config));
        EXPECT_INT(mesh.length[AXIS_DATA], 6);
        EXPECT_INT(mesh_count(&mesh, MESH_EXPERTS), 3);
        EXPECT_INT(mesh_index(&mesh, mesh.place, MESH_EXPERTS), rank / 2 % 3);
        EXPECT_INT(mesh_index(&mesh, mesh.place, MESH_SAME_EXPERTS), rank / 6 % 2);
        EXPECT_INT(mesh_count(&mesh, MESH_SAMPLES), 6);
        EXPECT_INT(mesh_index(&mesh, mesh.place, MESH_SAMPLES), rank / 2 % 6);
        EXPECT_INT(mesh_count(&mesh, MESH_SAME_EXPERTS), 2);
        EXPECT_INT(mesh_count(&mesh, MESH_REPLICAS), 6);
    }
    EXPECT_ERROR(mesh_place_config(&mesh, 0, 8, &config),
                 "--expert-model-parallel-size 3 × --expert-tensor-parallel-size 2 does not fit tensor 2 × context 1 × "
                 "data 2 ranks");
}

// The other grid of a stage's ranks: number = etp + ETP * (ep + EP * copy), whatever the ranks are for other layers.
TEST(expert_ranks_are_a_grid_of_their_own) {
    enum { SIZE = 16 };
    int legal = 0;
    for (int tensor = 1; tensor <= 8; tensor *= 2)
        for (int context = 1; context <= 4; context *= 2)
            for (int slices = 1; slices <= tensor; slices *= 2)
                for (int experts = 1; experts <= SIZE; experts *= 2) {
                    const struct config config = {.model.num_experts = 16,
                                                  .machine.tensor_model_parallel_size = tensor,
                                                  .machine.context_parallel_size = context,
                                                  .machine.expert_model_parallel_size = experts,
                                                  .machine.expert_tensor_parallel_size = slices,
                                                  .machine.pipeline_model_parallel_size = 1};
                    struct mesh mesh;
                    if (tensor * context > SIZE || slices * experts > SIZE)
                        continue;
                    int model = tensor * context, needed = slices * experts;
                    EXPECT_INT(config_least_ranks(&config), needed > model ? needed : model);
                    for (int rank = 0; rank < SIZE; rank++) {
                        EXPECT_OK(mesh_place_config(&mesh, rank, SIZE, &config));
                        EXPECT_INT(mesh_count(&mesh, MESH_EXPERT_SLICES), slices);
                        EXPECT_INT(mesh_count(&mesh, MESH_EXPERTS), experts);
                        EXPECT_INT(mesh_index(&mesh, mesh.place, MESH_EXPERT_SLICES), rank % slices);
                        EXPECT_INT(mesh_index(&mesh, mesh.place, MESH_EXPERTS), rank / slices % experts);
                        EXPECT_INT(mesh_index(&mesh, mesh.place, MESH_SAME_EXPERTS), rank / slices / experts);
                        EXPECT_INT(mesh_rank_at(&mesh, mesh.place), rank);
                        EXPECT_INT(mesh.place[AXIS_TENSOR], rank % tensor);
                        EXPECT_INT(mesh_deals_experts(&mesh), experts > 1 || slices != tensor);
                        legal++;
                    }
                }
    EXPECT(legal > 0);
}

// Any set of axes numbers the ranks along it, and the numbers lead back to the ranks.
TEST(any_set_of_axes_has_its_ranks) {
    struct mesh mesh;
    EXPECT_OK(
        mesh_place(&mesh, 0, 24, (const int[AXIS_COUNT]){[AXIS_TENSOR] = 2, [AXIS_CONTEXT] = 3, [AXIS_PIPELINE] = 2}));
    EXPECT_INT(mesh_count(&mesh, MESH_ALL), 24);
    EXPECT_INT(mesh_count(&mesh, MESH_STAGE), 12);
    EXPECT_INT(mesh_count(&mesh, MESH_REPLICAS), 6);
    EXPECT_INT(mesh_count(&mesh, 0), 1);
    for (unsigned along = 0; along <= MESH_ALL; along++)
        for (int rank = 0; rank < 24; rank++) {
            int place[AXIS_COUNT], last = -1;
            mesh_move(&mesh, place, MESH_ALL, rank);
            int own = mesh_index(&mesh, place, along);
            for (int i = 0; i < mesh_count(&mesh, along); i++) {
                mesh_move(&mesh, place, along, i);
                EXPECT_INT(mesh_index(&mesh, place, along), i);
                EXPECT(mesh_rank_at(&mesh, place) > last && (mesh_rank_at(&mesh, place) == rank) == (i == own));
                last = mesh_rank_at(&mesh, place);
            }
        }
}

// 8 tensor-parallel ranks and 2 heads of keys and values: ranks 0 to 3 of them share the first head, 4 to 7 the second.
TEST(neighbours_share_heads_of_keys) {
    struct mesh place, mesh;
    struct world *world;
    struct device *device;
    const struct config config = {.machine.tensor_model_parallel_size = 8,
                                  .machine.context_parallel_size = 2,
                                  .machine.pipeline_model_parallel_size = 1,
                                  .machine.expert_model_parallel_size = 2,
                                  .machine.expert_tensor_parallel_size = 1,
                                  .model.num_attention_heads = 16,
                                  .model.group_query_attention = true,
                                  .model.num_query_groups = 2};
    for (int rank = 0; rank < 32; rank++) {
        EXPECT_OK(mesh_place_config(&place, rank, 32, &config));
        EXPECT_INT(place.kv_ranks, 4);
        EXPECT_OK(device_open_twin(&device, NULL));
        EXPECT_OK(mesh_open_twin(&mesh, &world, &place, device));
        EXPECT_INT(group_size(mesh.kv_group), 4);
        EXPECT_INT(group_rank(mesh.kv_group), rank % 4);
        world_close(world);
        device_close(device);
    }
    struct config enough = config;
    enough.model.num_query_groups = 8;
    EXPECT_OK(mesh_place_config(&place, 3, 32, &enough));
    EXPECT(place.kv_ranks == 1 && !place.kv_group);
}

// 2 tensor-parallel and 6 context-parallel ranks, of which 2 neighbours exchange heads: ranks 0, 2 | 4, 6 | 8, 10 of
// the first tensor-parallel rank, and 0, 4, 8 have the same heads.
TEST(neighbours_exchange_heads) {
    char *types[] = {"a2a+p2p"}, *sizes[] = {"2", "3"};
    struct mesh place, mesh;
    struct world *world;
    struct device *device;
    struct config config = {.machine.tensor_model_parallel_size = 2,
                            .machine.context_parallel_size = 6,
                            .machine.pipeline_model_parallel_size = 1,
                            .machine.expert_model_parallel_size = 1,
                            .model.num_attention_heads = 8,
                            .machine.cp_comm_type = {types, 1},
                            .machine.hierarchical_context_parallel_sizes = {sizes, 2}};
    for (int rank = 0; rank < 24; rank++) {
        EXPECT_OK(mesh_place_config(&place, rank, 24, &config));
        EXPECT_INT(place.near_ranks, 2);
        EXPECT_OK(device_open_twin(&device, NULL));
        EXPECT_OK(mesh_open_twin(&mesh, &world, &place, device));
        EXPECT_INT(group_size(mesh.near_group), 2);
        EXPECT_INT(group_rank(mesh.near_group), rank / 2 % 2);
        EXPECT_INT(group_size(mesh.far_group), 3);
        EXPECT_INT(group_rank(mesh.far_group), rank / 4 % 3);
        world_close(world);
        device_close(device);
    }
    types[0] = "p2p";
    EXPECT_OK(mesh_place_config(&place, 3, 24, &config));
    EXPECT(place.near_ranks == 1 && !place.near_group);
}

// Every element of the whole tensor belongs to exactly one slice, and the elements of a slice are numbered without
// gaps.
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

TEST(a_mesh_on_paper_has_any_size) {
    struct mesh place, mesh;
    struct world *world;
    struct device *device;
    enum { TP = 8, CP = 2, DP = 32, PP = 16, SIZE = TP * CP * DP * PP, RANK = 4321 };
    const int lengths[AXIS_COUNT] = {[AXIS_TENSOR] = TP, [AXIS_CONTEXT] = CP, [AXIS_PIPELINE] = PP};
    EXPECT_OK(mesh_place(&place, RANK, SIZE, lengths));
    EXPECT_OK(device_open_twin(&device, NULL));
    EXPECT_OK(mesh_open_twin(&mesh, &world, &place, device));
    EXPECT_STRING(world_backend(world), "paper");
    EXPECT_INT(world_place(world).rank, RANK);
    EXPECT_INT(group_size(mesh.all), SIZE);
    EXPECT_INT(group_rank(mesh.all), RANK);
    EXPECT_INT(group_size(mesh.group[AXIS_DATA]), DP);
    EXPECT_INT(group_rank(mesh.group[AXIS_DATA]), mesh.place[AXIS_DATA]);
    EXPECT_INT(group_size(mesh.replicas), DP * CP);
    EXPECT_INT(group_size(mesh.stage), SIZE / PP);
    EXPECT_INT(group_size(mesh.links[LINK_FORWARD_OUT]), 2);
    EXPECT_INT(group_rank(mesh.links[LINK_FORWARD_OUT]), 0);
    EXPECT_INT(group_rank(mesh.links[LINK_FORWARD_IN]), 1);
    world_close(world);
    device_close(device);
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
        check_cover(shard_matrices(24, 5, 3), 0, parts[i]);
        check_cover(shard_matrices(3, 24, 5), 1, parts[i]);
        check_cover(shard_matrices(3, 5, 24), 2, parts[i]);
        struct shard experts = shard_matrices(5, 48, 3);
        experts.segment_count = 2;
        experts.segments[0] = experts.segments[1] = 24;
        check_cover(experts, 1, parts[i]);
    }
}

// Experts are shared out, and each is split besides: slice `part` of `parts` of the experts of one of `outer` ranks.
static void check_experts(struct shard whole, int dimension, int parts, int outer) {
    int64_t count = shard_global_count(&whole), width = count / whole.global[0];
    int *owners = calloc((size_t)count, sizeof *owners);
    for (int rank = 0; rank < outer * parts; rank++) {
        struct shard inner = parts > 1 ? shard_split(whole, dimension, parts, rank % parts) : whole;
        struct shard slice = shard_split_outer(inner, outer, rank / parts);
        EXPECT(slice.parts == outer * parts && slice.part == rank);
        EXPECT_INT(shard_local_size(&slice, 0), whole.global[0] / outer);
        EXPECT_INT(shard_local_count(&slice), count / outer / parts);
        int64_t local = 0;
        for (int64_t i = 0; i < shard_run_count(&slice); i++) {
            struct shard_run run = shard_run(&slice, i);
            EXPECT_INT(run.local_offset, local);
            local += run.count;
            for (int64_t n = run.global_offset; n < run.global_offset + run.count; n++) {
                EXPECT_INT(n / width / (whole.global[0] / outer), rank / parts);
                owners[n] += 1 + rank % parts;
            }
        }
        EXPECT_INT(local, shard_local_count(&slice));
    }
    // Row or column `at` of the split dimension belongs to the part that the split without ranks gives it.
    int64_t behind = 1, length = whole.segment_count > 1 ? whole.segments[0] : whole.global[dimension];
    for (int i = dimension + 1; i < whole.rank; i++)
        behind *= whole.global[i];
    for (int64_t n = 0; n < count; n++)
        EXPECT_INT(owners[n], parts > 1 ? 1 + n / behind % length / (length / parts) : 1);
    free(owners);
}

TEST(experts_are_split_twice) {
    for (int outer = 1; outer <= 6; outer++)
        for (int parts = 1; parts <= 4 && 6 % outer == 0; parts += 1 + (parts > 1)) {
            struct shard gated = shard_matrices(6, 16, 5), biases = shard_whole(2, 6, 16);
            gated.segment_count = biases.segment_count = 2;
            gated.dimension = biases.dimension = 1;
            gated.segments[0] = gated.segments[1] = biases.segments[0] = biases.segments[1] = 8;
            check_experts(gated, 1, parts, outer);
            check_experts(biases, 1, parts, outer);
            check_experts(shard_matrices(6, 8, 5), 1, parts, outer);
            check_experts(shard_matrices(6, 5, 8), 2, parts, outer);
            check_experts(shard_whole(2, 6, 5), 1, 1, outer);
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
    EXPECT_INT(list.groups[0].decayed, 64);
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

TEST_MAIN(TEST_CASE(places_follow_megatrons_order), TEST_CASE(flags_and_mesh_count_alike),
          TEST_CASE(expert_ranks_are_data_parallel_ranks), TEST_CASE(expert_ranks_are_a_grid_of_their_own),
          TEST_CASE(any_set_of_axes_has_its_ranks), TEST_CASE(neighbours_share_heads_of_keys),
          TEST_CASE(neighbours_exchange_heads), TEST_CASE(a_mesh_on_paper_has_any_size),
          TEST_CASE(slices_cover_exactly_once), TEST_CASE(experts_are_split_twice),
          TEST_CASE(packed_projections_keep_their_heads), TEST_CASE(parameters_with_decay_come_first))
