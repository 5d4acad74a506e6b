// The options of a step, from the flags.
#include "base/capture.h"
#include "step/ranks_step.h"

static struct config config;

static struct step_options options_of(const char *flags, int ranks, enum step_mode mode) {
    struct mesh mesh;
    rank_step_parse(&config, flags, ranks);
    EXPECT_OK(mesh_place_config(&mesh, 0, ranks, &config));
    return setup_options(&(struct setup){&config, NULL, &mesh, mode});
}

#define MODEL "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 96 "
#define SIZES MODEL "--max-position-embeddings 40 --micro-batch-size 2 --global-batch-size 16 "

TEST(micro_batches) {
    struct step_options options = options_of(SIZES "--bf16 --seed 7", 2, STEP_TRAIN);
    EXPECT(options.dtype == DTYPE_BF16 && options.seed == 7 && options.records && !options.grows);
    EXPECT_INT(options.schedule.micro_batches, 4);  // 16 samples, 2 ranks, 2 at once
    EXPECT(options.largest.B == 2 && options.largest.T == 32 && options.largest.S == 0);
    EXPECT(options.largest.fields & BATCH_BIT(LABELS) && !(options.largest.fields & BATCH_BIT(LENGTHS)));
    config_free(&config);
    options = options_of(SIZES "--model t5 --decoder-seq-length 16 --fp16", 1, STEP_EVALUATE);
    EXPECT(options.dtype == DTYPE_F16 && options.largest.T == 32 && options.largest.S == 16);
    EXPECT(options.largest.fields & BATCH_BIT(DECODER_TOKENS) && options.largest.fields & BATCH_BIT(LENGTHS));
    EXPECT_INT(options.schedule.micro_batches, 1);
    config_free(&config);
    options = options_of(SIZES, 1, STEP_GENERATE);
    EXPECT(options.largest.B == 1 && options.largest.T == 40 && !(options.largest.fields & BATCH_BIT(LABELS)));
    config_free(&config);
}

TEST(schedules) {
    struct step_options options = options_of(SIZES "--pipeline-schedule zero-bubble", 1, STEP_TRAIN);
    EXPECT(options.schedule.kind == SCHEDULE_1F1B && options.schedule.stages == 1 && !options.schedule.has_ranges);
    EXPECT(options.decoder_chunk == INT64_MAX);
    config_free(&config);
    options = options_of(SIZES "--pipeline-model-parallel-size 2 --pipeline-schedule zero-bubble --bf16 "
                               "--fp8-format hybrid",
                         2, STEP_TRAIN);
    EXPECT(options.schedule.kind == SCHEDULE_ZERO_BUBBLE && options.schedule.stages == 2);
    EXPECT(options.schedule.has_ranges);
    config_free(&config);
    options =
        options_of(SIZES "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2", 2, STEP_TRAIN);
    EXPECT(options.schedule.kind == SCHEDULE_INTERLEAVED && options.schedule.chunks == 2);
    config_free(&config);
    options = options_of(SIZES "--model t5 --decoder-seq-length 16 --pipeline-model-parallel-size 2", 2, STEP_TRAIN);
    EXPECT_INT(options.decoder_chunk, 1);
    config_free(&config);
}

TEST(exchange_among_ranks) {
    struct step_options options =
        options_of(SIZES "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --bf16 "
                         "--grad-reduce-in-bf16 --ddp-bucket-size 1000 --recompute-granularity selective",
                   2, STEP_TRAIN);
    EXPECT(options.divides_optimizer && options.overlaps_reduction && options.overlaps_gather && options.rounds_sums);
    EXPECT(options.bucket_elements == 1000 && options.recomputes && !options.splits_rows);
    config_free(&config);
    options = options_of(SIZES "--tensor-model-parallel-size 2 --sequence-parallel --no-cuda-graph", 2, STEP_TRAIN);
    EXPECT(options.splits_rows && !options.records && !options.divides_optimizer);
    config_free(&config);
}

static const char *vocabulary;

