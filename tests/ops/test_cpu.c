// Every operation on the CPU backend, with two threads, against the cases that all backends share.
// cost: 10
// parts: 2
#include "cases.h"
#include "cases_large.h"
#include "cases_large_attention.h"

static void run_case(void (*run)(struct lab *lab)) {
    struct device *device = NULL;
    struct device_options options = {.name = "cpu", .threads = 2};
    EXPECT_OK(device_open(&device, &options));
    struct lab lab;
    lab_open(&lab, device, DTYPE_F32, 1e-5);
    run(&lab);
    lab_close(&lab);
    device_close(device);
}

#define CASE_TEST(name)                                                                                                \
    TEST(name) {                                                                                                       \
        run_case(case_##name);                                                                                         \
    }
EACH_CASE(CASE_TEST)

// The tests for more than 2^31 elements on a GPU, see test_cuda.c, with few of them.
static void run_large(void (*run)(struct large *large), int64_t bytes_of_element) {
    struct device *device = NULL;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 2}));
    struct large large;
    large_open(&large, device, 1 << 14, bytes_of_element);
    run(&large);
    large_close(&large);
    device_close(device);
}

#define LARGE_TEST(name, bytes_of_element)                                                                             \
    TEST(last_rows_##name) {                                                                                           \
        run_large(large_##name, bytes_of_element);                                                                     \
    }
EACH_LARGE_CASE(LARGE_TEST)

#define CASE_ROW(name) TEST_CASE(name),
#define LARGE_ROW(name, bytes_of_element) TEST_CASE(last_rows_##name),
TEST_MAIN(EACH_CASE(CASE_ROW) EACH_LARGE_CASE(LARGE_ROW))
