// Matmuls of experts: the model of their time beside what SimuMax measured on a B200 with Transformer Engine
// (MooreThreads/SimuMax configs/system/b200_bf16_ceperm.json, 2026-05: group_matmul in bf16 with fp32 gradients).
#include "ops/device.h"
#include "plan/hardware.h"
#include "test.h"

#include <math.h>

enum matmul_kind { FORWARD, INPUT, WEIGHT };

// Experts, rows of each, size of the weight, and the part of 2250 TFLOP/s that was reached.
static const struct {
    enum matmul_kind kind;
    double experts, each, out, in, part;
} measured[] = {
    {FORWARD, 160, 154, 3072, 5120, 0.200}, {INPUT, 160, 154, 3072, 5120, 0.195},
    {WEIGHT, 160, 154, 3072, 5120, 0.094},  {FORWARD, 160, 154, 5120, 1536, 0.116},
    {INPUT, 160, 154, 5120, 1536, 0.123},   {WEIGHT, 160, 154, 5120, 1536, 0.083},
    {FORWARD, 256, 128, 4096, 7168, 0.208}, {INPUT, 256, 128, 4096, 7168, 0.226},
    {WEIGHT, 256, 128, 4096, 7168, 0.077},  {FORWARD, 256, 128, 7168, 2048, 0.178},
    {INPUT, 256, 128, 7168, 2048, 0.151},   {WEIGHT, 256, 128, 7168, 2048, 0.080},
    {FORWARD, 80, 308, 3072, 5120, 0.387},  {INPUT, 80, 308, 3072, 5120, 0.304},
    {WEIGHT, 80, 308, 3072, 5120, 0.162},   {FORWARD, 80, 308, 5120, 1536, 0.235},
    {INPUT, 80, 308, 5120, 1536, 0.250},    {WEIGHT, 80, 308, 5120, 1536, 0.178},
    {FORWARD, 128, 256, 4096, 7168, 0.271}, {INPUT, 128, 256, 4096, 7168, 0.333},
    {WEIGHT, 128, 256, 4096, 7168, 0.147},  {FORWARD, 128, 256, 7168, 2048, 0.303},
    {INPUT, 128, 256, 7168, 2048, 0.233},   {WEIGHT, 128, 256, 7168, 2048, 0.141},
    {FORWARD, 40, 616, 3072, 5120, 0.462},  {INPUT, 40, 616, 3072, 5120, 0.321},
    {WEIGHT, 40, 616, 3072, 5120, 0.258},   {FORWARD, 40, 616, 5120, 1536, 0.326},
    {INPUT, 40, 616, 5120, 1536, 0.281},    {WEIGHT, 40, 616, 5120, 1536, 0.272},
    {FORWARD, 64, 512, 4096, 7168, 0.367},  {INPUT, 64, 512, 4096, 7168, 0.405},
    {WEIGHT, 64, 512, 4096, 7168, 0.219},   {FORWARD, 64, 512, 7168, 2048, 0.427},
    {INPUT, 64, 512, 7168, 2048, 0.294},    {WEIGHT, 64, 512, 7168, 2048, 0.215},
    {FORWARD, 20, 1232, 3072, 5120, 0.513}, {INPUT, 20, 1232, 3072, 5120, 0.422},
    {WEIGHT, 20, 1232, 3072, 5120, 0.328},  {FORWARD, 20, 1232, 5120, 1536, 0.397},
    {INPUT, 20, 1232, 5120, 1536, 0.389},   {WEIGHT, 20, 1232, 5120, 1536, 0.320},
    {FORWARD, 32, 1024, 4096, 7168, 0.457}, {INPUT, 32, 1024, 4096, 7168, 0.435},
    {WEIGHT, 32, 1024, 4096, 7168, 0.289},  {FORWARD, 32, 1024, 7168, 2048, 0.384},
    {INPUT, 32, 1024, 7168, 2048, 0.430},   {WEIGHT, 32, 1024, 7168, 2048, 0.274},
    {INPUT, 40, 2460, 3072, 5120, 0.452},   {WEIGHT, 40, 2460, 3072, 5120, 0.417},
    {FORWARD, 40, 2460, 3072, 5120, 0.487}, {INPUT, 40, 2460, 5120, 1536, 0.489},
    {WEIGHT, 40, 2460, 5120, 1536, 0.403},  {FORWARD, 40, 2460, 5120, 1536, 0.496},
    {INPUT, 40, 9832, 3072, 5120, 0.476},   {WEIGHT, 40, 9832, 3072, 5120, 0.419},
    {FORWARD, 40, 9832, 3072, 5120, 0.475}, {INPUT, 40, 9832, 5120, 1536, 0.463},
    {WEIGHT, 40, 9832, 5120, 1536, 0.413},  {FORWARD, 40, 9832, 5120, 1536, 0.445},
};
enum { MEASURED = sizeof measured / sizeof measured[0] };

