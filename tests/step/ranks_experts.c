// A step counts the tokens of each expert of each layer, of all micro-batches and all ranks, however ranks share the
// model and with recompute, and moves the bias of routers by these counts. The model adds nothing to its residual
// stream, so every router sees the norm of the token's embedding, and a plain loop knows what it chooses. Run under
// mpirun.
// tier: all
#include "ranks_step.h"

#include <math.h>

static struct ranks ranks;

enum { C = 24, E = 6, K = 2, V = 97, T = 16, B = 2, SAMPLES = 8 };

#define MODEL                                                                                                          \
    "--model llama --num-layers 4 --hidden-size 24 --num-attention-heads 4 --seq-length 16 "                           \
    "--max-position-embeddings 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --micro-batch-size 2 "              \
    "--global-batch-size 8 --num-experts 6 --moe-layer-freq [1,0,1,1] --moe-ffn-hidden-size 20 --threads 1 "           \
    "--moe-aux-loss-coeff 1e-2 --init-method-std 0.2 --moe-router-score-function sigmoid "                             \
    "--moe-router-enable-expert-bias --moe-router-bias-update-rate 0.0625 "

static const int expert_layers[] = {0, 2, 3};
enum { EXPERT_LAYERS = 3 };

struct counted_layout {
    const char *flags;
    int ranks;  // 0: any number
};

static int32_t token_of(int64_t sample, int64_t position) {
    return (int32_t)(philox4x32(1, (uint32_t)sample, (uint32_t)position, 0, 0).word[0] % V);
}

// The samples of a micro-batch are those of all data-parallel ranks, one rank after the other.
struct counted_step {
    struct config config;
    struct step *step;
    const struct mesh *mesh;
    int32_t tokens[B * T];
    float mask[B * T];
    int64_t samples[B], micro_batch;
};

static int next_batch(void *context, struct batch *batch) {
    struct counted_step *own = context;
    int64_t first = (own->micro_batch++ * mesh_count(own->mesh, MESH_SAMPLES) +
                     mesh_index(own->mesh, own->mesh->place, MESH_SAMPLES)) *
                    B;
    for (int64_t n = 0; n < (int64_t)B * T; n++) {
        own->tokens[n] = token_of(first + n / T, n % T);
        own->mask[n] = 1;
    }
    for (int64_t b = 0; b < B; b++)
        own->samples[b] = first + b;
    *batch = (struct batch){
        .B = B, .T = T, .tokens = own->tokens, .labels = own->tokens, .loss_mask = own->mask, .samples = own->samples};
    return 0;
}

static bool adds_to_stream(const char *name) {
    return strstr(name, "linear_proj.weight") || strstr(name, "linear_fc2.weight");
}

// The configuration is parsed.
static void open_counted(struct counted_step *own, const struct mesh *mesh, struct device *device) {
    own->mesh = mesh;
    EXPECT_OK(setup_step(&own->step, &(struct setup){&own->config, device, mesh, STEP_TRAIN}));
    step_initialize(own->step);
    for (int i = 0; i < step_params(own->step)->count; i++) {
        const struct param *param = step_params(own->step)->items[i];
        if (adds_to_stream(param->name))
            memset(param->value.data, 0, tensor_bytes(param->value));
    }
}

static struct step_result train(struct counted_step *own) {
    struct step_source source = {next_batch, own, SAMPLES / B / mesh_count(own->mesh, MESH_SAMPLES)};
    EXPECT_OK(step_train(own->step, &source, 0, 0));
    return step_result(own->step);
}

// Inputs of the plain loop over routers: the weights of one rank, the bias, and the tokens of a step.
struct plain_routers {
    float *table, *routers[EXPERT_LAYERS];  // (V, C), (E, C)
    double bias[EXPERT_LAYERS][E], counts[EXPERT_LAYERS][E];
};

static float *copy_weight(const struct step *alone, const char *name) {
    struct tensor value = param_find(step_params(alone), name)->value;
    float *copy = memory_alloc(tensor_bytes(value));
    memcpy(copy, value.data, tensor_bytes(value));
    return copy;
}

static void open_plain(struct plain_routers *plain, const struct step *alone) {
    plain->table = copy_weight(alone, "embedding.word_embeddings.weight");
    for (int l = 0; l < EXPERT_LAYERS; l++) {
        char *name = memory_printf("decoder.layers.%d.mlp.router.weight", expert_layers[l]);
        plain->routers[l] = copy_weight(alone, name);
        free(name);
    }
}

static void close_plain(struct plain_routers *plain) {
    free(plain->table);
    for (int l = 0; l < EXPERT_LAYERS; l++)
        free(plain->routers[l]);
}

