// GPT-3 175B on 1536 ranks, on paper: one rank of the real mesh runs its real list, and its counts match the formulas,
// in FLOPs and, by group, in bytes and messages.
#include "ranks_step.h"

enum { TP = 8, PP = 16, DP = 12, SIZE = TP * PP * DP, M = 16, L = 96 / PP, H = 96, D = 128, T = 2048 };
static const int64_t C = 12288;

static int next_zeros(void *context, struct batch *batch) {
    *batch = *(const struct batch *)context;
    return 0;
}

static void expect_traffic(const struct group *group, enum collective_kind kind, int64_t count, int64_t bytes) {
    struct traffic traffic = group_traffic(group, kind);
    if (traffic.count != count || traffic.bytes != bytes)
        test_fail("kind %d: %" PRId64 " messages of %" PRId64 " bytes, expected %" PRId64 " of %" PRId64, (int)kind,
                  traffic.count, traffic.bytes, count, bytes);
}

TEST(a_rank_of_many) {
    struct config config;
    struct mesh place, mesh;
    struct world *world;
    struct device *device;
    struct step *step;
    rank_step_parse(&config,
                    "--preset gpt3-175b --bf16 --vocab-size 50257 --tensor-model-parallel-size 8 "
                    "--pipeline-model-parallel-size 16 --micro-batch-size 1 --global-batch-size 192",
                    SIZE);
    EXPECT_OK(device_open_twin(&device, NULL));
    EXPECT_OK(mesh_place_config(&place, 7 * TP * DP + 5, SIZE, &config));  // the eighth stage: neither first nor last
    EXPECT_OK(mesh_open_twin(&mesh, &world, &place, device));
    EXPECT_OK(setup_step(&step, &(struct setup){&config, device, &mesh, STEP_TRAIN}));
    struct batch_form form = {.B = 1, .T = T, .fields = BATCH_TEXT};
    struct batch zeros;
    batch_allocate(&zeros, &form, 1);
    EXPECT_OK(step_train(step, &(struct step_source){next_zeros, &zeros, M}, 1e-4, 0.1));
    struct device_totals totals = device_totals(device);
    double weights = 12.0 * (double)C * (double)C * L / TP, scores = (double)H / TP * T * (T + 1) / 2;
    EXPECT_NEAR(totals.matmul_flops, 6 * weights * T * M, 1e-12);
    EXPECT_NEAR(totals.attention_flops, 7 * 2 * scores * D * L * M, 1e-12);  // 2 matmuls forward, 5 backward
    int64_t stream = (int64_t)T * C * 2;
    enum { SUM_OF_SQUARES = 4, LOSS = 16 };
    expect_traffic(mesh.links[LINK_FORWARD_IN], COLLECTIVE_RECEIVE, M, M * stream);
    expect_traffic(mesh.links[LINK_FORWARD_OUT], COLLECTIVE_SEND, M, M * stream);
    expect_traffic(mesh.links[LINK_BACKWARD_IN], COLLECTIVE_RECEIVE, M, M * stream);
    expect_traffic(mesh.links[LINK_BACKWARD_OUT], COLLECTIVE_SEND, M, M * stream);
    expect_traffic(mesh.group[AXIS_TENSOR], COLLECTIVE_ALL_REDUCE, 4 * L * M + 1, 4 * L * M * stream + SUM_OF_SQUARES);
    expect_traffic(mesh.group[AXIS_PIPELINE], COLLECTIVE_ALL_REDUCE, 1, SUM_OF_SQUARES);
    expect_traffic(mesh.group[AXIS_PIPELINE], COLLECTIVE_BROADCAST, 1, LOSS);
    EXPECT_INT(group_traffic(mesh.replicas, COLLECTIVE_ALL_REDUCE).bytes, 4 * step_params(step)->total + LOSS);
    EXPECT_INT(group_traffic(mesh.group[AXIS_CONTEXT], COLLECTIVE_ALL_GATHER).count, 0);
    EXPECT(step_memory(step)->total > step_memory(step)->weights);
    batch_free(&zeros);
    step_close(step);
    world_close(world);
    device_close(device);
    config_free(&config);
}

TEST_MAIN(TEST_CASE(a_rank_of_many))
