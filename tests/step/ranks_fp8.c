// fp8 matmuls on several ranks: loss and gradient of every step equal those of one rank, for any layout, with the
// delayed recipe and with the one that measures each tensor. In a pipeline several micro-batches are in flight, and
// each must be read with the range it was stored with. After a step all ranks have the same ranges, even if nothing
// finite was seen. Run under mpirun.
// tier: all
// ranks: 4
// cost: 20
#include "base/memory.h"
#include "base/rng.h"
#include "plan/setup.h"
#include "step/internal.h"
#include "test.h"
#include "words.h"

#include <math.h>

#define MODEL                                                                                                          \
    "train --mock-data --lr 1e-3 --train-iters 10 --tokenizer-type NullTokenizer --num-layers 4 --hidden-size 64 "     \
    "--num-attention-heads 4 --seq-length 32 --micro-batch-size 1 --global-batch-size 8 --vocab-size 96 --bf16 "       \
    "--make-vocab-size-divisible-by 16 --hidden-dropout 0 --attention-dropout 0 --fp8-format hybrid "

enum { STEPS = 4, T = 32, V = 96, MICRO_BATCHES = 8 };

static struct device *device;
static struct world *alone, *together;

struct fp8_run {
    struct config config;
    struct mesh mesh;
    int64_t next;  // micro-batches of this rank so far
    int32_t tokens[T], labels[T];
    float mask[T];
    int64_t sample;
};

// Micro-batches differ much: each has its own few tokens, so their ranges differ too.
static int next_input(void *context, struct batch *input) {
    struct fp8_run *run = context;
    run->sample = run->next++ * run->mesh.length[AXIS_DATA] + run->mesh.place[AXIS_DATA];
    uint32_t kinds = 1 + (uint32_t)(run->sample % MICRO_BATCHES);
    for (int t = 0; t < T; t++) {
        struct philox random = philox4x32(1, (uint32_t)t, (uint32_t)run->sample, 0, 0);
        run->tokens[t] = (int32_t)(random.word[0] % kinds * 11 + (uint32_t)run->sample) % V;
        run->labels[t] = (int32_t)(random.word[1] % V);
        run->mask[t] = 1;
    }
    *input = (struct batch){
        .B = 1, .T = T, .tokens = run->tokens, .labels = run->labels, .loss_mask = run->mask, .samples = &run->sample};
    return 0;
}

static void parse(struct config *config, const char *flags, int ranks) {
    char *line = memory_printf("%s%s", MODEL, flags);
    struct string_list words = {0};
    split_words(&words, line);
    EXPECT_OK(config_parse(config, (int)words.count, words.items));
    EXPECT_OK(config_validate_for(config, ranks, CONFIG_TRAIN));
    EXPECT_OK(config_pad_vocab(config, config->data.vocab_size));
    string_list_free(&words);
    free(line);
}

static struct step *open_step(struct fp8_run *run, struct world *world, const char *flags) {
    struct step *step = NULL;
    struct world_place place = world_place(world);
    *run = (struct fp8_run){0};
    parse(&run->config, flags, place.size);
    EXPECT_OK(mesh_place_config(&run->mesh, place.rank, place.size, &run->config));
    EXPECT_OK(mesh_connect(&run->mesh, world));
    EXPECT_OK(setup_step(&step, &(struct setup){&run->config, device, &run->mesh, STEP_TRAIN}));
    step_initialize(step);
    return step;
}

static void train(struct world *world, const char *flags, struct step_result results[STEPS]) {
    struct fp8_run run;
    struct step *step = open_step(&run, world, flags);
    struct step_source source = {
        .next = next_input, .context = &run, .count = MICRO_BATCHES / run.mesh.length[AXIS_DATA]};
    for (int i = 0; i < STEPS; i++) {
        EXPECT_OK(step_train(step, &source, 1e-3, 0.01));
        results[i] = step_result(step);
    }
    step_close(step);
    config_free(&run.config);
}

