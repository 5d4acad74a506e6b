// Energy and clock of a GPU: those of a stand-in for the driver's library, and of a real GPU if there is one.
#include "ops/sensors.h"
#include "base/clock.h"
#include "base/error.h"
#include "test.h"

#include <string.h>

static const char *stand_in(const char *name) {
    return strcmp(name, "BEVATRON_NVML_LIBRARY") == 0 ? FAKES "/good/libfake.so.1" : NULL;
}

// The bits of the GPU that the stand-in knows, and of another one.
static void known_identity(struct device *device, int64_t words[2]) {
    (void)device;
    for (unsigned char i = 0; i < 16; i++)
        memcpy((unsigned char *)words + i, &i, 1);
}
static void other_identity(struct device *device, int64_t words[2]) {
    (void)device;
    words[0] = words[1] = 7;
}

static void measure_stand_in(void) {
    struct ops known = {.identity = known_identity}, other = {.identity = other_identity}, none = {0};
    struct device gpu = {.ops = &known}, another = {.ops = &other}, processor = {.ops = &none};
    struct sensors sensors;
    double joules;
    library_set_environment(stand_in);
    EXPECT_ERROR(sensors_open(&sensors, &processor), "only NVIDIA GPUs have an energy counter");
    EXPECT_ERROR(sensors_open(&sensors, &another), "the driver returns 6 for the sensors of GPU-07000000-0000-");
    EXPECT_OK(sensors_open(&sensors, &gpu));
    EXPECT_OK(sensors_joules(&sensors, &joules));
    EXPECT_NEAR(joules, 12.5, 0);
    EXPECT_NEAR(sensors_clock(&sensors), 1410, 0);
}

// A library is loaded once, so a process has one of them.
TEST(a_gpu) {
    struct device *device = NULL;
    struct sensors sensors;
    double joules;
    if (device_open(&device, &(struct device_options){.name = "cuda", .threads = 1}) < 0) {
        error_clear();
        measure_stand_in();
        return;
    }
    EXPECT_OK(sensors_open(&sensors, device));
    EXPECT_OK(sensors_joules(&sensors, &joules));
    EXPECT(joules > 0);
    EXPECT(sensors_clock(&sensors) > 100 && sensors_clock(&sensors) < 5000);
    double start = clock_seconds();
    for (int i = 0; i < 20; i++)
        (void)sensors_clock(&sensors);
    printf("  a reading of the clock takes %.3f ms\n", (clock_seconds() - start) / 20 * 1e3);
    device_close(device);
}

TEST_MAIN(TEST_CASE(a_gpu))
