// Every operation on the CPU backend, with two threads, against the cases that all backends share.
// cost: 20
#include "cases.h"

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

#define CASE_ROW(name) TEST_CASE(name),
TEST_MAIN(EACH_CASE(CASE_ROW))
