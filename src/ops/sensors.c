// Sensors of a GPU, through NVML. See sensors.h.
#include "ops/sensors.h"
#include "base/error.h"
#include "base/library.h"

#include <stdio.h>
#include <string.h>

// Declared as in NVIDIA's header, which need not be installed.
struct nvml_symbols {
    int (*nvmlSystemGetNVMLVersion)(char *version, unsigned length);
    int (*nvmlInit_v2)(void);
    int (*nvmlDeviceGetHandleByUUID)(const char *uuid, void **gpu);
    int (*nvmlDeviceGetTotalEnergyConsumption)(void *gpu, unsigned long long *millijoules);
    int (*nvmlDeviceGetClockInfo)(void *gpu, int clock, unsigned *mhz);
};
enum { CLOCK_OF_MULTIPROCESSORS = 1 };  // NVML_CLOCK_SM

static const struct nvml_symbols *nvml(void) {
    return library_symbols(LIBRARY_NVML);
}

// NVML returns its version, which is the driver's, only once initialized.
static int check_nvml(const void *symbols, char *version, size_t size) {
    const struct nvml_symbols *candidate = symbols;
    int code = candidate->nvmlInit_v2 ? candidate->nvmlInit_v2() : 0;
    if (code != 0)
        return error_set("cannot start: the driver returns %d", code);
    (void)candidate->nvmlSystemGetNVMLVersion(version, (unsigned)size);
    return 0;
}

static const struct library nvml_row = {
    .id = LIBRARY_NVML,
    .name = "NVML",
    .user = "measurements of energy and clocks",
    .variable = "BEVATRON_NVML_LIBRARY",
    .sonames = LIBRARY_LIST("libnvidia-ml.so.1"),
    .folders = (const char *const[]){NULL},
    .package = "it comes with the NVIDIA driver; install a newer one",
    .symbols = LIBRARY_LIST("nvmlSystemGetNVMLVersion", "nvmlInit_v2", "nvmlDeviceGetHandleByUUID",
                            "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetClockInfo"),
    .symbol_count = sizeof(struct nvml_symbols) / sizeof(void *),
    .check = check_nvml,
};

// "GPU-01234567-89ab-…", the name that the driver gives to the 128 bits.
static void name_gpu(struct device *device, char *text, size_t size) {
    int64_t words[2];
    unsigned char b[16];
    device->ops->identity(device, words);
    memcpy(b, words, sizeof b);
    (void)snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                   b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

int sensors_open(struct sensors *sensors, struct device *device) {
    char name[64];
    if (!device->ops->identity)
        return error_set("only NVIDIA GPUs have an energy counter and a clock that can be read");
    name_gpu(device, name, sizeof name);
    TRY(library_load(&nvml_row));
    int code = nvml()->nvmlDeviceGetHandleByUUID(name, &sensors->gpu);
    return code == 0 ? 0 : error_set("the driver returns %d for the sensors of %s", code, name);
}

int sensors_joules(const struct sensors *sensors, double *joules) {
    unsigned long long millijoules = 0;
    int code = nvml()->nvmlDeviceGetTotalEnergyConsumption(sensors->gpu, &millijoules);
    *joules = (double)millijoules * 1e-3;
    return code == 0 ? 0 : error_set("the driver returns %d; the GPU may have no energy counter", code);
}

double sensors_clock(const struct sensors *sensors) {
    unsigned mhz = 0;
    return nvml()->nvmlDeviceGetClockInfo(sensors->gpu, CLOCK_OF_MULTIPROCESSORS, &mhz) == 0 ? mhz : 0;
}
