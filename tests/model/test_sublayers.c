// Blocks as lists of sublayers: layers of one stack may have different sublayers and windows, forward and backward.
#include "base/rng.h"
#include "model/init.h"
#include "model/qk_clip.h"
#include "model/stack.h"
#include "ops/device.h"
#include "test.h"

enum { L = 2, T = 6, C = 8, F = 12, BYTES = 1 << 20 };

struct rig {
    struct device *device;
    struct mesh mesh;
    struct choices choices;
    struct param_list params;
    struct stack stack;
    struct stack_flight flight;
    float *values, *grads;
    unsigned char *memory[2];
    struct arena activations, scratch;
    struct pass pass;
    struct device_batch batch;
    int64_t rows[T];
    int32_t positions[T];
};

// A latent's widths: latent attention, whose heads have values of another size.
static void set_latent(struct choices *choices, const struct latent_choices *latent) {
    choices->latent = *latent;
    choices->G = choices->H;
    choices->D = latent->own + latent->shared;
    choices->V = 5;
    choices->has_head_norm = true;
    choices->rope =
        (struct rope){.pairs = latent->shared / 2, .is_interleaved = true, .frequencies = {1, 0.1}, .factor = 1.2f};
}

static void rig_open_clipped(struct rig *rig, const struct layer_choices each[L], const struct latent_choices *latent,
                             struct qk_clip *clip) {
    *rig = (struct rig){.choices = {.C = C,
                                    .H = 2,
                                    .G = 1,
                                    .D = 4,
                                    .V = 4,
                                    .F = F,
                                    .norm = {.kind = NORM_LAYER, .C = C, .epsilon = 1e-5},
                                    .activation = ACTIVATION_SILU,
                                    .has_mlp_bias = true,
                                    .scale = 0.5f,
                                    .standard_deviation = 0.5,
                                    .experts = {.E = 3, .K = 2, .F = 5, .ranks = 1, .slices = 1, .rule = {.factor = 1}},
                                    .parts = 1,
                                    .kv_ranks = 1,
                                    .qk_clip = clip}};
    EXPECT_OK(mesh_place(&rig->mesh, 0, 1, NULL));
    if (latent)
        set_latent(&rig->choices, latent);
    EXPECT_OK(device_open(&rig->device, &(struct device_options){.name = "cpu", .threads = 1}));
    stack_build(&rig->stack, &rig->params,
                &(struct stack_options){
                    .name = "decoder", .choices = &rig->choices, .each = each, .L = L, .layers = L, .is_causal = true});
    stack_flight_open(&rig->flight, &rig->stack);
    param_list_layout(&rig->params);
    rig->values = calloc((size_t)rig->params.total, sizeof *rig->values);
    rig->grads = calloc((size_t)rig->params.total, sizeof *rig->grads);
    param_list_bind(&rig->params, tensor_1d(rig->values, DTYPE_F32, rig->params.total),
                    tensor_1d(rig->grads, DTYPE_F32, rig->params.total));
    init_params(rig->device, &rig->params, (struct tensor){0}, 7);
    struct arena *arenas[] = {&rig->activations, &rig->scratch};
    for (int i = 0; i < 2; i++) {
        rig->memory[i] = aligned_alloc(ARENA_ALIGNMENT, BYTES);
        arena_init(arenas[i], "test", rig->memory[i], BYTES);
    }
    for (int i = 0; i < T; i++)
        rig->positions[i] = (int32_t)(rig->rows[i] = i);
    rig->batch.fields[BATCH_POSITIONS] = tensor_1d(rig->positions, DTYPE_I32, T);
    rig->batch.row_ids = tensor_1d(rig->rows, DTYPE_I64, T);
    rig->pass = (struct pass){.device = rig->device,
                              .mesh = &rig->mesh,
                              .activations = &rig->activations,
                              .scratch = &rig->scratch,
                              .dtype = DTYPE_F32,
                              .B = 1,
                              .T = T,
                              .is_training = true,
                              .is_first = true,
                              .batch = &rig->batch};
}

static void rig_open(struct rig *rig, const struct layer_choices each[L], const struct latent_choices *latent) {
    rig_open_clipped(rig, each, latent, NULL);
}

static void rig_close(struct rig *rig) {
    stack_flight_close(&rig->flight);
    stack_free(&rig->stack);
    param_list_free(&rig->params);
    free(rig->values);
    free(rig->grads);
    free(rig->memory[0]);
    free(rig->memory[1]);
    device_close(rig->device);
}

static void forward(struct rig *rig, const float x[T * C], float y[T * C]) {
    arena_release(&rig->activations, 0);
    float *in = arena_2d(&rig->activations, DTYPE_F32, T, C).data;
    memcpy(in, x, sizeof(float) * T * C);
    struct tensor out = stack_forward(&rig->stack, &rig->pass, &rig->flight, tensor_2d(in, DTYPE_F32, T, C));
    memcpy(y, out.data, sizeof(float) * T * C);
}

