// A forward beside a backward, on paper: rows of one go to experts of other ranks while the other computes. The order
// of calls shows it: operations are queued between the start of an exchange and the wait for it. Passes that go alone
// have none there, and all passes together do the same operations with and without pairs.
#include "base/process.h"
#include "comm/backend.h"
#include "ops/device.h"
#include "ranks_step.h"

enum { EXPERT_LAYERS = 2, RANKS = 2, M = 4 };

#define MODEL                                                                                                          \
    "--num-layers 3 --hidden-size 24 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "            \
    "--vocab-size 97 --make-vocab-size-divisible-by 1 --micro-batch-size 2 --global-batch-size 16 --threads 1 "        \
    "--num-experts 4 --moe-layer-freq [0]+[1]*2 --moe-ffn-hidden-size 20 --expert-model-parallel-size 2 "
#define OVERLAP "--overlap-moe-expert-parallel-comm "

// A rank's reported activity while it waits for an exchange.
enum { FORWARD, BACKWARD, FORWARD_BESIDE, BACKWARD_BESIDE, PHASES };
static const char *const phases[PHASES] = {"forward", "backward", "forward beside backward", "backward beside forward"};

// State for the functions below; a test has one device at a time.
static struct {
    const struct ops *ops;
    const struct collective *collective;
    struct ops table;
    struct collective exchanges;
    int64_t operations, exchanged, covered, under_way, most_under_way;
    int64_t waits[PHASES];  // in each phase
} seen;

#define X(name_)                                                                                                       \
    static void see_##name_(struct device *device, const struct op_##name_ *op) {                                      \
        seen.operations++;                                                                                             \
        seen.ops->name_(device, op);                                                                                   \
    }
OPERATIONS(X)
#undef X

// A handle that remembers how many operations came before it.
static void *see_start(struct group *group, const struct comm_exchange *exchange) {
    (void)group;
    if (exchange->to.shape[1] == 1)  // weights of rows, not rows
        return NULL;
    int64_t *before = memory_alloc(sizeof *before);
    *before = seen.operations;
    seen.exchanged++;
    seen.under_way++;
    seen.most_under_way = seen.under_way > seen.most_under_way ? seen.under_way : seen.most_under_way;
    return before;
}

static bool see_wait(struct group *group, void *handle) {
    (void)group;
    const int64_t *before = handle;
    seen.covered += seen.operations > *before;
    for (int i = 0; i < PHASES; i++)
        seen.waits[i] += strcmp(run_position_phase(), phases[i]) == 0;
    seen.under_way--;
    free(handle);
    return true;
}

static int next_zeros(void *context, struct batch *batch) {
    *batch = *(const struct batch *)context;
    return 0;
}

// One step of the first of two ranks; its memory.
static struct step_memory run_step(const char *flags) {
    struct config config;
    struct mesh place, mesh;
    struct world *world;
    struct device *device;
    struct step *step;
    struct batch zeros;
    rank_step_parse(&config, flags, RANKS);
    EXPECT_OK(device_open_twin(&device, NULL));
    EXPECT_OK(mesh_place_config(&place, 0, RANKS, &config));
    EXPECT_OK(mesh_open_twin(&mesh, &world, &place, device));
    EXPECT_OK(setup_step(&step, &(struct setup){&config, device, &mesh, STEP_TRAIN}));
    struct batch_form form = {.B = 2, .T = 16, .fields = BATCH_TEXT};
    batch_allocate(&zeros, &form, form.B);
    memset(&seen, 0, sizeof seen);
    seen.ops = device->ops;
    seen.table = *device->ops;
    seen.collective = world->collective;
    seen.exchanges = *world->collective;
#define X(name_) seen.table.name_ = see_##name_;
    OPERATIONS(X)
#undef X
    seen.exchanges.all_to_all = see_start;
    seen.exchanges.test = see_wait;
    device->ops = &seen.table;
    world->collective = &seen.exchanges;
    EXPECT_OK(step_train(step, &(struct step_source){next_zeros, &zeros, M}, 1e-4, 0.1));
    device->ops = seen.ops;
    world->collective = seen.collective;
    struct step_memory memory = *step_memory(step);
    batch_free(&zeros);
    step_close(step);
    world_close(world);
    device_close(device);
    config_free(&config);
    return memory;
}

// To experts and back, forward and backward.
enum { ROWS_OF_PASSES = 4 * EXPERT_LAYERS };

TEST(exchanges_of_a_pass_alone_are_waited_for_at_once) {
    (void)run_step(MODEL);
    EXPECT_INT(seen.exchanged, M * ROWS_OF_PASSES);
    EXPECT_INT(seen.covered, 0);
}

TEST(exchanges_of_a_pair_are_under_way_while_the_other_pass_computes) {
    struct step_memory alone = run_step(MODEL);
    int64_t operations = seen.operations;
    struct step_memory paired = run_step(MODEL OVERLAP);
    EXPECT_INT(seen.operations, operations);
    EXPECT_INT(seen.exchanged, M * ROWS_OF_PASSES);
    EXPECT_INT(seen.covered, (M - 1) * ROWS_OF_PASSES);
    EXPECT_INT(seen.under_way, 0);
    // One of each pass.
    EXPECT_INT(seen.most_under_way, 2);
    // Activations of two micro-batches instead of one, and scratch for both passes.
    EXPECT_INT(paired.activations, 2 * alone.activations);
    EXPECT(paired.beside > 0 && paired.scratch - paired.beside <= alone.scratch && paired.scratch > alone.scratch);
    EXPECT_INT(paired.total - alone.total - (paired.buffers - alone.buffers),
               paired.activations - alone.activations + paired.scratch - alone.scratch);
}

// Shared experts, which a pass alone computes meanwhile, change nothing of it.
TEST(shared_experts_go_on_beside_them) {
    (void)run_step(MODEL "--disable-bias-linear --moe-shared-expert-intermediate-size 12 ");
    EXPECT_INT(seen.covered, M * EXPERT_LAYERS);
    int64_t operations = seen.operations;
    (void)run_step(MODEL OVERLAP "--disable-bias-linear --moe-shared-expert-intermediate-size 12 ");
    EXPECT_INT(seen.operations, operations);
    EXPECT_INT(seen.covered, (M - 1) * ROWS_OF_PASSES + EXPERT_LAYERS);
}

// A rank that hangs names the pass that waits.
TEST(waits_are_those_of_their_pass) {
    (void)run_step(MODEL);
    EXPECT_INT(seen.waits[FORWARD], M * ROWS_OF_PASSES / 2);
    EXPECT_INT(seen.waits[BACKWARD], M * ROWS_OF_PASSES / 2);
    (void)run_step(MODEL OVERLAP);
    EXPECT_INT(seen.waits[FORWARD], ROWS_OF_PASSES / 2);
    EXPECT_INT(seen.waits[BACKWARD], ROWS_OF_PASSES / 2);
    EXPECT_INT(seen.waits[FORWARD_BESIDE], (M - 1) * ROWS_OF_PASSES / 2);
    EXPECT_INT(seen.waits[BACKWARD_BESIDE], (M - 1) * ROWS_OF_PASSES / 2);
}

TEST_MAIN(TEST_CASE(exchanges_of_a_pass_alone_are_waited_for_at_once),
          TEST_CASE(exchanges_of_a_pair_are_under_way_while_the_other_pass_computes),
          TEST_CASE(shared_experts_go_on_beside_them), TEST_CASE(waits_are_those_of_their_pass))