// Of the second kind of matmul, rows are those of the result: its bytes are read and written in fp32.
static double planned_seconds(const struct device_rates *rates, int i) {
    double experts = measured[i].experts, rows = experts * measured[i].each;
    double weights = experts * measured[i].out * measured[i].in;
    bool is_weight = measured[i].kind == WEIGHT, is_input = measured[i].kind == INPUT;
    const struct device_grouped shape = {.dtype = DTYPE_BF16,
                                         .is_weight = is_weight,
                                         .experts = experts,
                                         .rows = rows,
                                         .from = is_weight || is_input ? measured[i].out : measured[i].in,
                                         .to = is_weight || is_input ? measured[i].in : measured[i].out};
    double bytes = 2 * rows * (measured[i].out + measured[i].in) + (is_weight ? 8 : 2) * weights;
    return fmax(device_rates_grouped(rates, &shape), bytes / rates->bytes_per_second);
}

static double measured_seconds(int i) {
    double flops = 2 * measured[i].experts * measured[i].each * measured[i].out * measured[i].in;
    return flops / (measured[i].part * 2250e12);
}

// One matmul launched for each expert, as bench/plan_rows.py describes other programs.
TEST(times_of_transformer_engine) {
    struct hardware hardware;
    EXPECT_OK(hardware_of(&hardware, machine_find("dgx-b200")));
    hardware.rates.expert_rows = 170;
    hardware.rates.expert_inner = 376;
    hardware.rates.expert_seconds = 9.3e-6;
    double squares = 0;
    for (int i = 0; i < MEASURED; i++) {
        double off = log(planned_seconds(&hardware.rates, i) / measured_seconds(i));
        EXPECT(fabs(off) < 0.3);
        squares += off * off;
    }
    EXPECT(sqrt(squares / MEASURED) < 0.14);
}

// Whatever the constants are: few rows for each expert cost more, one expert is a plain matmul.
TEST(few_rows_cost_more) {
    struct hardware hardware;
    EXPECT_OK(hardware_of(&hardware, machine_find("dgx-h200")));
    struct device_grouped shape = {.dtype = DTYPE_BF16, .experts = 8, .rows = 32768, .from = 4096, .to = 14336};
    double before = device_rates_grouped(&hardware.rates, &shape);
    EXPECT_NEAR(before, (1 + 64 / 4096.0) * device_rates_matmul(&hardware.rates, DTYPE_BF16, 32768, 14336, 4096),
                1e-9 * before);
    for (shape.experts = 16; shape.experts <= 256; shape.experts *= 2) {
        double now = device_rates_grouped(&hardware.rates, &shape);
        EXPECT(now > before && now < 2 * before);
        before = now;
    }
    shape = (struct device_grouped){
        .dtype = DTYPE_BF16, .is_weight = true, .experts = 1, .rows = 8192, .from = 4096, .to = 4096};
    EXPECT_NEAR(device_rates_grouped(&hardware.rates, &shape),
                device_rates_matmul(&hardware.rates, DTYPE_BF16, 4096, 4096, 8192), 1e-12);
    hardware.rates.expert_seconds = 1;
    EXPECT_NEAR(device_rates_grouped(&hardware.rates, &shape), 1, 0);
}

// Bytes of both passes are shared evenly; small kernels take as long as their launch.
TEST(biases_apart_from_matmuls) {
    struct hardware hardware;
    EXPECT_OK(hardware_of(&hardware, machine_find("dgx-b200")));
    EXPECT(device_rates_biases(&hardware.rates, 1e9, 16) == 0);
    hardware.rates.expert_bias_bytes = 28;
    EXPECT_NEAR(device_rates_biases(&hardware.rates, 1e9, 16), 14e9 / hardware.rates.bytes_per_second, 1e-12);
    hardware.rates.expert_seconds = 1e-3;
    EXPECT_NEAR(device_rates_biases(&hardware.rates, 1e9, 16), 4 * 16 * 1e-3, 1e-12);
}

TEST_MAIN(TEST_CASE(times_of_transformer_engine), TEST_CASE(few_rows_cost_more), TEST_CASE(biases_apart_from_matmuls))