// Whether the last token's result depends on the first token.
static bool sees_first(int64_t first_window, int64_t second_window) {
    struct rig rig;
    const struct layer_choices each[L] = {
        {.sublayers = {&sublayer_self_attention, &sublayer_mlp}, .window = first_window},
        {.sublayers = {&sublayer_self_attention, &sublayer_mlp}, .window = second_window}};
    rig_open(&rig, each, NULL);
    float x[T * C], y[T * C], other[T * C];
    philox_normal(x, T * C, 0, 1, 1, 1.0);
    forward(&rig, x, y);
    x[0] += 1;
    forward(&rig, x, other);
    rig_close(&rig);
    return memcmp(y + (T - 1) * C, other + (T - 1) * C, sizeof(float) * C) != 0;
}

TEST(each_layer_has_its_window) {
    EXPECT(sees_first(0, 0));
    EXPECT(sees_first(1, 0));
    EXPECT(sees_first(0, 1));
    EXPECT(!sees_first(1, 1));
    EXPECT(!sees_first(2, 3));
}

static double dot(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

// The slope of sum(weights * y) along a direction of all parameters and of x, against a difference quotient.
static void check_slope(const struct layer_choices each[L], const struct latent_choices *latent) {
    struct rig rig;
    rig_open(&rig, each, latent);
    int64_t total = rig.params.total;
    float x[T * C], dx[T * C], y[T * C], weights[T * C], along_x[T * C], *along = calloc((size_t)total, sizeof *along);
    philox_normal(x, T * C, 0, 1, 1, 1.0);
    philox_normal(weights, T * C, 0, 2, 1, 1.0);
    philox_normal(along_x, T * C, 0, 3, 1, 1.0);
    philox_normal(along, total, 0, 4, 1, 1.0);
    forward(&rig, x, y);
    memcpy(dx, weights, sizeof dx);
    struct tensor gradient = tensor_2d(dx, DTYPE_F32, T, C);
    stack_backward(&rig.stack, &rig.pass, &rig.flight, gradient, gradient);
    double slope = dot(dx, along_x, T * C) + dot(rig.grads, along, total), ends[2];
    for (int side = 0; side < 2; side++) {
        float step = side ? 2e-3f : -1e-3f;
        for (int i = 0; i < T * C; i++)
            x[i] += step * along_x[i];
        for (int64_t i = 0; i < total; i++)
            rig.values[i] += step * along[i];
        forward(&rig, x, y);
        ends[side] = dot(y, weights, T * C);
    }
    double difference = (ends[1] - ends[0]) / 2e-3;
    if (!(fabs(slope - difference) < 1e-2 * fabs(difference)))
        test_fail("slope %.9g, difference %.9g", slope, difference);
    free(along);
    rig_close(&rig);
}

TEST(layers_with_other_sublayers) {
    const struct layer_choices each[L] = {
        {.sublayers = {&sublayer_gated_mlp}},
        {.sublayers = {&sublayer_mlp, &sublayer_self_attention, &sublayer_gated_mlp}, .window = 3}};
    struct rig rig;
    rig_open(&rig, each, NULL);
    EXPECT_INT(param_find(&rig.params, "decoder.layers.0.mlp.linear_fc1.weight")->shard.global[0], 2 * F);
    EXPECT(!param_find(&rig.params, "decoder.layers.0.self_attention.linear_qkv.weight"));
    EXPECT(block_first_matrix(&rig.stack.blocks[0]) ==
           param_find(&rig.params, "decoder.layers.0.mlp.linear_fc1.weight"));
    EXPECT(block_last_matrix(&rig.stack.blocks[0]) ==
           param_find(&rig.params, "decoder.layers.0.mlp.linear_fc2.weight"));
    rig_close(&rig);
    check_slope(each, NULL);
}

// The losses of routers have coefficients of 0 here, so this is the slope of the result alone.
TEST(layers_with_experts) {
    const struct layer_choices each[L] = {{.sublayers = {&sublayer_experts, &sublayer_self_attention}},
                                          {.sublayers = {&sublayer_self_attention, &sublayer_experts}}};
    struct rig rig;
    rig_open(&rig, each, NULL);
    const struct param *fc1 = param_find(&rig.params, "decoder.layers.0.mlp.experts.linear_fc1.weight");
    const struct param *fc2 = param_find(&rig.params, "decoder.layers.1.mlp.experts.linear_fc2.weight");
    const struct param *bias = param_find(&rig.params, "decoder.layers.0.mlp.experts.linear_fc2.bias");
    EXPECT(fc1->shard.rank == 3 && fc1->shard.global[0] == 3 && fc1->shard.global[1] == 5 && fc1->shard.global[2] == C);
    EXPECT(fc1->has_decay && bias->shard.rank == 2 && !bias->has_decay);
    EXPECT(block_first_matrix(&rig.stack.blocks[0]) == param_find(&rig.params, "decoder.layers.0.mlp.router.weight"));
    EXPECT(block_last_matrix(&rig.stack.blocks[1]) == fc2);
    rig_close(&rig);
    check_slope(each, NULL);
}

// With and without a latent of queries.
TEST(layers_with_latents) {
    const struct layer_choices each[L] = {{.sublayers = {&sublayer_latent_attention, &sublayer_mlp}},
                                          {.sublayers = {&sublayer_latent_attention}, .window = 3}};
    const struct latent_choices latents[2] = {{.q_rank = 3, .kv_rank = 7, .own = 3, .shared = 4},
                                              {.kv_rank = 2, .own = 1, .shared = 2}};
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        rig_open(&rig, each, &latents[i]);
        const struct param *down =
            param_find(&rig.params, "decoder.layers.0.self_attention.linear_kv_down_proj.weight");
        const struct param *up = param_find(&rig.params, "decoder.layers.0.self_attention.linear_kv_up_proj.weight");
        EXPECT_INT(down->shard.global[0], latents[i].kv_rank + latents[i].shared);
        EXPECT_INT(up->shard.global[0], 2 * (latents[i].own + 5));
        EXPECT(block_first_matrix(&rig.stack.blocks[1]) ==
               param_find(&rig.params, i == 0 ? "decoder.layers.1.self_attention.linear_q_down_proj.weight"
                                              : "decoder.layers.1.self_attention.linear_q_proj.weight"));
        EXPECT(block_last_matrix(&rig.stack.blocks[1]) ==
               param_find(&rig.params, "decoder.layers.1.self_attention.linear_proj.weight"));
        rig_close(&rig);
        check_slope(each, &latents[i]);
    }
}

