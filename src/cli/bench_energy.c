// The counter of a GPU's energy. See bench_energy.h.
#include "cli/bench_energy.h"
#include "base/error.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// A function of the library. C has no cast from a pointer to data, which is what dlsym gives; in POSIX both have one
// size.
static int find_function(const struct energy *energy, const char *name, void *function) {
    void *address = dlsym(energy->library, name);
    if (!address)
        return error_set("libnvidia-ml.so.1 has no %s; a newer NVIDIA driver has it", name);
    memcpy(function, &address, sizeof address);
    return 0;
}

// "GPU-01234567-89ab-…", the name that the driver gives to the 128 bits.
static void name_gpu(struct device *device, char *text, size_t size) {
    int64_t words[2];
    unsigned char b[16];
    device->ops->identity(device, words);
    memcpy(b, words, sizeof b);
    (void)snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                   b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

int energy_open(struct energy *energy, struct device *device) {
    int (*init)(void) = NULL, (*find)(const char *uuid, void **gpu) = NULL;
    unsigned long long millijoules;
    char name[64];
    if (!device->ops->identity)
        return error_set("cannot measure energy: only an NVIDIA GPU has a counter of it");
    name_gpu(device, name, sizeof name);
    energy->library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!energy->library)
        return error_set("cannot measure energy: %s; it comes with the NVIDIA driver", dlerror());
    TRY(find_function(energy, "nvmlInit_v2", &init));
    TRY(find_function(energy, "nvmlDeviceGetHandleByUUID", &find));
    TRY(find_function(energy, "nvmlDeviceGetTotalEnergyConsumption", &energy->read));
    int code = init();
    if (code == 0)
        code = find(name, &energy->gpu);
    if (code == 0)
        code = energy->read(energy->gpu, &millijoules);
    return code == 0 ? 0
                     : error_set("cannot measure energy: the driver says %d of %s, as for a GPU that has no counter",
                                 code, name);
}

double energy_joules(const struct energy *energy) {
    unsigned long long millijoules = 0;
    (void)energy->read(energy->gpu, &millijoules);
    return (double)millijoules * 1e-3;
}