// The K best experts of a token, of equal ones the first.
static void choose(const float *embedding, const float *router, const double bias[E], double counts[E]) {
    double squares = 0, scores[E];
    for (int c = 0; c < C; c++)
        squares += (double)embedding[c] * (double)embedding[c];
    double scale = 1 / sqrt(squares / C + 1e-5);
    for (int e = 0; e < E; e++) {
        double logit = 0;
        for (int c = 0; c < C; c++)
            logit += scale * (double)embedding[c] * (double)router[e * C + c];
        scores[e] = 1 / (1 + exp(-logit)) + bias[e];
    }
    for (int k = 0; k < K; k++) {
        int best = 0;
        for (int e = 1; e < E; e++)
            best = scores[e] > scores[best] ? e : best;
        counts[best]++;
        scores[best] = -INFINITY;
    }
}

// A step's tokens, and the bias after it.
static void step_plainly(struct plain_routers *plain) {
    for (int l = 0; l < EXPERT_LAYERS; l++) {
        double *counts = plain->counts[l], mean = (double)SAMPLES * T * K / E;
        for (int e = 0; e < E; e++)
            counts[e] = 0;
        for (int64_t n = 0; n < (int64_t)SAMPLES * T; n++)
            choose(plain->table + (ptrdiff_t)token_of(n / T, n % T) * C, plain->routers[l], plain->bias[l], counts);
        for (int e = 0; e < E; e++)
            plain->bias[l][e] += 0.0625 * ((counts[e] < mean) - (counts[e] > mean));
    }
}

// Several steps over the same samples: counts of one step are not added to those of another.
static void expect_steps(struct counted_step *own, struct plain_routers *plain) {
    memset(plain->bias, 0, sizeof plain->bias);
    for (int step = 0; step < 3; step++) {
        own->micro_batch = 0;
        struct step_result result = train(own);
        step_plainly(plain);
        EXPECT(result.expert_counts != NULL);
        for (int i = 0; result.expert_counts && i < EXPERT_LAYERS * E; i++) {
            const float *bias = step_expert_bias(own->step, i / E).data;
            EXPECT_NEAR((double)result.expert_counts[i], plain->counts[i / E][i % E], 0);
            EXPECT_NEAR((double)bias[i % E], plain->bias[i / E][i % E], 0);
        }
    }
}

TEST(tokens_and_biases_of_experts_are_those_of_a_plain_loop) {
    static const struct counted_layout layouts[] = {
        {"", 0},
        {"--use-distributed-optimizer --overlap-grad-reduce", 0},
        {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", 0},
        {"--tensor-model-parallel-size 2", 2},
        {"--tensor-model-parallel-size 2 --sequence-parallel", 2},
        {"--tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1", 2},
        {"--tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1 "
         "--expert-model-parallel-size 2",
         2},
        {"--pipeline-model-parallel-size 2", 2},
        {"--expert-model-parallel-size 2", 2},
        {"--expert-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel", 4},
        {"--context-parallel-size 2", 2},
        {"--context-parallel-size 2 --expert-model-parallel-size 2", 2},
        {"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", 4},
        {"--context-parallel-size 2 --pipeline-model-parallel-size 2", 4},
        {"--tensor-model-parallel-size 2", 4},
        {"--tensor-model-parallel-size 4 --sequence-parallel --expert-tensor-parallel-size 2 "
         "--expert-model-parallel-size 2",
         4},
        {"--tensor-model-parallel-size 4 --sequence-parallel --expert-tensor-parallel-size 1 "
         "--expert-model-parallel-size 2",
         4},
    };
    struct plain_routers plain = {0};
    struct counted_step own;
    struct world *self;
    struct mesh alone;
    EXPECT_OK(world_open(&self, &(struct world_options){.backend = "self"}, ranks.device));
    EXPECT_OK(mesh_place(&alone, 0, 1, NULL));
    EXPECT_OK(mesh_connect(&alone, self));
    own = (struct counted_step){0};
    rank_step_parse(&own.config, MODEL, 1);
    open_counted(&own, &alone, ranks.device);
    open_plain(&plain, own.step);
    expect_steps(&own, &plain);
    struct step_source source = {next_batch, &own, 1};
    EXPECT_OK(step_evaluate(own.step, &source));
    struct step_result result = step_result(own.step);
    EXPECT(result.expert_counts == NULL);
    step_close(own.step);
    config_free(&own.config);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct mesh mesh;
        if (layouts[i].ranks > 0 && layouts[i].ranks != ranks.place.size)
            continue;
        char *flags = memory_printf(MODEL "%s", layouts[i].flags);
        own = (struct counted_step){0};
        rank_step_parse(&own.config, flags, ranks.place.size);
        EXPECT_OK(mesh_place_config(&mesh, ranks.place.rank, ranks.place.size, &own.config));
        EXPECT_OK(mesh_connect(&mesh, ranks.world));
        open_counted(&own, &mesh, ranks.device);
        expect_steps(&own, &plain);
        step_close(own.step);
        config_free(&own.config);
        free(flags);
    }
    world_close(self);
    close_plain(&plain);
}