static void log_step(void) {
    struct device *paper;
    struct mesh mesh, twin;
    struct world *world;
    struct step *step;
    char flags[512];
    snprintf(flags, sizeof flags,
             "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 "
             "--make-vocab-size-divisible-by 1 --micro-batch-size 1 --global-batch-size 1 %s",
             vocabulary);
    rank_step_parse(&config, flags, 1);
    EXPECT_OK(mesh_place_config(&mesh, 0, 1, &config));
    EXPECT_OK(device_open_twin(&paper, NULL));
    EXPECT_OK(mesh_open_twin(&twin, &world, &mesh, paper));
    EXPECT_OK(setup_step(&step, &(struct setup){&config, paper, &twin, STEP_TRAIN}));
    setup_log(step, &config);
}

// GPUs are slow at matmuls whose rows are not aligned; those in fp32 do not mind.
TEST(a_vocabulary_that_is_not_aligned) {
    static const struct {
        const char *flags;
        bool warns, has_extra;
    } cases[] = {{"--vocab-size 97 --bf16", true, false},
                 {"--vocab-size 96 --bf16", false, false},
                 {"--vocab-size 97", false, false},
                 {"--vocab-size 96 --padded-vocab-size 97 --bf16 --tokenizer-type NullTokenizer", true, true},
                 {"--vocab-size 97 --bf16 --tokenizer-type NullTokenizer --null-tokenizer-eod-id 3", true, false}};
    static struct capture said;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vocabulary = cases[i].flags;
        capture_run(&said, log_step);
        EXPECT_INT(said.status, 0);
        EXPECT((strstr(said.text, "97 rows of the vocabulary, not a multiple of 8") != NULL) == cases[i].warns);
        EXPECT((strstr(said.text, "or --null-tokenizer-eod-id 95: without it NullTokenizer adds") != NULL) ==
               cases[i].has_extra);
    }
}

// GPUs have limits that CPUs do not have; a twin has those of the device that it stands for, or a GPU's.
TEST(more_than_gpus_take) {
    static const struct {
        const char *flags;
        const char *refusal;
    } cases[] = {
        {"--hidden-size 16 --num-attention-heads 2 --seq-length 1 --micro-batch-size 65535", NULL},
        {"--hidden-size 16 --num-attention-heads 2 --seq-length 1 --micro-batch-size 65536",
         "--micro-batch-size 65536 is above 65535"},
        // 2^31 elements of attention and more have no limit.
        {"--hidden-size 4096 --num-attention-heads 32 --seq-length 524288 --micro-batch-size 1", NULL},
        {"--hidden-size 8192 --num-attention-heads 64 --seq-length 524288 --micro-batch-size 1 "
         "--group-query-attention --num-query-groups 2",
         NULL},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    for (int i = 0; i < 2 * CASES; i++) {
        struct device *paper, *cpu = NULL;
        struct mesh mesh, twin;
        struct world *world;
        struct step *step;
        char flags[512];
        const char *refusal = i < CASES ? cases[i].refusal : NULL;
        snprintf(flags, sizeof flags, "--num-layers 1 --max-position-embeddings 524288 --vocab-size 96 %s",
                 cases[i % CASES].flags);
        rank_step_parse(&config, flags, 1);
        EXPECT_OK(mesh_place_config(&mesh, 0, 1, &config));
        if (i >= CASES)
            EXPECT_OK(device_open(&cpu, &(struct device_options){.name = "cpu", .threads = 1}));
        EXPECT_OK(device_open_twin(&paper, cpu));
        EXPECT_OK(mesh_open_twin(&twin, &world, &mesh, paper));
        int status = setup_step(&step, &(struct setup){&config, paper, &twin, STEP_TRAIN});
        EXPECT_INT(status, refusal ? -1 : 0);
        EXPECT(!refusal || strstr(error_message(), refusal));
        step_close(step);
        world_close(world);
        device_close(paper);
        device_close(cpu);
        config_free(&config);
    }
}

TEST_MAIN(TEST_CASE(more_than_gpus_take), TEST_CASE(a_vocabulary_that_is_not_aligned), TEST_CASE(micro_batches),
          TEST_CASE(schedules), TEST_CASE(exchange_among_ranks))