// Scales the listed rows as op_clip_rows says, in double.
static void clip_weights(struct rig *rig) {
    for (int i = 0; i < rig->params.count; i++) {
        const struct param *param = rig->params.items[i];
        for (int c = 0; c < param->clip_count; c++) {
            const struct param_clip *clip = &param->clips[c];
            int64_t columns = param->shard.global[1], heads = clip->heads / clip->units;
            for (int64_t row = 0; row < clip->units * clip->unit_rows; row++) {
                int64_t unit = row / clip->unit_rows, within = row % clip->unit_rows;
                double largest = 0;
                for (int64_t h = unit * heads; h < (unit + 1) * heads; h++)
                    largest = fmax(largest, (double)((const float *)clip->largest->data)[clip->first_head + h]);
                bool is_scaled =
                    largest > clip->threshold && within >= clip->first && within < clip->first + clip->count;
                float *weights = (float *)param->value.data + (clip->first_row + row) * columns;
                for (int64_t j = 0; is_scaled && j < columns; j++)
                    weights[j] = (float)(weights[j] * pow(clip->threshold / largest, clip->power));
            }
        }
    }
}

// The largest scores are noted, and the rows that are listed bring them to the threshold: those of the first layer,
// whose input stays as it was. Heads of a group are scaled by the largest of them.
static void check_clip(const struct layer_choices each[L], const struct latent_choices *latent, double alpha) {
    struct qk_clip clip = {.H = 2, .alpha = alpha, .threshold = 0.01};
    struct rig rig;
    rig_open_clipped(&rig, each, latent, &clip);
    float largest[L * 2] = {0}, x[T * C], y[T * C];
    EXPECT_INT(clip.layers, L);
    clip.largest = tensor_1d(largest, DTYPE_F32, L * 2);
    philox_normal(x, T * C, 0, 1, 1, 1.0);
    forward(&rig, x, y);
    for (int i = 0; i < L * 2; i++)
        EXPECT((double)largest[i] > 0.02);
    clip_weights(&rig);
    qk_clip_begin_step(&clip, rig.device);
    forward(&rig, x, y);
    float first = largest[0], second = largest[1], most = first > second ? first : second;
    EXPECT(fabs((double)most - 0.01) < 1e-6);
    EXPECT(!latent || (fabs((double)first - 0.01) < 1e-6 && fabs((double)second - 0.01) < 1e-6));
    rig.pass.is_training = false;
    qk_clip_begin_step(&clip, rig.device);
    forward(&rig, x, y);
    EXPECT(largest[0] == 0);
    rig_close(&rig);
}

TEST(rows_that_are_clipped_bring_scores_to_the_threshold) {
    const struct layer_choices plain[L] = {{.sublayers = {&sublayer_self_attention, &sublayer_mlp}},
                                           {.sublayers = {&sublayer_self_attention}, .window = 3}};
    const struct layer_choices latent[L] = {{.sublayers = {&sublayer_latent_attention, &sublayer_mlp}},
                                            {.sublayers = {&sublayer_latent_attention}, .window = 3}};
    const struct latent_choices latents[2] = {{.q_rank = 3, .kv_rank = 7, .own = 3, .shared = 4},
                                              {.kv_rank = 2, .own = 1, .shared = 2}};
    for (int i = 0; i < 3; i++) {
        check_clip(plain, NULL, 0.5 * i);
        check_clip(latent, &latents[i % 2], 0.5 * i);
    }
}

TEST_MAIN(TEST_CASE(rows_that_are_clipped_bring_scores_to_the_threshold), TEST_CASE(each_layer_has_its_window),
          TEST_CASE(layers_with_other_sublayers), TEST_CASE(layers_with_experts), TEST_CASE(layers_with_latents))