// fp8 rounds coarsely: if sums have another order, as with tensor parallelism, a norm is off by some parts in a
// thousand. All others have the sums of one rank; there it would be off as much if micro-batches used each other's
// ranges.
struct fp8_layout {
    const char *flags;
    double norm;  // bound on its difference
};
static const struct fp8_layout layouts[] = {
    {"--pipeline-model-parallel-size 4", 1e-4},
    {"--pipeline-model-parallel-size 4 --recompute-granularity full", 1e-4},
    {"--pipeline-model-parallel-size 4 --pipeline-schedule zero-bubble", 1e-4},
    {"--pipeline-model-parallel-size 4 --pipeline-schedule zero-bubble --recompute-granularity full", 1e-4},
    {"--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --pipeline-schedule zero-bubble", 1e-2},
    {"--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel --pipeline-schedule "
     "zero-bubble",
     1e-2},
    {"--pipeline-model-parallel-size 2", 1e-4},
    {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --use-distributed-optimizer", 1e-4},
    {"--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2", 1e-2},
    {"--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel", 1e-2},
    {"", 1e-4},
};

static void compare_with(const char *recipe, const struct fp8_layout *layout, int count, int step) {
    struct step_result want[STEPS], got[STEPS];
    train(alone, recipe, want);
    for (int i = count - 1; i >= 0; i -= step) {
        char *flags = memory_printf("%s %s", recipe, layout[i].flags);
        train(together, flags, got);
        double loss = 0, norm = fabs(got[0].grad_norm - want[0].grad_norm) / want[0].grad_norm;
        for (int k = 0; k < STEPS; k++)
            loss = fmax(loss, fabs(got[k].loss - want[k].loss) / want[k].loss);
        if (world_place(together).rank == 0)
            printf("    loss within %.1e, norm of the first gradient within %.1e:%s\n", loss, norm, flags);
        EXPECT(loss <= 1e-3 && norm <= layout[i].norm);
        free(flags);
    }
}

// Every `step`th layout from the last one back.
static void compare(const char *recipe, int step) {
    compare_with(recipe, layouts, sizeof layouts / sizeof layouts[0], step);
}

TEST(delayed_ranges) {
    compare("", 1);
}

TEST(measured_ranges) {
    compare("--fp8-recipe tensorwise", 1);
}

TEST(blocks) {
    compare("--fp8-recipe mxfp8", 3);
}

TEST(the_output_layer_too) {
    compare("--fp8-output-proj", 5);
    compare("--fp8-output-proj --fp8-recipe tensorwise --untie-embeddings-and-output-weights", 5);
}

// The first and the last two of four layers stay in bf16: some stages have no layer in fp8.
TEST(layers_in_bf16) {
    compare("--first-last-layers-bf16 --num-layers-at-end-in-bf16 2", 3);
    compare("--fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 2", 5);
}

// Experts that ranks share out or split. Where rows of several micro-batches meet, a range that is measured is theirs
// together, in the first step with the delayed recipe too.
TEST(experts) {
    static const struct fp8_layout of_experts[] = {
        {"--pipeline-model-parallel-size 2 --expert-model-parallel-size 2 --pipeline-schedule zero-bubble", 1e-2},
        {"--tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1 "
         "--expert-model-parallel-size 2",
         1e-2},
        {"--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2", 1e-2},
        {"--expert-model-parallel-size 4 --use-distributed-optimizer", 1e-2},
        {"--pipeline-model-parallel-size 4 --pipeline-schedule zero-bubble --recompute-granularity full", 1e-4},
        {"", 1e-4},
    };
    enum { COUNT = sizeof of_experts / sizeof of_experts[0] };
    const char *mixture = "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 32 --moe-aux-loss-coeff 1e-2 "
                          "--swiglu --disable-bias-linear --num-layers 4";
    compare_with(mixture, of_experts, COUNT, 1);
    char *measured = memory_printf("%s --fp8-recipe tensorwise", mixture);
    compare_with(measured, of_experts, COUNT, 2);
    free(measured);
}

// By blocks, those of the transposes go along the rows of an expert, and which rows it has in a micro-batch depends on
// how ranks share them out: the loss of the first step is that of one rank, the gradient nearly.
TEST(expert_blocks) {
    static const struct fp8_layout of_experts[] = {
        {"--pipeline-model-parallel-size 2 --expert-model-parallel-size 2 --pipeline-schedule zero-bubble", 1e-2},
        {"--tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1 "
         "--expert-model-parallel-size 2",
         1e-2},
        {"--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 --pipeline-schedule "
         "zero-bubble --recompute-granularity full",
         1e-2},
        {"--expert-model-parallel-size 4 --use-distributed-optimizer", 1e-2},
        {"--expert-model-parallel-size 2 --moe-expert-capacity-factor 2 --moe-pad-expert-input-to-capacity", 1e-2},
    };
    enum { COUNT = sizeof of_experts / sizeof of_experts[0] };
    const char *mixture = "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 64 --moe-aux-loss-coeff 1e-2 "
                          "--swiglu --disable-bias-linear --num-layers 4 --fp8-recipe mxfp8";
    compare_with(mixture, of_experts, COUNT - 1, 1);
    char *padded = memory_printf("%s --moe-expert-capacity-factor 2 --moe-pad-expert-input-to-capacity", mixture);
    compare_with(padded, of_experts + COUNT - 1, 1, 1);
    free(padded);
}

// One head of keys and values on two tensor-parallel ranks.
TEST(shared_keys) {
    static const struct fp8_layout sharing[] = {{"--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 "
                                                 "--sequence-parallel --pipeline-schedule zero-bubble",
                                                 1e-2}};
    compare_with("--group-query-attention --num-query-groups 1 --qk-layernorm", sharing, 1, 1);
}

// Latents are whole on every rank, and with sequence parallelism of some rows; heads are split.
TEST(latents) {
    static const struct fp8_layout of_latents[] = {
        {"--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel --pipeline-schedule "
         "zero-bubble --recompute-granularity selective --recompute-modules mla_up_proj",
         1e-2},
        {"--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer", 1e-2},
        {"--tensor-model-parallel-size 4", 1e-2},
        {"--context-parallel-size 2 --tensor-model-parallel-size 2", 1e-2},
        {"--pipeline-model-parallel-size 4 --recompute-granularity full", 1e-4},
        {"--pipeline-model-parallel-size 4 --pipeline-schedule zero-bubble", 1e-4},
    };
    enum { COUNT = sizeof of_latents / sizeof of_latents[0] };
    const char *model = "--multi-latent-attention --kv-lora-rank 32 --qk-head-dim 32 --qk-pos-emb-head-dim 32 "
                        "--v-head-dim 32 --position-embedding-type rope --normalization RMSNorm --swiglu "
                        "--disable-bias-linear --ffn-hidden-size 128 --qk-layernorm";
    char *delayed = memory_printf("%s --q-lora-rank 64", model);
    char *measured = memory_printf("%s --fp8-recipe tensorwise", model);
    char *blocks = memory_printf("%s --fp8-recipe mxfp8", delayed);
    compare_with(delayed, of_latents, COUNT, 1);
    compare_with(measured, of_latents, COUNT, 2);
    compare_with(blocks, of_latents + 2, 1, 1);
    free(blocks);
    free(measured);
    free(delayed);
}

// Each rank has measured its own scale, and then an infinity was seen.
TEST(a_range_that_is_not_moved_is_the_same_on_all_ranks) {
    struct fp8_run run;
    struct step *step = open_step(&run, together, "");
    struct fp8 *fp8 = &step->chunks[0].model.fp8;
    for (int i = 0; i < fp8->count * FP8_ROLES; i++) {
        float *range = (float *)fp8->ranges.data + i * RANGE_LENGTH;
        range[RANGE_SCALE] = ldexpf(1, run.mesh.rank);
        range[RANGE_FACTOR] = ldexpf(1, -run.mesh.rank);
        range[RANGE_SEEN] = INFINITY;
    }
    fp8_end_step(fp8, device, &run.mesh);
    float largest = ldexpf(1, run.mesh.size - 1);
    for (int i = 0; i < fp8->count * FP8_ROLES; i++) {
        const float *range = (const float *)fp8->ranges.data + i * RANGE_LENGTH;
        EXPECT(range[RANGE_SCALE] == largest && range[RANGE_FACTOR] == 1 / largest && range[RANGE_SEEN] == 0);
    }
    step_close(step);
    config_free(&run.config);
}

// Whichever rank it is on: as on one rank the scale stays, and is not that of some of the others.
TEST(a_nan_on_one_rank_is_known_to_all) {
    struct fp8_run run;
    struct step *step = open_step(&run, together, "");
    struct fp8 *fp8 = &step->chunks[0].model.fp8;
    for (int who = 0; who < run.mesh.size; who++) {
        float numbers[4 * 16] = {0};
        numbers[5] = run.mesh.rank == who ? NAN : (float)(1 + run.mesh.rank);
        op_quantize(device, &(struct op_quantize){.y = {.range = fp8_range(fp8, 0, FP8_INPUT)},
                                                  .x = tensor_2d(numbers, DTYPE_F32, 4, 16)});
        fp8_end_step(fp8, device, &run.mesh);
        const float *range = fp8_range(fp8, 0, FP8_INPUT).data;
        EXPECT(range[RANGE_SCALE] == 1 && range[RANGE_FACTOR] == 1 && range[RANGE_SEEN] == 0);
    }
    step_close(step);
    config_free(&run.config);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(delayed_ranges),
                                      TEST_CASE(measured_ranges),
                                      TEST_CASE(blocks),
                                      TEST_CASE(the_output_layer_too),
                                      TEST_CASE(layers_in_bf16),
                                      TEST_CASE(experts),
                                      TEST_CASE(expert_blocks),
                                      TEST_CASE(shared_keys),
                                      TEST_CASE(latents),
                                      TEST_CASE(a_range_that_is_not_moved_is_the_same_on_all_ranks),
                                      TEST_CASE(a_nan_on_one_rank_is_known_to_all)};
    struct world_place place;
    if (world_start("mpi", &place) < 0 ||
        device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) < 0 ||
        world_open(&together, &(struct world_options){.backend = "mpi", .deadline_seconds = 300}, device) < 0 ||
        world_open(&alone, &(struct world_options){.backend = "self"}, device) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    world_close(alone);
    world_close(together);
    device_close(device);
    return status;
}
