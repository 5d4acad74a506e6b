// A four-layer GPT against PyTorch: the loss and every gradient of a micro-batch, then ten training steps.
// The reference (tests/golden/make_gpt.py) is computed in float64.
#include "base/memory.h"
#include "optim/schedule.h"
#include "plan/setup.h"
#include "store/safetensors.h"
#include "test.h"

enum { B = 3, T = 17, STEPS = 10 };

static struct safetensors golden;
static struct device *device;
static struct world *world;
static struct step *step;
static struct config config;

static const struct safetensors_tensor *find(const char *prefix, const char *name) {
    char *full = memory_printf("%s%s", prefix, name);
    const struct safetensors_tensor *found = safetensors_find(&golden, full);
    if (!found)
        test_fail("the golden file has no %s", full);
    free(full);
    return found;
}

static void set_up(const char *device_name, int threads, int64_t rows) {
    config_defaults(&config);
    config.model.num_layers = 4;
    config.model.hidden_size = 24;
    config.model.num_attention_heads = 3;
    config.model.kv_channels = 8;
    config.model.ffn_hidden_size = 96;
    config.model.max_position_embeddings = 20;
    config.run.seq_length = T;
    config.model.padded_vocab_size = 50;
    config.run.micro_batch_size = rows;
    config.run.global_batch_size = B;
    config.model.hidden_dropout = config.model.attention_dropout = 0;
    config.run.clip_grad = 1;
    config.run.adam_beta1 = 0.9;
    config.run.adam_beta2 = 0.95;
    config.run.adam_eps = 1e-8;
    struct mesh mesh;
    EXPECT_OK(safetensors_open(&golden, "tests/golden/gpt_tiny.safetensors"));
    EXPECT_OK(device_open(&device, &(struct device_options){.name = device_name, .threads = threads}));
    EXPECT_OK(world_open(&world, &(struct world_options){.backend = "self"}, device));
    EXPECT_OK(mesh_place(&mesh, 0, 1, NULL));
    EXPECT_OK(mesh_connect(&mesh, world));
    EXPECT_OK(setup_step(&step, &(struct setup){&config, device, &mesh, STEP_TRAIN}));
    step_initialize(step);
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct safetensors_tensor *value = find("param.", step_params(step)->items[i]->name);
        EXPECT_INT(value->bytes, tensor_bytes(step_params(step)->items[i]->value));
        device_copy_in(device, step_params(step)->items[i]->value, value->data);
    }
}

static void tear_down(void) {
    step_close(step);
    world_close(world);
    device_close(device);
    safetensors_close(&golden);
    config_free(&config);
}

struct cursor {
    const int32_t *samples;  // (STEPS * B, T + 1)
    int64_t next;
    int32_t tokens[B * T], labels[B * T], positions[B * T];
    float mask[B * T];
    int64_t numbers[B];
    int64_t rows;  // of one micro-batch
};

static int next_input(void *context, struct batch *input) {
    struct cursor *c = context;
    for (int64_t b = 0; b < c->rows; b++) {
        const int32_t *sample = c->samples + (c->next + b) * (T + 1);
        c->numbers[b] = c->next + b;
        for (int64_t t = 0; t < T; t++) {
            c->tokens[b * T + t] = sample[t];
            c->labels[b * T + t] = sample[t + 1];
            c->positions[b * T + t] = (int32_t)t;
            c->mask[b * T + t] = 1;
        }
    }
    c->next += c->rows;
    *input = (struct batch){.B = c->rows,
                            .T = T,
                            .tokens = c->tokens,
                            .labels = c->labels,
                            .positions = c->positions,
                            .loss_mask = c->mask,
                            .samples = c->numbers};
    return 0;
}

static float golden_float(const char *name, int64_t index) {
    float value;
    memcpy(&value, find("", name)->data + sizeof value * (size_t)index, sizeof value);
    return value;
}

// ||actual - expected|| / ||expected||, in double, over elements [first, first + count).
static double relative_error(struct tensor actual, const struct safetensors_tensor *expected, int64_t first,
                             int64_t count) {
    actual = tensor_rows(tensor_flat(actual), first, count);
    float *values = memory_alloc(sizeof(float) * (size_t)count);
    device_copy_out(device, values, actual);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        float want;
        memcpy(&want, expected->data + sizeof want * (size_t)(first + i), sizeof want);
        difference += ((double)values[i] - (double)want) * ((double)values[i] - (double)want);
        norm += (double)want * (double)want;
    }
    free(values);
    return sqrt(difference) / sqrt(norm > 0 ? norm : 1);
}

static void check_gradients(void) {
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        double error = relative_error(param->grad, find("grad.", param->name), 0, tensor_count(param->grad));
        if (!(error < 1e-4))
            test_fail("gradient of %s is off by %.3g", param->name, error);
    }
}

// Softmax ignores a constant added to all scores, so the bias of the keys has no gradient: what remains is rounding,
// which Adam makes as large as any step. That third of the bias is not compared.
static void check_weights(void) {
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        const struct safetensors_tensor *want = find("final.", param->name);
        int64_t count = tensor_count(param->value);
        bool is_qkv_bias = strstr(param->name, "linear_qkv.bias") != NULL;
        double error = relative_error(param->value, want, 0, is_qkv_bias ? count / 3 : count);
        if (is_qkv_bias)
            error = fmax(error, relative_error(param->value, want, count / 3 * 2, count / 3));
        if (!(error < 1e-4))
            test_fail("%s is off by %.3g after %d steps", param->name, error, STEPS);
    }
}

static void train(const char *device_name, int threads, int64_t rows) {
    set_up(device_name, threads, rows);
    struct cursor cursor = {.samples = (const int32_t *)(const void *)find("", "samples")->data, .rows = rows};
    struct step_source source = {.next = next_input, .context = &cursor, .count = B / rows};
    for (int64_t i = 0; i < STEPS; i++) {
        EXPECT_OK(step_train(step, &source, 2e-3, 0.1));
        struct step_result result = step_result(step);
        if (i == 0)
            check_gradients();
        double want = (double)golden_float("losses", i);
        if (!(fabs(result.loss - want) <= 1e-5 * want))
            test_fail("loss of step %d is %.8f, expected %.8f", (int)i, result.loss, want);
        EXPECT_NEAR(result.grad_norm, golden_float("grad_norms", i), 1e-4);
    }
    check_weights();
    tear_down();
}

TEST(cpu_one_thread) {
    train("cpu", 1, B);
}

TEST(cpu_two_threads) {
    train("cpu", 2, B);
}

TEST(gradient_accumulation) {
    train("cpu", 2, 1);
}

TEST(cuda) {
    if (cuda_count() == 0)
        test_skip("no GPU");
    train("cuda", 1, B);
}

TEST_MAIN(TEST_CASE(cpu_one_thread), TEST_CASE(cpu_two_threads), TEST_CASE(gradient_accumulation), TEST_CASE(cuda))
