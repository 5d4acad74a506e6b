// Which GELU the flags of Megatron-LM select. The right column is what its sources compute: core is
// megatron/core/transformer/mlp.py of releases core_v0.8.0 to core_v0.19.0, legacy is
// megatron/legacy/model/transformer.py of core_v0.8.0 to core_v0.16.0 (before that, megatron/model/transformer.py). In
// both, the kernel that is fused with the bias has the tanh form, and F.gelu and erf_gelu are exact. The formulas are
// written out here again.
#include "config/parse_line.h"
#include "model/choices.h"
#include "ops/device.h"
#include "ops/ops.h"
#include "test.h"
#include "base/log.h"
#include <math.h>

enum form { TANH, ERF };

static double gelu(enum form form, double x) {
    if (form == TANH)
        return x * 0.5 * (1 + tanh(0.79788456 * x * (1 + 0.044715 * x * x)));
    return x * 0.5 * (1 + erf(x / sqrt(2)));
}

static const struct {
    const char *flags;
    enum form form;
} combinations[] = {
    // Core: fused with the bias unless there is none; neither --openai-gelu nor --onnx-safe is read.
    {"", TANH},
    {"--no-bias-gelu-fusion", ERF},
    {"--disable-bias-linear", ERF},
    {"--openai-gelu", TANH},
    {"--openai-gelu --no-bias-gelu-fusion", ERF},
    {"--openai-gelu --disable-bias-linear", ERF},
    {"--openai-gelu --use-mcore-models --no-bias-gelu-fusion", ERF},
    {"--onnx-safe", TANH},
    {"--onnx-safe True", TANH},
    {"--onnx-safe --no-bias-gelu-fusion", ERF},
    {"--onnx-safe --openai-gelu --no-bias-gelu-fusion", ERF},
    // Legacy: --openai-gelu, then --onnx-safe decide; otherwise fused or not.
    {"--use-legacy-models", TANH},
    {"--use-legacy-models --no-bias-gelu-fusion", ERF},
    {"--use-legacy-models --openai-gelu", TANH},
    {"--use-legacy-models --openai-gelu --no-bias-gelu-fusion", TANH},
    {"--use-legacy-models --openai-gelu --disable-bias-linear", TANH},
    {"--use-legacy-models --onnx-safe", ERF},
    {"--use-legacy-models --onnx-safe --no-bias-gelu-fusion", ERF},
    {"--use-legacy-models --onnx-safe --openai-gelu", TANH},
    // Ours.
    {"--openai-gelu --no-bias-gelu-fusion --activation gelu_tanh", TANH},
    {"--onnx-safe --activation gelu", ERF},
};

// The MLP's activation under the flags, at x.
static void compute(struct config *config, const char *flags, float *y, float *x, int64_t count) {
    char *line = memory_printf("--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --vocab-size 9 "
                               "--mock-data --micro-batch-size 1 --train-iters 1 --lr 1 %s",
                               flags);
    EXPECT_OK(parse_line(config, line));
    EXPECT_OK(config_validate(config, 1));
    free(line);
    struct device *device;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    op_activation_forward(device, &(struct op_activation_forward){.y = tensor_2d(y, DTYPE_F32, 1, count),
                                                                  .x = tensor_2d(x, DTYPE_F32, 1, count),
                                                                  .activation = config_activation(&config->model)});
    device_close(device);
}

TEST(flags_compute_megatrons_gelu) {
    enum { COUNT = 121 };
    static struct config config;
    float x[COUNT], y[COUNT];
    log_set_level(LOG_ERROR);
    for (size_t c = 0; c < sizeof combinations / sizeof combinations[0]; c++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = (float)(i - COUNT / 2) / 10;
        compute(&config, combinations[c].flags, y, x, COUNT);
        double worst = 0;
        for (int i = 0; i < COUNT; i++)
            worst = fmax(worst, fabs((double)y[i] - gelu(combinations[c].form, (double)x[i])));
        // The two forms are up to 4.7e-4 apart.
        if (worst > 2e-6)
            test_fail("%s: %g from the %s form", combinations[c].flags, worst,
                      combinations[c].form == TANH ? "tanh" : "erf");
    }
    // The activation in a checkpoint does not depend on the flags that chose it.
    compute(&config, "--use-legacy-models --openai-gelu --disable-bias-linear", y, x, COUNT);
    EXPECT(config.model.activation == ACTIVATION_GELU_TANH);
    config_free(&config);
    log_set_level(LOG_INFO);
}

TEST_MAIN(TEST_CASE(flags_compute_megatrons_gelu))
