// Ranks that hold slices of Muon's matrices, or the same matrices, share out their orthogonalization. On paper, where
// the FLOPs of every rank are counted: those of all ranks together are those of one rank alone, and each has its share.
#include "ranks_step.h"

#include <math.h>

static int next_zeros(void *context, struct batch *batch) {
    *batch = *(const struct batch *)context;
    return 0;
}

struct paper_rank {
    double flops;           // of a step
    struct traffic copies;  // broadcasts among replicas
};

#define WIDTH 512
#define TEXT(number) #number
#define NUMBER(number) TEXT(number)

// A step of one rank, with or without an optimizer that makes matrices orthogonal. Dropout is off.
static struct paper_rank run_paper(const char *flags, int rank, int size) {
    struct config config;
    struct mesh place, mesh;
    struct world *world;
    struct device *device;
    struct step *step;
    char *all = memory_printf("--num-layers 12 --hidden-size " NUMBER(
                                  WIDTH) " --num-attention-heads 16 --seq-length 64 "
                                         "--max-position-embeddings 64 --vocab-size 1000 --bf16 --micro-batch-size 1 "
                                         "--global-batch-size 16 --disable-bias-linear %s",
                              flags);
    rank_step_parse(&config, all, size);
    EXPECT_OK(device_open_twin(&device, NULL));
    EXPECT_OK(mesh_place_config(&place, rank, size, &config));
    EXPECT_OK(mesh_open_twin(&mesh, &world, &place, device));
    EXPECT_OK(setup_step(&step, &(struct setup){&config, device, &mesh, STEP_TRAIN}));
    struct batch_form form = {.B = 1, .T = 64, .fields = BATCH_TEXT};
    struct batch zeros;
    batch_allocate(&zeros, &form, 1);
    int64_t micro_batches = 16 / mesh_count(&mesh, MESH_SAMPLES);
    EXPECT_OK(step_train(step, &(struct step_source){next_zeros, &zeros, micro_batches}, 1e-4, 0.1));
    struct paper_rank found = {.flops = device_totals(device).matmul_flops,
                               .copies = group_traffic(mesh.replicas, COLLECTIVE_BROADCAST)};
    batch_free(&zeros);
    step_close(step);
    world_close(world);
    device_close(device);
    config_free(&config);
    free(all);
    return found;
}

// FLOPs that the optimizer adds to the step of a rank.
static double muon_flops(const char *flags, int rank, int size) {
    char *muon = memory_printf("--optimizer muon %s", flags);
    double flops = run_paper(muon, rank, size).flops - run_paper(flags, rank, size).flops;
    free(muon);
    return flops;
}

// Ranks [0, count) are those that share out matrices. The limit is of a rank's part, as many times its share.
static void expect_shared(const char *flags, int size, int count, double limit) {
    double alone = muon_flops("", 0, 1), sum = 0, most = 0;
    for (int rank = 0; rank < count; rank++) {
        double own = muon_flops(flags, rank, size);
        sum += own;
        most = fmax(most, own);
    }
    EXPECT(alone > 0);
    EXPECT_NEAR(sum, alone, 1e-9 * alone);
    EXPECT(most <= limit * alone / count);
}

TEST(tensor_parallel_ranks) {
    expect_shared("--tensor-model-parallel-size 2", 2, 2, 1.01);
    expect_shared("--tensor-model-parallel-size 8 --sequence-parallel", 8, 8, 1.1);
}

TEST(replicas) {
    expect_shared("", 2, 2, 1.01);
    expect_shared("", 8, 8, 1.1);
    expect_shared("--tensor-model-parallel-size 4", 8, 8, 1.1);
    expect_shared("--context-parallel-size 2", 4, 4, 1.05);
}

// States in host memory visit the device once, so each replica does all of the work.
TEST(replicas_with_states_in_host_memory) {
    expect_shared("--optimizer-cpu-offload --tensor-model-parallel-size 2", 4, 2, 1.05);
}

// Every result travels once, in 2 bytes, or with NorMuon in 4 beside its second moment: 12 layers of 12 C^2.
TEST(messages_of_replicas) {
    double elements = 12.0 * 12 * WIDTH * WIDTH;
    struct paper_rank two = run_paper("--optimizer muon", 1, 2),
                      slices = run_paper("--optimizer muon --tensor-model-parallel-size 2", 1, 4);
    EXPECT_NEAR((double)two.copies.bytes, 2 * elements, 1);
    EXPECT_NEAR((double)slices.copies.bytes, elements, 1);
    // Queries, keys and values travel together, beside their projection and two matrices of the MLP.
    EXPECT_INT(two.copies.count, 12 * 4);
    EXPECT_INT(slices.copies.count, 12 * 4);
    struct paper_rank rows = run_paper("--optimizer adaptive_muon --adaptive-muon-moment2-method normuon", 0, 2);
    EXPECT_NEAR((double)rows.copies.bytes, 8 * elements, 1);
    EXPECT_INT(run_paper("--optimizer muon --use-distributed-optimizer", 0, 2).copies.count, 0);
}

TEST(both_axes) {
    expect_shared("--tensor-model-parallel-size 4 --use-distributed-optimizer", 8, 8, 1.2);
    expect_shared("--tensor-model-parallel-size 2 --use-distributed-optimizer --overlap-param-gather "
                  "--overlap-grad-reduce --ddp-bucket-size 100000",
                  4, 4, 1.2);
}

TEST_MAIN(TEST_CASE(tensor_parallel_ranks), TEST_CASE(replicas), TEST_CASE(replicas_with_states_in_host_memory),
          TEST_CASE(messages_of_replicas), TEST_CASE(both_axes))
