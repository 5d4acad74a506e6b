// Every operation on the CPU backend in bf16 and fp16, against the cases that all backends share: the remaining error
// is the rounding of each stored number.
// cost: 10
// parts: 4
#include "cases.h"

// Backward takes sum(dout * out) from the rounded out, see test_cuda.c.
static const double BF16_TOLERANCE = 1.6e-2, F16_TOLERANCE = 4e-3, BF16_ATTENTION = 0.12, F16_ATTENTION = 0.015;

static void run_case(void (*run)(struct lab *lab), enum dtype dtype, double tolerance) {
    struct device *device = NULL;
    struct device_options options = {.name = "cpu", .threads = 2};
    EXPECT_OK(device_open(&device, &options));
    struct lab lab;
    lab_open(&lab, device, dtype, tolerance);
    run(&lab);
    lab_close(&lab);
    device_close(device);
}

static bool is_attention(const char *name) {
    return strncmp(name, "attention", strlen("attention")) == 0;
}

#define CASE_TEST(name)                                                                                                \
    TEST(bf16_##name) {                                                                                                \
        run_case(case_##name, DTYPE_BF16, is_attention(#name) ? BF16_ATTENTION : BF16_TOLERANCE);                      \
    }                                                                                                                  \
    TEST(fp16_##name) {                                                                                                \
        run_case(case_##name, DTYPE_F16, is_attention(#name) ? F16_ATTENTION : F16_TOLERANCE);                         \
    }
EACH_CASE(CASE_TEST)

// Under the sanitizers, which take ten times as long, each case runs in one of the two types: they differ in how
// numbers are converted, which every other case runs.
#ifdef BEVATRON_SANITIZE
#define CASE_ROW(name)                                                                                                 \
    {sizeof #name % 2 ? "bf16_" #name : "fp16_" #name, sizeof #name % 2 ? test_bf16_##name : test_fp16_##name},
#else
#define CASE_ROW(name) TEST_CASE(bf16_##name), TEST_CASE(fp16_##name),
#endif
TEST_MAIN(EACH_CASE(CASE_ROW))