// Routing by Sinkhorn's algorithm over all rows of a micro-batch, noise, and a loss over the global batch: each of
// these looks beyond the rows of a rank. Losses and norms are those of one rank.
static const char *const routers[] = {
    "--moe-router-load-balancing-type sinkhorn --moe-z-loss-coeff 1e-2 --moe-input-jitter-eps 0.1",
    "--moe-router-load-balancing-type sinkhorn --moe-router-topk 1",
    "--moe-router-load-balancing-type aux_loss global_aux_loss --moe-aux-loss-coeff 1e-2 0.5 --moe-input-jitter-eps "
    "0.1",
};
enum { STEPS = 4, NUMBERS = 2 + BALANCE_COUNT };

static void train_routed(const struct mesh *mesh, const char *router, const char *flags,
                         double numbers[STEPS][NUMBERS]) {
    struct counted_step own = {.mesh = mesh};
    char *line = memory_printf(
        "--model llama --num-layers 2 --hidden-size 24 --num-attention-heads 4 --seq-length 16 "
        "--max-position-embeddings 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --micro-batch-size 2 "
        "--global-batch-size 8 --num-experts 6 --moe-ffn-hidden-size 20 --threads 1 --init-method-std 0.1 --seed 7 "
        "--hidden-dropout 0.1 --adam-eps 1e-4 %s %s",
        router, flags);
    rank_step_parse(&own.config, line, mesh->size);
    EXPECT_OK(setup_step(&own.step, &(struct setup){&own.config, ranks.device, mesh, STEP_TRAIN}));
    step_initialize(own.step);
    for (int i = 0; i < STEPS; i++) {
        struct step_source source = {next_batch, &own, SAMPLES / B / mesh_count(mesh, MESH_SAMPLES)};
        EXPECT_OK(step_train(own.step, &source, 1e-3, 0));
        struct step_result result = step_result(own.step);
        numbers[i][0] = result.loss;
        numbers[i][1] = result.grad_norm;
        for (int kind = 0; kind < BALANCE_COUNT; kind++)
            numbers[i][2 + kind] = result.balance[kind];
    }
    step_close(own.step);
    config_free(&own.config);
    free(line);
}

TEST(routers_that_look_beyond_a_rank_are_those_of_one) {
    static const struct counted_layout layouts[] = {
        {"", 0},
        {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", 0},
        {"--recompute-granularity selective --recompute-modules moe", 0},
        {"--tensor-model-parallel-size 2", 2},
        {"--tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1", 2},
        {"--pipeline-model-parallel-size 2 --pipeline-schedule zero-bubble", 2},
        {"--context-parallel-size 2 --expert-model-parallel-size 2", 2},
        {"--tensor-model-parallel-size 2 --context-parallel-size 2 --sequence-parallel", 4},
        {"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel", 4},
        {"--expert-model-parallel-size 2 --context-parallel-size 2", 4},
    };
    struct world *self;
    struct mesh alone;
    EXPECT_OK(world_open(&self, &(struct world_options){.backend = "self"}, ranks.device));
    EXPECT_OK(mesh_place(&alone, 0, 1, NULL));
    EXPECT_OK(mesh_connect(&alone, self));
    for (size_t r = 0; r < sizeof routers / sizeof routers[0]; r++) {
        double expected[STEPS][NUMBERS], numbers[STEPS][NUMBERS];
        train_routed(&alone, routers[r], "", expected);
        for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
            struct mesh mesh;
            struct config config = {0};
            if (layouts[i].ranks > 0 && layouts[i].ranks != ranks.place.size)
                continue;
            char *flags = memory_printf(MODEL "%s", layouts[i].flags);
            rank_step_parse(&config, flags, ranks.place.size);
            EXPECT_OK(mesh_place_config(&mesh, ranks.place.rank, ranks.place.size, &config));
            EXPECT_OK(mesh_connect(&mesh, ranks.world));
            train_routed(&mesh, routers[r], layouts[i].flags, numbers);
            for (int k = 0; k < STEPS * NUMBERS; k++) {
                double want = expected[k / NUMBERS][k % NUMBERS], got = numbers[k / NUMBERS][k % NUMBERS];
                if (!(fabs(got - want) <= 1e-5 * fabs(want)))
                    test_fail("%s with %s: number %d of step %d is %.8g, expected %.8g", routers[r], layouts[i].flags,
                              k % NUMBERS, k / NUMBERS, got, want);
            }
            config_free(&config);
            free(flags);
        }
    }
    world_close(self);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(tokens_and_biases_of_experts_are_those_of_a_plain_loop),
                                      TEST_CASE(routers_that_look_beyond_a_rank_are_those_of_one)};
    return ranks_test_main(&ranks, cases, sizeof cases / sizeof cases[0]);
}
